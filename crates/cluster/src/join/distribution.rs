//! What a dump does not carry: how tables are distributed, and what refers to a table or trigger by its number.

use std::fmt::Write;

use pgerror::{PgError, Result};

use crate::sql::{Session, literal};

/// Rows of `loxo.class` with names in place of numbers. Temp tables are their session's.
const CLASSES_SQL: &str = "
    SELECT k.relid::regclass, k.locator, (
               SELECT array_agg(a.attname ORDER BY u.place) FROM unnest(k.key_columns) WITH ORDINALITY AS u (number, place)
               JOIN pg_attribute AS a ON a.attrelid = k.relid AND a.attnum = u.number),
           k.map_id, k.nodes, k.by_default
    FROM loxo.class AS k JOIN pg_class AS c ON c.oid = k.relid WHERE c.relpersistence <> 't' ORDER BY 1";

/// Triggers that capture for others and go with them.
const TIES_SQL: &str = "
    SELECT t.tgrelid::regclass, t.tgname
    FROM pg_trigger AS t JOIN pg_trigger AS c ON c.tgrelid = t.tgrelid AND c.tgname = 'loxo:' || t.tgname
    JOIN pg_depend AS d ON d.classid = 'pg_trigger'::regclass AND d.objid = c.oid
        AND d.refclassid = 'pg_trigger'::regclass AND d.refobjid = t.oid
    WHERE c.tgfoid = 'loxo.capture()'::regprocedure ORDER BY 1, 2";

const NO_PUBLIC_SQL: &str = "SELECT true WHERE to_regnamespace('public') IS NULL";

/// These triggers have their table's number in their names; for a moment two of a table may have the same.
const RENAME_SQL: &str = "
    DO $$
    DECLARE one record; prefix text;
    BEGIN
        FOREACH prefix IN ARRAY ARRAY['loxo.joining.', 'loxo.tell_move.'] LOOP
            FOR one IN SELECT t.tgname AS name, t.tgrelid AS relation FROM pg_trigger AS t
                WHERE t.tgfoid = 'loxo.tell_move()'::regprocedure AND t.tgparentid = 0
            LOOP
                EXECUTE format('ALTER TRIGGER %I ON %s RENAME TO %I', one.name, one.relation::regclass, prefix || one.relation);
            END LOOP;
        END LOOP;
    END $$";

/// Completes the new server.
pub(super) async fn copy(primary: &Session, server: &Session) -> Result<()> {
    // Event triggers of users have nothing to do with this.
    let mut script = format!("BEGIN;\nSET LOCAL session_replication_role = replica;\n{RENAME_SQL};\n");
    let add = |script: &mut String, sql: String| writeln!(script, "{sql};").expect("a String takes all");
    for row in primary.rows(CLASSES_SQL).await? {
        add(&mut script, class_sql(row)?);
    }
    for row in primary.rows(TIES_SQL).await? {
        let [relation, trigger] = fields(row)?.map(|value| quoted(value.as_deref()));
        add(&mut script, format!("SELECT loxo.tie({relation}, {trigger})"));
    }
    if primary.value(NO_PUBLIC_SQL).await?.is_some() {
        add(&mut script, "DROP SCHEMA public".to_owned());
    }
    server.run(&(script + "COMMIT;")).await
}

fn class_sql(row: Vec<Option<String>>) -> Result<String> {
    let [relation, locator, keys, map, nodes, by_default] = fields(row)?.map(|value| quoted(value.as_deref()));
    Ok(format!(
        "INSERT INTO loxo.class (relid, locator, key_columns, map_id, nodes, by_default)
         SELECT {relation}::regclass, {locator}, coalesce((
             SELECT array_agg(a.attnum ORDER BY u.place) FROM unnest({keys}::name[]) WITH ORDINALITY AS u (name, place)
             JOIN pg_attribute AS a ON a.attrelid = {relation}::regclass AND a.attname = u.name), '{{}}'),
             {map}, {nodes}, {by_default}"
    ))
}

fn fields<const N: usize>(row: Vec<Option<String>>) -> Result<[Option<String>; N]> {
    row.try_into().map_err(|_| PgError::internal("a row of other columns than asked for"))
}

fn quoted(value: Option<&str>) -> String {
    value.map_or_else(|| "NULL".to_owned(), literal)
}
