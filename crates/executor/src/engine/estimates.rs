//! What the home node's EXPLAIN says of fragments: how many rows it expects. Kept for a while, for all sessions.
//!
//! An old or missing estimate makes a plan slower, never wrong.

use std::collections::HashMap;

use pgerror::{Result, SqlState};
use planner::Expected;

use crate::backend::call::Call;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::backend::request::frame_bodies;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::session::Session;
use crate::shared::estimates::expected_of;

/// Bytes of questions on their way at a time: the answers, which repeat them, must fit where nobody reads them yet.
pub(crate) const BYTES_AT_ONCE: usize = 32 << 10;

impl Session {
    /// Asks the home node about these texts, about many at once. One that it cannot explain has no estimate.
    pub(crate) async fn estimate(&mut self, texts: &[String], call: &Call, schema_version: u64) -> Result<()> {
        let call = Call { one_off: true, ..call.clone() };
        // A text that cannot be explained would be the end of an open transaction.
        let asked = if self.in_block() { self.beside_home() } else { self.home.into() };
        let mut canceled = Ok(());
        let mut rest = texts;
        while !rest.is_empty() && canceled.is_ok() {
            let (some, later) = rest.split_at(how_many_at_once(rest));
            self.acquire(asked, Mode::Autocommit).await?;
            canceled = self.estimate_some(asked, some, &call, schema_version).await;
            rest = later;
        }
        if asked.is_beside() {
            self.links.let_go(asked);
        }
        canceled
    }

    async fn estimate_some(&mut self, asked: Slot, texts: &[String], call: &Call, version: u64) -> Result<()> {
        let leased = self.links.link(asked)?;
        texts.iter().for_each(|text| leased.start_estimate(text, call, version));
        leased.flush().await?;
        let (mut rows, mut canceled) = (HashMap::new(), Ok(()));
        for text in texts {
            match leased.expectation().await {
                Ok(expected) => rows.extend(expected.map(|expected| (text.clone(), expected))),
                Err(error) if error.code() == SqlState::QUERY_CANCELED => canceled = Err(error),
                Err(_) => {}
            }
        }
        self.context.estimates.add(version, rows);
        canceled
    }
}

/// Texts that may be asked about together: at least one.
fn how_many_at_once(texts: &[String]) -> usize {
    let sums = texts.iter().scan(0, |sum, text| {
        *sum += text.len();
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= BYTES_AT_ONCE).count().max(1)
}

impl LeasedConnection {
    /// Queues the question what a SELECT is expected to give.
    pub(crate) fn start_estimate(&mut self, sql: &str, call: &Call, schema_version: u64) {
        self.start(&format!("EXPLAIN {sql}"), &call.with_formats(Vec::new()), schema_version);
    }

    /// The answer; `None` if it is not understood.
    pub(crate) async fn expectation(&mut self) -> Result<Option<Expected>> {
        let mut first: Option<String> = None;
        loop {
            match self.next().await? {
                Event::Rows(run, _) if first.is_none() => {
                    first = frame_bodies(&run).next().map(|body| String::from_utf8_lossy(body).into_owned());
                }
                Event::Done => return Ok(first.as_deref().and_then(expected_of)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_asked_about_one_by_one() {
        let texts = [10, BYTES_AT_ONCE - 10, 1, BYTES_AT_ONCE + 1].map(|length| "x".repeat(length));
        assert_eq!(how_many_at_once(&texts), 2);
        assert_eq!(how_many_at_once(&texts[2..]), 1);
        assert_eq!(how_many_at_once(&texts[3..]), 1);
    }
}
