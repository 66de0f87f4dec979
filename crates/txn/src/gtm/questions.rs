//! Questions that a coordinator puts to all coordinators by way of the gtm, which understands neither them nor the answers.
//!
//! A coordinator that does not answer in time, or has left, is counted as silent: the asker is not to take the others' answers
//! for all.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use super::client::GtmClient;
use super::command::Command;
use super::event::ClientId;
use super::message::Message;

/// A coordinator that does not answer by then is silent.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// The answers of all must be there within this time, and so must the asker's turn.
const ANSWERS_MAX: Duration = Duration::from_secs(5);
/// Questions of a coordinator's sessions at the same time.
pub(super) const QUESTIONS_MAX: usize = 4;

impl GtmClient {
    /// Puts a question to all coordinators, this one among them; gives what [`Sessions::answer`](crate::deadlock::Sessions::answer) says of it on each.
    ///
    /// # Errors
    /// 57P03 if the gtm is not reachable, a coordinator does not answer in time (the others' answers are not all), or too many ask.
    pub async fn ask_all(&self, question: Bytes) -> Result<Vec<Bytes>> {
        self.ask_in_turn(question, &self.shared.questions).await
    }

    /// [`Self::ask_all`] for a client that logs in.
    pub async fn ask_all_at_login(&self, question: Bytes) -> Result<Vec<Bytes>> {
        self.ask_in_turn(question, &self.shared.logins).await
    }

    async fn ask_in_turn(&self, question: Bytes, turns: &Semaphore) -> Result<Vec<Bytes>> {
        let lost = || self.shared.unreachable("Without it the other coordinators cannot be asked.");
        let Ok(_turn) = timeout(ANSWERS_MAX, turns.acquire()).await else {
            let message = "too many sessions ask all coordinators at the same time";
            return Err(PgError::new(SqlState::CANNOT_CONNECT_NOW, message).hint("Repeat the statement."));
        };
        let request = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        let (replies, answer) = oneshot::channel();
        self.commands.send(Command::Ask { request, question, replies }).map_err(|_| lost())?;
        match timeout(ANSWERS_MAX, answer).await {
            Ok(Ok((answers, 0))) => Ok(answers),
            Ok(Ok((_, silent))) => {
                let message = format!("{silent} of the coordinators did not answer");
                Err(PgError::new(SqlState::CANNOT_CONNECT_NOW, message).hint("Repeat the statement."))
            }
            Ok(Err(_)) | Err(_) => Err(lost()),
        }
    }
}

struct Question {
    asker: ClientId,
    /// The asker's number.
    request: u64,
    waiting: HashSet<ClientId>,
    answers: Vec<Bytes>,
    silent: u16,
    deadline: Instant,
}

/// Those that have not been answered.
#[derive(Default)]
pub(super) struct Questions {
    open: BTreeMap<u64, Question>,
    last: u64,
}

impl Questions {
    /// Somebody asks all these; gives the number of his question.
    pub(super) fn ask(&mut self, asker: ClientId, request: u64, all: HashSet<ClientId>) -> u64 {
        self.last += 1;
        let deadline = Instant::now() + ANSWER_MAX;
        let question = Question { asker, request, waiting: all, answers: Vec::new(), silent: 0, deadline };
        self.open.insert(self.last, question);
        self.last
    }

    pub(super) fn reply(&mut self, client: ClientId, id: u64, answer: Bytes) {
        if let Some(question) = self.open.get_mut(&id).filter(|question| question.waiting.contains(&client)) {
            question.waiting.remove(&client);
            question.answers.push(answer);
        }
    }

    pub(super) fn leave(&mut self, client: ClientId) {
        self.open.retain(|_, question| question.asker != client);
        for question in self.open.values_mut() {
            question.silent += u16::from(question.waiting.remove(&client));
        }
    }

    /// Ends those that are answered, or will not be; gives what their askers are to be told.
    pub(super) fn ended(&mut self) -> Vec<(ClientId, Message)> {
        let now = Instant::now();
        let is_over = |question: &Question| question.waiting.is_empty() || question.deadline <= now;
        let ids: Vec<u64> = self.open.iter().filter(|(_, question)| is_over(question)).map(|(id, _)| *id).collect();
        let ended = ids.into_iter().filter_map(|id| self.open.remove(&id));
        let told = |question: Question| {
            let silent = question.silent + question.waiting.len() as u16;
            let Question { asker, request, answers, .. } = question;
            (asker, Message::Replies { request, silent, answers })
        };
        ended.map(told).collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.open.values().map(|question| question.deadline).min()
    }
}
