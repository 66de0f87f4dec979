//! Control points that are set off in another process by its environment, as the fault suite does it.

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// Run by the tests below in a process of its own; by itself it just comes through.
#[tokio::test]
async fn passes_two_points() {
    for _ in 0..2 {
        txn::control::reach("prepared").await;
    }
    eprintln!("came through");
}

fn start(orders: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["passes_two_points", "--exact", "--nocapture"]).env("LOXO_CONTROL_POINTS", orders);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(orders: &str) -> (bool, String) {
    let output = start(orders).wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn abort_ends_the_process_at_the_visit_asked_for() {
    for orders in ["prepared=abort", "decided=pause,prepared=abort@2"] {
        let (succeeded, stderr) = run(orders);
        assert!(!succeeded && stderr.contains("control point prepared reached"), "{stderr}");
        assert!(!stderr.contains("came through"));
    }
    let (succeeded, stderr) = run("prepared=abort@3,decided=abort");
    assert!(succeeded && stderr.contains("came through"), "{stderr}");
}

#[test]
fn pause_says_so_and_waits() {
    let mut process = start("prepared=pause@2");
    let mut stderr = process.stderr.take().unwrap();
    let announcement = b"control point prepared reached\n";
    let mut said = Vec::new();
    while !said.ends_with(announcement) {
        let mut byte = [0];
        stderr.read_exact(&mut byte).expect("it ended");
        said.push(byte[0]);
    }
    assert!(process.try_wait().unwrap().is_none());
    process.kill().unwrap();
    process.wait().unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn an_order_that_is_not_understood_is_not_ignored() {
    for orders in ["prepared", "prepared=explode", "prepared=abort@x"] {
        let (succeeded, stderr) = run(orders);
        assert!(!succeeded && stderr.contains("control point"), "{stderr}");
    }
}
