//! The gtm that coordinators see, one event after the other and without sockets, tasks and datanodes: for the test that lets the model
//! of the protocol judge every step of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

pub use super::event::End;
use super::event::{ClientId, Event};
use super::global_snapshots::Order;
use super::message::Message;
use super::server::Hub;

/// More than an event can bring.
const OUTBOX_MESSAGES_MAX: usize = 64;

/// See the module's page.
pub struct Driver {
    hub: Hub,
    outboxes: BTreeMap<ClientId, mpsc::Receiver<Message>>,
    orders: watch::Receiver<Order>,
    looks: watch::Receiver<u64>,
}

impl Driver {
    /// One that begins to lead.
    pub fn new(lease: Duration) -> Self {
        let (orders, ordered) = watch::channel(Order::default());
        let (looks, looking) = watch::channel(0);
        Self { hub: Hub::new(lease, orders, looks), outboxes: BTreeMap::new(), orders: ordered, looks: looking }
    }

    async fn handle(&mut self, event: Event) {
        self.hub.handle(event);
        self.hub.go_on().await;
    }

    /// Time has passed.
    pub async fn tick(&mut self) {
        self.hub.go_on().await;
    }

    /// A coordinator has said Hello.
    pub async fn join(&mut self, client: u64) {
        let (outbox, inbox) = mpsc::channel(OUTBOX_MESSAGES_MAX);
        self.outboxes.insert(client, inbox);
        self.handle(Event::Joined { client, name: client.to_string(), outbox }).await;
    }

    /// It says this.
    pub async fn say(&mut self, client: u64, message: Message) {
        self.handle(Event::Said { client, message }).await;
    }

    /// Its connection has ended.
    pub async fn leave(&mut self, client: u64, end: End) {
        self.outboxes.remove(&client);
        self.handle(Event::Left { client, end }).await;
    }

    /// All datanodes have this generation.
    pub async fn bumped(&mut self, generation: u64) {
        self.handle(Event::Bumped { generation }).await;
    }

    /// Recovery has been over all of them after the fence of this number.
    pub async fn fenced(&mut self, fences: u64) {
        self.handle(Event::Fenced { fences, unresolved: Vec::new() }).await;
    }

    /// It holds the leader's lock at this moment.
    pub async fn led(&mut self) {
        let look = *self.looks.borrow_and_update();
        self.handle(Event::Leading { look }).await;
    }

    /// How many fences it has asked for.
    pub fn fences_wanted(&self) -> u64 {
        self.orders.borrow().fences
    }

    /// What the coordinators were told since the last call; of each in order.
    pub fn told(&mut self) -> BTreeMap<u64, Vec<Message>> {
        let mut told = BTreeMap::new();
        for (client, outbox) in &mut self.outboxes {
            let messages: Vec<Message> = std::iter::from_fn(|| outbox.try_recv().ok()).collect();
            if !messages.is_empty() {
                told.insert(*client, messages);
            }
        }
        told
    }
}
