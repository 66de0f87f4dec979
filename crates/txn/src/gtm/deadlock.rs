//! The gtm's watch for deadlocks over several datanodes; the idea is on the page of [`crate::deadlock`].
//!
//! It asks coordinators through the hub. A coordinator that does not answer in time leaves its sessions out of the look:
//! a circle through them is found later, never a wrong one.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info};

use super::event::{ClientId, Event};
use crate::datanodes::Datanodes;
use crate::deadlock::graph::Graph;
use crate::deadlock::look::{Eye, Wait};
use crate::deadlock::word::Word;
use crate::deadlock::{Backend, Owner};

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// After a look that has found a circle, before the one that confirms it.
const CONFIRM_PAUSE: Duration = Duration::from_millis(100);
/// Coordinators must say within this time whose the backends are.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// What the watch wants of the hub.
pub(super) enum Request {
    /// Tells every coordinator; `told` are those. Their [`Word::Owners`] are to go to `answers`.
    Ask { word: Word, told: oneshot::Sender<Vec<ClientId>>, answers: Answers },
    /// Tells one.
    Tell { client: ClientId, word: Word },
}

/// Where the hub puts what coordinators answer: from which client, to which look, and what.
pub(super) type Answers = mpsc::UnboundedSender<(ClientId, u64, Vec<Owner>)>;

/// Watches for ever.
pub(super) async fn watch(datanodes: &Datanodes, hub: mpsc::Sender<Event>) {
    let eyes = datanodes.iter().map(|(id, options)| Eye::new(id, options.clone())).collect();
    let mut watch = Watch { eyes, hub, looks: 0 };
    let mut earlier = Graph::default();
    loop {
        let graph = watch.look().await;
        let deadlocks = graph.deadlocks(&earlier);
        // A circle that is seen for the first time is worth a second look soon.
        let pause = if graph.deadlocks(&graph).is_empty() { LOOK_INTERVAL } else { CONFIRM_PAUSE };
        earlier = graph.without_victims(&deadlocks);
        for found in deadlocks {
            let (client, chosen) = (found.client, found.chosen);
            info!(client, session = chosen.session, detail = chosen.detail, "breaking a deadlock");
            watch.tell(Request::Tell { client, word: Word::Break(chosen) }).await;
        }
        sleep(pause).await;
    }
}

struct Watch {
    eyes: Vec<Eye>,
    hub: mpsc::Sender<Event>,
    looks: u64,
}

impl Watch {
    async fn look(&mut self) -> Graph {
        let mut waits = Vec::new();
        for result in join_all(self.eyes.iter_mut().map(Eye::waits)).await {
            match result {
                Ok(found) => waits.extend(found),
                Err(error) => debug!(%error, "a datanode is left out of the look for deadlocks"),
            }
        }
        if waits.is_empty() {
            return Graph::default();
        }
        let owners = self.owners(&waits).await;
        Graph::new(&waits, &owners)
    }

    /// The owners of these backends: the sessions that they work for.
    async fn owners(&mut self, waits: &[Wait]) -> Vec<(ClientId, Owner)> {
        self.looks += 1;
        let blockers =
            waits.iter().flat_map(|wait| wait.blockers.iter().map(|pid| Backend { pid: *pid, ..wait.backend }));
        let backends: BTreeSet<Backend> = waits.iter().map(|wait| wait.backend).chain(blockers).collect();
        let word = Word::Who { look: self.looks, backends: backends.into_iter().collect() };
        let (told, asked) = oneshot::channel();
        let (answers, mut inbox) = mpsc::unbounded_channel();
        self.tell(Request::Ask { word, told, answers }).await;
        let mut missing: HashSet<ClientId> = asked.await.unwrap_or_default().into_iter().collect();
        let (mut owners, deadline) = (Vec::new(), Instant::now() + ANSWER_MAX);
        while !missing.is_empty() {
            let Ok(Some((client, look, answer))) = timeout_at(deadline, inbox.recv()).await else { break };
            if look == self.looks && missing.remove(&client) {
                owners.extend(answer.into_iter().map(|owner| (client, owner)));
            }
        }
        owners
    }

    /// The hub lives as long as this task: both end with the gtm.
    async fn tell(&self, request: Request) {
        let _ = self.hub.send(Event::Deadlock(request)).await;
    }
}
