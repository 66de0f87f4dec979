//! PostgreSQL's own functions, sorted by what they need.

/// What a built-in function needs.
pub(crate) enum Class {
    Anywhere,
    Home,
    HomeWrite,
    Volatile,
    Clock,
    VolatileClock,
    OrderSensitive,
    Size,
    Refused(&'static str),
}

/// Built-in functions by name (pg_proc.dat of PostgreSQL 18). What is not named here computes from its arguments and the
/// session's settings alone.
pub(crate) fn class_of(name: &str, arguments: usize) -> Class {
    const XML_HINT: &str = "It reads tables by name: write the query in SQL and use query results or XMLAGG.";
    match name {
        "nextval" | "setval" | "set_config" | "setseed" | "pg_notify" | "loread" | "lowrite" => Class::HomeWrite,
        "currval"
        | "lastval"
        | "version"
        | "obj_description"
        | "col_description"
        | "shobj_description"
        | "format_type"
        | "row_security_active"
        | "currtid2"
        | "brin_summarize_new_values"
        | "brin_summarize_range"
        | "brin_desummarize_range"
        | "gin_clean_pending_list"
        | "acldefault"
        | "makeaclitem"
        | "aclexplode"
        | "getdatabaseencoding"
        | "amvalidate" => Class::Home,
        "random" | "random_normal" | "gen_random_uuid" | "uuidv4" => Class::Volatile,
        "now" | "transaction_timestamp" | "statement_timestamp" | "age" if name != "age" || arguments == 1 => {
            Class::Clock
        }
        "clock_timestamp" | "timeofday" | "uuidv7" => Class::VolatileClock,
        "array_agg" | "string_agg" | "json_agg" | "jsonb_agg" | "json_object_agg" | "jsonb_object_agg" | "xmlagg"
        | "json_agg_strict" | "jsonb_agg_strict" | "first_value" | "last_value" | "nth_value" | "row_number"
        | "ntile" | "lag" | "lead" => Class::OrderSensitive,
        "query_to_xml"
        | "query_to_xmlschema"
        | "query_to_xml_and_xmlschema"
        | "table_to_xml"
        | "table_to_xmlschema"
        | "table_to_xml_and_xmlschema"
        | "schema_to_xml"
        | "schema_to_xmlschema"
        | "schema_to_xml_and_xmlschema"
        | "database_to_xml"
        | "database_to_xmlschema"
        | "database_to_xml_and_xmlschema"
        | "cursor_to_xml"
        | "cursor_to_xmlschema" => Class::Refused(XML_HINT),
        "ts_stat" => Class::Refused("It runs a query given as text: aggregate unnest(tsvector) in SQL instead."),
        "ts_rewrite" if arguments == 2 => Class::Refused("Use ts_rewrite(query, target, substitute)."),
        "pg_listening_channels" => Class::Refused("A coordinator listens on connections of its own."),
        "pg_relation_size" | "pg_total_relation_size" | "pg_table_size" | "pg_indexes_size" => Class::Size,
        "pg_sleep" | "pg_sleep_for" | "pg_sleep_until" => Class::Volatile,
        "pg_size_pretty"
        | "pg_size_bytes"
        | "pg_column_size"
        | "pg_column_compression"
        | "pg_typeof"
        | "pg_client_encoding"
        | "pg_collation_for"
        | "pg_input_is_valid"
        | "pg_input_error_info" => Class::Anywhere,
        "lo_import" | "lo_export" => {
            Class::Refused("It would read or write a file of the datanode's host: use lo_from_bytea(), lo_get().")
        }
        // Large objects are the primary datanode's, as sequences are.
        _ if name.starts_with("lo_") => Class::HomeWrite,
        _ if name.starts_with("pg_") && name.contains("advisory") => Class::HomeWrite,
        _ if name.starts_with("pg_") || name.starts_with("to_reg") || name.starts_with("txid_") => Class::Home,
        _ if name.starts_with("inet_server") || name.starts_with("inet_client") || name.starts_with("has_") => {
            Class::Home
        }
        _ => Class::Anywhere,
    }
}
