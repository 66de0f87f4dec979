//! Control points: named places in the commit path where a test can stop or kill.
//!
//! `control_point!("name")` compiles to nothing unless the feature `control-points` is on. With it, two things can happen
//! at a point, both decided by the test:
//! * in the same process, the future runs under `with_script`: a closure is awaited at each point (the script is
//!   local to the task, so tests run in parallel);
//! * in another process, the environment variable `LOXO_CONTROL_POINTS` names points and what to do there, e.g.
//!   `prepared=abort@2,decided=pause`: `abort` ends the process at once, `pause` says so on stderr and waits for ever, `hold`
//!   until the file that `LOXO_CONTROL_GO` names is there; `@n` means the n-th visit (1 if absent). `slow` waits 5 ms at each
//!   visit from then on.
//!
//! The points of a commit over several writers, in order: `before-prepare`, `announced` and `prepared` (once per participant, as its
//! answer comes in), `prepared-all`, `gate-entered` (it has its pass; also with one writer), `decided` (the commit point has
//! committed), `before-commit-prepared` and `after-commit-prepared` (once per participant), `done`.
//!
//! A user's PREPARE TRANSACTION: `user-registered` (the row is inserted), `user-prepared` (once per participant),
//! `user-prepared-all`, `user-kept` (the row is committed). COMMIT and ROLLBACK PREPARED: `finish-deciding` (the row is changed,
//! not committed), `finish-decided`, `finish-mark` (once per node, before its mark), `finish-marked`, `finish-one` and
//! `finished-one` (once per node), `finish-done` (the row is still there).
//!
//! A global snapshot: `gate-drained` (a coordinator's gate is shut and empty, the gtm does not know yet), `closed-sent`, and in the
//! gtm `snapshot-granted` (about to be sent) and `before-open`. A fence, in the gtm: `fence-drawn` (all nodes are locked, the
//! primary datanode has the new generation), `fence-bumped` (all have it, nobody knows yet), `fence-recovered` (recovery has seen
//! all nodes, the hub does not know yet). Of a gtm that stands by: `members-known` (it has learned which datanodes there are, and
//! looks at none yet).
//!
//! DROP NODE … LOST: `lost-noted` (the gtm may go on without it, nothing else has changed), `lost-changed` (all has changed,
//! nothing is committed). ALTER DATABASE … RENAME TO: `rename-left` (nobody uses the database any more), `rename-noted` (the
//! journal has both names), `renamed-on-one` (once per node), `rename-done` (the journal has the new one). Of commands:
//! `node-joins-another-database` (`loxo node add`, once per database beside the first, before it) and
//! `node-leaves-the-next-database` and `lost-leaves-the-next-database` (`loxo node remove`, with --lost, once per database, after DROP
//! NODE there), `primary-swapped-on-one` (`loxo node primary`, once per database and datanode, after its COMMIT PREPARED).

/// Marks a control point; see the module's page. To be used in `async` code.
#[macro_export]
macro_rules! control_point {
    ($name:literal) => {
        #[cfg(feature = "control-points")]
        $crate::control::reach($name).await;
    };
}

#[cfg(feature = "control-points")]
pub use enabled::*;

#[cfg(feature = "control-points")]
mod enabled {
    use std::future::Future;
    use std::path::PathBuf;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, LazyLock};
    use std::time::Duration;

    /// What a test does at the control points of one task: gives the future to await there.
    pub type Script = Arc<dyn Fn(&'static str) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

    tokio::task_local! {
        static SCRIPT: Script;
    }

    /// Runs `future`; at each control point the future that `script` gives for its name is awaited first.
    pub async fn with_script<F: Future>(script: Script, future: F) -> F::Output {
        SCRIPT.scope(script, future).await
    }

    /// Behind [`control_point!`](crate::control_point).
    pub async fn reach(name: &'static str) {
        if let Ok(action) = SCRIPT.try_with(|script| script(name)) {
            action.await;
        }
        for order in ORDERS.iter().filter(|order| order.name == name) {
            let visit = order.visits.fetch_add(1, Ordering::Relaxed) + 1;
            if visit == order.at_visit {
                order.obey().await;
            } else if visit > order.at_visit && matches!(order.action, Action::Slow) {
                tokio::time::sleep(SLOW).await;
            }
        }
    }

    /// One entry of `LOXO_CONTROL_POINTS`.
    struct Order {
        name: String,
        action: Action,
        at_visit: usize,
        visits: AtomicUsize,
    }

    enum Action {
        Abort,
        Pause,
        Hold(PathBuf),
        Slow,
    }

    /// Many times what a COMMIT PREPARED takes.
    const SLOW: Duration = Duration::from_millis(5);

    /// Between two looks for the file that ends a `hold`.
    const HOLD_POLL: Duration = Duration::from_millis(5);

    static ORDERS: LazyLock<Vec<Order>> = LazyLock::new(|| {
        let text = std::env::var("LOXO_CONTROL_POINTS").unwrap_or_default();
        text.split(',').filter(|entry| !entry.is_empty()).map(Order::parse).collect()
    });

    impl Order {
        /// Panics on an entry it does not understand: a fault test that silently does nothing would prove nothing.
        fn parse(entry: &str) -> Self {
            let (name, action) =
                entry.split_once('=').unwrap_or_else(|| panic!("control point \"{entry}\": no action"));
            let (action, visit) = action.split_once('@').unwrap_or((action, "1"));
            let action = match action {
                "pause" => Action::Pause,
                "abort" => Action::Abort,
                "slow" => Action::Slow,
                "hold" => Action::Hold(std::env::var_os("LOXO_CONTROL_GO").expect("LOXO_CONTROL_GO is set").into()),
                other => panic!("control point \"{entry}\": unknown action \"{other}\""),
            };
            let at_visit = visit.parse().unwrap_or_else(|_| panic!("control point \"{entry}\": bad visit number"));
            Self { name: name.to_owned(), action, at_visit, visits: AtomicUsize::new(0) }
        }

        async fn obey(&self) {
            eprintln!("control point {} reached", self.name);
            match &self.action {
                Action::Abort => std::process::abort(),
                Action::Pause => std::future::pending().await,
                Action::Slow => tokio::time::sleep(SLOW).await,
                Action::Hold(go) => {
                    while !go.exists() {
                        tokio::time::sleep(HOLD_POLL).await;
                    }
                }
            }
        }
    }
}
