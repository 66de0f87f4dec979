//! What a PL/pgSQL body says. Expressions and statements of SQL stay text: PostgreSQL reads them.

use std::sync::Arc;

/// A text of SQL in a body.
#[derive(Clone, Debug)]
pub struct Sql {
    /// As it is shown in CONTEXT.
    pub text: Arc<str>,
    /// Its number in the body.
    pub id: usize,
    /// An expression, else a statement.
    pub is_expression: bool,
}

/// A whole body.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Body {
    pub block: Block,
    pub conflict: Conflict,
    /// `#print_strict_params`, if it stands there.
    pub prints_parameters: Option<bool>,
}

/// `#variable_conflict`: what a name means that is a variable and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Conflict {
    Error,
    Variable,
    Column,
}

/// `[DECLARE …] BEGIN … [EXCEPTION …] END`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Block {
    pub label: Option<String>,
    pub declarations: Vec<Declaration>,
    pub body: Vec<Statement>,
    pub handlers: Option<Vec<Handler>>,
}

/// One name of DECLARE.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Declaration {
    pub name: String,
    pub line: usize,
    pub what: Declared,
}

/// What is declared.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Declared {
    Variable {
        of: TypeText,
        /// It has a COLLATE clause.
        collated: bool,
        constant: bool,
        not_null: bool,
        default: Option<Sql>,
    },
    Cursor(Cursor),
    /// `ALIAS FOR`.
    Alias(Vec<String>),
}

/// `CURSOR [(arguments)] FOR query`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Cursor {
    pub scroll: Option<bool>,
    pub arguments: Vec<(String, TypeText)>,
    pub query: Sql,
}

/// A type as it is written.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum TypeText {
    Named(String),
    Record,
    /// `name%TYPE`, with `[]` after it or not.
    Like {
        name: Vec<String>,
        array: bool,
    },
    /// `name%ROWTYPE`.
    RowOf(Vec<String>),
}

/// `WHEN conditions THEN`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Handler {
    /// SQLSTATEs; those that end in `000` stand for their class; `None` for OTHERS.
    pub conditions: Vec<Option<[u8; 5]>>,
    pub body: Vec<Statement>,
}

/// A statement and the line of its first word.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Statement {
    pub line: usize,
    pub kind: Kind,
}

/// A variable, a field of one, or several.
#[derive(Clone, Debug)]
pub enum Target {
    /// One name, perhaps qualified.
    One(Vec<String>),
    /// A list of them.
    List(Vec<Vec<String>>),
}

impl Target {
    /// Each of them.
    pub fn names(&self) -> Vec<&[String]> {
        match self {
            Target::One(name) => vec![name],
            Target::List(names) => names.iter().map(Vec::as_slice).collect(),
        }
    }
}

/// FETCH and MOVE.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Fetch {
    pub cursor: Vec<String>,
    /// What stands before the cursor's name, but a count.
    pub direction: String,
    /// The count of FORWARD, BACKWARD, ABSOLUTE and RELATIVE.
    pub count: Option<Sql>,
    /// `None`: MOVE.
    pub into: Option<Target>,
}

/// What OPEN opens.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Opened {
    Bound(Vec<(Option<String>, Sql)>),
    Query { scroll: Option<bool>, query: Sql },
    Dynamic { scroll: Option<bool>, query: Sql, using: Vec<Sql> },
}

/// What FOR goes through.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Rows {
    Query(Sql),
    Dynamic { query: Sql, using: Vec<Sql> },
    Cursor { name: Vec<String>, arguments: Vec<(Option<String>, Sql)> },
}

/// A step into a value that is assigned to.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Step {
    Subscript(Sql),
    /// `[lower:upper]`.
    Slice(Option<Sql>, Option<Sql>),
    Field(String),
}

/// The form of a statement.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Block(Block),
    /// `whole` is the assignment as it is shown in CONTEXT.
    Assign {
        target: Vec<String>,
        value: Sql,
        whole: Arc<str>,
    },
    /// `target[…].field[…] := value`; `path` is what follows the names, from the first subscript on.
    AssignElement {
        target: Vec<String>,
        path: Vec<Step>,
        value: Sql,
        whole: Arc<str>,
    },
    If {
        branches: Vec<(usize, Sql, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    Case {
        subject: Option<Sql>,
        branches: Vec<(usize, Sql, Vec<Statement>)>,
        otherwise: Option<Vec<Statement>>,
    },
    Loop {
        label: Option<String>,
        body: Vec<Statement>,
    },
    While {
        label: Option<String>,
        condition: Sql,
        body: Vec<Statement>,
    },
    ForInteger {
        label: Option<String>,
        variable: String,
        lower: Sql,
        upper: Sql,
        step: Option<Sql>,
        reverse: bool,
        body: Vec<Statement>,
    },
    ForRows {
        label: Option<String>,
        target: Target,
        rows: Rows,
        body: Vec<Statement>,
    },
    ForEach {
        label: Option<String>,
        target: Target,
        slice: usize,
        array: Sql,
        body: Vec<Statement>,
    },
    /// EXIT, else CONTINUE.
    Exit {
        is_exit: bool,
        label: Option<String>,
        when: Option<Sql>,
    },
    Return(Option<Sql>),
    ReturnNext(Option<Sql>),
    ReturnQuery(Sql),
    ReturnExecute {
        query: Sql,
        using: Vec<Sql>,
    },
    Raise(Box<Raise>),
    Assert {
        condition: Sql,
        message: Option<Sql>,
    },
    Sql {
        sql: Sql,
        into: Option<(Target, bool)>,
    },
    Perform(Sql),
    Call(Sql),
    Execute {
        query: Sql,
        using: Vec<Sql>,
        into: Option<(Target, bool)>,
    },
    Diagnostics {
        stacked: bool,
        items: Vec<(Vec<String>, String)>,
    },
    Open {
        cursor: Vec<String>,
        opened: Opened,
    },
    Fetch(Box<Fetch>),
    Close(Vec<String>),
    End {
        commit: bool,
        chain: bool,
    },
    /// A statement of a SQL function; the last one gives its result.
    Step {
        sql: Sql,
        is_last: bool,
    },
    Null,
}

/// RAISE.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Raise {
    pub level: &'static str,
    /// A condition's name or SQLSTATE.
    pub condition: Option<String>,
    pub message: Option<String>,
    pub parameters: Vec<Sql>,
    /// Upper-case name and value.
    pub options: Vec<(String, Sql)>,
}

impl Raise {
    /// `RAISE;`
    pub fn is_again(&self) -> bool {
        self.condition.is_none() && self.message.is_none() && self.options.is_empty()
    }
}

impl Kind {
    /// As CONTEXT calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Block(_) => "statement block",
            Kind::Assign { .. } | Kind::AssignElement { .. } => "assignment",
            Kind::If { .. } => "IF",
            Kind::Case { .. } => "CASE",
            Kind::Loop { .. } => "LOOP",
            Kind::While { .. } => "WHILE",
            Kind::ForInteger { .. } => "FOR with integer loop variable",
            Kind::ForRows { rows: Rows::Query(_), .. } => "FOR over SELECT rows",
            Kind::ForRows { rows: Rows::Dynamic { .. }, .. } => "FOR over EXECUTE statement",
            Kind::ForRows { rows: Rows::Cursor { .. }, .. } => "FOR over cursor",
            Kind::ForEach { .. } => "FOREACH over array",
            Kind::Exit { is_exit: true, .. } => "EXIT",
            Kind::Exit { is_exit: false, .. } => "CONTINUE",
            Kind::Return(_) => "RETURN",
            Kind::ReturnNext(_) => "RETURN NEXT",
            Kind::ReturnQuery(_) | Kind::ReturnExecute { .. } => "RETURN QUERY",
            Kind::Raise(_) => "RAISE",
            Kind::Assert { .. } => "ASSERT",
            Kind::Sql { .. } => "SQL statement",
            Kind::Perform(_) => "PERFORM",
            Kind::Call(_) => "CALL",
            Kind::Execute { .. } => "EXECUTE",
            Kind::Diagnostics { stacked: true, .. } => "GET STACKED DIAGNOSTICS",
            Kind::Diagnostics { .. } => "GET DIAGNOSTICS",
            Kind::Open { .. } => "OPEN",
            Kind::Fetch(fetch) if fetch.into.is_none() => "MOVE",
            Kind::Fetch(_) => "FETCH",
            Kind::Close(_) => "CLOSE",
            Kind::End { commit: true, .. } => "COMMIT",
            Kind::End { .. } => "ROLLBACK",
            Kind::Step { .. } => "statement",
            Kind::Null => "NULL",
        }
    }
}
