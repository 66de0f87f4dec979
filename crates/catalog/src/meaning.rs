//! What some of PostgreSQL's own functions mean, where no catalog tells it: the only table of functions in this program.
//!
//! `pg_proc` says of a function whether it is IMMUTABLE, STABLE or VOLATILE, and whether parallel workers may call it, but not why.
//! `now()`, `current_setting()` and `currval()` are all STABLE or VOLATILE, and yet one is the same on every node once it is written
//! as a constant, one is the same by itself, and one is known to a single backend. What a function changes, a setting or
//! a sequence, no column tells, nor whether it can fail, nor that an average is a sum by a count. The same holds for
//! the libraries of PostgreSQL's extensions, of which the catalog knows no more than the file.
//!
//! Invariant: a function is known by its name and the types of its arguments in `pg_catalog`, which together are its identity. They
//! are looked up once, when the catalog is read ([`Builtins::from_lines`](crate::Builtins::from_lines)); a caller that meets a name
//! in a statement finds out first whether it is `pg_catalog`'s.

use crate::{Builtins, Function, Oid};

/// See the module's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It reads settings, which all nodes have from the session.
    OfSettings,
    /// The value of a setting.
    Setting,
    /// The beginning of the transaction.
    Now,
    /// The beginning of the statement.
    StatementTime,
    /// The time of the call.
    Time,
    /// Another value at each call, and nothing is changed by it.
    Random,
    /// It changes a setting.
    SetConfig,
    /// It sends notifications to listening sessions.
    Notify,
    /// It draws a value from a sequence.
    NextValue,
    /// It sets a sequence.
    SetValue,
    /// What the session has drawn last.
    LastValue,
    /// It changes what random values come next.
    Seed,
    /// The text of the statement, as the node has got it.
    Text,
    /// How many triggers the call is inside of.
    TriggerDepth,
    /// It cannot fail, if the numbers among its arguments are above zero.
    CannotFail,
    /// A field of a date, which has at least a year, a month and a day.
    PartOfDate,
    /// A sum whose parts can be added.
    Sum,
    /// A sum by a count.
    Average,
    /// It acts on a server, so all have to do it: called by itself it is run on each. The hint for all other places.
    OfServers(&'static str),
    /// It cannot be called; the hint.
    Refused(&'static str),
}

/// Name, types of the arguments, meaning.
type Row = (&'static str, &'static [&'static str], Meaning);

const QUERY: Meaning = Meaning::Refused("It runs a query given as text: aggregate unnest(tsvector) in SQL instead.");
const SESSIONS: Meaning =
    Meaning::Refused("It would know one datanode's backends only: call it in the statement itself, not in a function.");
const FILE: Meaning =
    Meaning::Refused("It would read or write a file of the datanode's host: use lo_from_bytea(), lo_get().");
const SERVERS: Meaning = Meaning::OfServers(
    "It is run on all datanodes as a query of its own: SELECT, the call, constants (of an object its name, cast to regclass or regprocedure).",
);
const ONE_SERVER: Meaning = Meaning::Refused(
    "It would act on one datanode's server only: connect to each datanode, or ask each one by EXECUTE DIRECT.",
);
const ONE_INDEX: Meaning =
    Meaning::Refused("It would tend one datanode's part only: VACUUM the table, which does it on all.");
const ONE_TABLESPACE: Meaning = Meaning::Refused(
    "It would tell the size of one datanode's only: ask each one by EXECUTE DIRECT ON (name) 'SELECT pg_tablespace_size(…)'.",
);
const COUNTED: Meaning = Meaning::Refused(
    "It would tell what one datanode has counted: read the view of PostgreSQL's that shows it, as pg_stat_user_tables.",
);
/// With what the names of all functions begin that tell what a server has counted.
const COUNTED_PREFIX: &str = "pg_stat_get_";

const FUNCTIONS: &[Row] = &[
    ("to_char", &["timestamp", "text"], Meaning::OfSettings),
    ("to_char", &["timestamptz", "text"], Meaning::OfSettings),
    ("to_char", &["interval", "text"], Meaning::OfSettings),
    ("to_char", &["int4", "text"], Meaning::OfSettings),
    ("to_char", &["int8", "text"], Meaning::OfSettings),
    ("to_char", &["numeric", "text"], Meaning::OfSettings),
    ("to_char", &["float4", "text"], Meaning::OfSettings),
    ("to_char", &["float8", "text"], Meaning::OfSettings),
    ("to_number", &["text", "text"], Meaning::OfSettings),
    ("convert", &["bytea", "name", "name"], Meaning::OfSettings),
    ("convert_from", &["bytea", "name"], Meaning::OfSettings),
    ("convert_to", &["text", "name"], Meaning::OfSettings),
    ("xml_is_well_formed", &["text"], Meaning::OfSettings),
    ("current_setting", &["text"], Meaning::Setting),
    ("current_setting", &["text", "bool"], Meaning::Setting),
    ("now", &[], Meaning::Now),
    ("transaction_timestamp", &[], Meaning::Now),
    ("statement_timestamp", &[], Meaning::StatementTime),
    ("clock_timestamp", &[], Meaning::Time),
    ("timeofday", &[], Meaning::Time),
    ("uuidv7", &[], Meaning::Time),
    ("uuidv7", &["interval"], Meaning::Time),
    ("random", &[], Meaning::Random),
    ("random", &["int4", "int4"], Meaning::Random),
    ("random", &["int8", "int8"], Meaning::Random),
    ("random", &["numeric", "numeric"], Meaning::Random),
    ("random_normal", &["float8", "float8"], Meaning::Random),
    ("gen_random_uuid", &[], Meaning::Random),
    ("uuidv4", &[], Meaning::Random),
    ("pg_sleep", &["float8"], Meaning::Random),
    ("set_config", &["text", "text", "bool"], Meaning::SetConfig),
    ("pg_notify", &["text", "text"], Meaning::Notify),
    ("nextval", &["regclass"], Meaning::NextValue),
    ("setval", &["regclass", "int8"], Meaning::SetValue),
    ("setval", &["regclass", "int8", "bool"], Meaning::SetValue),
    ("currval", &["regclass"], Meaning::LastValue),
    ("lastval", &[], Meaning::LastValue),
    ("setseed", &["float8"], Meaning::Seed),
    ("current_query", &[], Meaning::Text),
    ("pg_trigger_depth", &[], Meaning::TriggerDepth),
    ("lower", &["text"], Meaning::CannotFail),
    ("lower", &["anyrange"], Meaning::CannotFail),
    ("lower", &["anymultirange"], Meaning::CannotFail),
    ("upper", &["text"], Meaning::CannotFail),
    ("upper", &["anyrange"], Meaning::CannotFail),
    ("upper", &["anymultirange"], Meaning::CannotFail),
    ("length", &["text"], Meaning::CannotFail),
    ("length", &["bpchar"], Meaning::CannotFail),
    ("length", &["bytea"], Meaning::CannotFail),
    ("length", &["bit"], Meaning::CannotFail),
    ("length", &["lseg"], Meaning::CannotFail),
    ("length", &["path"], Meaning::CannotFail),
    ("length", &["tsvector"], Meaning::CannotFail),
    ("char_length", &["text"], Meaning::CannotFail),
    ("char_length", &["bpchar"], Meaning::CannotFail),
    ("btrim", &["text"], Meaning::CannotFail),
    ("ltrim", &["text"], Meaning::CannotFail),
    ("rtrim", &["text"], Meaning::CannotFail),
    ("left", &["text", "int4"], Meaning::CannotFail),
    ("right", &["text", "int4"], Meaning::CannotFail),
    ("substring", &["text", "int4"], Meaning::CannotFail),
    ("substring", &["text", "int4", "int4"], Meaning::CannotFail),
    ("substring", &["bytea", "int4"], Meaning::CannotFail),
    ("substring", &["bytea", "int4", "int4"], Meaning::CannotFail),
    ("substring", &["bit", "int4"], Meaning::CannotFail),
    ("substring", &["bit", "int4", "int4"], Meaning::CannotFail),
    ("substr", &["text", "int4"], Meaning::CannotFail),
    ("substr", &["text", "int4", "int4"], Meaning::CannotFail),
    ("substr", &["bytea", "int4"], Meaning::CannotFail),
    ("substr", &["bytea", "int4", "int4"], Meaning::CannotFail),
    ("extract", &["text", "date"], Meaning::PartOfDate),
    ("extract", &["text", "timestamp"], Meaning::PartOfDate),
    ("extract", &["text", "timestamptz"], Meaning::PartOfDate),
    ("extract", &["text", "interval"], Meaning::PartOfDate),
    ("date_part", &["text", "date"], Meaning::PartOfDate),
    ("date_part", &["text", "timestamp"], Meaning::PartOfDate),
    ("date_part", &["text", "timestamptz"], Meaning::PartOfDate),
    ("date_part", &["text", "interval"], Meaning::PartOfDate),
    // Those of other types are told by `pg_aggregate`, which has no function behind their sums.
    ("sum", &["int8"], Meaning::Sum),
    ("sum", &["numeric"], Meaning::Sum),
    // PostgreSQL's int8_avg and numeric_avg divide a numeric sum by the count just so.
    ("avg", &["int2"], Meaning::Average),
    ("avg", &["int4"], Meaning::Average),
    ("avg", &["int8"], Meaning::Average),
    ("avg", &["numeric"], Meaning::Average),
    ("ts_stat", &["text"], QUERY),
    ("ts_stat", &["text", "text"], QUERY),
    ("ts_rewrite", &["tsquery", "text"], Meaning::Refused("Use ts_rewrite(query, target, substitute).")),
    ("pg_listening_channels", &[], Meaning::Refused("A coordinator listens on connections of its own.")),
    ("pg_backend_pid", &[], SESSIONS),
    ("pg_export_snapshot", &[], SESSIONS),
    ("pg_blocking_pids", &["int4"], SESSIONS),
    ("pg_safe_snapshot_blocking_pids", &["int4"], SESSIONS),
    ("pg_cancel_backend", &["int4"], SESSIONS),
    ("pg_terminate_backend", &["int4", "int8"], SESSIONS),
    ("pg_log_backend_memory_contexts", &["int4"], SESSIONS),
    ("pg_stat_get_activity", &["int4"], SESSIONS),
    ("pg_tablespace_size", &["oid"], ONE_TABLESPACE),
    ("pg_tablespace_size", &["name"], ONE_TABLESPACE),
    ("pg_lock_status", &[], SESSIONS),
    ("pg_stat_reset", &[], SERVERS),
    ("pg_stat_reset_shared", &["text"], SERVERS),
    ("pg_stat_reset_slru", &["text"], SERVERS),
    ("pg_stat_reset_single_table_counters", &["oid"], SERVERS),
    ("pg_stat_reset_single_function_counters", &["oid"], SERVERS),
    ("pg_reload_conf", &[], SERVERS),
    ("pg_rotate_logfile", &[], SERVERS),
    ("pg_stat_reset_replication_slot", &["text"], ONE_SERVER),
    ("pg_stat_reset_subscription_stats", &["oid"], ONE_SERVER),
    ("pg_stat_reset_backend_stats", &["int4"], SESSIONS),
    ("pg_stat_have_stats", &["text", "oid", "oid"], COUNTED),
    ("pg_stat_have_stats", &["text", "oid", "int8"], COUNTED),
    ("pg_switch_wal", &[], ONE_SERVER),
    ("pg_create_restore_point", &["text"], ONE_SERVER),
    ("pg_promote", &["bool", "int4"], ONE_SERVER),
    ("pg_wal_replay_pause", &[], ONE_SERVER),
    ("pg_wal_replay_resume", &[], ONE_SERVER),
    ("pg_backup_start", &["text", "bool"], ONE_SERVER),
    ("pg_backup_stop", &["bool"], ONE_SERVER),
    ("pg_import_system_collations", &["regnamespace"], ONE_SERVER),
    ("brin_summarize_new_values", &["regclass"], ONE_INDEX),
    ("brin_summarize_range", &["regclass", "int8"], ONE_INDEX),
    ("brin_desummarize_range", &["regclass", "int8"], ONE_INDEX),
    ("gin_clean_pending_list", &["regclass"], ONE_INDEX),
    ("lo_import", &["text"], FILE),
    ("lo_import", &["text", "oid"], FILE),
    ("lo_export", &["oid", "text"], FILE),
];

/// What the function of `pg_catalog` with this name and no arguments means: that is all of its identity.
pub fn without_arguments(name: &str) -> Option<Meaning> {
    FUNCTIONS.iter().find(|row| row.0 == name && row.1.is_empty()).map(|row| row.2)
}

/// Does `pg_catalog` have functions of this name that mean this?
pub fn is_named(name: &str, meaning: Meaning) -> bool {
    FUNCTIONS.iter().any(|row| row.0 == name && row.2 == meaning)
}

/// The names of the functions that mean this.
pub fn names(meaning: Meaning) -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().filter(move |row| row.2 == meaning).map(|row| row.0)
}

/// What the function of `pg_catalog` with this name and these arguments means.
pub(crate) fn of(builtins: &Builtins, name: &str, arguments: &[Oid]) -> Option<Meaning> {
    let is_of = |(oid, wanted): (&Oid, &&str)| type_named(builtins, wanted) == Some(*oid);
    let is_it = |row: &&Row| row.0 == name && row.1.len() == arguments.len() && arguments.iter().zip(row.1).all(is_of);
    // When the session has read them counts nothing.
    let counted = || (name.starts_with(COUNTED_PREFIX) && name != "pg_stat_get_snapshot_timestamp").then_some(COUNTED);
    FUNCTIONS.iter().find(is_it).map(|row| row.2).or_else(counted)
}

/// Pseudo-types are not among the types that values have.
fn type_named(builtins: &Builtins, name: &str) -> Option<Oid> {
    match name {
        "anyrange" => Some(3831),
        "anymultirange" => Some(4537),
        _ => builtins.type_named(name).map(|of| of.oid),
    }
}

/// Libraries of PostgreSQL's own extensions that work on the files, the memory or the log of one server.
const ON_FILES: [&str; 10] = [
    "amcheck",
    "pageinspect",
    "pg_buffercache",
    "pg_freespacemap",
    "pg_prewarm",
    "pg_surgery",
    "pg_visibility",
    "pg_walinspect",
    "pgrowlocks",
    "pgstattuple",
];

/// Why a function in C cannot be called, if its library is one that runs queries or sees one server only: PostgreSQL's own extensions that do.
pub fn refused_library(function: &Function) -> Option<&'static str> {
    match function.definition.rsplit('/').next().unwrap_or_default() {
        "dblink" => Some("Connect to the coordinator from the client instead."),
        "tablefunc" if function.name != "normal_rand" => {
            Some("It runs a query given as text: write aggregates with FILTER, or WITH RECURSIVE.")
        }
        "pgxml" if function.name == "xpath_table" => Some("It reads a table by name: use XMLTABLE."),
        "refint" | "autoinc" => Some("It reads tables by name: use foreign keys and identity columns."),
        library if ON_FILES.contains(&library) => {
            Some("It looks into one node's files, memory or log: ask each node by EXECUTE DIRECT.")
        }
        _ => None,
    }
}
