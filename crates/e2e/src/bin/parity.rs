//! `make parity`: prints which share of PostgreSQL's regression statements gives the same on a cluster.
//!
//! `parity SOURCES [FILE…]`: PostgreSQL's `src/test/regress`, and the only files to count (those before them in the schedule
//! are not run, but for `test_setup`, which makes their tables). `LOXO_PARITY_OUT=dir` writes all differences there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use e2e::parity::Parity;
use e2e::parity::script::{Printed, Step};
use e2e::parity::tally::{Tally, compare};
use pgerror::Result;
use testkit::{Cluster, Server, ServerOptions};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(sources) = arguments.next() else {
        eprintln!("usage: parity PostgreSQL's-src/test/regress [file…]");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&sources), &arguments.collect::<Vec<_>>()) {
        Ok(total) => {
            print!("{}", total.table());
            // A coordinator that breaks off or hangs is a defect, whatever the share.
            if total.lost() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("parity: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run(sources: &Path, only: &[String]) -> Result<Tally> {
    let cluster = Cluster::start(2, 1)?;
    let server = Server::start(&ServerOptions::like(&mut cluster.connect(0)?)?)?;
    let scratch = cluster.scratch().join("parity");
    let parity = Parity::new(sources, &scratch, server.uri(), cluster.coordinator_uris().swap_remove(0))?;
    let out = std::env::var_os("LOXO_PARITY_OUT").map(PathBuf::from);
    let mut total = Tally::default();
    for file in parity.files()? {
        let counts = only.is_empty() || only.contains(&file);
        if !counts && file != "test_setup" {
            continue;
        }
        let mut differences = String::new();
        let tally = parity.run(&file, |step, server, cluster| note(&mut differences, step, server, cluster))?;
        if counts {
            println!("{file:30} {}", tally.share());
            total.merge(tally);
        }
        if let Some(dir) = &out {
            std::fs::create_dir_all(dir)?;
            std::fs::write(dir.join(file).with_extension("txt"), differences)?;
        }
    }
    Ok(total)
}

/// A difference as text.
fn note(text: &mut String, step: &Step, server: &Printed, cluster: Option<&Printed>) {
    let _ = writeln!(text, "==== line {}: {:?}", step.line, compare(step, server, cluster));
    let _ = writeln!(text, "{}\n---- one server {}\n{}", step.text, server.state, server.text);
    if let Some(cluster) = cluster {
        let _ = writeln!(text, "---- the cluster {}\n{}", cluster.state, cluster.text);
    }
}
