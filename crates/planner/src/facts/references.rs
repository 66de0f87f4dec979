//! The names in a statement that may be variables of PL/pgSQL or parameters of a SQL function, with their places.
//!
//! Which of them are columns only PostgreSQL can say: a caller that wants this list asks it too.

use std::collections::{HashMap, HashSet};

use pg_query::protobuf::{AIndices, ColumnRef, IndexElem, List, ResTarget, SelectStmt, SortBy};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};
use plpgsql::tokens::{self as scan, characters};

use crate::context::{Context, Named};
use crate::facts::functions::SYSTEM_COLUMNS;
use crate::tree::{self, Get, Ref, Walk};

/// What a statement is and which names stand in its expressions.
#[derive(Clone, Debug)]
pub struct References {
    /// In the order of the text.
    pub names: Vec<Reference>,
    /// It has neither FROM nor sub-selects nor tables: no name in it can be a column.
    pub is_plain: bool,
    /// Does it take parameters? Utility statements do not, but for CALL and a SQL function's DECLARE CURSOR.
    pub takes_parameters: bool,
    /// Changes or locks rows: what a function that is not VOLATILE must not do, in PostgreSQL's words.
    pub changes: Option<&'static str>,
    /// Something that cannot run inside a function, in PostgreSQL's words.
    pub forbidden: Option<&'static str>,
}

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Byte range in the text.
    pub start: usize,
    #[allow(missing_docs)]
    pub end: usize,
    /// `a.b` is two parts; `$1` is one.
    pub parts: Vec<String>,
    /// `.*` follows.
    pub star: bool,
    /// It is an item of a select list, of VALUES or of ROW, so that several may stand there.
    pub listed: bool,
    /// What it may mean beside a variable.
    pub place: Place,
    /// The output column that is called by it: where its expression ends, and the column's name.
    pub names_column: Option<(usize, String)>,
}

/// Where a name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In an expression: a column, if there is one of that name.
    Expression,
    /// Alone in ORDER BY or DISTINCT ON, and one of the query's own output columns.
    Output,
    /// Alone in GROUP BY, and one of the output columns: that, unless there is a column of the tables.
    Grouped,
    /// After ON CONFLICT: a column in any case.
    Conflict,
    /// `$n`.
    Parameter,
}

/// The names in a statement. Errors: 42601 with PostgreSQL's message.
pub fn references(sql: &str) -> Result<References> {
    let statement = only_statement(sql)?;
    let mut found =
        References { names: Vec::new(), is_plain: true, takes_parameters: true, changes: None, forbidden: None };
    match &statement {
        NodeEnum::SelectStmt(select) if select.into_clause.is_some() => found.takes_parameters = false,
        NodeEnum::SelectStmt(_) => {}
        NodeEnum::InsertStmt(_) => found.changes = Some("INSERT"),
        NodeEnum::UpdateStmt(_) => found.changes = Some("UPDATE"),
        NodeEnum::DeleteStmt(_) => found.changes = Some("DELETE"),
        NodeEnum::MergeStmt(_) => found.changes = Some("MERGE"),
        NodeEnum::CallStmt(_) => found.changes = Some("CALL"),
        NodeEnum::DeclareCursorStmt(_) => found.changes = Some("DECLARE CURSOR"),
        NodeEnum::CreateTableAsStmt(_) | NodeEnum::ExplainStmt(_) => found.changes = Some("a utility statement"),
        NodeEnum::TransactionStmt(_) => found.forbidden = Some("unsupported transaction command in PL/pgSQL"),
        NodeEnum::CopyStmt(copy) if copy.filename.is_empty() => {
            found.forbidden = Some("cannot COPY to/from client in PL/pgSQL");
        }
        _ => (found.takes_parameters, found.changes) = (false, Some("a utility statement")),
    }
    if !found.takes_parameters || found.forbidden.is_some() {
        found.is_plain = false;
        return Ok(found);
    }
    let mut search = Search {
        sql,
        tokens: scan::tokens(sql).unwrap_or_default(),
        found,
        outputs: HashSet::new(),
        grouped: HashSet::new(),
        listed: HashSet::new(),
        naming: HashMap::new(),
    };
    match &statement {
        NodeEnum::DeclareCursorStmt(declare) => declare.query.walk(&mut |node| search.node(node, false))?,
        NodeEnum::CreateTableAsStmt(create) => create.query.walk(&mut |node| search.node(node, false))?,
        NodeEnum::ExplainStmt(explain) => explain.query.walk(&mut |node| search.node(node, false))?,
        NodeEnum::CallStmt(call) => call.funccall.walk(&mut |node| search.node(node, false))?,
        other => {
            let mut top = true;
            other.walk(&mut |node| search.node(node, std::mem::take(&mut top)))?;
        }
    }
    search.found.names.sort_by_key(|name| name.start);
    // The value of `SET (a, b) = …` stands in the tree once for each column.
    search.found.names.dedup_by(|one, kept| one.place != Place::Conflict && one.start == kept.start);
    Ok(search.found)
}

fn only_statement(sql: &str) -> Result<NodeEnum> {
    let mut parsed = pg_query::parse(sql, 0).map_err(|error| match (tree::too_deep(&error), error) {
        (Some(too_deep), _) => too_deep,
        (None, pg_query::Error::Parse(message)) => PgError::new(SqlState::SYNTAX_ERROR, message),
        (None, other) => PgError::new(SqlState::SYNTAX_ERROR, other.to_string()),
    })?;
    match (parsed.protobuf.stmts.pop().and_then(|raw| raw.stmt?.node), parsed.protobuf.stmts.is_empty()) {
        (Some(node), true) => Ok(node),
        _ => Err(PgError::new(SqlState::SYNTAX_ERROR, "not one statement")),
    }
}

/// What CREATE TABLE AS and EXPLAIN are about.
fn query_in(statement: NodeEnum) -> NodeEnum {
    let inner = match &statement {
        NodeEnum::CreateTableAsStmt(create) => create.query.as_ref(),
        NodeEnum::ExplainStmt(explain) => explain.query.as_ref(),
        _ => None,
    };
    inner.and_then(|query| query.node.clone()).unwrap_or(statement)
}

struct Search<'a> {
    sql: &'a str,
    tokens: Vec<scan::Token<'a>>,
    found: References,
    /// Places of names that are output columns of their query.
    outputs: HashSet<i32>,
    /// Places of such names in GROUP BY.
    grouped: HashSet<i32>,
    /// Items of lists.
    listed: HashSet<i32>,
    /// Output columns by the places of what they are called by: where they begin, and their names.
    naming: HashMap<i32, (i32, String)>,
}

/// The column that an expression is called by, if that stands at its beginning.
fn named_by(value: &Node) -> Option<&ColumnRef> {
    match value.node.as_ref()? {
        NodeEnum::ColumnRef(column) => Some(column),
        NodeEnum::TypeCast(cast) => named_by(cast.arg.as_deref()?),
        NodeEnum::CollateClause(collate) => named_by(collate.arg.as_deref()?),
        NodeEnum::AIndirection(part) if part.indirection.iter().all(|part| part.get::<AIndices>().is_some()) => {
            named_by(part.arg.as_deref()?)
        }
        _ => None,
    }
}

impl Search<'_> {
    fn node(&mut self, node: Ref<'_>, top: bool) -> Result<bool> {
        match node {
            Ref::SelectStmt(select) => {
                self.found.is_plain &= top && select.from_clause.is_empty() && select.values_lists.is_empty();
                self.outputs_of(select);
                self.items_of(select);
            }
            Ref::InsertStmt(_) | Ref::UpdateStmt(_) | Ref::DeleteStmt(_) | Ref::MergeStmt(_) => {
                self.found.is_plain = false;
            }
            Ref::LockingClause(_) => {
                self.found.changes.get_or_insert("SELECT FOR UPDATE");
            }
            Ref::ColumnRef(column) => self.column(column)?,
            Ref::ParamRef(parameter) => {
                let parts = vec![format!("${}", parameter.number)];
                self.add(parameter.location, parts, 1, false, Place::Parameter)?;
            }
            Ref::RowExpr(row) => self.list(row.args.iter()),
            Ref::ReturningClause(returning) => {
                self.list(returning.exprs.iter().filter_map(tree::value_of));
                self.named_by(&returning.exprs);
            }
            Ref::InferClause(infer) => {
                for element in &infer.index_elems {
                    if let Some(element) = element.get::<IndexElem>()
                        && !element.name.is_empty()
                    {
                        let name = Reference {
                            start: 0,
                            end: 0,
                            parts: vec![element.name.clone()],
                            star: false,
                            listed: false,
                            place: Place::Conflict,
                            names_column: None,
                        };
                        self.found.names.push(name);
                    }
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn column(&mut self, column: &ColumnRef) -> Result<()> {
        let star = tree::is_star(&column.fields);
        let parts = tree::names_of(&column.fields);
        if parts.is_empty() {
            return Ok(());
        }
        let place = match &column.location {
            at if self.outputs.contains(at) => Place::Output,
            at if self.grouped.contains(at) => Place::Grouped,
            _ => Place::Expression,
        };
        self.add(column.location, parts, column.fields.len(), star, place)
    }

    fn add(&mut self, location: i32, parts: Vec<String>, fields: usize, star: bool, place: Place) -> Result<()> {
        let start = usize::try_from(location).unwrap_or(0);
        let at = self.tokens.iter().position(|token| token.start == start);
        let last = at.and_then(|at| self.tokens.get(at + 2 * (fields - 1)));
        let end = last.ok_or_else(|| self.lost(start))?.end;
        let named = |(item, name): &(i32, String)| Some((self.end_of_item(*item)?, name.clone()));
        let names_column = self.naming.get(&location).and_then(named);
        let listed = self.listed.contains(&location);
        self.found.names.push(Reference { start, end, parts, star, listed, place, names_column });
        Ok(())
    }

    /// Where an item of a list ends that begins here and is a name, a cast, a subscript or a collation.
    fn end_of_item(&self, start: i32) -> Option<usize> {
        // Reserved words, so that no expression of this kind has one of them.
        const ENDS: &str =
            "from into where group having window union intersect except order limit offset fetch for on returning";
        let (mut depth, mut end) = (0, None);
        let from = self.tokens.iter().position(|token| i32::try_from(token.start) == Ok(start))?;
        for (at, token) in self.tokens.iter().enumerate().skip(from) {
            // `WITH NO DATA`, but not the one of `time with time zone`.
            let is_with = token.is("with") && !self.tokens.get(at + 1).is_some_and(|next| next.is("time"));
            let is_word = is_with || ENDS.split(' ').any(|word| token.is(word));
            match token.text {
                _ if depth == 0 && is_word => break,
                "," | ";" | ")" | "]" if depth == 0 => break,
                "(" | "[" => depth += 1,
                ")" | "]" => depth -= 1,
                _ => {}
            }
            end = Some(token.end);
        }
        end
    }

    /// Output columns that are called by a name in them.
    fn named_by(&mut self, targets: &[Node]) {
        for target in targets.iter().filter_map(|target| target.get::<ResTarget>()).filter(|item| item.name.is_empty())
        {
            if let Some(column) = target.val.as_deref().and_then(named_by) {
                self.naming.insert(column.location, (target.location, tree::output_name(target)));
            }
        }
    }

    fn lost(&self, at: usize) -> PgError {
        PgError::unsupported("a name in this spelling inside a function")
            .detail(format!("It stands at character {} of: {}", characters(self.sql, at) + 1, self.sql))
            .hint("Write it as name or name.name, without blanks or comments between.")
    }

    /// ORDER BY and DISTINCT ON look at the output columns first.
    fn outputs_of(&mut self, select: &SelectStmt) {
        let first = tree::leftmost(select);
        let is_output = |name: &str| {
            first.target_list.iter().any(|target| {
                target
                    .get::<ResTarget>()
                    .is_some_and(|inner| tree::shows_star(target) || tree::output_name(inner) == name)
            })
        };
        let alone = |item: &Node| {
            let column = item.get::<ColumnRef>()?;
            let is_bare = matches!(column.fields.as_slice(), [name] if tree::text_of(name).is_some_and(is_output));
            is_bare.then_some(column.location)
        };
        let sorted =
            select.sort_clause.iter().filter_map(|item| item.get::<SortBy>().and_then(|sort| sort.node.as_deref()));
        self.outputs.extend(sorted.chain(&select.distinct_clause).filter_map(alone));
        self.grouped.extend(select.group_clause.iter().filter_map(alone));
    }

    fn items_of(&mut self, select: &SelectStmt) {
        self.list(select.target_list.iter().filter_map(tree::value_of));
        self.named_by(&select.target_list);
        let lists = select.values_lists.iter().filter_map(|list| list.get::<List>().map(|list| &list.items));
        self.list(lists.flatten());
    }

    /// Where `row.*` stands for several.
    fn list<'n>(&mut self, items: impl Iterator<Item = &'n Node>) {
        let columns = items.filter_map(|item| item.get::<ColumnRef>().map(|column| column.location));
        self.listed.extend(columns);
    }
}

/// All names that may mean something in the statement's FROM: columns, tables, aliases. `None` if not all of them are known.
pub(crate) fn names_in_from(ctx: &Context<'_>, sql: &str) -> Result<Option<HashSet<String>>> {
    let mut names: HashSet<String> = SYSTEM_COLUMNS.map(str::to_owned).into();
    let mut add = |name: &str| {
        names.insert(name.to_owned());
    };
    let mut is_known = true;
    query_in(only_statement(sql)?).walk(&mut |node| {
        match node {
            Ref::RangeVar(name) => {
                add(&name.relname);
                add(&name.schemaname);
                match ctx.resolve(name)? {
                    Named::Distributed(relation) | Named::View(relation) | Named::Home(Some(relation)) => {
                        relation.columns.iter().for_each(|column| add(&column.name));
                    }
                    Named::Home(None) => is_known = false,
                }
            }
            Ref::Alias(alias) => {
                add(&alias.aliasname);
                tree::names_of(&alias.colnames).iter().for_each(|name| add(name));
            }
            Ref::ResTarget(target) => add(&tree::output_name(target)),
            Ref::InsertStmt(_) | Ref::OnConflictClause(_) => add("excluded"),
            Ref::CommonTableExpr(_) | Ref::RangeFunction(_) | Ref::RangeTableFunc(_) | Ref::JsonTable(_) => {
                is_known = false
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(is_known.then_some(names))
}
