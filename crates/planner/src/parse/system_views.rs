//! System views and functions in whose place others are read ([`catalog::system_views`]).
//!
//! The text is changed before it is parsed, so describing, planning and running it all mean the same view. What is changed is not led
//! away: it is refused. A position that PostgreSQL reports behind the name is too large by what has been put in.

use catalog::system_views::{self, Asked, Reader, SystemView};
use pg_query::NodeEnum;
use pg_query::protobuf::{AConst, ColumnRef, FuncCall, Node, ObjectType, ParseResult, RangeVar, ResTarget};
use plpgsql::tokens as scan;

use crate::tree::{self, Ask, Get, Ref, Walk};

/// What of the whole cluster the call wants to know.
pub(crate) fn asks_cluster(call: &FuncCall) -> Option<Asked<'_>> {
    let (Some("loxo"), name) = tree::qualified(&call.funcname) else { return None };
    system_views::asked(name, constant_of(call).and_then(tree::quoted))
}

/// The system view that a name may mean.
pub(crate) fn system_view(name: &RangeVar) -> SystemView<'_> {
    SystemView { schema: &name.schemaname, name: &name.relname }
}

/// The query string with other names in it, if it reads such a view. These bare names are users' tables: they stay.
pub(super) fn redirect(sql: &str, parsed: &ParseResult, hidden: &[String]) -> Option<String> {
    replaced(sql, parsed, |name, by| {
        let stays = !name.catalogname.is_empty() || name.schemaname.is_empty() && hidden.contains(&name.relname);
        let view = system_view(name);
        view.instead(by).filter(|_| !stays)
    })
}

/// The names without a schema in whose place others are read.
pub fn bare_system_views(sql: &str) -> Vec<String> {
    let parsed = system_views::may_be_named_in(sql).then(|| pg_query::parse(sql, 0).ok()).flatten();
    let statements = parsed.iter().flat_map(|parsed| &parsed.protobuf.stmts);
    let queries = statements.filter_map(|raw| tree::query_of(raw.stmt.as_deref()));
    let bare = queries.flat_map(|node| node.tables().unwrap_or_default()).filter(|name| name.schemaname.is_empty());
    let redirected = bare.filter(|name| system_view(name).instead(Reader::default()).is_some());
    let names: std::collections::BTreeSet<&String> = redirected.map(|name| &name.relname).collect();
    names.into_iter().cloned().collect()
}

/// The function of ours that is to be called.
fn ours(call: &FuncCall) -> Option<String> {
    system_views::instead_of_call(tree::own_name(&call.funcname)?, constant_of(call).is_some())
}

fn constant_of(call: &FuncCall) -> Option<&AConst> {
    call.args.first().map(tree::under_casts).and_then(|argument| argument.get())
}

/// Does it keep or send what it reads? Then it is refused if it asks for figures of all nodes.
fn keeps_query(statement: &Node) -> bool {
    match &statement.node {
        Some(NodeEnum::SelectStmt(select)) => select.into_clause.is_some(),
        Some(NodeEnum::CreateTableAsStmt(_) | NodeEnum::CopyStmt(_)) => true,
        _ => false,
    }
}

/// May it read how many rows and pages tables have? By name; and, unless only that counts, among all columns or in a row as a whole. Not
/// if rows are grouped by the catalog's primary key.
fn may_read_counts(node: &NodeEnum, tables: &[&RangeVar], only_by_name: bool) -> bool {
    let counted = tables.iter().filter(|table| system_view(table).has_counts());
    let names: Vec<&str> = counted
        .map(|table| table.alias.as_ref().map_or(&*table.relname, |alias| &*alias.aliasname))
        .filter(|_| !only_by_name)
        .collect();
    let of = |column: &ColumnRef| column.fields.iter().rev().nth(1).and_then(tree::text_of).map(str::to_owned);
    let is_key =
        |key: &Node| key.get::<ColumnRef>().is_some_and(|column| tree::last_name(&column.fields) == Some("oid"));
    let reads = node.may_have(|node| match node {
        Ref::ColumnRef(column) => match (tree::last_name(&column.fields), of(column)) {
            (Some(name), None) => system_views::is_count(name) || names.contains(&name),
            (Some(name), Some(_)) => system_views::is_count(name),
            (None, of) => of.is_some_and(|of| names.contains(&&*of)),
        },
        Ref::SelectStmt(select) => {
            !only_by_name && has_bare_star(&select.target_list) && reads_counted(&select.from_clause)
        }
        Ref::ReturningClause(returning) => !names.is_empty() && has_bare_star(&returning.exprs),
        _ => false,
    });
    reads && !node.may_have(|node| matches!(node, Ref::SelectStmt(select) if select.group_clause.iter().any(is_key)))
}

fn has_bare_star(targets: &[Node]) -> bool {
    let is_star = |target: &&Node| {
        let column = target.get::<ResTarget>().and_then(|target| target.val.get::<ColumnRef>());
        column.is_some_and(|column| column.fields.len() == 1 && tree::last_name(&column.fields).is_none())
    };
    targets.iter().find(is_star).is_some()
}

/// Is the catalog in this FROM itself?
fn reads_counted(from: &Vec<Node>) -> bool {
    let mut found = false;
    let walked = from.walk(&mut |node| {
        found |= matches!(node, Ref::RangeVar(name) if system_view(name).has_counts());
        Ok(!matches!(node, Ref::SelectStmt(_)))
    });
    found || walked.is_err()
}

/// The query string with other texts in the place of names of tables and functions; `None` if there is nothing to be replaced. Of a
/// table's statement is told what it does with it: system columns, the primary key and locks are more than a sub-select in the table's
/// place has. A WITH clause may define a bare name.
pub(super) fn replaced(
    sql: &str,
    parsed: &ParseResult,
    by: impl Fn(&RangeVar, Reader) -> Option<String>,
) -> Option<String> {
    let mut places = Vec::new();
    for statement in parsed.stmts.iter().filter_map(|raw| raw.stmt.as_deref()) {
        let Some(node) = tree::query_of(Some(statement)) else { continue };
        // Its schema may be what tells a column's table from another of that name.
        let is_other = |of: (&str, &str)| node.may_have(|node| tree::is_seen_as_another(node, of));
        let needs_table = node.may_have(|node| match node {
            Ref::ColumnRef(column) => {
                column.fields.last().and_then(tree::text_of).is_some_and(system_views::is_system_column)
                    || column.fields.len() > 2 && tree::table_with_schema(column).is_none_or(is_other)
            }
            Ref::SelectStmt(select) => !select.locking_clause.is_empty(),
            Ref::RangeVar(name) => !name.inh,
            Ref::RangeTableSample(_) => true,
            _ => false,
        });
        let is_view = match &statement.node {
            Some(NodeEnum::CreateTableAsStmt(create)) => create.objtype == ObjectType::ObjectMatview as i32,
            other => matches!(other, Some(NodeEnum::ViewStmt(_))),
        };
        let (Ok(hidden), Ok(names)) = (node.with_names(), node.tables()) else { continue };
        // The other columns of a row depend on its primary key.
        let groups = node.may_have(|node| matches!(node, Ref::SelectStmt(select) if !select.group_clause.is_empty()));
        // Rows that are fetched later do not find the figures any more.
        let is_cursor = matches!(statement.node, Some(NodeEnum::DeclareCursorStmt(_)));
        let counts = !is_cursor && may_read_counts(node, &names, keeps_query(statement));
        let reader = Reader { is_view, needs_table, groups, counts };
        let is_hidden = |name: &RangeVar| name.schemaname.is_empty() && hidden.contains(&name.relname);
        let is_changed = |at| node.any(|node| tree::changed(node).is_some_and(|of| of.location == at)).unwrap_or(true);
        let mut replaced = Vec::new();
        for name in names.into_iter().filter(|name| !is_hidden(name)) {
            if let (Some(text), Ok(start)) = (by(name, reader), usize::try_from(name.location))
                && !is_changed(name.location)
            {
                let is_query = text.starts_with('(') && name.alias.is_none();
                let text = if is_query { format!("{text} AS {}", name.relname) } else { text };
                places.push((start, !name.schemaname.is_empty(), text));
                replaced.extend(name.alias.is_none().then_some((&*name.schemaname, &*name.relname)));
            }
        }
        // A column with its table's schema is one of what stands in the table's place.
        let instead = |node: Ref<'_>| match node {
            Ref::FuncCall(call) => Some((usize::try_from(call.location).ok()?, call.funcname.len() > 1, ours(call)?)),
            Ref::ColumnRef(column) => {
                let of = tree::table_with_schema(column).filter(|of| !is_other(*of))?;
                let is_replaced = replaced.contains(&of) || of.0 == "pg_catalog" && replaced.contains(&("", of.1));
                is_replaced.then_some((usize::try_from(column.location).ok()?, true, catalog::quote_identifier(of.1)))
            }
            _ => None,
        };
        node.each(|node| places.extend(instead(node))).ok()?;
    }
    if places.is_empty() {
        return None;
    }
    let tokens = scan::tokens(sql)?;
    places.sort_unstable_by_key(|(start, ..)| std::cmp::Reverse(*start));
    let mut changed = sql.to_owned();
    for (start, is_qualified, text) in places {
        let first = tokens.iter().position(|token| token.start == start)?;
        // A schema, a dot, and then the name.
        let last = tokens.get(if is_qualified { first + 2 } else { first })?;
        // What stands in its place may be a function.
        let (start, command) = match first.checked_sub(1).and_then(|before| tokens.get(before)) {
            Some(before) if before.is("only") => (before.start, ""),
            Some(before) if before.is("table") => (before.start, "SELECT * FROM "),
            _ => (start, ""),
        };
        changed.replace_range(start..last.end, &format!("{command}{text}"));
    }
    Some(changed)
}
