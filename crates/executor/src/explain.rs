//! EXPLAIN: the distributed plan, and under each fragment what a datanode says of it.

use bytes::BytesMut;
use catalog::NodeId;
use pgerror::{PgError, Result};
use pgproto::backend::{self, Field};
use planner::{Explain, Plan};

use crate::call::Call;
use crate::gather::without_position;
use crate::output::Output;
use crate::run::Completion;
use crate::session::{Mode, Session};

const TEXT_OID: u32 = 25;

impl Session {
    pub(crate) async fn explain(
        &mut self,
        explain: &Explain,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        if let Plan::Forward(forward) = explain.inner.as_ref() {
            let node = self.choose(&forward.nodes);
            let part = vec![(node, format!("EXPLAIN {}{}", options(explain), forward.sql))];
            let result = match explain.analyze && forward.writes {
                true => self.write_on_one_node(part, call, output).await,
                false => self.scatter(self.mode(), part, call, output).await,
            };
            return result.map_err(without_position);
        }
        if explain.options.iter().any(|(name, value)| name == "format" && value.as_deref() != Some("text")) {
            return Err(PgError::unsupported(
                "EXPLAIN with a FORMAT other than TEXT of a statement on several datanodes",
            )
            .hint("Use EXPLAIN (FORMAT TEXT)."));
        }
        if explain.analyze && !matches!(explain.inner.as_ref(), Plan::Scatter(_)) {
            return Err(PgError::unsupported("EXPLAIN ANALYZE of a statement that gathers or routes rows")
                .hint("Use EXPLAIN without ANALYZE."));
        }
        let lines = match explain.inner.as_ref() {
            Plan::Scatter(scatter) if explain.analyze && scatter.writes => {
                self.atomically(async |this| this.explain_lines(explain, call).await).await?
            }
            Plan::Scatter(scatter) if explain.analyze && scatter.nodes.len() > 1 => {
                let read = self.begin_read(&scatter.nodes, [scatter.sql.as_str()]).await?;
                let lines = self.explain_lines(explain, call).await;
                self.end_read(read).await;
                lines?
            }
            _ => self.explain_lines(explain, call).await?,
        };
        self.send_lines(&lines, call.describe, output).await?;
        Ok(Completion::Tag("EXPLAIN".into()))
    }

    async fn explain_lines(&mut self, explain: &Explain, call: &Call) -> Result<Vec<String>> {
        let mut lines: Vec<String> = explain.inner.to_string().lines().map(str::to_owned).collect();
        for (title, node, sql) in fragments(&explain.inner, explain.analyze) {
            let name = self.context.node_name(node);
            lines.push(format!("{title} on {name}:"));
            lines.extend(self.node_plan(node, self.mode(), &format!("EXPLAIN {}{sql}", options(explain)), call).await?);
            self.statement_finished();
        }
        Ok(lines)
    }

    pub(crate) async fn node_plan(&mut self, node: NodeId, mode: Mode, sql: &str, call: &Call) -> Result<Vec<String>> {
        let mut spool = crate::output::Spool::default();
        let text_call = Call { result_formats: Vec::new(), describe: false, ..call.clone() };
        let part = vec![(node, sql.to_owned())];
        self.scatter(mode, part, &text_call, &mut Output::spool(&mut spool)).await.map_err(without_position)?;
        let mut rows = BytesMut::new();
        spool.take(usize::MAX, &mut rows);
        let rows = rows.freeze();
        crate::output::frame_bodies(&rows)
            .map(|body| {
                let values = backend::decode_data_row(bytes::Bytes::copy_from_slice(body))?;
                let line = values.first().cloned().flatten().unwrap_or_default();
                Ok(format!("  {}", String::from_utf8_lossy(&line)))
            })
            .collect()
    }

    /// Sends lines as the one text column `QUERY PLAN`.
    async fn send_lines(&mut self, lines: &[String], describe: bool, output: &mut Output<'_>) -> Result<()> {
        if describe {
            output.description(&[query_plan_field()]);
        }
        let mut rows = BytesMut::new();
        for line in lines {
            backend::data_row(&mut rows, [Some(line.as_bytes())].into_iter());
        }
        output.rows(rows.freeze(), lines.len()).await
    }
}

/// The result column of EXPLAIN.
pub fn query_plan_field() -> Field {
    Field {
        name: bytes::Bytes::from_static(b"QUERY PLAN"),
        table_oid: 0,
        column_number: 0,
        type_oid: TEXT_OID,
        type_size: -1,
        type_modifier: -1,
        format: 0,
    }
}

fn options(explain: &Explain) -> String {
    if explain.options.is_empty() {
        return String::new();
    }
    let list: Vec<String> = explain
        .options
        .iter()
        .map(|(name, value)| match value {
            Some(value) => format!("{name} {value}"),
            None => name.clone(),
        })
        .collect();
    format!("({}) ", list.join(", "))
}

/// What to ask of which node: one node stands for all that run the same text, unless they really run it.
fn fragments(plan: &Plan, analyze: bool) -> Vec<(&'static str, NodeId, String)> {
    match plan {
        Plan::Scatter(scatter) if analyze => {
            scatter.nodes.iter().map(|node| ("Fragment", *node, scatter.sql.clone())).collect()
        }
        Plan::Scatter(scatter) => {
            scatter.nodes.first().map(|node| ("Fragment", *node, scatter.sql.clone())).into_iter().collect()
        }
        Plan::Replicate(replicate) => {
            replicate.nodes.first().map(|node| ("Fragment", *node, replicate.sql.clone())).into_iter().collect()
        }
        Plan::Gather(gather) => gather
            .inputs
            .iter()
            .filter_map(|input| Some(("Fragment", *input.nodes.first()?, input.sql.clone())))
            .collect(),
        // What reads the plan's own temp tables cannot be explained before they exist.
        Plan::Dag(dag) => {
            let reads_exchanged = |sql: &str| dag.exchanges.iter().any(|made| sql.contains(&made.table));
            let of_exchanges = dag
                .exchanges
                .iter()
                .filter_map(|exchange| Some(("Exchange", *exchange.nodes.first()?, exchange.sql.text.clone())));
            let all = of_exchanges.chain(fragments(&dag.last, false));
            all.filter(|(_, _, sql)| !reads_exchanged(sql) && !sql.contains("loxo_type_of_")).collect()
        }
        Plan::InsertSplit(insert) => insert.parts.iter().map(|(node, sql)| ("Fragment", *node, sql.clone())).collect(),
        _ => Vec::new(),
    }
}
