//! System views and functions that would show one node's inner life: their names are led to ours, with the same columns.
//!
//! `pg_stat_activity`, `pg_stat_ssl`, `pg_locks` and the functions about sessions, which on a datanode tell of the coordinators' pools; views and
//! functions about what tables, indexes and databases hold and what happened to them, which know one datanode's part;
//! `pg_prepared_xacts`, which on a datanode lists our gids, while users expect their own names; and `pg_trigger`, where a trigger
//! that the coordinator runs looks as if it were switched off, with its kin in `information_schema`; `pg_rewrite`, where a rule looks
//! as if it were a replica's; `pg_database`, where templates look as if clients could connect to them; and `pg_authid` and `pg_roles`,
//! whose limits no datanode is to meet. In place of most views functions stand, for some clients read no other views than the
//! system's (`restrict_nonsystem_relation_kind`). The text is changed before it is parsed, so describing, planning and running it all
//! mean the same view. What is changed is not led away: it is refused. A position that PostgreSQL reports behind the name is too large
//! by the length of the schema's.

use pg_query::protobuf::{AConst, FuncCall, ParseResult, RangeVar};
use pg_query::{Node, NodeEnum};
use plpgsql::tokens as scan;

use crate::tree::{self, Ask, Get, Ref};

const CATALOG: &str = "pg_catalog";
/// What a datanode would show its own part of: functions of ours are read instead.
const OF_ALL_NODES: &str = "pg_locks pg_stat_activity pg_stat_archiver pg_stat_bgwriter pg_stat_database pg_stat_database_conflicts \
     pg_stat_replication pg_stat_slru pg_stat_ssl pg_stat_user_functions pg_stat_wal pg_stat_all_indexes pg_stat_user_indexes pg_stat_all_tables \
     pg_stat_user_tables pg_statio_all_indexes pg_statio_user_indexes pg_statio_all_sequences pg_statio_user_sequences \
     pg_statio_all_tables pg_statio_user_tables pg_stat_progress_analyze pg_stat_progress_basebackup pg_stat_progress_cluster \
     pg_stat_progress_copy pg_stat_progress_create_index pg_stat_progress_vacuum loxo_stat_statements";
/// Views of ours that PostgreSQL does not have: what each node shows in its own, and how tables lie on the nodes.
const OF_EACH_NODE: &str = "loxo_node_pg_stat";
const OWN_PREFIX: &str = "loxo_node_";
const SKEW: &str = "loxo_table_skew";
const ROWS: &str = "pg_stat_user_tables";
/// Backends in them have the process ids of their sessions.
const PROGRESS: &str = "pg_stat_progress_";
/// What a datanode has more of than users made, and other values.
const OTHERS: [(&str, &str); 7] = [
    (CATALOG, "pg_prepared_xacts"),
    (CATALOG, "pg_trigger"),
    (CATALOG, "pg_rewrite"),
    (INFORMATION, "triggers"),
    (CATALOG, "pg_database"),
    (CATALOG, "pg_authid"),
    (CATALOG, "pg_roles"),
];
/// So many of them a view of the user's reads as well; of the last, few columns differ, and dumps of the view are to be PostgreSQL's.
const OF_VIEWS: usize = 4;
const SCHEMA: &str = "loxo";
/// What lists our schema beside the users', and the column with the schema's name.
const LISTS: [(&str, &str, &str); 10] = [
    (CATALOG, "nspname", "pg_namespace"),
    (CATALOG, "schemaname", "pg_sequences pg_tables pg_views pg_indexes pg_stats"),
    (INFORMATION, "schema_name", "schemata"),
    (INFORMATION, "sequence_schema", "sequences"),
    (
        INFORMATION,
        "table_schema",
        "tables views columns table_privileges column_privileges role_table_grants role_column_grants key_column_usage",
    ),
    (INFORMATION, "constraint_schema", "table_constraints check_constraints referential_constraints"),
    (INFORMATION, "routine_schema", "routines routine_privileges role_routine_grants"),
    (INFORMATION, "specific_schema", "parameters"),
    (INFORMATION, "object_schema", "usage_privileges role_usage_grants element_types"),
    (INFORMATION, "view_schema", "view_table_usage view_column_usage view_routine_usage"),
];
const INFORMATION: &str = "information_schema";
/// What a sub-select in the place of a catalog does not have.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"];
/// `action_order` counts our triggers too.
const TRIGGERS: &str = "(SELECT trigger_catalog, trigger_schema, trigger_name, event_manipulation, event_object_catalog, event_object_schema, \
     event_object_table, CAST(pg_catalog.rank() OVER (PARTITION BY event_object_schema, event_object_table, event_manipulation, \
     action_orientation, action_timing ORDER BY trigger_name) AS information_schema.cardinal_number) AS action_order, action_condition, \
     action_statement, action_orientation, action_timing, action_reference_old_table, action_reference_new_table, \
     action_reference_old_row, action_reference_new_row, created FROM loxo.triggers)";
/// Ours of this name is a view; the others are functions.
const PLAIN: &str = "pg_prepared_xacts";
/// Functions of PostgreSQL's about sessions.
const CALLS: [&str; 6] =
    [OWN, EXPORT, "pg_blocking_pids", "pg_cancel_backend", "pg_terminate_backend", "loxo_stat_statements_reset"];
const OWN: &str = "pg_backend_pid";
const EXPORT: &str = "pg_export_snapshot";
/// … and about sizes. Of a table that a constant names, the nodes' sizes are added up by the plan.
const SIZES: [&str; 5] =
    ["pg_database_size", "pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size"];

/// What of the cluster a call wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked<'a> {
    /// The session's own number.
    Own,
    Sessions,
    Locks,
    /// What the transaction sees.
    Snapshot,
    /// How large tables are.
    Sizes,
    /// How large databases are.
    Databases,
    /// What all nodes show in a view of PostgreSQL.
    View(&'a str),
    /// … and whose backends these are.
    Backends(&'a str),
}

/// What of the whole cluster the call wants to know.
pub(crate) fn asks_cluster(call: &FuncCall) -> Option<Asked<'_>> {
    let (Some(SCHEMA), name) = tree::qualified(&call.funcname) else { return None };
    match name {
        "pg_stat_activity" | "pg_stat_ssl" => Some(Asked::Sessions),
        "pg_locks" => Some(Asked::Locks),
        SKEW => Some(Asked::View(ROWS)),
        OWN => Some(Asked::Own),
        EXPORT => Some(Asked::Snapshot),
        name if CALLS.contains(&name) => Some(Asked::Sessions),
        name if name == SIZES[0] => Some(Asked::Databases),
        name if SIZES.contains(&name) => Some(Asked::Sizes),
        name if name.starts_with(PROGRESS) => Some(Asked::Backends(name)),
        name if has_own_of_all_nodes(name) => Some(Asked::View(name)),
        name if name.starts_with(OF_EACH_NODE) => name.strip_prefix(OWN_PREFIX).map(Asked::View),
        _ => None,
    }
}

/// Is it a constant, whatever it is cast to?
fn is_constant(argument: Option<&Node>) -> bool {
    argument.is_some_and(|argument| tree::under_casts(argument).get::<AConst>().is_some())
}

/// Would a datanode that reads this show its own part of what the cluster has?
pub(crate) fn is_one_nodes(name: &RangeVar) -> bool {
    is_of_all_nodes(name) || is_meant(name, &OTHERS[0])
}

fn has_own_of_all_nodes(view: &str) -> bool {
    OF_ALL_NODES.split(' ').any(|name| name == view)
}

fn is_of_all_nodes(name: &RangeVar) -> bool {
    let view = name.relname.as_str();
    is_in(name, CATALOG) && (has_own_of_all_nodes(view) || view == SKEW || view.starts_with(OF_EACH_NODE))
}

fn is_meant(name: &RangeVar, (schema, view): &(&str, &str)) -> bool {
    name.relname == *view && is_in(name, schema)
}

fn is_in(name: &RangeVar, schema: &str) -> bool {
    name.schemaname == schema || (name.schemaname.is_empty() && schema == CATALOG)
}

/// The query string with other names in it, if it reads such a view.
pub(super) fn redirect(sql: &str, parsed: &ParseResult) -> Option<String> {
    replaced(
        sql,
        parsed,
        |name, by| {
            let others = if by.is_view { &OTHERS[..OF_VIEWS] } else { &OTHERS };
            let is_ours = is_of_all_nodes(name) || others.iter().any(|view| is_meant(name, view));
            let view = Some(&*name.relname).filter(|_| name.catalogname.is_empty())?;
            match (is_ours, view) {
                (false, _) if by.is_view || by.names_more => None,
                (false, _) => without_ours(name),
                (true, "triggers") => Some(aliased(TRIGGERS, name)),
                (true, _) => Some(format!("{SCHEMA}.{view}{}", if view == PLAIN { "" } else { "()" })),
            }
        },
        ours,
    )
}

/// The rows of such a list that are not about our schema.
fn without_ours(name: &RangeVar) -> Option<String> {
    let is_listed = |(schema, _, views): &&(&str, &str, &str)| {
        is_in(name, schema) && views.split(' ').any(|view| view == name.relname)
    };
    let (schema, column, _) = LISTS.iter().find(is_listed)?;
    let rows = format!("(SELECT * FROM {schema}.{} WHERE {column} OPERATOR(pg_catalog.<>) '{SCHEMA}')", name.relname);
    Some(aliased(&rows, name))
}

/// In FROM a sub-select has a name.
pub(super) fn aliased(rows: &str, name: &RangeVar) -> String {
    format!("{rows}{}", if name.alias.is_some() { String::new() } else { format!(" AS {}", name.relname) })
}

/// The function of ours that is to be called.
pub(super) fn ours(call: &FuncCall) -> Option<String> {
    let name = tree::own_name(&call.funcname)?;
    let is_size = SIZES.contains(&name) && (name == SIZES[0] || !is_constant(call.args.first()));
    (CALLS.contains(&name) || is_size).then(|| format!("{SCHEMA}.{name}"))
}

/// Who reads a table.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    /// The definition of a view.
    is_view: bool,
    /// It names columns that a sub-select in the table's place would not have: system columns, or with the table's schema.
    names_more: bool,
}

/// The query string with other texts in the place of names of tables and functions; `None` if there is nothing to be replaced. A WITH clause may define a bare name.
pub(super) fn replaced(
    sql: &str,
    parsed: &ParseResult,
    by: impl Fn(&RangeVar, Reader) -> Option<String>,
    called: impl Fn(&FuncCall) -> Option<String>,
) -> Option<String> {
    let mut places = Vec::new();
    for statement in parsed.stmts.iter().filter_map(|raw| raw.stmt.as_deref()) {
        let Some(node) = query(Some(statement)) else { continue };
        let names_more = node.may_have(|node| {
            matches!(node, Ref::ColumnRef(column) if column.fields.len() > 2
            || column.fields.last().and_then(tree::text_of).is_some_and(|name| SYSTEM_COLUMNS.contains(&name)))
        });
        let reader = Reader { is_view: matches!(statement.node, Some(NodeEnum::ViewStmt(_))), names_more };
        let (Ok(hidden), Ok(names)) = (node.with_names(), node.tables()) else { continue };
        let is_hidden = |name: &RangeVar| name.schemaname.is_empty() && hidden.contains(&name.relname);
        let is_changed = |at| node.any(|node| tree::changed(node).is_some_and(|of| of.location == at)).unwrap_or(true);
        for name in names.into_iter().filter(|name| !is_hidden(name)) {
            if let (Some(text), Ok(start)) = (by(name, reader), usize::try_from(name.location))
                && !is_changed(name.location)
            {
                places.push((start, !name.schemaname.is_empty(), text));
            }
        }
        let walked = node.each(|node| {
            if let Ref::FuncCall(call) = node
                && let (Some(text), Ok(start)) = (called(call), usize::try_from(call.location))
            {
                places.push((start, call.funcname.len() > 1, text));
            }
        });
        walked.ok()?;
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

/// The part of a statement that reads tables. Other statements name the view without reading it, or make something of that name.
pub(super) fn query(node: Option<&Node>) -> Option<&NodeEnum> {
    let node = node?.node.as_ref()?;
    match node {
        node if tree::is_about_rows(node) => Some(node),
        NodeEnum::CopyStmt(copy) => query(copy.query.as_deref()),
        NodeEnum::ExplainStmt(explain) => query(explain.query.as_deref()),
        NodeEnum::PrepareStmt(prepare) => query(prepare.query.as_deref()),
        NodeEnum::DeclareCursorStmt(declare) => query(declare.query.as_deref()),
        NodeEnum::CreateTableAsStmt(create) => query(create.query.as_deref()),
        NodeEnum::ViewStmt(view) => query(view.query.as_deref()),
        _ => None,
    }
}
