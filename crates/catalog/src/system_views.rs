//! System views and functions that would show one node's inner life, and what is read in their place, with the same columns.
//!
//! `pg_stat_activity`, `pg_stat_ssl`, `pg_locks` and the functions about sessions, which on a datanode tell of the coordinators' pools; views and
//! functions about what tables, indexes and databases hold and what happened to them, which know one datanode's part;
//! `pg_prepared_xacts`, which on a datanode lists our gids, while users expect their own names; and `pg_trigger`, where a trigger
//! that the coordinator runs looks as if it were switched off, with its kin in `information_schema`; `pg_rewrite`, where a rule looks
//! as if it were a replica's; `pg_database`, where templates look as if clients could connect to them; and `pg_authid` and `pg_roles`,
//! whose limits no datanode is to meet. In place of most views functions stand, for some clients read no other views than the
//! system's (`restrict_nonsystem_relation_kind`).
//!
//! Of `pg_class` the counts of rows and pages are added up, if a statement may read them.
//!
//! What lists schemas and their objects is read without our schema, but where a statement asks for more than a sub-select has (system columns,
//! a primary key to group by, locks), and in the definitions of views, whose dumps are to be PostgreSQL's.

const CATALOG: &str = "pg_catalog";
const INFORMATION: &str = "information_schema";
const SCHEMA: &str = "loxo";
/// What a datanode would show its own part of: functions of ours are read instead.
const OF_ALL_NODES: &str = "pg_locks pg_stat_activity pg_stat_archiver pg_stat_bgwriter pg_stat_database pg_stat_database_conflicts \
     pg_stat_replication pg_stat_slru pg_stat_ssl pg_stat_user_functions pg_stat_wal pg_stat_all_indexes pg_stat_user_indexes pg_stat_all_tables \
     pg_stat_user_tables pg_statio_all_indexes pg_statio_user_indexes pg_statio_all_sequences pg_statio_user_sequences \
     pg_statio_all_tables pg_statio_user_tables pg_stat_progress_analyze pg_stat_progress_basebackup pg_stat_progress_cluster \
     pg_stat_progress_copy pg_stat_progress_create_index pg_stat_progress_vacuum";
/// … in whose place queries of ours are read; by which columns the nodes' rows are one.
const OF_TRANSACTION: [(&str, &str); 3] = [
    ("pg_stat_xact_all_tables", "{schemaname,relname}"),
    ("pg_stat_xact_user_tables", "{schemaname,relname}"),
    ("pg_stat_xact_user_functions", "{funcid}"),
];
/// … and others. No client of a coordinator comes by GSSAPI.
const QUERIES: [(&str, &str); 2] = [
    ("pg_stat_gssapi", include_str!("../sql/gssapi.sql")),
    ("loxo_stat_statements", include_str!("../sql/statements.sql")),
];
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
/// Ours of this name is a view; the others are functions.
const PLAIN: &str = "pg_prepared_xacts";
/// `action_order` counts our triggers too.
const TRIGGERS: &str = include_str!("../sql/triggers.sql");
/// What lists schemas and their objects: where it is, its column with the schema, and names.
const LISTS: [(&str, &str, &str); 14] = [
    (CATALOG, "relnamespace", "pg_class"),
    (CATALOG, "pronamespace", "pg_proc"),
    (CATALOG, "typnamespace", "pg_type"),
    (CATALOG, "connamespace", "pg_constraint"),
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
/// Where it stands how many rows and pages a node has of a table, the columns that say so, and the query whose rows say it of all nodes.
const COUNTED: (&str, &str) = (CATALOG, "pg_class");
const COUNTS: [&str; 4] = ["reltuples", "relpages", "relallvisible", "relallfrozen"];
const COUNTED_ROWS: &str = include_str!("../sql/counted.sql");
/// What a sub-select in the place of a catalog does not have.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"];
/// What pg_dump reads otherwise than others.
const OF_DUMPS: [(&str, &str); 3] = [
    (
        "pg_rewrite",
        "SELECT r.* FROM loxo.pg_rewrite() r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class \
         WHERE c.relnamespace <> 'loxo'::regnamespace",
    ),
    ("pg_trigger", "SELECT * FROM loxo.pg_trigger()"),
    // The clauses that tables were made with are labels in a dump, which a coordinator reads back.
    ("pg_seclabels", include_str!("../sql/labels.sql")),
];
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
pub enum Asked<'a> {
    /// The session's own number.
    Own,
    /// Those of all coordinators.
    Sessions,
    /// Those of all nodes.
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

/// What of the whole cluster a call of the function of our schema wants to know; `of` is its first argument, if that is a constant.
pub fn asked<'a>(function: &'a str, of: Option<&'a str>) -> Option<Asked<'a>> {
    match function {
        "added_statistics" | "told_statistics" => of.map(Asked::View),
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

/// What a statement does with the names in its FROM.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reader {
    /// It defines a view.
    pub is_view: bool,
    /// It asks for more than a sub-select in a table's place has.
    pub needs_table: bool,
    /// It groups rows, perhaps by a primary key, which a sub-select does not have.
    pub groups: bool,
    /// It may read how many rows and pages tables have.
    pub counts: bool,
}

/// A name in FROM; the schema may be empty.
#[derive(Clone, Copy, Debug)]
pub struct SystemView<'a> {
    /// As it is written.
    pub schema: &'a str,
    /// The name in it.
    pub name: &'a str,
}

impl SystemView<'_> {
    /// Would a datanode that reads this show its own part of what the cluster has?
    pub fn is_one_nodes(self) -> bool {
        self.is_of_all_nodes() || self.is(&OTHERS[0])
    }

    /// Does it tell how many rows and pages tables have?
    pub fn has_counts(self) -> bool {
        self.is(&COUNTED)
    }

    /// What stands in its place: a name or a call, or, if it begins with a parenthesis, a query. `None`: it is read as it is.
    pub fn instead(self, by: Reader) -> Option<String> {
        let others = if by.is_view { &OTHERS[..OF_VIEWS] } else { &OTHERS };
        if !self.is_of_all_nodes() && !others.iter().any(|view| self.is(view)) {
            let may_be_query = !by.is_view && !by.needs_table;
            if may_be_query && by.counts && self.has_counts() {
                return Some(format!("({})", COUNTED_ROWS.trim_end()));
            }
            return self.without_ours("").filter(|_| may_be_query && !by.groups);
        }
        if let Some((_, query)) = QUERIES.iter().find(|(name, _)| *name == self.name) {
            return Some(format!("({})", query.trim_end()));
        }
        if let Some(key) = key_of_rows(self.name) {
            let name = self.name;
            return Some(format!(
                "(SELECT r.* FROM {SCHEMA}.added_statistics('{name}', '{key}') AS s (told) \
                 CROSS JOIN LATERAL {CATALOG}.jsonb_populate_record(NULL::{CATALOG}.{name}, s.told) AS r)"
            ));
        }
        Some(match self.name {
            "triggers" => format!("({})", TRIGGERS.trim_end()),
            PLAIN => format!("{SCHEMA}.{PLAIN}"),
            name => format!("{SCHEMA}.{name}()"),
        })
    }

    /// The query that pg_dump reads in its place.
    pub fn in_dump(self) -> Option<String> {
        let is_this = |(name, _): &&(&str, &str)| self.is(&(CATALOG, name));
        match OF_DUMPS.iter().find(is_this) {
            Some((_, query)) => Some(format!("({query})")),
            None if self.is_in(CATALOG) => self.without_ours(", tableoid"),
            None => None,
        }
    }

    /// The rows of such a list that are not about our schema.
    fn without_ours(self, more: &str) -> Option<String> {
        let is_listed = |(schema, _, names): &&(&str, &str, &str)| {
            self.is_in(schema) && names.split(' ').any(|name| name == self.name)
        };
        let (schema, column, _) =
            LISTS.iter().find(is_listed).filter(|(_, column, _)| more.is_empty() || *column != "schemaname")?;
        // A catalog has the schema's number.
        let of = if column.ends_with("namespace") { "::pg_catalog.regnamespace" } else { "" };
        let name = self.name;
        // A part of the text may be looked at once more: there it is to be left as it is.
        let only = if self.has_counts() { "ONLY " } else { "" };
        Some(format!(
            "(SELECT *{more} FROM {only}{schema}.{name} WHERE {column} OPERATOR(pg_catalog.<>) '{SCHEMA}'{of})"
        ))
    }

    fn is_of_all_nodes(self) -> bool {
        let is_own = self.name == SKEW || self.name.starts_with(OF_EACH_NODE);
        self.is_in(CATALOG) && (has_own_of_all_nodes(self.name) || is_own)
    }

    fn is(self, (schema, name): &(&str, &str)) -> bool {
        self.name == *name && self.is_in(schema)
    }

    fn is_in(self, schema: &str) -> bool {
        self.schema == schema || (self.schema.is_empty() && schema == CATALOG)
    }
}

fn has_own_of_all_nodes(view: &str) -> bool {
    let is_begun = view.starts_with("pg_") || view.starts_with("loxo_");
    is_begun
        && (OF_ALL_NODES.split(' ').any(|name| name == view)
            || QUERIES.iter().any(|(name, _)| *name == view)
            || key_of_rows(view).is_some())
}

fn key_of_rows(view: &str) -> Option<&'static str> {
    OF_TRANSACTION.iter().find(|(name, _)| *name == view).map(|(_, key)| *key)
}

/// The function of ours that is called in place of PostgreSQL's. Does a constant say what it is about?
pub fn instead_of_call(function: &str, is_of_constant: bool) -> Option<String> {
    let is_size = SIZES.contains(&function) && (function == SIZES[0] || !is_of_constant);
    (CALLS.contains(&function) || is_size).then(|| format!("{SCHEMA}.{function}"))
}

/// May a text have the name of such a view of `pg_catalog`, or one of ours? To be asked before it is parsed for that: they all begin
/// alike, and a name in `U&"…"` is not read here.
pub fn may_be_named_in(sql: &str) -> bool {
    let ends = |text: &str, end: &str| {
        let tail = text.len().checked_sub(end.len()).and_then(|at| text.as_bytes().get(at..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
    };
    let mut before = sql.split('_');
    // Behind the last one nothing begins.
    before.next_back();
    before.any(|text| ends(text, "pg") || ends(text, SCHEMA)) || sql.contains("&\"")
}

/// Is it a column that a sub-select in the place of a catalog does not have?
pub fn is_system_column(name: &str) -> bool {
    SYSTEM_COLUMNS.contains(&name)
}

/// Is it a column that says how many rows or pages a node has of a table?
pub fn is_count(name: &str) -> bool {
    COUNTS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_the_name_of_a_view_is_looked_at() {
        let others = OTHERS.iter().filter(|(schema, _)| *schema == CATALOG).map(|(_, name)| *name);
        let lists = LISTS.iter().filter(|(schema, ..)| *schema == CATALOG).flat_map(|(_, _, names)| names.split(' '));
        for name in OF_ALL_NODES.split(' ').chain(others).chain(lists).chain([SKEW, OF_EACH_NODE]) {
            assert!(may_be_named_in(name) && may_be_named_in(&format!("SELECT 1 FROM a_b, {}", name.to_uppercase())));
        }
        assert!(may_be_named_in("SELECT 1 FROM U&\"\\0070g_class\""));
        assert!(!may_be_named_in("COMMIT") && !may_be_named_in("SELECT a_b, ä_ FROM pg WHERE loxo & 1 = 1"));
    }
}
