//! EXPLAIN: the distributed plan, then each of its steps as the datanodes plan it, and with ANALYZE what each node gave.
//!
//! A later step reads temp tables of earlier ones. So they are made, but for ANALYZE left empty; ANALYZE fills them. It runs a
//! fragment twice, once for its rows and once for the datanode's own account of it.
//!
//! A change by way of several nodes is made once, so ANALYZE tells what came of it beside the datanodes' plans.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use catalog::NodeId;
use pgerror::{PgError, Result};
use pgproto::backend::{self, Field};
use planner::{ExchangePlan, Explain, Gather, Merge, Plan, Scatter};
use serde_json::{Value, json};

use crate::backend::call::Call;
use crate::backend::request::frame_bodies;
use crate::backend::slot::{Slot, slots};
use crate::block::Mode;
use crate::engine::gather::without_position;
use crate::engine::mover::Moved;
use crate::engine::output::Output;
use crate::engine::reads::readers::Ready;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::session::Session;

const TEXT_OID: u32 = 25;
const JSON_OID: u32 = 114;

/// What a node says of a step.
struct NodeStep {
    node: String,
    /// The datanode's own plan, a line each.
    plan: Vec<String>,
    /// What it gave, and how long it took until all of it was where it belongs.
    moved: Option<(Moved, Duration)>,
}

/// A fragment or the last step.
struct Step {
    name: String,
    sql: String,
    nodes: Vec<NodeStep>,
}

/// What EXPLAIN tells beside the plan.
struct Account {
    steps: Vec<Step>,
    /// Time that ANALYZE measured.
    took: Option<Duration>,
    /// Command tag of a change that ANALYZE has made.
    tag: Option<String>,
}

impl Account {
    fn bytes_moved(&self) -> u64 {
        let nodes = self.steps.iter().flat_map(|step| &step.nodes);
        nodes.filter_map(|node| node.moved.as_ref()).map(|(moved, _)| moved.bytes).sum()
    }
}

/// Changes whose parts depend on each other.
fn is_change(plan: &Plan) -> bool {
    match plan {
        Plan::Gather(gather) => gather.writes,
        Plan::FirstCopy(_)
        | Plan::Replicate(_)
        | Plan::InsertSplit(_)
        | Plan::InsertStaged(_)
        | Plan::StagedDml(_)
        | Plan::SequencedCtes(_)
        | Plan::Locked(_)
        | Plan::Ddl(_) => true,
        _ => false,
    }
}

/// What the nodes run of a merge.
fn merged(explain: &Explain) -> Option<Scatter> {
    let Plan::Gather(gather) = explain.inner.as_ref() else { return None };
    gather.merged().map(Merge::scatter)
}

/// This EXPLAIN without what needs ANALYZE.
fn without_analyze(explain: &Explain) -> Explain {
    const OF_ANALYZE: [&str; 4] = ["analyze", "timing", "wal", "serialize"];
    let options = explain.options.iter().filter(|(name, _)| !OF_ANALYZE.contains(&name.as_str())).cloned().collect();
    Explain { options, analyze: false, inner: explain.inner.clone() }
}

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
        let format = format_of(explain)?;
        let account = match explain.analyze && is_change(&explain.inner) {
            true => self.account_of_change(explain, call).await?,
            false => {
                let began = Instant::now();
                let steps = self.steps(explain, call).await?;
                Account { steps, took: explain.analyze.then(|| began.elapsed()), tag: None }
            }
        };
        let lines = match format {
            Format::Text => text_lines(&explain.inner, &account),
            Format::Json => vec![as_json(&explain.inner, &account)],
        };
        self.send_lines(&lines, format, call.describe, output).await?;
        Ok(Completion::Tag("EXPLAIN".into()))
    }

    /// ANALYZE of a statement that was run in steps: what came of it, and in which time.
    pub async fn explain_run(
        &mut self,
        explain: &Explain,
        tag: String,
        took: Duration,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let format = format_of(explain)?;
        let account = Account { steps: Vec::new(), took: Some(took), tag: Some(tag) };
        let lines = match format {
            Format::Text => text_lines(&explain.inner, &account),
            Format::Json => vec![as_json(&explain.inner, &account)],
        };
        self.send_lines(&lines, format, call.describe, output).await?;
        Ok(Completion::Tag("EXPLAIN".into()))
    }

    async fn steps(&mut self, explain: &Explain, call: &Call) -> Result<Vec<Step>> {
        let call = &Call { one_off: true, ..call.clone() };
        if let Some(scatter) = merged(explain) {
            let scatter = Explain { inner: Box::new(Plan::Scatter(scatter)), ..explain.clone() };
            return Box::pin(self.steps(&scatter, call)).await;
        }
        match explain.inner.as_ref() {
            Plan::Scatter(scatter) if explain.analyze && scatter.writes => {
                self.atomically(async |this| this.plain_steps(explain, call).await).await
            }
            Plan::Scatter(scatter) if explain.analyze && scatter.nodes.len() > 1 => {
                let read = self.begin_read(&scatter.nodes, [scatter.sql.as_str()]).await?;
                let steps = self.plain_steps(explain, call).await;
                self.end_read(read).await;
                steps
            }
            Plan::Locked(locked) => {
                let inner = Box::new(locked.query.clone());
                Box::pin(self.steps(&Explain { inner, ..explain.clone() }, call)).await
            }
            Plan::ExchangePlan(exchange_plan) => self.exchange_plan_steps(exchange_plan, explain, call).await,
            Plan::Gather(gather) if !gather.writes => {
                let nodes = self.gathered_nodes(&gather.inputs);
                let read = self.begin_read(&nodes, gather.inputs.iter().map(|input| input.sql.as_str())).await?;
                let steps = match self.is_read_only() {
                    true => self.beside(async |this| this.gather_steps(gather, explain, call).await).await,
                    false => {
                        let plan = || Plan::Gather(gather.clone());
                        self.apart(plan, async |this| this.gather_steps_and_drop(gather, explain, call).await).await
                    }
                };
                self.end_read(read).await;
                steps
            }
            Plan::Scatter(_) => self.plain_steps(explain, call).await,
            _ if explain.analyze => {
                Err(PgError::unsupported("EXPLAIN ANALYZE of what the coordinator runs step by step")
                    .hint("Use EXPLAIN without ANALYZE."))
            }
            _ => self.plain_steps(explain, call).await,
        }
    }

    /// The datanodes' plans, then the change itself.
    async fn account_of_change(&mut self, explain: &Explain, call: &Call) -> Result<Account> {
        let steps = self.steps(&without_analyze(explain), call).await?;
        let began = Instant::now();
        let text_call = Call { result_formats: Vec::new(), describe: false, ..call.clone() };
        let done = Box::pin(self.dispatch(&explain.inner, &text_call, &mut Output::nowhere())).await;
        let tag = match done.map_err(without_position)? {
            Completion::Tag(tag) => Some(tag),
            Completion::Empty => None,
        };
        Ok(Account { steps, took: Some(began.elapsed()), tag })
    }

    /// Fragments that read no temp tables.
    async fn plain_steps(&mut self, explain: &Explain, call: &Call) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for (nodes, sql) in fragments(&explain.inner) {
            let nodes = if explain.analyze { nodes } else { nodes.into_iter().take(1).collect() };
            let asked = self.ask_nodes(&nodes, &sql, explain, call).await?;
            steps.push(Step { name: "Fragment".to_owned(), sql, nodes: asked });
        }
        Ok(steps)
    }

    async fn exchange_plan_steps(
        &mut self,
        exchange_plan: &ExchangePlan,
        explain: &Explain,
        call: &Call,
    ) -> Result<Vec<Step>> {
        let mut ready = self.begin_exchange_plan(exchange_plan, call).await?;
        let steps = self.steps_when_ready(exchange_plan, &mut ready, explain, call).await;
        self.end_read(ready.read).await;
        steps
    }

    async fn steps_when_ready(
        &mut self,
        exchange_plan: &ExchangePlan,
        ready: &mut Ready,
        explain: &Explain,
        call: &Call,
    ) -> Result<Vec<Step>> {
        self.make_local_copies(exchange_plan, ready, explain.analyze, call).await?;
        let (mut steps, mut filled) = (Vec::new(), Vec::new());
        for exchange in &exchange_plan.exchanges {
            let sql = self.fragment_text(exchange, &filled).await?;
            let began = Instant::now();
            let made = match explain.analyze {
                true => self.exchange(exchange, exchange_plan, &filled, call).await,
                false => self.exchange_without_rows(exchange, exchange_plan, &filled, call).await,
            };
            let (columns, moved) = made.map_err(without_position)?;
            let took = began.elapsed();
            let nodes = self.asked(&exchange.nodes, &sql, moved, took, explain, call).await?;
            steps.push(Step { name: format!("Exchange {}", exchange.table), sql, nodes });
            filled.push(columns);
        }
        match &self.last_of(exchange_plan, &filled).await? {
            Plan::Gather(gather) => steps.extend(self.gather_steps(gather, explain, call).await?),
            Plan::Scatter(scatter) => steps.push(self.last_step(&scatter.nodes, &scatter.sql, explain, call).await?),
            Plan::Forward(forward) => {
                steps.push(self.last_step(&forward.nodes[..1], &forward.sql, explain, call).await?);
            }
            _ => return Err(PgError::internal("a plan with exchanges that ends in no query")),
        }
        Ok(steps)
    }

    async fn gather_steps_and_drop(&mut self, gather: &Gather, explain: &Explain, call: &Call) -> Result<Vec<Step>> {
        let steps = self.gather_steps(gather, explain, call).await?;
        self.drop_inputs(&gather.inputs).await?;
        Ok(steps)
    }

    async fn gather_steps(&mut self, gather: &Gather, explain: &Explain, call: &Call) -> Result<Vec<Step>> {
        let (mut steps, mut filled) = (Vec::new(), Vec::new());
        for input in &gather.inputs {
            let began = Instant::now();
            let (made, moved) = match explain.analyze {
                true => self.fill(input, call, gather.inputs.len() > 1).await.map_err(without_position)?,
                false => {
                    let made = self.describe_input(self.sink, input, call).await.map_err(without_position)?;
                    self.create_input(self.sink, input, &made, false, call).await?;
                    (made, Vec::new())
                }
            };
            let took = began.elapsed();
            let nodes = self.asked(&input.nodes, &input.sql, moved, took, explain, call).await?;
            steps.push(Step { name: format!("Gather {}", input.table), sql: input.sql.clone(), nodes });
            filled.push(made);
        }
        let columns: Vec<&[Field]> = filled.iter().map(|filled| filled.columns.as_slice()).collect();
        let sql = self.resolve_types(&gather.final_sql, &columns).await?;
        steps.push(self.last_step(&[self.sink], &sql, explain, call).await?);
        Ok(steps)
    }

    async fn last_step(
        &mut self,
        nodes: &[impl Copy + Into<Slot>],
        sql: &str,
        explain: &Explain,
        call: &Call,
    ) -> Result<Step> {
        let nodes = if explain.analyze { nodes } else { &nodes[..nodes.len().min(1)] };
        let asked = self.ask_nodes(nodes, sql, explain, call).await?;
        Ok(Step { name: "Last step".to_owned(), sql: sql.to_owned(), nodes: asked })
    }

    /// Plans of a fragment whose rows have moved.
    async fn asked(
        &mut self,
        nodes: &[NodeId],
        sql: &str,
        moved: Vec<Moved>,
        took: Duration,
        explain: &Explain,
        call: &Call,
    ) -> Result<Vec<NodeStep>> {
        let nodes = if explain.analyze { nodes } else { &nodes[..nodes.len().min(1)] };
        let mut asked = self.ask_nodes(nodes, sql, explain, call).await?;
        for (step, node) in asked.iter_mut().zip(nodes) {
            step.moved = moved.iter().find(|moved| moved.node == *node).map(|moved| (moved.clone(), took));
        }
        Ok(asked)
    }

    async fn ask_nodes(
        &mut self,
        nodes: &[impl Copy + Into<Slot>],
        sql: &str,
        explain: &Explain,
        call: &Call,
    ) -> Result<Vec<NodeStep>> {
        let mut steps = Vec::with_capacity(nodes.len());
        for slot in slots(nodes) {
            let sql = format!("EXPLAIN {}{sql}", options(explain));
            let plan = self.node_plan(slot, self.mode(), &sql, call).await?;
            steps.push(NodeStep { node: self.context.node_name(slot.node()), plan, moved: None });
            self.statement_finished();
        }
        Ok(steps)
    }

    pub(crate) async fn node_plan(
        &mut self,
        node: impl Into<Slot>,
        mode: Mode,
        sql: &str,
        call: &Call,
    ) -> Result<Vec<String>> {
        let mut spool = Spool::default();
        let text_call = Call { result_formats: Vec::new(), describe: false, ..call.clone() };
        let part = vec![(node, sql.to_owned())];
        self.scatter(mode, part, &text_call, &mut Output::spool(&mut spool)).await.map_err(without_position)?;
        let mut rows = BytesMut::new();
        spool.take(usize::MAX, &mut rows)?;
        let mut lines = Vec::new();
        for body in frame_bodies(&rows.freeze()) {
            let values = backend::decode_data_row(bytes::Bytes::copy_from_slice(body))?;
            let text = values.first().cloned().flatten().unwrap_or_default();
            lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
        }
        Ok(lines)
    }

    /// Sends lines as the one column `QUERY PLAN`.
    async fn send_lines(
        &mut self,
        lines: &[String],
        format: Format,
        describe: bool,
        output: &mut Output<'_>,
    ) -> Result<()> {
        if describe {
            output.description(&[query_plan_field(format)]);
        }
        let mut rows = BytesMut::new();
        for line in lines {
            backend::data_row(&mut rows, [Some(line.as_bytes())].into_iter());
        }
        output.rows(rows.freeze(), lines.len()).await
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

fn format_of(explain: &Explain) -> Result<Format> {
    let format =
        explain.options.iter().rev().find(|(name, _)| name == "format").and_then(|(_, value)| value.as_deref());
    match format.map(|format| format.trim_matches('\'').to_ascii_lowercase()).as_deref() {
        None | Some("text") => Ok(Format::Text),
        Some("json") => Ok(Format::Json),
        Some(_) => Err(PgError::unsupported("EXPLAIN (FORMAT XML or YAML) of a statement on several datanodes")
            .hint("Use FORMAT TEXT or JSON.")),
    }
}

/// The result column of EXPLAIN.
fn query_plan_field(format: Format) -> Field {
    Field {
        name: bytes::Bytes::from_static(b"QUERY PLAN"),
        table_oid: 0,
        column_number: 0,
        type_oid: if format == Format::Json { JSON_OID } else { TEXT_OID },
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

/// The tree, then each step: which nodes were asked, what it gave, its own plan.
fn text_lines(plan: &Plan, account: &Account) -> Vec<String> {
    let mut lines: Vec<String> = plan.to_string().lines().map(str::to_owned).collect();
    for step in &account.steps {
        for node in &step.nodes {
            let moved = node.moved.as_ref().map_or_else(String::new, |(moved, took)| {
                format!(" (rows={} bytes={} time={} ms)", moved.rows, moved.bytes, ms(*took))
            });
            lines.push(format!("{} on {}:{moved}", step.name, node.node));
            lines.extend(node.plan.iter().map(|line| format!("  {line}")));
        }
    }
    match (&account.tag, account.took) {
        (Some(tag), _) => lines.push(format!("Result: {tag}")),
        (None, Some(_)) => lines.push(format!("Bytes Moved: {}", account.bytes_moved())),
        (None, None) => {}
    }
    lines.extend(account.took.map(|took| format!("Execution Time: {} ms", ms(took))));
    lines
}

fn as_json(plan: &Plan, account: &Account) -> String {
    let node_json = |node: &NodeStep| {
        let moved = node.moved.as_ref().map_or_else(String::new, |(moved, took)| {
            format!(" \"Rows\": {}, \"Bytes\": {}, \"Time\": {},", moved.rows, moved.bytes, ms(*took))
        });
        format!("{{\"Node\": {},{moved} \"Explain\": {}}}", quoted(&node.node), node.plan.join("\n"))
    };
    let steps_json: Vec<String> = account
        .steps
        .iter()
        .map(|step| {
            let nodes: Vec<String> = step.nodes.iter().map(node_json).collect();
            let (name, sql) = (quoted(&step.name), quoted(&step.sql));
            format!("    {{\"Step\": {name}, \"SQL\": {sql}, \"Nodes\": [\n{}]}}", nodes.join(",\n"))
        })
        .collect();
    let took = account.took.map_or_else(String::new, |took| {
        let of_it = match &account.tag {
            Some(tag) => format!("\"Result\": {}", quoted(tag)),
            None => format!("\"Bytes Moved\": {}", account.bytes_moved()),
        };
        format!(",\n    {of_it},\n    \"Execution Time\": {}", ms(took))
    });
    let tree: Vec<String> = plan.to_string().lines().map(quoted).collect();
    let estimate = estimate(plan, account).map_or_else(String::new, |estimate| format!("    \"Plan\": {estimate},\n"));
    format!(
        "[\n  {{\n{estimate}    \"Distributed Plan\": [{}],\n    \"Steps\": [\n{}]{took}\n  }}\n]",
        tree.join(", "),
        steps_json.join(",\n")
    )
}

/// What PostgreSQL tells of a plan's uppermost node, where programs look for it: the last step's, which gives the rows.
fn estimate(plan: &Plan, account: &Account) -> Option<Value> {
    let asked = &account.steps.last()?.nodes;
    let tops: Vec<Value> = asked.iter().filter_map(|node| top_of(&node.plan.join("\n"))).collect();
    let number = |top: &Value, name: &str| top[name].as_f64();
    let rows: f64 = tops.iter().filter_map(|top| number(top, "Plan Rows")).sum();
    // Without ANALYZE one node is asked for all.
    let nodes = match plan {
        Plan::Scatter(scatter) => scatter.nodes.len(),
        Plan::Gather(gather) => gather.merged().map_or(asked.len(), |merge| merge.scatter().nodes.len()),
        _ => asked.len(),
    };
    let largest = |name: &str| tops.iter().filter_map(|top| number(top, name)).fold(0.0, f64::max);
    let first = tops.first()?;
    Some(json!({
        "Node Type": plan.to_string().split_whitespace().next().unwrap_or_default(),
        "Startup Cost": largest("Startup Cost"),
        "Total Cost": largest("Total Cost"),
        "Plan Rows": (rows * nodes as f64 / tops.len() as f64).round() as u64,
        "Plan Width": first["Plan Width"],
    }))
}

/// `None` without costs.
fn top_of(plan: &str) -> Option<Value> {
    let plan: Value = serde_json::from_str(plan).ok()?;
    let top = plan.get(0)?.get("Plan")?.clone();
    top.get("Plan Rows")?;
    Some(top)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

fn ms(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1000.0)
}

/// Texts that any node can be asked about, and the nodes that run them.
fn fragments(plan: &Plan) -> Vec<(Vec<NodeId>, String)> {
    let of_inputs = |inputs: &[planner::Input]| {
        let plain = inputs.iter().filter(|input| input.exchange_plan.is_none());
        plain.map(|input| (input.nodes.clone(), input.sql.clone())).collect()
    };
    match plan {
        Plan::Scatter(scatter) => vec![(scatter.nodes.clone(), scatter.sql.clone())],
        Plan::FirstCopy(first) => fragments(&first.plan),
        Plan::Forward(forward) => vec![(forward.nodes.clone(), forward.sql.clone())],
        Plan::Replicate(replicate) => vec![(replicate.nodes.clone(), replicate.sql.clone())],
        Plan::Gather(gather) => of_inputs(&gather.inputs),
        Plan::InsertStaged(insert) => of_inputs(&insert.inputs),
        Plan::StagedDml(change) => of_inputs(&change.inputs),
        Plan::InsertSplit(insert) => insert.parts.iter().map(|(node, sql)| (vec![*node], sql.clone())).collect(),
        _ => Vec::new(),
    }
}
