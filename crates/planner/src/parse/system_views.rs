//! System views and functions in whose place others are read ([`catalog::system_views`]).
//!
//! The text is changed before it is parsed, so describing, planning and running it all mean the same view. What is changed is not led
//! away: it is refused. A position that PostgreSQL reports behind the name is too large by what has been put in.

use catalog::system_views::{self, Asked, SystemView};
use pg_query::NodeEnum;
use pg_query::protobuf::{AConst, FuncCall, ObjectType, ParseResult, RangeVar};
use plpgsql::tokens as scan;

use crate::tree::{self, Ask, Get, Ref};

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
    replaced(sql, parsed, |name, in_view, more| {
        let stays = !name.catalogname.is_empty() || name.schemaname.is_empty() && hidden.contains(&name.relname);
        let view = system_view(name);
        view.instead(in_view, more).filter(|_| !stays)
    })
}

/// The names without a schema in whose place others are read.
pub fn bare_system_views(sql: &str) -> Vec<String> {
    let parsed = system_views::may_be_named_in(sql).then(|| pg_query::parse(sql, 0).ok()).flatten();
    let statements = parsed.iter().flat_map(|parsed| &parsed.protobuf.stmts);
    let queries = statements.filter_map(|raw| tree::query_of(raw.stmt.as_deref()));
    let bare = queries.flat_map(|node| node.tables().unwrap_or_default()).filter(|name| name.schemaname.is_empty());
    let redirected = bare.filter(|name| system_view(name).instead(false, false).is_some());
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

/// The query string with other texts in the place of names of tables and functions; `None` if there is nothing to be replaced. Of a
/// table's statement is told whether it is the definition of a view, and whether it asks for more than a sub-select in the table's
/// place has: system columns, its primary key, locks. A WITH clause may define a bare name.
pub(super) fn replaced(
    sql: &str,
    parsed: &ParseResult,
    by: impl Fn(&RangeVar, bool, bool) -> Option<String>,
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
            // The other columns of a row depend on its primary key.
            Ref::SelectStmt(select) => !select.group_clause.is_empty() || !select.locking_clause.is_empty(),
            Ref::RangeVar(name) => !name.inh,
            Ref::RangeTableSample(_) => true,
            _ => false,
        });
        let is_of_view = match &statement.node {
            Some(NodeEnum::CreateTableAsStmt(create)) => create.objtype == ObjectType::ObjectMatview as i32,
            other => matches!(other, Some(NodeEnum::ViewStmt(_))),
        };
        let (Ok(hidden), Ok(names)) = (node.with_names(), node.tables()) else { continue };
        let is_hidden = |name: &RangeVar| name.schemaname.is_empty() && hidden.contains(&name.relname);
        let is_changed = |at| node.any(|node| tree::changed(node).is_some_and(|of| of.location == at)).unwrap_or(true);
        let mut replaced = Vec::new();
        for name in names.into_iter().filter(|name| !is_hidden(name)) {
            if let (Some(text), Ok(start)) = (by(name, is_of_view, needs_table), usize::try_from(name.location))
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
