//! Scripts of several sessions at once (`interleaved/*.sql`): rows, errors, and who waits for whom, as one PostgreSQL has it.
//!
//! Each runs in every layout. `LOXO_E2E_CASES=queue,locks` runs only the files whose names contain one of the words.

use std::path::Path;

use e2e::interleaved::run;
use e2e::script;
use testkit::{Cluster, Server, ServerOptions};

#[test]
fn sessions_meet_as_on_one_postgresql() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    let words = std::env::var("LOXO_E2E_CASES").unwrap_or_default();
    let mut paths = script::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("interleaved"));
    paths.sort();
    let (mut compared, mut waited, mut wrong) = (0, 0, Vec::new());
    for path in paths {
        let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if !words.is_empty() && !words.split(',').any(|word| file.contains(word)) {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a readable script");
        for variant in script::variants(&script::parse(&source)) {
            match run(&cluster, &reference, &file, &source, &variant) {
                Ok(report) => {
                    compared += report.compared;
                    waited += report.waited;
                    wrong.extend(report.differences.into_iter().map(|text| format!("[{variant}] {text}")));
                }
                Err(error) => wrong.push(format!("[{variant}] {file}.sql: the run broke off: {error:?}")),
            }
        }
    }
    wrong.iter().for_each(|text| eprintln!("{text}"));
    eprintln!("{compared} statements compared, {waited} had to wait, {} differ", wrong.len());
    assert!(compared > 0 && wrong.is_empty());
}
