//! The id of the statement that a session runs: `{coordinator}-{session}-{n}`, on each line that the session's task writes into the log.
//!
//! The session is the process id that the client was told at its start. `n` counts the session's messages that run or prepare a
//! statement, and the statements of a message after its first.
//!
//! Invariant: no more is told of a statement than this: neither its text nor its parameters.

use std::cell::Cell;
use std::sync::Arc;

struct Id {
    coordinator: Arc<str>,
    session: i32,
    statement: Cell<u64>,
}

tokio::task_local! {
    static CURRENT: Id;
}

/// Does the work of a session.
pub(crate) async fn of_session<T>(coordinator: Arc<str>, session: i32, work: impl Future<Output = T>) -> T {
    CURRENT.scope(Id { coordinator, session, statement: Cell::new(0) }, work).await
}

/// The session comes to its next statement.
pub(crate) fn next() {
    let _ = CURRENT.try_with(|id| id.statement.set(id.statement.get() + 1));
}

/// The id of the statement that this task runs, if it is a session's.
pub fn query_id() -> Option<String> {
    CURRENT.try_with(|id| format!("{}-{}-{}", id.coordinator, id.session, id.statement.get())).ok()
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn statements_are_counted_by_session() {
        let work = async {
            super::next();
            super::next();
            super::query_id()
        };
        assert_eq!(super::of_session("coord1".into(), 17, work).await.as_deref(), Some("coord1-17-2"));
        assert_eq!(super::query_id(), None);
    }
}
