//! Plans as an indented tree: the language of EXPLAIN and of the tests.

use std::fmt::{Formatter, Result};

use catalog::NodeId;

use crate::plan::{
    CopySource, DdlPlan, Effect, Elsewhere, ExchangePlan, Gather, Index, Input, InsertStaged, KeyForm, KeySource,
    MapRequest, Merge, MergeKey, Placement, Plan, Redistribute, Route, RowCount, SequencedCtes, Stage, StagedDml,
};
use crate::plan::{OfStatement, Routine, RoutineCall, RowCall, STAGE, Step};

/// Writes a plan, so deep within another.
pub(crate) fn write_at(f: &mut Formatter<'_>, plan: &Plan, depth: usize) -> Result {
    let pad = "  ".repeat(depth);
    match plan {
        Plan::Forward(p) => writeln!(f, "{pad}Forward{} to {}\n{pad}  {}", writes(p.writes), one_of(&p.nodes), p.sql),
        Plan::Scatter(p) => writeln!(f, "{pad}Scatter{} to {}\n{pad}  {}", writes(p.writes), list(&p.nodes), p.sql),
        Plan::Replicate(p) => writeln!(f, "{pad}Replicate to {}\n{pad}  {}", list(&p.nodes), p.sql),
        Plan::FirstCopy(p) => {
            writeln!(f, "{pad}FirstCopy, rows to {}", list(&p.copies.others))?;
            write_at(f, &p.plan, depth + 1)
        }
        Plan::Gather(p) => write_gather(f, p, &pad),
        Plan::ExchangePlan(p) => write_exchange_plan(f, p, depth),
        Plan::InsertSplit(p) => {
            writeln!(f, "{pad}InsertSplit")?;
            p.parts.iter().try_for_each(|(node, sql)| writeln!(f, "{pad}  on {}: {sql}", node.0))
        }
        Plan::InsertStaged(p) => write_staged(f, p, &pad),
        Plan::StagedDml(p) => write_staged_dml(f, p, &pad),
        Plan::SequencedCtes(p) => write_sequenced_ctes(f, p, depth),
        Plan::CopyFrom(p) => {
            let names: Vec<&str> = p.columns.iter().map(|c| c.name.as_str()).collect();
            writeln!(f, "{pad}CopyFrom {} ({})", p.target.qualified_name(), names.join(", "))?;
            writeln!(f, "{pad}  route: {}", route(&p.route))?;
            p.where_sql.iter().try_for_each(|text| writeln!(f, "{pad}  where: {text}"))?;
            p.copies.iter().try_for_each(|copies| writeln!(f, "{pad}  rows to {}", list(&copies.others)))?;
            p.stage.iter().try_for_each(|stage| write_stage(f, stage, &pad))
        }
        Plan::CopyHome(p) => {
            writeln!(f, "{pad}CopyHome on {}: {}", p.node.0, p.what)?;
            p.where_sql.iter().try_for_each(|text| writeln!(f, "{pad}  where: {text}"))
        }
        Plan::CopyTo(p) => match &p.source {
            CopySource::One { nodes, what } => writeln!(f, "{pad}CopyTo from {}: {what}", one_of(nodes)),
            CopySource::All { nodes, what } => writeln!(f, "{pad}CopyTo from {}: {what}", list(nodes)),
            CopySource::ExchangePlan(exchange_plan) => {
                writeln!(f, "{pad}CopyTo")?;
                write_exchange_plan(f, exchange_plan, depth + 1)
            }
            CopySource::Gather(gather) => {
                writeln!(f, "{pad}CopyTo")?;
                write_gather(f, gather, &"  ".repeat(depth + 1))
            }
        },
        Plan::Explain(p) => {
            let analyze = if p.analyze { " (analyze)" } else { "" };
            writeln!(f, "{pad}Explain{analyze}")?;
            write_at(f, &p.inner, depth + 1)
        }
        Plan::DeclareCursor(inner) => {
            writeln!(f, "{pad}DeclareCursor")?;
            write_at(f, inner, depth + 1)
        }
        Plan::Ddl(p) => write_ddl(f, p, &pad),
        Plan::Redistribute(moves) | Plan::AutoReplicate(moves) => write_moves(f, moves, &pad),
        Plan::Cluster(command) => writeln!(f, "{pad}Cluster {command:?}"),
        Plan::Locked(locked) => {
            writeln!(f, "{pad}Locked")?;
            write_at(f, &locked.query, depth + 1)?;
            locked
                .targets
                .iter()
                .try_for_each(|target| writeln!(f, "{pad}  rows of {}: {}", target.table, target.lock_sql("{…}", None)))
        }
        Plan::Routine(routine) => write_routine(f, routine, depth),
        Plan::Session => writeln!(f, "{pad}Session"),
    }
}

fn write_routine(f: &mut Formatter<'_>, routine: &Routine, depth: usize) -> Result {
    let pad = "  ".repeat(depth);
    let call = |f: &mut Formatter<'_>, call: &RoutineCall| {
        let arguments: Vec<&str> = call.arguments.iter().map(|argument| argument.sql.as_str()).collect();
        writeln!(f, "{pad}  {}({})", call.name, arguments.join(", "))
    };
    writeln!(f, "{pad}Routine")?;
    match routine {
        Routine::Block { .. } => writeln!(f, "{pad}  this block"),
        Routine::Call(one) => call(f, one),
        Routine::Inside { calls, rest } => {
            calls.iter().try_for_each(|one| call(f, one))?;
            writeln!(f, "{pad}  then {}", rest.sql)
        }
        Routine::Rewritten(rewritten) => {
            let answers = |step: &Step| if step.answers { " (answers)" } else { "" };
            let mut steps = rewritten.steps.iter();
            steps.try_for_each(|step| writeln!(f, "{pad}  {}{}", step.statement.sql, answers(step)))
        }
        Routine::Lifted(lifted) => {
            lifted.parts.iter().try_for_each(|part| writeln!(f, "{pad}  {part}"))?;
            writeln!(f, "{pad}  then {}", lifted.rest)
        }
        Routine::PerRow(per_row) => {
            let when = |call: &RowCall| call.when.as_ref().map(|when| format!(" when {when}")).unwrap_or_default();
            writeln!(f, "{pad}  {}", per_row.rows)?;
            per_row.calls.iter().try_for_each(|call| writeln!(f, "{pad}  for each {}{}", call.sql, when(call)))?;
            writeln!(f, "{pad}  then {}", per_row.rest)
        }
        Routine::Each(each) => each.statements.iter().try_for_each(|one| writeln!(f, "{pad}  {}", one.sql)),
        Routine::Instead(change) => {
            writeln!(f, "{pad}  {}", change.rows.fill)?;
            change.triggers.iter().try_for_each(|name| writeln!(f, "{pad}  {name} of {} for each", change.view))
        }
        Routine::Before(change) => {
            writeln!(f, "{pad}  {}", change.rows.fill)?;
            let table = &change.table.name;
            change.triggers.iter().try_for_each(|name| writeln!(f, "{pad}  {name} of {table} for each"))?;
            writeln!(f, "{pad}  {}{}", change.store(&change.set), if change.one_by_one { ", one by one" } else { "" })
        }
        Routine::Drawn(drawn) => {
            drawn.draws.iter().try_for_each(|(draw, count)| writeln!(f, "{pad}  {draw}, {count} times"))?;
            writeln!(f, "{pad}  then {}", drawn.rest.sql)
        }
        Routine::As { owner, .. } => writeln!(f, "{pad}  as {owner}"),
        Routine::Rows(rows) => writeln!(f, "{pad}  {}", rows.query),
        Routine::Explained(explained) => writeln!(f, "{pad}  {}", explained.statement.sql),
        Routine::TriggeredDml(change) => {
            let once = |f: &mut Formatter<'_>, one: &OfStatement| {
                writeln!(f, "{pad}  {} of {}.{} once", one.trigger, one.schema, one.table)
            };
            change.before.iter().try_for_each(|one| once(f, one))?;
            write_at(f, &change.plan, depth + 1)?;
            writeln!(f, "{pad}  triggers of its rows")?;
            change.after.iter().try_for_each(|one| once(f, one))
        }
    }
}

fn write_exchange_plan(f: &mut Formatter<'_>, exchange_plan: &ExchangePlan, depth: usize) -> Result {
    let pad = "  ".repeat(depth);
    writeln!(f, "{pad}ExchangePlan over {}", list(&exchange_plan.nodes))?;
    for local_copy in &exchange_plan.local_copies {
        writeln!(f, "{pad}  {} beside {}\n{pad}    {}", local_copy.table, list(&local_copy.nodes), local_copy.sql)?;
        write_indexes(f, &local_copy.table, &local_copy.indexes, &pad)?;
    }
    for exchange in &exchange_plan.exchanges {
        writeln!(f, "{pad}  {} from {} to {}", exchange.table, list(&exchange.nodes), route(&exchange.route))?;
        writeln!(f, "{pad}    {}", exchange.sql.text)?;
        write_indexes(f, &exchange.table, &exchange.indexes, &pad)?;
    }
    write_at(f, &exchange_plan.last, depth + 1)
}

fn write_gather(f: &mut Formatter<'_>, gather: &Gather, pad: &str) -> Result {
    if let Some(merge) = gather.merged() {
        return write_merge(f, merge, pad);
    }
    writeln!(f, "{pad}Gather{} on {}\n{pad}  {}", writes(gather.writes), gather.node.0, gather.final_sql.text)?;
    gather.inputs.iter().try_for_each(|input| write_input(f, input, pad))
}

fn write_merge(f: &mut Formatter<'_>, merge: &Merge, pad: &str) -> Result {
    let keys: Vec<String> = merge.keys.iter().map(merge_key).collect();
    let by = if keys.is_empty() { String::new() } else { format!(" by {}", keys.join(", ")) };
    let cut = |word: &str, count: Option<RowCount>| match count {
        None => String::new(),
        Some(RowCount::Constant(count)) => format!(" {word} {count}"),
        Some(RowCount::Parameter(number)) => format!(" {word} ${number}"),
    };
    let (limit, offset) = (cut("limit", merge.limit), cut("offset", merge.offset));
    writeln!(f, "{pad}Merge from {}{by}{limit}{offset}\n{pad}  {}", list(&merge.nodes), merge.sql())
}

fn merge_key(key: &MergeKey) -> String {
    let form = match key.form {
        KeyForm::Integer => "integer",
        KeyForm::Float => "float",
        KeyForm::Numeric => "numeric",
        KeyForm::Bytes => "bytes",
    };
    let direction = if key.descending { " desc" } else { "" };
    let nulls = match (key.descending, key.nulls_first) {
        (false, true) => " nulls first",
        (true, false) => " nulls last",
        _ => "",
    };
    format!("{form}{direction}{nulls}")
}

fn write_input(f: &mut Formatter<'_>, input: &Input, pad: &str) -> Result {
    match &input.exchange_plan {
        Some(exchange_plan) => {
            writeln!(f, "{pad}  {} from", input.table)?;
            write_exchange_plan(f, exchange_plan, pad.len() / 2 + 2)?;
        }
        None => writeln!(f, "{pad}  {} from {}\n{pad}    {}", input.table, list(&input.nodes), input.sql)?,
    }
    write_indexes(f, &input.table, &input.indexes, pad)
}

fn write_indexes(f: &mut Formatter<'_>, table: &str, indexes: &[Index], pad: &str) -> Result {
    indexes.iter().try_for_each(|index| writeln!(f, "{pad}    then {}", index.create_sql(table)))
}

fn write_staged(f: &mut Formatter<'_>, plan: &InsertStaged, pad: &str) -> Result {
    writeln!(f, "{pad}InsertStaged into {} by way of {}\n{pad}  {}", plan.target_sql, plan.node.0, plan.fill.text)?;
    plan.inputs.iter().try_for_each(|input| write_input(f, input, pad))?;
    write_stage(f, &plan.stage, pad)?;
    writeln!(f, "{pad}  route: {}", route(&plan.stage.route))?;
    plan.direct.iter().try_for_each(|direct| writeln!(f, "{pad}  or straight: {}", direct.copy_sql))?;
    if !plan.tail.is_empty() {
        writeln!(f, "{pad}  tail: {}", plan.tail)?;
    }
    Ok(())
}

fn write_staged_dml(f: &mut Formatter<'_>, plan: &StagedDml, pad: &str) -> Result {
    writeln!(f, "{pad}StagedDml {} by way of {}", plan.target.qualified_name(), plan.node.0)?;
    plan.inputs.iter().try_for_each(|input| write_input(f, input, pad))?;
    writeln!(f, "{pad}  stage: {}", crate::create_temp_table(STAGE, &plan.definitions))?;
    let mut actions = plan.fills.iter().zip(&plan.actions);
    actions.try_for_each(|(fill, action)| writeln!(f, "{pad}  {action:?}: {}", fill.text))?;
    writeln!(f, "{pad}  route: {}", route(&plan.route))?;
    plan.rooted.iter().try_for_each(|why| writeln!(f, "{pad}  no row may move: {why}"))?;
    if !plan.returning.is_empty() {
        writeln!(f, "{pad} {}", plan.returning)?;
    }
    Ok(())
}

fn write_sequenced_ctes(f: &mut Formatter<'_>, ctes: &SequencedCtes, depth: usize) -> Result {
    let pad = "  ".repeat(depth);
    writeln!(f, "{pad}SequencedCtes over {}", list(&ctes.nodes))?;
    for step in &ctes.steps {
        let what = match (&step.keep, step.is_main) {
            (Some(keep), _) => keep.table.as_str(),
            (None, true) => "main",
            (None, false) => "unread",
        };
        writeln!(f, "{pad}  {what}{}", if step.copies { ", on copies" } else { "" })?;
        write_at(f, &step.plan, depth + 2)?;
    }
    Ok(())
}

fn write_stage(f: &mut Formatter<'_>, stage: &Stage, pad: &str) -> Result {
    writeln!(f, "{pad}  stage: {}", crate::create_temp_table(&stage.table, &stage.definitions))
}

fn write_moves(f: &mut Formatter<'_>, moves: &[Redistribute], pad: &str) -> Result {
    moves.iter().try_for_each(|moved| {
        writeln!(f, "{pad}Redistribute {} to {}", moved.target.qualified_name(), placement(&moved.placement))
    })
}

fn write_ddl(f: &mut Formatter<'_>, plan: &DdlPlan, pad: &str) -> Result {
    write_moves(f, &plan.moves, pad)?;
    let outside = if plan.outside_transaction { ", outside a transaction" } else { "" };
    writeln!(f, "{pad}Ddl {:?} on {}{outside}\n{pad}  {}", plan.kind, list(&plan.nodes), plan.node_sql)?;
    if let Elsewhere::Without(sql) | Elsewhere::Copied { sql, .. } = &plan.elsewhere {
        writeln!(f, "{pad}  elsewhere {sql}")?;
    }
    for effect in &plan.effects {
        match effect {
            Effect::CreateTable { schema, name, distribution, .. } => {
                writeln!(f, "{pad}  create {schema}.{name}: {}", placement(distribution))?;
            }
            other => writeln!(f, "{pad}  {other:?}")?,
        }
    }
    plan.notices.iter().try_for_each(|notice| writeln!(f, "{pad}  notice: {}", notice.message()))?;
    plan.follow_up.iter().try_for_each(|sql| writeln!(f, "{pad}  then {sql}"))
}

fn writes(writes: bool) -> &'static str {
    if writes { " (write)" } else { "" }
}

fn list(nodes: &[NodeId]) -> String {
    let numbers: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
    format!("[{}]", numbers.join(" "))
}

fn one_of(nodes: &[NodeId]) -> String {
    match nodes {
        [node] => node.0.to_string(),
        many => format!("any of {}", list(many)),
    }
}

fn source(key: &KeySource) -> String {
    match key {
        KeySource::Column(at) => format!("column {at}"),
        KeySource::Null => "NULL".to_owned(),
    }
}

fn route(route: &Route) -> String {
    match route {
        Route::Hash { key, nodes, .. } => {
            let key: Vec<String> = key.iter().map(|(s, t)| format!("{} {t:?}", source(s))).collect();
            format!("hash of {} over {}", key.join(", "), list(nodes))
        }
        Route::Modulo { key, nodes, .. } => format!("modulo of {} over {}", source(&key.0), list(nodes)),
        Route::RoundRobin { nodes } => format!("round robin over {}", list(nodes)),
        Route::Replicated { nodes } => format!("all of {}", list(nodes)),
        Route::Single { node } => format!("node {}", node.0),
    }
}

fn map(map: &MapRequest) -> String {
    match map {
        MapRequest::Existing(id) => format!("map {}", id.0),
        MapRequest::Over(nodes) => format!("over {}", list(nodes)),
    }
}

fn placement(placement: &Placement) -> String {
    match placement {
        Placement::Hash { columns, map: request } => format!("hash ({}) {}", columns.join(", "), map(request)),
        Placement::Modulo { column, map: request } => format!("modulo ({column}) {}", map(request)),
        Placement::Replicated { nodes } => format!("replicated on {}", list(nodes)),
        Placement::RoundRobin { nodes } => format!("round robin over {}", list(nodes)),
    }
}
