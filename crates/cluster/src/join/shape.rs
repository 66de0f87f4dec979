//! Is the new server like the primary datanode? What statements of coordinators depend on is compared.

use std::collections::BTreeSet;

use pgerror::{PgError, Result, SqlState};

use crate::sql::Session;

/// A line for each thing. Of a table its columns in their order, because INSERT without a list of columns goes by it: a
/// dump puts the inherited columns of a table first, whenever they came.
const SHAPE_SQL: &str = "
    SELECT concat_ws(' ', 'relation', c.oid::regclass, c.relkind, '(' || (
            SELECT string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
            FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || ')')
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.oid >= 16384 AND c.relkind <> 't' AND n.nspname !~ '^pg_(toast|temp)' AND n.nspname <> 'loxo'
            AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indexrelid = c.oid AND NOT i.indisvalid)
    UNION ALL SELECT concat_ws(' ', 'trigger', quote_ident(CASE WHEN t.tgfoid = 'loxo.tell_move()'::regprocedure
            THEN 'loxo.tell_move' ELSE t.tgname END), 'of', t.tgrelid::regclass, t.tgenabled)
        FROM pg_trigger AS t WHERE NOT t.tgisinternal
    UNION ALL SELECT concat_ws(' ', 'rule', quote_ident(r.rulename), 'of', r.ev_class::regclass, r.ev_enabled)
        FROM pg_rewrite AS r WHERE r.oid >= 16384
    UNION ALL SELECT concat_ws(' ', 'function', p.oid::regprocedure) FROM pg_proc AS p WHERE p.oid >= 16384
    UNION ALL SELECT concat_ws(' ', 'type', t.oid::regtype) FROM pg_type AS t
        WHERE t.oid >= 16384 AND t.typrelid = 0 AND t.typelem = 0
    UNION ALL SELECT concat_ws(' ', 'extension', e.extname, e.extversion) FROM pg_extension AS e
    UNION ALL SELECT concat_ws(' ', 'schema', n.nspname) FROM pg_namespace AS n WHERE n.nspname !~ '^pg_(toast|temp)'
    UNION ALL SELECT concat_ws(' ', 'distribution of', k.relid::regclass, k.locator, k.map_id, k.nodes)
        FROM loxo.class AS k JOIN pg_class AS c ON c.oid = k.relid WHERE c.relpersistence <> 't'
    UNION ALL SELECT concat_ws(' ', 'setting TimeZone', current_setting('TimeZone'))";

/// Things that are named if they differ.
const SHOWN: usize = 5;

/// Fails if the two differ.
pub(super) async fn compare(primary: &Session, server: &Session) -> Result<()> {
    let (wanted, found) = (lines(primary).await?, lines(server).await?);
    if wanted == found {
        return Ok(());
    }
    let only = |these: &BTreeSet<String>, those: &BTreeSet<String>, place: &str| -> Vec<String> {
        these.difference(those).take(SHOWN).map(|line| format!("only {place}: {line}")).collect()
    };
    let differences = [only(&wanted, &found, "on the primary datanode"), only(&found, &wanted, "on the new server")];
    let error = PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "the server cannot be made like the primary datanode");
    Err(error.detail(differences.concat().join("\n")).hint(
        "A dump cannot carry everything: make the column order of tables that inherit that of a dump (inherited columns \
         first), and versions of extensions and the TimeZone of postgresql.conf the same.",
    ))
}

async fn lines(session: &Session) -> Result<BTreeSet<String>> {
    Ok(session.rows(SHAPE_SQL).await?.into_iter().flatten().flatten().collect())
}
