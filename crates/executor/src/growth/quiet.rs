//! Triggers and rules that would act on rows that move, although the session is a replica's, and constraints `NOT VALID` that these
//! rows need not obey.

use catalog::{NodeId, Oid, Relation, Rule, RuleEvent, RuleState, quote_identifier, quote_literal};
use pgerror::Result;

use crate::session::Session;
use crate::shared::catalog_load::{number, text};

/// One of them: what switches it off before the rows of its table move, and on again afterwards.
pub(crate) struct Noise {
    table: Oid,
    node: NodeId,
    off: String,
    on: String,
    /// A constraint's condition: it is in the way only of rows for which this is false.
    check: Option<String>,
}

impl Session {
    /// Those of these tables. Both nodes must have been told [`ENDS`](crate::growth::rows::ENDS).
    pub(super) async fn noise(&mut self, tables: &[&Relation], from: NodeId, to: NodeId) -> Result<Vec<Noise>> {
        let mut noise = Vec::new();
        let fires = |rule: &&Rule| rule.event == RuleEvent::Delete && rule.state == RuleState::Enabled;
        for table in tables {
            let name = table.qualified_name();
            noise.extend(table.rules.iter().filter(fires).map(|rule| Noise {
                table: table.oid,
                node: from,
                off: format!("ALTER TABLE {name} DISABLE RULE {}", quote_identifier(&rule.name)),
                on: format!("ALTER TABLE {name} ENABLE REPLICA RULE {}", quote_identifier(&rule.name)),
                check: None,
            }));
        }
        let names: Vec<String> = tables.iter().map(|table| quote_literal(&table.qualified_name())).collect();
        let find = format!(
            "SELECT m.place - 1, quote_ident(t.tgname), t.tgenabled \
             FROM unnest(ARRAY[{}]::text[]::regclass[]) WITH ORDINALITY AS m (relid, place) JOIN pg_trigger AS t ON t.tgrelid = m.relid \
             WHERE NOT t.tgisinternal AND t.tgenabled IN ('A', 'R') AND t.tgfoid NOT IN ('loxo.tell_move()'::regprocedure, 'loxo.tell_row()'::regprocedure)",
            names.join(", ")
        );
        let nodes = if from == to { vec![from] } else { vec![from, to] };
        for node in nodes {
            for row in self.rows_on(node, &find).await? {
                let Some(table) = tables.get(number::<usize>(&row, 0)?) else { continue };
                let (name, trigger) = (table.qualified_name(), text(&row, 1)?);
                let state = if text(&row, 2)? == "A" { "ALWAYS" } else { "REPLICA" };
                noise.push(Noise {
                    table: table.oid,
                    node,
                    off: format!("ALTER TABLE {name} DISABLE TRIGGER {trigger}"),
                    on: format!("ALTER TABLE {name} ENABLE {state} TRIGGER {trigger}"),
                    check: None,
                });
            }
        }
        let names: Vec<String> = tables.iter().map(|table| table.qualified_name()).collect();
        for constraint in self.unvalidated(to, &names, "c").await? {
            let Some(table) = tables.get(constraint.table) else { continue };
            let (off, on, check) = (constraint.off, constraint.on, Some(constraint.check));
            noise.push(Noise { table: table.oid, node: to, off, on, check });
        }
        Ok(noise)
    }

    /// Switches off what would act on the rows of `from` that are so, unless it is `off`, and notes it there. A constraint is taken away only
    /// if one of these rows does not obey it: that keeps readers off the table until the end.
    pub(super) async fn quieten<'n>(
        &mut self,
        table: &Relation,
        (from, condition): (NodeId, &str),
        noise: &'n [Noise],
        off: &mut Vec<&'n Noise>,
    ) -> Result<()> {
        for noise in noise.iter().filter(|noise| noise.table == table.oid) {
            // Several partitions may have it from the same table.
            if off.iter().any(|other| (other.node, &other.off) == (noise.node, &noise.off)) {
                continue;
            }
            if let Some(check) = &noise.check {
                let name = table.qualified_name();
                let sql = format!("SELECT FROM ONLY {name} WHERE {condition} AND ({check}) IS FALSE LIMIT 1");
                if self.rows_on(from, &sql).await?.is_empty() {
                    continue;
                }
            }
            self.run_on(noise.node, &noise.off).await?;
            off.push(noise);
        }
        Ok(())
    }

    pub(super) async fn let_sound(&mut self, off: &[&Noise]) -> Result<()> {
        for noise in off {
            self.run_on(noise.node, &noise.on).await?;
        }
        Ok(())
    }
}
