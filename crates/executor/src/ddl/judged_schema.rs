//! What a schema change has stored, judged by what PostgreSQL says of it: a table that has lost its distribution key, expressions
//! that would be another thing on each node, and a role's or database's setting that reads constants otherwise than the coordinator
//! are refused.
//!
//! Which functions an expression calls is read off the tree that PostgreSQL has stored, whatever names, operators, casts and domains
//! led there. Only rows of the catalogs are looked at that are as young as the transaction.

use catalog::NodeId;
use pgerror::{PgError, Result};
use planner::Stored;

use crate::session::Session;
use crate::session::set::other_constants;
use crate::shared::catalog_load::{numbers, text};

impl Session {
    /// To be called when the node has made the change, in its transaction.
    ///
    /// # Errors
    /// 0A000 with the first such table or expression.
    pub(super) async fn judge_stored(&mut self, node: NodeId) -> Result<()> {
        let rows = self
            .rows_on(
                node,
                &planner::own_text(&format!("{LOST_KEYS} UNION ALL {OTHER_CONSTANTS} UNION ALL {NEW_EXPRESSIONS}"))?,
            )
            .await?;
        if rows.is_empty() {
            return Ok(());
        }
        let loaded = self.catalog().await?;
        for row in rows {
            let what = text(&row, 1)?;
            let stored = match text(&row, 0)? {
                "k" => return Err(lost_key(what)),
                "c" => return Err(other_constants()),
                "d" => Stored::Default,
                "t" => Stored::OfTrigger,
                _ => Stored::Condition,
            };
            let functions = numbers(Some(text(&row, 2)?))?;
            planner::check_stored(what, stored, &functions, &loaded.catalog, &self.bare_facts())?;
        }
        Ok(())
    }
}

fn lost_key(table: &str) -> PgError {
    PgError::unsupported(format!("dropping the distribution key of table {table} by CASCADE"))
        .hint("Drop the table first, or give the column another type in a new table.")
}

/// DROP … CASCADE of a type takes the columns of that type along, but a table cannot lose its distribution key. One that has lost
/// it before this transaction is no obstacle: the row of a column that was dropped since is as young as that.
const LOST_KEYS: &str = "SELECT 'k', k.relid::regclass::text, '' FROM loxo.class k JOIN pg_attribute a \
     ON a.attrelid = k.relid AND a.attnum = ANY (k.key_columns) WHERE a.attisdropped \
     AND age(a.xmin) <= age(pg_current_xact_id()::xid)";

/// `ALTER ROLE | DATABASE … SET standard_conforming_strings = off`, in whichever words.
const OTHER_CONSTANTS: &str = "SELECT 'c', '', '' FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS v (setting) \
     WHERE age(s.xmin) <= age(pg_current_xact_id()::xid) AND CASE split_part(v.setting, '=', 1) \
       WHEN 'standard_conforming_strings' THEN NOT split_part(v.setting, '=', 2)::boolean END";

/// Expressions whose rows are as young as this transaction, and the functions of PostgreSQL's in them that are not IMMUTABLE: by
/// themselves, as operators, as parts of aggregates, or under another name. `d`efaults, conditions of permanent tables' `t`riggers, and
/// other `e`xpressions. What a trigger calls under another name is none of the latter's: which side runs a trigger is found by
/// PostgreSQL's names.
///
/// A tree that PostgreSQL has copied may lack the functions of its operators.
const NEW_EXPRESSIONS: &str = "(WITH now (age) AS MATERIALIZED (SELECT age(pg_current_xact_id()::xid)), \
     stored (kind, what, tree) AS ( \
       SELECT CASE a.attgenerated WHEN '' THEN 'd' ELSE 'e' END, \
         concat(CASE a.attgenerated WHEN '' THEN 'a default' ELSE 'a generated column' END, ' of table ', d.adrelid::regclass), \
         d.adbin::text \
       FROM pg_attrdef d JOIN now n ON age(d.xmin) <= n.age \
       JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
       UNION ALL SELECT 'd', concat('a default of domain ', t.oid::regtype), t.typdefaultbin::text \
       FROM pg_type t JOIN now n ON age(t.xmin) <= n.age WHERE t.typtype = 'd' AND t.typdefaultbin IS NOT NULL \
       UNION ALL SELECT 'e', CASE c.conrelid WHEN 0 THEN concat('a constraint of domain ', c.contypid::regtype) \
         ELSE concat('a constraint of table ', c.conrelid::regclass) END, c.conbin::text \
       FROM pg_constraint c JOIN now n ON age(c.xmin) <= n.age WHERE c.conbin IS NOT NULL \
       UNION ALL SELECT 'e', concat('an index of table ', i.indrelid::regclass), concat(i.indexprs, i.indpred) \
       FROM pg_index i JOIN now n ON age(i.xmin) <= n.age WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL \
       UNION ALL SELECT 'e', concat('a partition key of table ', k.partrelid::regclass), k.partexprs::text \
       FROM pg_partitioned_table k JOIN now n ON age(k.xmin) <= n.age WHERE k.partexprs IS NOT NULL \
       UNION ALL SELECT CASE WHEN c.relkind IN ('r', 'p') AND c.relpersistence <> 't' THEN 't' ELSE 'e' END, \
         concat('a trigger of table ', t.tgrelid::regclass), t.tgqual::text \
       FROM pg_trigger t JOIN now n ON age(t.xmin) <= n.age JOIN pg_class c ON c.oid = t.tgrelid WHERE t.tgqual IS NOT NULL \
       UNION ALL SELECT 'e', concat('a policy of table ', p.polrelid::regclass), concat(p.polqual, p.polwithcheck) \
       FROM pg_policy p JOIN now n ON age(p.xmin) <= n.age), \
     named (kind, what, function) AS ( \
       SELECT DISTINCT s.kind, s.what, coalesce(o.oprcode::oid, m.found[2]::oid) FROM stored s \
       CROSS JOIN LATERAL regexp_matches(s.tree, ':(funcid|opno|aggfnoid|winfnoid) ([1-9][0-9]*)', 'g') AS m (found) \
       LEFT JOIN pg_operator o ON m.found[1] = 'opno' AND o.oid = m.found[2]::oid), \
     called (kind, what, function) AS ( \
       SELECT kind, what, function FROM named \
       UNION SELECT d.kind, d.what, part FROM named d JOIN pg_aggregate g ON g.aggfnoid = d.function \
       CROSS JOIN LATERAL unnest(ARRAY[g.aggtransfn, g.aggfinalfn, g.aggcombinefn, g.aggmtransfn, g.aggminvtransfn, g.aggmfinalfn]::oid[]) \
         AS p (part)), \
     meant (kind, what, function) AS ( \
       SELECT kind, what, function FROM called \
       UNION SELECT CASE c.kind WHEN 't' THEN 'e' ELSE c.kind END, c.what, b.oid \
       FROM called c JOIN pg_proc p ON p.oid = c.function AND p.oid >= 16384 \
       JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'internal' \
       JOIN pg_proc b ON b.prolang = p.prolang AND b.prosrc = p.prosrc AND b.oid < 16384) \
     SELECT m.kind, m.what, string_agg(m.function::text, ',' ORDER BY m.function) FROM meant m \
     JOIN pg_proc p ON p.oid = m.function WHERE p.oid < 16384 AND p.provolatile <> 'i' GROUP BY m.kind, m.what ORDER BY m.what)";

#[cfg(test)]
mod tests {
    #[test]
    fn the_query_means_the_same_under_any_search_path() {
        assert!(planner::own_text(super::OTHER_CONSTANTS).unwrap().contains("pg_catalog.split_part"));
        let text = planner::own_text(super::NEW_EXPRESSIONS).unwrap();
        assert!(text.contains("FROM pg_catalog.pg_attrdef") && !text.contains(" = "), "{text}");
    }
}
