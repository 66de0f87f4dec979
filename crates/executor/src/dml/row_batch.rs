//! What a pipeline brings to one node: rows that go in together, as one INSERT of many rows, and the rest one by one.
//!
//! Most of what a datanode does for an execution is to begin and to end it. Of a statement that looks at nothing but its own row
//! ([`planner::Repeated`]) several leave behind what one with all their rows does, so they are batched:
//!
//! ```text
//!  SAVEPOINT  INSERT of 128 rows  INSERT of 32 rows  RELEASE   INSERT  INSERT  Sync
//! ```
//!
//! An error does not say which row it is about. So the node goes back to the savepoint then and gets the rows one by one; that
//! gives the error, its words and its place in the batch as PostgreSQL has them.
//!
//! Invariant: the client can tell from nothing that rows were batched, but for errors that are about no row (a cancel, a deadlock):
//! those come at the first row of their statement.

use std::borrow::Cow;
use std::sync::Arc;

use pgerror::PgError;
use pgproto::frontend;
use planner::Repeated;

use crate::backend::call::Call;
use crate::backend::call::Parameters;
use crate::backend::call::declared;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::dml::insert_pipeline::Arrival;
use crate::session::pipeline::InsertPipeline;

const SAVEPOINT: &str = "SAVEPOINT loxo_batch";
const RELEASE: &str = "RELEASE SAVEPOINT loxo_batch";
const GO_BACK: &str = "ROLLBACK TO SAVEPOINT loxo_batch; RELEASE SAVEPOINT loxo_batch";
/// Command tag of an INSERT of one row.
const ONE_ROW: &str = "INSERT 0 1";

/// One node's part of a pipeline.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) rows: Vec<Arc<Parameters>>,
    /// Rows of each batched statement. They are the first of all.
    batched: Vec<usize>,
}

impl Load {
    /// Couples as many rows as go into statements of these sizes.
    fn couple(&mut self, repeated: &Repeated) {
        let mut left = self.rows.len();
        for (size, _) in &repeated.texts {
            self.batched.extend(std::iter::repeat_n(*size, left / size));
            left %= size;
        }
    }

    /// The tags of all rows, of those that the node has given: one for each batched statement, RELEASE, one for each row more.
    fn uncouple(&self, tags: Vec<Cow<'static, str>>) -> Vec<Cow<'static, str>> {
        if self.batched.is_empty() {
            return tags;
        }
        let rows: usize = self.batched.iter().take(tags.len()).sum();
        let rest = tags.into_iter().skip(self.batched.len() + 1);
        std::iter::repeat_n(Cow::Borrowed(ONE_ROW), rows).chain(rest).collect()
    }
}

impl LeasedConnection {
    /// Queues a load, with one Sync.
    pub(crate) fn start_load(&mut self, pipeline: &InsertPipeline, load: &mut Load) {
        if let Some(repeated) = pipeline.repeated() {
            load.couple(repeated);
        }
        let mut rest = load.rows.as_slice();
        if let (Some(repeated), false) = (pipeline.repeated(), load.batched.is_empty()) {
            // Its answer is dropped with those of other statements of ours.
            self.queue(SAVEPOINT, &Call::default(), &Parameters::default(), pipeline.schema_version);
            self.own_answers += 1;
            for size in &load.batched {
                let (rows, others) = rest.split_at(*size);
                self.queue_row_batch(pipeline, repeated.text(*size), rows);
                rest = others;
            }
            self.queue(RELEASE, &Call::default(), &Parameters::default(), pipeline.schema_version);
        }
        self.queue_each(pipeline, rest);
        self.link.connection.sync();
    }

    /// Queues one statement.
    fn queue(&mut self, sql: &str, call: &Call, parameters: &Parameters, schema_version: u64) {
        let bind = self.bind(sql, call, parameters, schema_version);
        let out = self.link.connection.out();
        frontend::bind(out, &bind);
        frontend::execute(out, b"", 0);
    }

    /// Queues one statement with all these rows.
    fn queue_row_batch(&mut self, pipeline: &InsertPipeline, text: &str, rows: &[Arc<Parameters>]) {
        // None at all say that all are text.
        let are_text = rows.iter().all(|row| row.formats.is_empty());
        let formats = |row: &'_ Parameters| (0..row.values.len()).map(|at| row.format_of(at)).collect::<Vec<i16>>();
        let formats = if are_text { Vec::new() } else { rows.iter().flat_map(|row| formats(row)).collect() };
        let types: Vec<u32> = rows.iter().flat_map(|row| &row.types).map(|oid| declared(*oid)).collect();
        let statement = self.prepare(text, &types, pipeline.schema_version);
        let out = self.link.connection.out();
        frontend::bind_rows(out, &statement, &formats, rows.iter().map(|row| row.values.as_slice()));
        frontend::execute(out, b"", 0);
    }

    /// Queues each of these rows by itself.
    fn queue_each(&mut self, pipeline: &InsertPipeline, rows: &[Arc<Parameters>]) {
        let Some(first) = rows.first() else { return };
        let typed = Call { parameters: Some(first.clone()), ..pipeline.call.clone() };
        let statement = self.prepare(&pipeline.sql, &typed.fragment_types(&pipeline.sql), pipeline.schema_version);
        for row in rows {
            let out = self.link.connection.out();
            frontend::bind_rows(out, &statement, &row.formats, std::iter::once(row.values.as_slice()));
            frontend::execute(out, b"", 0);
        }
    }

    /// Sends what is queued and reads how far it came.
    pub(crate) async fn arrive(&mut self, pipeline: &InsertPipeline, load: &Load) -> Arrival {
        let Arrival { tags, error } = self.answers().await;
        match error {
            Some(error) if tags.len() < load.batched.len() && is_about_a_row(&error) => {
                self.arrive_one_by_one(pipeline, load, error).await
            }
            error => Arrival { tags: load.uncouple(tags), error },
        }
    }

    /// After an error in a batched statement.
    async fn arrive_one_by_one(&mut self, pipeline: &InsertPipeline, load: &Load, error: PgError) -> Arrival {
        self.link.connection.query(GO_BACK.as_bytes());
        if self.flush().await.is_err() || self.finish().await.is_err() {
            return Arrival { tags: Vec::new(), error: Some(error) };
        }
        self.queue_each(pipeline, &load.rows);
        self.link.connection.sync();
        self.answers().await
    }

    /// Sends what is queued; command tags up to ReadyForQuery, or up to the first error.
    async fn answers(&mut self) -> Arrival {
        let mut tags = Vec::new();
        if let Err(error) = self.flush().await {
            return Arrival { tags, error: Some(error) };
        }
        loop {
            match self.next().await {
                Ok(Event::Complete(tag)) => tags.push(if tag == ONE_ROW { ONE_ROW.into() } else { tag.into() }),
                Ok(Event::Done) => return Arrival { tags, error: None },
                Ok(_) => {}
                Err(error) => return Arrival { tags, error: Some(error) },
            }
        }
    }
}

/// Would it come again if the rows came one by one? It is about values, keys and checks then, not about the moment.
fn is_about_a_row(error: &PgError) -> bool {
    let code = error.code();
    ["0A", "21", "22", "23", "42", "54"].iter().any(|class| code.as_str().starts_with(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(batched: &[usize]) -> Load {
        Load { rows: Vec::new(), batched: batched.to_vec() }
    }

    fn tags(words: &[&'static str]) -> Vec<Cow<'static, str>> {
        words.iter().map(|word| Cow::Borrowed(*word)).collect()
    }

    #[test]
    fn every_row_has_a_tag() {
        let all = load(&[2, 1]).uncouple(tags(&["INSERT 0 2", "INSERT 0 1", "RELEASE", "INSERT 0 0"]));
        assert_eq!(all, tags(&[ONE_ROW, ONE_ROW, ONE_ROW, "INSERT 0 0"]));
        assert_eq!(load(&[2, 1]).uncouple(tags(&["INSERT 0 2"])), tags(&[ONE_ROW, ONE_ROW]));
        assert_eq!(load(&[2, 1]).uncouple(tags(&[])), tags(&[]));
        assert_eq!(load(&[]).uncouple(tags(&["INSERT 0 1"])), tags(&[ONE_ROW]));
    }
}
