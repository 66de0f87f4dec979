//! Nanoseconds that the gate costs a commit while no cut is asked for: `cargo bench -p txn --bench gate`.

use std::time::Instant;

use txn::{Datanodes, GtmClient};

const COMMITS: u32 = 400_000;
const ROUNDS: usize = 5;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // There is nobody to connect to: the gate is open, as it is between cuts, and a lease is asked for as always.
    let gtm = GtmClient::connect(Vec::new(), "bench");
    for sessions in [1, 8, 64] {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(round(&gtm, sessions).await);
        }
        rounds.sort_by(f64::total_cmp);
        println!("{sessions:>3} sessions: {:>5.0} ns a commit", rounds[ROUNDS / 2]);
    }
}

/// All sessions commit without doing anything else, which is the worst for a lock they share. Wall-clock time a commit.
async fn round(gtm: &GtmClient, sessions: u32) -> f64 {
    let began = Instant::now();
    let tasks: Vec<_> = (0..sessions)
        .map(|_| {
            let gtm = gtm.clone();
            tokio::spawn(async move {
                for _ in 0..COMMITS / sessions {
                    std::hint::black_box(gtm.has_lease());
                    let pass = gtm.enter(&[], Datanodes::default).await;
                    std::hint::black_box(gtm.has_lease());
                    drop(pass);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task does nothing that panics");
    }
    began.elapsed().as_nanos() as f64 / f64::from(COMMITS)
}
