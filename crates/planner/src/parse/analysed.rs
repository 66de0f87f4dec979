//! A statement as PostgreSQL reads it: the user's text, and the tree of what PostgreSQL's own analysis printed of it.
//!
//! In that tree every relation, function, operator and type that is not of `pg_catalog` has its schema, every `*` is written
//! out, every cast is explicit and every column has its table's name; what a name means is not to be found out again. A
//! bare name is a WITH item, something of `pg_catalog`, or a temporary relation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Catalog, Function, Oid, RelationKind};
use pg_query::protobuf::{
    ColumnRef, CommonTableExpr, FuncCall, JoinExpr, List, LockingClause, ParamRef, RangeVar, RowExpr, SelectStmt,
    WithClause,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::domain_arguments::{DomainCasts, uncast_arguments};
use super::statement::{Statement, StatementKind};
use crate::look_alikes::Qualifier;
use crate::parse::marked::moment::COMMON;
use crate::parse::shape::MOMENTS;
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// What PostgreSQL has found out about one query or change of rows.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The statement as `pg_get_function_sqlbody` prints it.
    tree: Arc<NodeEnum>,
    /// Also what the bodies use.
    uses: Arc<Uses>,
    /// What the statement itself uses.
    own: Arc<Uses>,
    /// Bodies of functions that may have to be put into the statement; `None` for those that PostgreSQL does not take for a query.
    bodies: Arc<HashMap<Oid, Option<Arc<NodeEnum>>>>,
    /// Schemas and names of functions that are written as calls.
    called: Arc<HashSet<(String, String)>>,
    has_whole_rows: bool,
    /// What is sent in place of the user's text: that would be understood otherwise without the types of parameters that were
    /// declared, or has WITH items that nothing reads, and that a node may not know the tables of.
    text: Option<Arc<str>>,
    /// The session's time zone is UTC.
    in_utc: bool,
}

/// A parameter of a statement whose type is not declared to the nodes that run a part of it.
#[derive(Clone, Debug)]
pub struct Undeclared {
    /// From 1.
    pub number: i32,
    /// Its type, as it can be written.
    pub type_name: String,
    /// Its user has declared it.
    pub was_declared: bool,
}

/// The objects of the user's that a statement names, by their ids on the home node. What functions, views and triggers
/// use in their turn is not among them.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Uses {
    pub relations: HashSet<Oid>,
    /// Also of casts and aggregates.
    pub functions: HashSet<Oid>,
    pub operators: HashSet<Oid>,
    pub types: HashSet<Oid>,
    /// Schemas of such types that the user may not name.
    pub closed: HashSet<String>,
    /// What is called, PostgreSQL's own functions among it, on which nothing depends; `None` if it is not known.
    pub called: Option<HashSet<Oid>>,
    pub(crate) domains: DomainCasts,
}

impl Uses {
    /// Takes the functions from an analysed tree in the form that `pg_node_tree` is printed in. What is the user's has its blanks
    /// escaped there, so it looks like no field.
    pub fn read_tree(&mut self, tree: &str) {
        let fields = [" :funcid ", " :aggfnoid ", " :winfnoid ", " :opfuncid "].into_iter();
        let called = fields
            .flat_map(|field| tree.match_indices(field))
            .filter_map(|(at, field)| tree[at + field.len()..].split([' ', '}']).next()?.parse::<Oid>().ok());
        self.called = (!tree.is_empty()).then(|| called.collect());
        self.domains = DomainCasts::of(tree);
    }
}

impl Analysis {
    /// `body` is what `pg_get_function_sqlbody` gives for a function of one statement: `BEGIN ATOMIC … END`. The types of
    /// `undeclared` parameters are written to them, since a part of the statement may not tell.
    pub fn new(body: &str, uses: Uses, undeclared: &[Undeclared]) -> Result<Self> {
        let unreadable = || {
            PgError::unsupported("a query that PostgreSQL prints in words that it does not read itself,")
                .detail(body)
                .hint("The marks of CYCLE can be text, numbers and booleans.")
        };
        let function = format!("CREATE FUNCTION f() RETURNS void {body}");
        let statements = crate::tree::sql_bodies(&function).ok_or_else(unreadable)?;
        let [tree] = <[NodeEnum; 1]>::try_from(statements).map_err(|_| unreadable())?;
        let mut whole = tree::node(tree);
        // A function that only a part calls which is left out is used by nothing else.
        let named = |call: &FuncCall| <[String; 2]>::try_from(tree::names_of(&call.funcname)).ok();
        let called = whole.calls()?.into_iter().filter_map(named).map(|[schema, name]| (schema, name)).collect();
        let is_shorter = leave_out_unread_parts(&mut whole)?;
        tree::say_plainly(&mut whole, &uses.closed)?;
        cast_parameters(&mut whole, undeclared)?;
        let tree = whole.node.ok_or_else(unreadable)?;
        let mut has_whole_rows = false;
        tree.walk(&mut |node| {
            match node {
                Ref::ColumnRef(column) => has_whole_rows |= tree::row_alias(column).is_some(),
                Ref::JoinExpr(join) => refuse_row_of_merged(&tree, join)?,
                _ => {}
            }
            Ok(true)
        })?;
        let text = match is_shorter || undeclared.iter().any(|parameter| parameter.was_declared) {
            true => Some(Arc::from(tree::deparse(&tree)?)),
            false => None,
        };
        let uses = Arc::new(uses);
        Ok(Self {
            tree: Arc::new(tree),
            own: uses.clone(),
            uses,
            bodies: Arc::default(),
            called: Arc::new(called),
            has_whole_rows,
            text,
            in_utc: false,
        })
    }

    /// This analysis for a session whose time zone has this name.
    pub fn in_zone(self, name: &str) -> Self {
        Self { in_utc: ["UTC", "Etc/UTC", "GMT", "Etc/GMT"].contains(&name), ..self }
    }

    pub(crate) fn is_in_utc(&self) -> bool {
        self.in_utc
    }

    /// This analysis with the body of a function that it calls: what the body uses, the statement uses.
    #[must_use]
    pub fn with_body(mut self, function: Oid, body: Option<&Self>) -> Self {
        Arc::make_mut(&mut self.bodies).insert(function, body.map(|body| body.tree.clone()));
        if let Some(body) = body {
            let (uses, others) = (Arc::make_mut(&mut self.uses), body.uses());
            uses.relations.extend(&others.relations);
            uses.functions.extend(&others.functions);
            uses.operators.extend(&others.operators);
            uses.types.extend(&others.types);
            // If those of one are not known, neither are those of both.
            let called = uses.called.take().zip(others.called.as_ref());
            uses.called = called.map(|(own, others)| own.union(others).copied().collect());
            Arc::make_mut(&mut self.called).extend(body.called.iter().cloned());
            self.has_whole_rows |= body.has_whole_rows;
        }
        self
    }

    /// The statement's own analysis: of overloads it tells those apart that only a body calls. `None` if there are no bodies.
    pub(crate) fn without_bodies(&self) -> Option<Self> {
        (!self.bodies.is_empty()).then(|| Self { uses: self.own.clone(), bodies: Arc::default(), ..self.clone() })
    }

    /// Has PostgreSQL been asked about the body of a function?
    pub(crate) fn was_asked_about(&self, function: Oid) -> bool {
        self.bodies.contains_key(&function)
    }

    pub(crate) fn body(&self, function: Oid) -> Option<&NodeEnum> {
        self.bodies.get(&function)?.as_deref()
    }

    /// Does the statement use the function by a cast or an operator only? A constant like `'f'::regproc` calls nothing.
    pub(crate) fn calls_unnamed(&self, function: &Function) -> bool {
        self.uses.functions.contains(&function.oid)
            && self.uses.called.as_ref().is_none_or(|called| called.contains(&function.oid))
            && !self.called.contains(&(function.schema.clone(), function.name.clone()))
    }

    /// See [`tree::check_meaning`]. The nodes get the text that the user `sent`, unless this one is sent in its place.
    pub(crate) fn check_meaning(&self, sent: bool) -> Result<()> {
        if sent && self.text.is_none() { Ok(()) } else { tree::check_meaning(&self.tree) }
    }

    /// See [`whole_rows`](crate::rewrite::whole_rows).
    pub(crate) fn has_whole_rows(&self) -> bool {
        self.has_whole_rows
    }

    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    pub(crate) fn tree(&self) -> &NodeEnum {
        &self.tree
    }

    /// Do both say the same in the same words?
    pub fn is_the_same(&self, other: &Self) -> Result<bool> {
        let is_sent_alike = self.text.is_some() == other.text.is_some();
        Ok(is_sent_alike && self.printed()? == other.printed()?)
    }

    /// The same, to be run in place of the user's.
    ///
    /// # Errors
    /// 0A000 if it could be read otherwise.
    pub fn text_to_run(&self) -> Result<String> {
        tree::check_meaning(&self.tree)?;
        self.printed()
    }

    /// The text of what PostgreSQL read.
    pub fn printed(&self) -> Result<String> {
        tree::deparse(&self.tree)
    }

    /// This analysis with the schemas that PostgreSQL has left out in print, where users have something of that name; `hidden` are
    /// relations in `pg_temp` that a bare name does not mean.
    pub fn qualified(self, catalog: &Catalog, hidden: &[String]) -> Result<Self> {
        let mut whole = tree::node(self.tree.as_ref().clone());
        let is_changed = Qualifier(catalog.look_alikes()).tree(&mut whole)?
            | name_temporary(&mut whole, tree::with_of(&self.tree), hidden)?
            | uncast_arguments(&mut whole, catalog, &self.uses.domains)?;
        match whole.node {
            Some(tree) if is_changed => self.with_tree(tree),
            _ => Ok(self),
        }
    }

    /// This analysis with another tree, whose constants differ.
    pub(crate) fn with_tree(&self, tree: NodeEnum) -> Result<Self> {
        let text = self.text.as_ref().map(|_| tree::deparse(&tree).map(Arc::from)).transpose()?;
        Ok(Self { tree: Arc::new(tree), text, ..self.clone() })
    }
}

/// A printed query with the schema of these relations in `pg_temp`.
pub fn naming_temporary(query: &str, hidden: &[String]) -> Result<String> {
    let mut whole = match hidden.is_empty() {
        true => return Ok(query.to_owned()),
        false => tree::parse_select(query)?,
    };
    let with = whole.with_clause.clone();
    name_temporary(&mut whole, with.as_ref(), hidden)?;
    tree::deparse_select(&whole)
}

/// PostgreSQL writes a schema to those that a WITH item would hide.
fn name_temporary(printed: &mut impl Walk, with: Option<&WithClause>, hidden: &[String]) -> Result<bool> {
    let (items, mut is_found) = (printed.with_names()?, false);
    // Outside of the scope of such an item the name means the table.
    let is_scoped = |name: &String| items.contains(name) && !tree::is_item_of(with, name);
    if hidden.iter().any(is_scoped) {
        return Err(PgError::unsupported(
            "a WITH clause of a sub-select, with the name of a temporary table that another hides,",
        )
        .hint("Give the WITH item another name, or put pg_temp first in search_path."));
    }
    let is_hidden = |name: &RangeVar| name.schemaname.is_empty() && hidden.contains(&name.relname);
    printed.rewrite(&mut |node: &mut Node| {
        // The names in it are aliases.
        if node.get::<LockingClause>().is_some() {
            return Ok(false);
        }
        let is_item = |name: &RangeVar, reads: bool| reads && items.contains(&name.relname);
        let reads = node.get::<RangeVar>().is_some();
        let name = match reads {
            true => node.get_mut::<RangeVar>(),
            false => node.node.as_mut().and_then(tree::target_mut).and_then(Option::as_mut),
        };
        if let Some(name) = name.filter(|name| is_hidden(name) && !is_item(name, reads)) {
            name.schemaname = "pg_temp".to_owned();
            is_found = true;
        }
        Ok(true)
    })?;
    Ok(is_found)
}

impl Statement {
    /// The query or change of rows in this statement that PostgreSQL can be asked to analyse; `None` if there is none.
    pub fn to_analyse(&self) -> Option<String> {
        match (self.inner(), &self.kind) {
            (Some(inner), _) => inner.to_analyse(),
            (None, StatementKind::CreateTableAs) => self.query_to_describe(),
            (None, kind) => kind.row_command().map(|_| self.sql.to_string()),
        }
    }

    /// Is that a part of it?
    pub fn has_inner(&self) -> bool {
        self.inner().is_some() || self.kind == StatementKind::CreateTableAs
    }

    /// Is there a constant in quotes that may be a date or time? Those have digits, or words of their own.
    pub fn may_have_moments(&self) -> bool {
        let may_be = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit()) || has_moment(text);
        let is_such =
            |node: Ref<'_>| matches!(node, Ref::AConst(constant) if tree::quoted(constant).is_some_and(may_be));
        self.query_tree().is_some_and(|tree| tree.may_have(is_such))
    }

    /// Is it a change of rows without RETURNING?
    pub fn only_changes(&self) -> bool {
        self.node().is_some_and(|tree| tree::target_of(tree).is_some() && tree::returning_of(tree).is_none())
    }

    /// An INSERT of rows of constants: no name is in it but the table's and its columns'.
    pub fn inserts_constants(&self) -> bool {
        let Some(NodeEnum::InsertStmt(insert)) = self.node() else { return false };
        let Some(query) = insert.select_stmt.get::<SelectStmt>() else { return false };
        let is_constant = |value: &Node| matches!(value.node, Some(NodeEnum::AConst(_) | NodeEnum::SetToDefault(_)));
        let is_plain = |row: &Node| row.get::<List>().is_some_and(|row| row.items.iter().all(is_constant));
        let is_alone = query.with_clause.is_none()
            && query.sort_clause.is_empty()
            && insert.with_clause.is_none()
            && insert.on_conflict_clause.is_none()
            && insert.returning_clause.is_none();
        is_alone && !query.values_lists.is_empty() && query.values_lists.iter().all(is_plain)
    }

    /// Is there a constant that PostgreSQL may read the clock for (`'today 10:00'::timestamp`), so that it prints another one each
    /// time it analyses the statement?
    pub fn has_moving_constant(&self) -> bool {
        let moves =
            |node: Ref<'_>| matches!(node, Ref::AConst(constant) if tree::quoted(constant).is_some_and(has_moment));
        self.query_tree().is_some_and(|tree| tree.may_have(moves))
    }

    /// Does the statement, by its words, use nothing but what PostgreSQL has by itself, in ways that leave no choice? Then it can
    /// be planned by them.
    pub fn is_plain(&self, catalog: &Catalog) -> bool {
        let is_own_operator = |names: &[Node]| {
            let name = tree::last_name(names).unwrap_or_default();
            catalog.has_user_operator(name) || !catalog.operator_functions(name).is_empty()
        };
        let is_called = |name: Option<&str>| name.is_some_and(|name| !catalog.functions(name).is_empty());
        let leaves_choice = |node: Ref<'_>| match node {
            Ref::FuncCall(call) => is_called(tree::last_name(&call.funcname)),
            // `x.f` may be `f(x)`.
            Ref::ColumnRef(column) => column.fields.len() > 2 || is_called(tree::last_name(&column.fields)),
            Ref::AIndirection(_) | Ref::WithClause(_) | Ref::MergeStmt(_) | Ref::MultiAssignRef(_) => true,
            Ref::JoinExpr(join) => join.is_natural,
            // The type of a marked word is what PostgreSQL is asked for.
            Ref::AConst(constant) => tree::quoted(constant).is_some_and(|text| text.starts_with(COMMON)),
            Ref::RangeVar(name) => {
                catalog.relations_named(&name.relname).any(|relation| relation.kind == RelationKind::View)
            }
            Ref::AExpr(expression) => is_own_operator(&expression.name),
            Ref::SubLink(link) => is_own_operator(&link.oper_name),
            Ref::SortBy(sort) => is_own_operator(&sort.use_op),
            // Rows that are locked, sorted or returned bring more columns along than those of a `*`.
            Ref::SelectStmt(select) => {
                select.distinct_clause.iter().any(|item| item.node.is_some())
                    || (!select.locking_clause.is_empty() || !select.sort_clause.is_empty())
                        && select.target_list.iter().any(tree::shows_star)
            }
            Ref::ReturningClause(clause) => clause.exprs.iter().any(tree::shows_star),
            Ref::TypeName(of) => {
                let name = tree::last_name(&of.names);
                catalog.user_types().any(|known| Some(known.name.as_str()) == name)
            }
            _ => false,
        };
        !self.query_tree().is_some_and(|tree| tree.may_have(leaves_choice))
    }

    /// The tree of the query or change of rows in it.
    pub(crate) fn query_tree(&self) -> Option<&NodeEnum> {
        match (self.inner(), self.node()) {
            (Some(inner), _) => inner.query_tree(),
            (None, Some(NodeEnum::CopyStmt(_))) => None,
            (None, Some(NodeEnum::CreateTableAsStmt(create))) => create.query.as_ref()?.node.as_ref(),
            (None, other) => other,
        }
    }

    /// May the statement name something temporary? `known` are the relations in the session's `pg_temp`.
    pub fn names_temporary(&self, known: &[String]) -> bool {
        let is_temporary = tree::is_temporary_schema;
        let names = |node: Ref<'_>| match node {
            Ref::RangeVar(name) => {
                is_temporary(&name.schemaname) || (name.schemaname.is_empty() && known.contains(&name.relname))
            }
            Ref::FuncCall(call) => call.funcname.first().and_then(tree::text_of).is_some_and(is_temporary),
            Ref::TypeName(of) => {
                let first = of.names.first().and_then(tree::text_of);
                first.is_some_and(|name| is_temporary(name) || known.iter().any(|known| known == name))
            }
            _ => false,
        };
        self.query_tree().is_some_and(|tree| tree.may_have(names))
    }

    /// This statement, to be planned by what PostgreSQL has found out about the query in it.
    pub fn analysed(&self, analysis: &Analysis) -> Self {
        let mut statement = Self { analysis: Some(analysis.clone()), ..self.clone() };
        if let Some(inner) = statement.inner_mut() {
            *inner = inner.analysed(analysis);
            return statement;
        }
        match &statement.kind {
            StatementKind::Copy(_) => {}
            StatementKind::CreateTableAs => statement.tree = with_query(self, analysis.tree.as_ref()),
            _ => {
                statement.tree = Some(analysis.tree.clone());
                if let Some(text) = &analysis.text {
                    (statement.sql, statement.node_sql) = (text.clone(), text.clone());
                }
            }
        }
        statement
    }

    /// An analysed statement with its schema before the name of each catalog that users' tables have too: PostgreSQL prints what is in
    /// `pg_catalog` without one, and the search path of a text that is made of it may begin with another. `None` if there is none.
    ///
    /// # Errors
    /// If the tree has a node that is not known.
    pub fn with_catalogs_named(&self, catalog: &Catalog, temporary: &[String]) -> Result<Option<Self>> {
        let Some(mut tree) = self.query_tree().filter(|_| catalog.has_system_names()).cloned() else { return Ok(None) };
        let (items, mut found) = (tree.with_names()?, false);
        let is_other = |name: &String| items.contains(name) || temporary.contains(name);
        tree.change_tables(|name| {
            if name.schemaname.is_empty() && catalog.is_system_name(&name.relname) && !is_other(&name.relname) {
                (name.schemaname, found) = ("pg_catalog".to_owned(), true);
            }
            Ok(())
        })?;
        Ok(found.then(|| self.with_query_tree(tree)))
    }

    /// This statement with its inner statement changed; `None` if it has none, or that stays as it is.
    pub(crate) fn with_inner(&self, change: impl FnOnce(&Self) -> Result<Option<Self>>) -> Result<Option<Self>> {
        let mut statement = self.clone();
        let Some(inner) = statement.inner_mut() else { return Ok(None) };
        let Some(changed) = change(inner)? else { return Ok(None) };
        *inner = changed;
        Ok(Some(statement))
    }

    /// This statement with another tree and its text.
    pub(crate) fn with_whole_tree(&self, tree: NodeEnum) -> Result<Self> {
        let sql: Arc<str> = Arc::from(tree::deparse(&tree)?);
        Ok(Self { sql: sql.clone(), node_sql: sql, tree: Some(Arc::new(tree)), ..self.clone() })
    }

    /// This statement with another tree of the query or change of rows in it.
    pub(crate) fn with_query_tree(&self, tree: NodeEnum) -> Self {
        let mut statement = self.clone();
        match (statement.inner_mut(), &self.kind) {
            (Some(inner), _) => *inner = inner.with_query_tree(tree),
            (None, StatementKind::Copy(_)) => {}
            (None, StatementKind::CreateTableAs) => statement.tree = with_query(self, &tree),
            (None, _) => statement.tree = Some(Arc::new(tree)),
        }
        statement
    }
}

/// CREATE TABLE AS, or SELECT INTO, of another query.
fn with_query(statement: &Statement, query: &NodeEnum) -> Option<Arc<NodeEnum>> {
    match (statement.tree.as_deref(), query) {
        (Some(NodeEnum::CreateTableAsStmt(create)), query) => {
            let mut create = create.clone();
            create.query = Some(Box::new(tree::node(query.clone())));
            Some(Arc::new(NodeEnum::CreateTableAsStmt(create)))
        }
        (Some(NodeEnum::SelectStmt(select)), NodeEnum::SelectStmt(query)) => {
            let into_clause = select.into_clause.clone();
            Some(Arc::new(SelectStmt { into_clause, ..query.as_ref().clone() }.into_tree()))
        }
        _ => statement.tree.clone(),
    }
}

fn cast_parameters(statement: &mut Node, undeclared: &[Undeclared]) -> Result<()> {
    if undeclared.is_empty() {
        return Ok(());
    }
    let cast = |known: &Undeclared| tree::parse_expression(&format!("CAST(${} AS {})", known.number, known.type_name));
    statement.put(|node| {
        let Some(parameter) = node.get::<ParamRef>() else { return Ok(None) };
        undeclared.iter().find(|known| known.number == parameter.number).map(cast).transpose()
    })?;
    Ok(())
}

/// PostgreSQL does not run a WITH query that nothing reads: neither may a plan. Was there one?
fn leave_out_unread_parts(whole: &mut Node) -> Result<bool> {
    let mut is_shorter = false;
    loop {
        let read = readings(whole)?;
        let mut removed = false;
        whole.rewrite(&mut |node| {
            if let Some(clause) = node.node.as_mut().and_then(tree::with_mut)
                && let Some(with) = clause
            {
                let before = with.ctes.len();
                let mut kept = Vec::with_capacity(before);
                for part in with.ctes.drain(..) {
                    if is_read(&part, &read)? {
                        kept.push(part);
                    }
                }
                removed |= kept.len() < before;
                if kept.is_empty() { *clause = None } else { with.ctes = kept }
            }
            Ok(true)
        })?;
        if !removed {
            return Ok(is_shorter);
        }
        is_shorter = true;
    }
}

/// How often each bare name stands in FROM.
fn readings(tree: &impl Walk) -> Result<HashMap<String, usize>> {
    let mut read = HashMap::new();
    tree.each(|node| {
        if let Ref::RangeVar(name) = node
            && name.schemaname.is_empty()
        {
            *read.entry(name.relname.clone()).or_default() += 1;
        }
    })?;
    Ok(read)
}

/// Does anything but a WITH item itself read it, or does it change rows?
fn is_read(part: &Node, read: &HashMap<String, usize>) -> Result<bool> {
    let Some(cte) = part.get::<CommonTableExpr>() else { return Ok(true) };
    let is_query = cte.ctequery.get::<SelectStmt>().is_some();
    let by_itself = readings(&cte.ctequery)?.get(&cte.ctename).copied().unwrap_or(0);
    Ok(!is_query || read.get(&cte.ctename).copied().unwrap_or(0) > by_itself)
}

/// `x` of `JOIN … USING (a, b) AS x` as a whole is printed `ROW(t.a, t.b)`, so its fields have lost their names. A function may show
/// them, and rows that are grouped by have to have a type.
fn refuse_row_of_merged(tree: &NodeEnum, join: &JoinExpr) -> Result<()> {
    let Some(merged) = &join.join_using_alias else { return Ok(()) };
    let is_field = |arg: &Node, column: &Node| {
        arg.get::<ColumnRef>().is_some_and(|of| tree::last_name(&of.fields) == tree::text_of(column))
    };
    let is_row = |node: &Node| {
        node.get::<RowExpr>().is_some_and(|row| {
            let mut fields = row.args.iter().zip(&join.using_clause);
            row.args.len() == join.using_clause.len() && fields.all(|(arg, column)| is_field(arg, column))
        })
    };
    tree.walk(&mut |node| {
        let shown = match node {
            Ref::FuncCall(call) => &call.args,
            Ref::SelectStmt(select) => &select.group_clause,
            _ => return Ok(true),
        };
        if shown.iter().any(is_row) {
            let what = format!("the row \"{}\" of the columns that a join has merged", merged.aliasname);
            return Err(PgError::unsupported(what).hint("Select the columns in a sub-select of FROM and use its row."));
        }
        Ok(true)
    })
}

/// Is one of its words `now`, `today` or the like?
fn has_moment(text: &str) -> bool {
    let is_word = |part: &str| MOMENTS.iter().any(|word| part.eq_ignore_ascii_case(word));
    text.split(|c: char| !c.is_ascii_alphabetic()).any(is_word)
}
