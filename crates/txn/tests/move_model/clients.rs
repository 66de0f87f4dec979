//! Statements: planned, run, asked whether their plan holds, committed.

use crate::Moves;
use crate::state::*;

impl Moves {
    fn work(&self, client: usize) -> Work {
        self.scenario.clients[client].1
    }

    fn coordinator<'s>(&self, state: &'s State, client: usize) -> &'s Coordinator {
        &state.coordinators[self.scenario.clients[client].0]
    }

    /// Has it no more to do?
    pub fn is_over(&self, state: &State, client: usize) -> bool {
        state.clients[client].at == At::Finished
    }

    /// Where the present statement goes next.
    fn next_node(&self, state: &State, c: usize) -> Option<usize> {
        let Client { visited, plan, .. } = state.clients[c];
        match self.work(c) {
            Work::UpdateAll { first } => [first, 1 - first].into_iter().find(|node| !has(visited, *node)),
            _ => Some(place(plan.1)).filter(|node| !has(visited, *node)),
        }
    }

    /// Does the plan hold? None while nobody can tell.
    fn holds(&self, state: &State, c: usize) -> Option<bool> {
        let (heard, map) = state.clients[c].plan;
        let coordinator = self.coordinator(state, c);
        let is_alike = |now: u8| match self.rules {
            Rules::ThereAndBackIsMoved => place(now) == place(map),
            _ => now == map,
        };
        match coordinator.heard == heard || !self.asks(c) || state.clients[c].kept.is_some() {
            true => Some(true),
            false => coordinator.map.map(is_alike),
        }
    }

    fn asks(&self, c: usize) -> bool {
        let work = self.work(c);
        match self.rules {
            Rules::ReadsAskAfterSnapshot => work.writes(),
            Rules::WritesAskBeforeCommit => !work.writes() || work.is_block(),
            Rules::BlocksAskAtStatementEnd => !work.is_block(),
            _ => true,
        }
    }

    /// Nobody is in the visible phase of a commit.
    fn is_barrier(&self, state: &State) -> bool {
        let is_visible_in_part = matches!(state.step.phase, Phase::Sent | Phase::Decided);
        !is_visible_in_part || self.rules == Rules::SnapshotInsideBarrier
    }

    /// Does a connection pass a read barrier that was not used since the catalog was read?
    fn has_read_barrier(&self, state: &State, c: usize) -> bool {
        state.clients[c].plan.0 != 0 && self.rules != Rules::NoBarrierAfterLoad
    }

    fn is_one_read(&self, c: usize) -> bool {
        self.work(c) == Work::Read
    }

    pub fn is_client_enabled(&self, state: &State, action: Action) -> bool {
        let at = |c: usize, at: At| state.clients[c].at == at;
        let is_writer = |c: usize| self.work(c).writes();
        match action {
            Action::Prepare(c) => {
                let may = self.work(c) == Work::RepeatableRead { prepares: true };
                may && at(c, At::Start) && state.clients[c].statement == 0 && self.coordinator(state, c).map.is_some()
            }
            Action::Plan(c) => {
                let is_prepared = self.work(c) != Work::RepeatableRead { prepares: true };
                let may = is_prepared || state.clients[c].statement > 0;
                at(c, At::Start) && may && self.coordinator(state, c).map.is_some()
            }
            Action::PassReadBarrier(c) => {
                let is_stale = |node| self.has_read_barrier(state, c) && self.is_prepared(state, node);
                at(c, At::Planned) && !self.next_node(state, c).is_some_and(is_stale)
            }
            Action::Snapshot(c) => {
                at(c, At::PastReadBarrier) && !is_writer(c) && (self.is_one_read(c) || self.is_barrier(state))
            }
            Action::LockTable { client: c, node } => {
                let Node { is_kept, writers, .. } = state.nodes[node];
                let is_next = at(c, At::PastReadBarrier) && is_writer(c) && self.next_node(state, c) == Some(node);
                is_next && !is_kept && !has(writers, c)
            }
            Action::Run { client: c, node } => {
                let Node { writers, changed_by, .. } = state.nodes[node];
                let is_next = at(c, At::PastReadBarrier) && is_writer(c) && self.next_node(state, c) == Some(node);
                let is_free = self.inserts_now(state, c) || changed_by.is_none_or(|other| other == c);
                is_next && has(writers, c) && is_free
            }
            Action::Ask(c) => at(c, At::Answered) && self.holds(state, c).is_some(),
            Action::Commit(c) => at(c, At::Held),
            Action::Committed(c) => at(c, At::Committing),
            _ => false,
        }
    }

    fn inserts_now(&self, state: &State, c: usize) -> bool {
        self.work(c).inserts() && state.clients[c].statement == 0
    }

    pub fn serve(&self, state: &mut State, action: Action) {
        match action {
            Action::Prepare(c) => {
                if self.rules == Rules::MapNotOlderThanSnapshot {
                    state.clients[c].kept = self.coordinator(state, c).map;
                }
                state.clients[c].statement = 1;
            }
            Action::Plan(c) => self.plan(state, c),
            Action::PassReadBarrier(c) => state.clients[c].at = At::PastReadBarrier,
            Action::Snapshot(c) => {
                // A snapshot that is kept was taken by an earlier statement.
                if !self.is_kept(state, c) {
                    state.clients[c].shown = state.nodes.map(|node| node.rows);
                }
                state.clients[c].at = At::Answered;
            }
            Action::LockTable { client: c, node } => state.nodes[node].writers |= one(c),
            Action::Run { client: c, node } => self.run(state, c, node),
            Action::Ask(c) => match self.holds(state, c) {
                Some(true) => self.go_on(state, c),
                _ => self.begin_anew(state, c),
            },
            Action::Commit(c) => state.clients[c].at = At::Committing,
            Action::Committed(c) => {
                self.write(state, c);
                self.let_go(state, c);
                state.acknowledged |= one(c);
                state.clients[c] = Client { at: At::Finished, ..Client::default() };
            }
            _ => {}
        }
    }

    /// Is this a later read of a block that keeps its snapshot?
    fn is_kept(&self, state: &State, c: usize) -> bool {
        state.clients[c].statement == 2
    }

    fn plan(&self, state: &mut State, c: usize) {
        let Coordinator { heard, map } = *self.coordinator(state, c);
        let kept = state.clients[c].kept.filter(|_| self.rules != Rules::MapOfSnapshot);
        let (acknowledged, is_kept) = (state.acknowledged, self.is_kept(state, c));
        let client = &mut state.clients[c];
        client.plan = (heard, kept.or(map).unwrap_or_default());
        client.at = At::Planned;
        client.visited = 0;
        if !is_kept {
            client.past = acknowledged;
        }
    }

    fn run(&self, state: &mut State, c: usize, node: usize) {
        match self.inserts_now(state, c) {
            true => state.clients[c].inserted_on = Some(node),
            false if state.nodes[node].rows.row.is_some() => state.nodes[node].changed_by = Some(c),
            false => {}
        }
        state.clients[c].visited |= one(node);
        let asks_early = self.rules == Rules::AskAfterLastNode && state.clients[c].visited == one(node);
        if asks_early && matches!(self.work(c), Work::UpdateAll { .. }) {
            // What is heard from now on is nobody's business.
            match self.coordinator(state, c).heard == state.clients[c].plan.0 {
                true => state.clients[c].kept = Some(state.clients[c].plan.1),
                false => return self.begin_anew(state, c),
            }
        }
        state.clients[c].at = if self.next_node(state, c).is_none() { At::Answered } else { At::Planned };
    }

    /// The statement is over, with its plan found to hold.
    fn go_on(&self, state: &mut State, c: usize) {
        let work = self.work(c);
        if !work.writes() {
            state.is_misread |= self.misreads(state, c);
        }
        let client = &mut state.clients[c];
        let next = match (work, client.statement) {
            (Work::Block, 0) => At::Start,
            (Work::RepeatableRead { .. }, 0 | 1) => {
                client.kept.get_or_insert(client.plan.1);
                client.statement = 1;
                At::Start
            }
            _ if work.writes() => At::Held,
            _ => At::Finished,
        };
        client.at = next;
        client.statement += 1;
        if next == At::Finished {
            *client = Client { at: next, ..Client::default() };
        }
    }

    fn misreads(&self, state: &State, c: usize) -> bool {
        let Client { plan, shown, past, .. } = state.clients[c];
        let Rows { row, inserted } = shown[place(plan.1)];
        let is_missing = |other: usize| {
            let work = self.work(other);
            let is_changed = row.is_some_and(|changes| has(changes, other));
            work.updates() && !is_changed || work.inserts() && !has(inserted, other)
        };
        let is_twice = shown[0].row.is_some() == shown[1].row.is_some() || shown[0].inserted & shown[1].inserted != 0;
        row.is_none()
            || (0..self.scenario.clients.len()).any(|other| has(past, other) && is_missing(other))
            || !self.is_one_read(c) && is_twice
    }

    /// A new plan, or 40001 and the whole block again.
    fn begin_anew(&self, state: &mut State, c: usize) {
        self.let_go(state, c);
        state.clients[c] = Client::default();
    }

    fn let_go(&self, state: &mut State, c: usize) {
        for node in &mut state.nodes {
            node.writers &= !one(c);
            node.changed_by = node.changed_by.filter(|by| *by != c);
        }
    }

    fn write(&self, state: &mut State, c: usize) {
        if let Some(node) = state.clients[c].inserted_on {
            state.nodes[node].rows.inserted |= one(c);
        }
        for node in state.nodes.iter_mut().filter(|node| node.changed_by == Some(c)) {
            node.rows.row = node.rows.row.map(|changes| changes | one(c));
        }
    }
}
