//! Constraints `NOT VALID` of tables whose rows we write again.
//!
//! PostgreSQL judges no row by them but those that are written from now on. A row that a schema change fills in, or that goes to
//! another datanode, is an old one to the user, though the node that writes it cannot know. So such a constraint is taken away for
//! as long as the rows are written, and comes back `NOT VALID`, in one transaction.
//!
//! One that tables inherit is taken from the topmost of them, which takes it from all. It stays where that would lose something:
//! if one of them has it by itself, too, or has been found to obey it.

use catalog::{NodeId, quote_literal};
use pgerror::Result;

use crate::session::Session;
use crate::shared::catalog_load::{number, text};

/// Such a constraint.
pub(crate) struct Unvalidated {
    /// Which one of the tables asked for has it.
    pub(crate) table: usize,
    /// What a row has to be, of a CHECK.
    pub(crate) check: String,
    /// Takes it away.
    pub(crate) off: String,
    /// Puts it back, with its comment.
    pub(crate) on: String,
}

impl Session {
    /// Those of these tables, which are qualified names. `kinds` are letters of `pg_constraint.contype`.
    pub(crate) async fn unvalidated(
        &mut self,
        node: NodeId,
        tables: &[String],
        kinds: &str,
    ) -> Result<Vec<Unvalidated>> {
        let names: Vec<String> = tables.iter().map(|table| quote_literal(table)).collect();
        let sql = format!(
            "WITH RECURSIVE up (place, oid, relid, name, kind) AS ( \
                 SELECT m.place, c.oid, c.conrelid, c.conname, c.contype \
                 FROM unnest(ARRAY[{}]::text[]::regclass[]) WITH ORDINALITY AS m (relid, place) \
                 JOIN pg_constraint AS c ON c.conrelid = m.relid WHERE NOT c.convalidated AND strpos({}, c.contype::text) > 0 \
                 UNION \
                 SELECT u.place, c.oid, c.conrelid, c.conname, c.contype FROM up AS u JOIN pg_inherits AS i ON i.inhrelid = u.relid \
                 JOIN pg_constraint AS c ON c.conrelid = i.inhparent AND c.conname = u.name AND c.contype = u.kind), \
             below (top, relid, name) AS ( \
                 SELECT u.oid, u.relid, u.name FROM up AS u JOIN pg_constraint AS c ON c.oid = u.oid \
                 WHERE c.coninhcount = 0 AND NOT c.convalidated \
                 UNION \
                 SELECT b.top, i.inhrelid, b.name FROM below AS b JOIN pg_inherits AS i ON i.inhparent = b.relid) \
             SELECT u.place - 1, coalesce(pg_get_expr(k.conbin, k.conrelid), 'true'), format('ALTER TABLE %I.%I DROP CONSTRAINT %I', n.nspname, t.relname, u.name), \
                 format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', n.nspname, t.relname, u.name, pg_get_constraintdef(u.oid)) || \
                 CASE WHEN obj_description(u.oid, 'pg_constraint') IS NULL THEN '' ELSE format('; COMMENT ON CONSTRAINT %I ON %I.%I IS %L', \
                     u.name, n.nspname, t.relname, obj_description(u.oid, 'pg_constraint')) END \
             FROM up AS u JOIN pg_constraint AS k ON k.oid = u.oid JOIN pg_class AS t ON t.oid = u.relid JOIN pg_namespace AS n ON n.oid = t.relnamespace \
             WHERE u.oid IN (SELECT top FROM below) AND NOT EXISTS ( \
                 SELECT FROM below AS b JOIN pg_constraint AS c ON c.conrelid = b.relid AND c.conname = b.name \
                 WHERE b.top = u.oid AND c.oid <> u.oid AND (c.convalidated OR c.conislocal OR c.coninhcount > 1)) \
             ORDER BY u.place, u.name",
            names.join(", "),
            quote_literal(kinds)
        );
        let rows = self.rows_on(node, &planner::own_text(&sql)?).await?;
        let constraint = |row: &Vec<_>| {
            let word = |at| text(row, at).map(str::to_owned);
            Ok(Unvalidated { table: number(row, 0)?, check: word(1)?, off: word(2)?, on: word(3)? })
        };
        rows.iter().map(constraint).collect()
    }
}
