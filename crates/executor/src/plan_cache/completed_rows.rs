//! Long INSERTs of many rows that lack the time or numbers of sequences: these are written into the text first, as
//! [`planner::Completion`] says, and the text is then planned like one that has them.

use pgerror::Result;
use planner::{ManyRows, Parameter, SessionFacts};

use crate::backend::call::Call;
use crate::session::Session;
use crate::session::describe::parameter_facts;
use crate::shared::long_texts::lengthy;

impl Session {
    /// The text with what its rows lack; `None` if it is to be planned as it stands. Numbers are drawn for a text only whose rows can then
    /// be planned by their kinds; as in PostgreSQL they are used up, whatever becomes of it.
    pub(super) async fn completed(&mut self, sql: &str, call: &Call) -> Result<Option<String>> {
        let loaded = self.catalog().await?;
        let path = self.search_path(&loaded.catalog).await?;
        let mut rows = ManyRows::default();
        if !self.is_ordinary() || !lengthy(sql.len(), || rows.scan(sql)) {
            return Ok(None);
        }
        let parameters: Vec<Parameter<'_>> = parameter_facts(call, None);
        let clock = self.clock().unwrap_or(self.home);
        let completion = |session: &Self, moment: &planner::Moment| {
            let facts = SessionFacts { search_path: &path, parameters: &parameters, ..session.bare_facts() };
            rows.completion(sql, &loaded.catalog, &facts, moment)
        };
        // Most texts lack nothing, or more than that: nobody is asked for the time then.
        if completion(self, &planner::some_moment()).is_none() {
            return Ok(None);
        }
        let moment = self.moment(clock).await?;
        let Some(completion) = completion(self, &moment) else { return Ok(None) };
        if !completion.draws_numbers() {
            return Ok(lengthy(sql.len(), || rows.completed(sql, &completion, |_| None)));
        }
        let Some(sample) = lengthy(sql.len(), || rows.completed_sample(sql, &completion)) else { return Ok(None) };
        if self.plan_rows_at_once(&sample, call).await.is_none() {
            return Ok(None);
        }
        let draws = lengthy(sql.len(), || rows.draws(&completion));
        let numbers = self.draw(&draws).await?;
        let number = |at: usize| str::from_utf8(numbers.get(at)?.as_deref()?).ok();
        Ok(lengthy(sql.len(), || rows.completed(sql, &completion, number)))
    }
}
