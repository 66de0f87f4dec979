//! Gathered rows as parameters: a last step over few rows needs no temp tables.
//!
//! To make a temp table and to drop it costs a datanode more than a short query does, and leaves dead rows in its system catalogs.
//! So where the home node expects few rows that are cheap to make, all nodes are asked for all fragments at once, for no more
//! than so many rows, and the last step finds them in its parameters:
//!
//! ```text
//! WITH loxo_g1 (a, b) AS (SELECT v3::integer, v4::text FROM ROWS FROM (unnest($3::integer[]), unnest($4::text[])) AS v (v3, v4))
//! SELECT … FROM loxo_g1 …
//! ```
//!
//! A column's values in binary form are, behind a header, an array: none of them is looked into.
//!
//! Invariants: only what is the same in an array as in a column of a temp table travels so: values of built-in types that have a
//! binary form, in default collations ([`planner::gives_plain_values`]); no arrays, which unnest takes apart; no table whose
//! primary key the last step refers to. Where more rows come than were expected, all are dropped and temp tables take their
//! place, under the same snapshots; nothing has gone to the client then, and a fragment is a SELECT without effects.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use catalog::{Oid, quote_identifier};
use pgerror::{PgError, Result};
use pgproto::backend::Field;
use pgproto::frontend;
use planner::{Gather, Input};

use crate::backend::call::Call;
use crate::backend::call::Parameters;
use crate::backend::call::travels_in_binary;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::backend::request::frame_bodies;
use crate::backend::slot::Slot;
use crate::backend::type_ids::is_storable;
use crate::block::{Block, Mode};
use crate::engine::estimates::BYTES_AT_ONCE;
use crate::engine::gather::{distinct_names, without_position};
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::shared::few_rows::{Fragment, FragmentKey};

/// Rows of one fragment that a node is asked for.
pub(crate) const ROWS_MAX: i32 = 4_000;
/// Bytes kept of what one node gives.
const BYTES_MAX: usize = 256 << 10;

/// A fragment that travels in parameters.
pub(crate) struct InlinedRows {
    fields: Vec<Field>,
    /// As SQL, of each column.
    types: Vec<String>,
    arrays: Vec<Array>,
}

/// The values of a column.
struct Array {
    element: Oid,
    values: BytesMut,
    count: i32,
    has_null: bool,
}

/// Runs of rows of each fragment.
type Runs = Vec<Vec<Bytes>>;

impl Session {
    /// Gathers without temp tables; `None` if it takes some. The transaction that reads is open.
    pub(crate) async fn gather_in_parameters(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        let call = &Call { one_off: true, ..call.clone() };
        if !self.may_be_inlined(&gather.inputs).await? {
            return Ok(None);
        }
        let keys = self.keys(&gather.inputs, call).await?;
        let known = keys.as_ref().filter(|_| self.plan_is_untouched());
        let known = known.and_then(|keys| self.context.few_rows.known(keys, self.schema_version));
        let is_known = known.is_some();
        let fragments = match known {
            Some(known) => known,
            None => {
                self.acquire(self.home, Mode::InBlock).await?;
                self.ask_of_fragments(self.home.into(), &gather.inputs, call).await.map_err(without_position)?
            }
        };
        if !self.are_few(&gather.inputs, &fragments) {
            return Ok(None);
        }
        // A statement with parameters may come again, as it is.
        let keeps = is_known && call.parameters.is_some();
        let few = self.read_few_inputs(&gather.inputs, &fragments, call, keeps).await.map_err(without_position)?;
        self.note_few(keys.as_deref().unwrap_or_default(), &fragments, few.as_deref());
        let Some(inlined) = few else { return Ok(None) };
        let (sql, call) = last_step(gather, inlined, &Call { one_off: !keeps, ..call.clone() });
        self.scatter(Mode::InBlock, vec![(self.home, sql)], &call, output).await.map(Some).map_err(without_position)
    }

    /// What has come of fragments: the names of their types, or more rows than were expected.
    pub(crate) fn note_few(&self, keys: &[FragmentKey], asked: &[Arc<Fragment>], inlined: Option<&[InlinedRows]>) {
        let Some(inlined) = inlined else { return self.context.few_rows.forget(keys) };
        let found = asked.iter().zip(inlined).filter(|(asked, _)| asked.types.is_empty()).map(|(asked, inlined)| {
            let types = inlined.types.clone();
            Arc::new(Fragment { fields: asked.fields.clone(), types, expected: asked.expected })
        });
        self.context.few_rows.keep(keys.iter().cloned().zip(found), self.schema_version);
    }

    /// How the fragments are known to other statements; `None` inside a block with a schema, or settings, of its own, and where names may
    /// mean temporary tables.
    pub(crate) async fn keys(&mut self, inputs: &[Input], call: &Call) -> Result<Option<Vec<FragmentKey>>> {
        let is_apart = |block: &Block| block.schema_changed || block.hides_schema() || block.has_settings_of_session();
        if self.block.as_ref().is_some_and(is_apart) || !self.temp_relations().await?.is_empty() {
            return Ok(None);
        }
        let (types, path) = (call.declared_types(), self.path_key());
        let key = |input: &Input| FragmentKey { sql: input.sql.clone(), types: types.clone(), path: path.clone() };
        Ok(Some(inputs.iter().map(key).collect()))
    }

    /// What can be told from the texts. Only of its own part can the home node say how large it is.
    pub(crate) async fn may_be_inlined(&mut self, inputs: &[Input]) -> Result<bool> {
        let loaded = self.catalog().await?;
        let gives_plain_values = |sql: &str| {
            let judge = || planner::gives_plain_values(sql, &loaded.catalog);
            self.context.judged.get_or(loaded.catalog.version(), format!("plain {sql}").as_bytes(), judge)
        };
        let may = |input: &Input| {
            input.exchange_plan.is_none()
                && input.indexes.is_empty()
                && input.nodes.contains(&self.home)
                && gives_plain_values(&input.sql)
        };
        if self.few_rows() == 0.0 {
            return Ok(false);
        }
        let bytes: usize = inputs.iter().map(|input| input.sql.len()).sum();
        Ok(!inputs.is_empty() && bytes <= BYTES_AT_ONCE && inputs.iter().all(may))
    }

    /// Has a session on the home node say what columns the fragments have, and how many rows it expects.
    pub(crate) async fn ask_of_fragments(
        &mut self,
        slot: Slot,
        inputs: &[Input],
        call: &Call,
    ) -> Result<Vec<Arc<Fragment>>> {
        let version = self.schema_version;
        self.causality.touch(slot.node());
        let leased = self.links.link(slot)?;
        for input in inputs {
            leased.start_describe(&input.sql, &call.fragment_types(&input.sql));
            leased.start_estimate(&input.sql, call, version);
        }
        leased.flush().await?;
        let mut fragments = Vec::with_capacity(inputs.len());
        let mut failure = None;
        for _ in inputs {
            let columns = leased.read_description().await;
            let expected = leased.expectation().await;
            match columns.and_then(|columns| Ok((columns.1.unwrap_or_default(), expected?))) {
                Ok((fields, expected)) => fragments.push(Arc::new(Fragment { fields, types: Vec::new(), expected })),
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        failure.map_or(Ok(fragments), Err)
    }

    /// Are the rows few enough to travel as parameters? Tables without statistics are overestimated. Under another client encoding
    /// than the servers' never: a text which that encoding lacks can stay on its node in a temp table.
    pub(crate) fn are_few(&self, inputs: &[Input], fragments: &[Arc<Fragment>]) -> bool {
        const NAME: Oid = 19;
        let travels =
            |field: &Field| travels_in_binary(field.type_oid) && is_storable(field.type_oid) && field.type_oid != NAME;
        let (mut rows, mut cost) = (0.0, 0.0);
        for (input, Fragment { fields, expected, .. }) in inputs.iter().zip(fragments.iter().map(|one| &**one)) {
            let can_travel = !fields.is_empty() && fields.iter().all(travels);
            let Some(expected) = expected.filter(|_| can_travel) else { return false };
            rows += expected.rows * input.nodes.len() as f64;
            cost += expected.cost;
        }
        rows <= self.few_rows() && cost <= planner::CHEAP && self.encoding_of_links().is_none()
    }

    /// Asks all nodes for all fragments, which they keep prepared if `keeps`; the home node also for the names of types that are not known.
    async fn read_few_inputs(
        &mut self,
        inputs: &[Input],
        fragments: &[Arc<Fragment>],
        call: &Call,
        keeps: bool,
    ) -> Result<Option<Vec<InlinedRows>>> {
        let (nodes, version) = (self.gathered_nodes(inputs), self.schema_version);
        self.connect_to(&nodes).await?;
        for node in &nodes {
            self.acquire(*node, Mode::InBlock).await?;
            self.causality.touch(*node);
        }
        self.ask_types(fragments)?;
        for node in &nodes {
            let leased = self.links.link(*node)?;
            inputs
                .iter()
                .filter(|input| input.nodes.contains(node))
                .for_each(|input| leased.start_few(&input.sql, call, keeps, version));
            leased.link.connection.sync();
        }
        self.read_all_few(inputs, fragments).await
    }

    /// Asks the home node for the names of types that are not known.
    pub(crate) fn ask_types(&mut self, fragments: &[Arc<Fragment>]) -> Result<()> {
        if fragments.iter().all(|fragment| fragment.types.is_empty()) {
            self.links.link(self.home)?.link.connection.query(types_sql(fragments).as_bytes());
        }
        Ok(())
    }

    /// The answers to all that is queued: [`Session::ask_types`], then a few rows of each fragment.
    pub(crate) async fn read_all_few(
        &mut self,
        inputs: &[Input],
        fragments: &[Arc<Fragment>],
    ) -> Result<Option<Vec<InlinedRows>>> {
        let nodes = self.gathered_nodes(inputs);
        let mut names: Vec<String> = fragments.iter().flat_map(|fragment| fragment.types.iter().cloned()).collect();
        let asks = names.is_empty();
        let mut links = self.links.take(&nodes)?;
        let home = self.home;
        let work = links.iter_mut().map(|(slot, leased)| async {
            leased.flush().await?;
            let types = if asks && *slot == home { leased.names().await } else { Ok(Vec::new()) };
            let runs = leased.read_few(inputs.iter().filter(|input| input.nodes.contains(&slot.node())).count()).await;
            Ok((types?, runs?))
        });
        let read: Vec<Result<(Vec<String>, Option<Runs>)>> = futures_util::future::join_all(work).await;
        self.links.put_back(links);
        let mut given = Vec::with_capacity(nodes.len());
        for (node, read) in nodes.iter().zip(read) {
            let (types, runs) = read?;
            names.extend(types);
            given.push((*node, runs));
        }
        // An array of arrays has one element type: what stands in it would come out one by one.
        if names.iter().any(|name| name.ends_with("[]")) {
            return Ok(None);
        }
        let mut inlined = InlinedRows::of(fragments, names);
        for (node, runs) in given {
            let Some(runs) = runs else { return Ok(None) };
            let of_node = inlined.iter_mut().zip(inputs).filter(|(_, input)| input.nodes.contains(&node));
            for ((inlined, _), runs) in of_node.zip(runs) {
                inlined.add(&runs)?;
            }
        }
        Ok(Some(inlined))
    }
}

impl LeasedConnection {
    /// Queues a fragment for a few rows, without a Sync.
    pub(crate) fn start_few(&mut self, sql: &str, call: &Call, keeps: bool, schema_version: u64) {
        let call = Call { one_off: !keeps, ..call.with_formats(vec![1]) };
        let parameters = call.parameters.clone().unwrap_or_default();
        let bind = self.bind(sql, &call, &parameters, schema_version);
        let out = self.link.connection.out();
        frontend::bind(out, &bind);
        frontend::execute(out, b"", ROWS_MAX);
    }

    /// The one row of the next answer.
    async fn names(&mut self) -> Result<Vec<String>> {
        self.skip_preamble().await?;
        let row = self.link.connection.read_rows().await?.0.into_iter().next().unwrap_or_default();
        Ok(row.into_iter().map(|name| String::from_utf8_lossy(&name.unwrap_or_default()).into_owned()).collect())
    }

    /// The rows of so many fragments; `None` if there are more than was asked for.
    async fn read_few(&mut self, fragments: usize) -> Result<Option<Runs>> {
        let mut runs: Runs = vec![Vec::new(); fragments];
        let (mut at, mut bytes, mut all) = (0, 0, true);
        loop {
            match self.next().await? {
                Event::Rows(run, _) => {
                    bytes += run.len();
                    match runs.get_mut(at) {
                        Some(list) if bytes <= BYTES_MAX => list.push(run),
                        _ => all = false,
                    }
                }
                Event::Complete(_) => at += 1,
                Event::Suspended => (at, all) = (at + 1, false),
                Event::Done => return Ok(all.then_some(runs)),
                other => return Err(PgError::protocol(format!("unexpected answer {other:?} to a fragment"))),
            }
        }
    }
}

/// Asks for the names of all columns' types.
fn types_sql(fragments: &[Arc<Fragment>]) -> String {
    let name = |field: &Field| format!("pg_catalog.format_type({}, {})", field.type_oid, field.type_modifier);
    let names: Vec<String> = fragments.iter().flat_map(|fragment| &fragment.fields).map(name).collect();
    format!("SELECT {}", names.join(", "))
}

impl InlinedRows {
    fn of(fragments: &[Arc<Fragment>], names: Vec<String>) -> Vec<InlinedRows> {
        let mut names = names.into_iter();
        let of_one = |fragment: &Arc<Fragment>| InlinedRows {
            types: names.by_ref().take(fragment.fields.len()).collect(),
            arrays: fragment.fields.iter().map(|field| Array::of(field.type_oid)).collect(),
            fields: fragment.fields.clone(),
        };
        fragments.iter().map(of_one).collect()
    }

    fn add(&mut self, runs: &[Bytes]) -> Result<()> {
        for body in runs.iter().flat_map(frame_bodies) {
            // The number of columns comes first.
            let mut rest = body.get(2..).unwrap_or_default();
            for array in &mut self.arrays {
                rest = array.push(rest).ok_or_else(|| PgError::protocol("a row ends too early"))?;
            }
        }
        Ok(())
    }

    /// `loxo_g1 (a, b) AS (…)`, its parameters numbered from `first` on.
    fn with_item(&self, table: &str, first: usize) -> String {
        let of_each = |sql: &dyn Fn(usize, &String) -> String| -> String {
            let list: Vec<String> = self.types.iter().enumerate().map(|(at, of)| sql(first + at, of)).collect();
            list.join(", ")
        };
        // A function's result has no length or precision of its own.
        let values = of_each(&|number, of| format!("v{number}::{of}"));
        let arrays = of_each(&|number, of| format!("pg_catalog.unnest(${number}::{of}[])"));
        let names = of_each(&|number, _| format!("v{number}"));
        let columns: Vec<String> = distinct_names(&self.fields).iter().map(|name| quote_identifier(name)).collect();
        let (table, columns) = (quote_identifier(table), columns.join(", "));
        format!("{table} ({columns}) AS (SELECT {values} FROM ROWS FROM ({arrays}) AS v ({names}))")
    }
}

impl Array {
    fn of(element: Oid) -> Self {
        Self { element, values: BytesMut::new(), count: 0, has_null: false }
    }

    /// Takes the first value of a row; gives the others. Its length, or -1 for NULL, stands before it here and there.
    fn push<'b>(&mut self, row: &'b [u8]) -> Option<&'b [u8]> {
        let length = i32::from_be_bytes(row.get(..4)?.try_into().ok()?);
        let end = 4 + usize::try_from(length).unwrap_or(0);
        self.values.put_slice(row.get(..end)?);
        self.count += 1;
        self.has_null |= length < 0;
        row.get(end..)
    }

    /// In binary form: dimensions, whether there are NULLs, the element type, length and lower bound, then the values.
    fn encoded(self) -> Bytes {
        let mut out = BytesMut::with_capacity(20 + self.values.len());
        out.put_i32(i32::from(self.count > 0));
        out.put_i32(i32::from(self.has_null));
        out.put_u32(self.element);
        if self.count > 0 {
            out.put_i32(self.count);
            out.put_i32(1);
        }
        out.put_slice(&self.values);
        out.freeze()
    }
}

/// The last step's text over its parameters, and how it is to be called. One that joins the rows of several fragments is not kept prepared:
/// PostgreSQL would go over to a generic plan, which expects ten rows of each array and joins them by nested loops.
pub(crate) fn last_step(gather: &Gather, inlined: Vec<InlinedRows>, call: &Call) -> (String, Call) {
    let own = call.parameters.as_ref().map_or(0, |parameters| parameters.values.len());
    let mut parameters = call.own_parameters(own);
    let mut items = Vec::with_capacity(inlined.len());
    let text = gather.final_sql.resolve(|input, column| {
        let types = inlined.get(input - 1).map(|inlined| &inlined.types);
        types.and_then(|types| types.get(column - 1)).cloned().unwrap_or_default()
    });
    for (input, inlined) in gather.inputs.iter().zip(inlined) {
        items.push(inlined.with_item(&input.table, parameters.values.len() + 1));
        inlined.arrays.into_iter().for_each(|array| add_parameter(&mut parameters, array.encoded()));
    }
    let one_off = call.one_off || gather.inputs.len() > 1;
    let call = Call { parameters: Some(Arc::new(parameters)), one_off, ..call.clone() };
    (with_items(&text, &items.join(", ")), call)
}

/// Binary, its type as the text says.
fn add_parameter(parameters: &mut Parameters, value: Bytes) {
    parameters.types.push(0);
    parameters.formats.push(1);
    parameters.values.push(Some(value));
}

/// The text with more items in its WITH, before its own. The planner's texts spell keywords in capitals.
fn with_items(text: &str, items: &str) -> String {
    for with in ["WITH RECURSIVE ", "WITH "] {
        if let Some(rest) = text.strip_prefix(with) {
            return format!("{with}{items}, {rest}");
        }
    }
    format!("WITH {items} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_becomes_an_array() {
        let mut row = BytesMut::new();
        row.put_i16(2);
        row.put_i32(4);
        row.put_i32(77);
        row.put_i32(-1);
        let mut rest = &row[2..];
        let mut arrays = [Array::of(23), Array::of(25)];
        for array in &mut arrays {
            rest = array.push(rest).unwrap();
        }
        assert!(rest.is_empty());
        let [numbers, texts] = arrays;
        assert_eq!(
            &numbers.encoded()[..],
            &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 77]
        );
        assert_eq!(&texts.encoded()[4..12], &[0, 0, 0, 1, 0, 0, 0, 25]);
        assert!(Array::of(23).push(&[0, 0, 0, 9, 1]).is_none());
        assert_eq!(Array::of(23).encoded().len(), 12);
    }

    #[test]
    fn a_text_keeps_its_own_with() {
        assert_eq!(with_items("SELECT 1", "a AS (b)"), "WITH a AS (b) SELECT 1");
        assert_eq!(with_items("WITH c AS (d) SELECT 1", "a AS (b)"), "WITH a AS (b), c AS (d) SELECT 1");
        assert_eq!(
            with_items("WITH RECURSIVE c AS (d) SELECT 1", "a AS (b)"),
            "WITH RECURSIVE a AS (b), c AS (d) SELECT 1"
        );
    }
}
