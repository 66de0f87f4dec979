//! `make clients`: programs that use a database as their driver's or framework's users do, on one PostgreSQL and on a cluster.
//!
//! `clients LIST [NAME…]`: a file with a line for each program, its name, a tab, and its command with arguments between tabs; and
//! the only ones to run. A program gets a connection URI as its last argument and prints what it sees, errors too, leaving out
//! what differs from run to run. Both runs must print the same, but for what `clients/known/NAME` says: the output of
//! `diff` that is expected, statements that are refused. `LOXO_E2E_BLESS=1` writes these files anew. A program whose name ends with
//! `tls` gets URIs of servers that ask for encryption and a password.

mod secured;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use secured::Secured;
use testkit::wire::Client;
use testkit::{Cluster, Server, ServerOptions, TempDir};

/// A program that takes longer hangs.
const PROGRAM_MAX: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(50);
/// Lines of a difference that are shown.
const SHOWN_MAX: usize = 40;

/// Prepared transactions and schemas that another program has left.
const CLEAN: &str = "DO $$ DECLARE s text; BEGIN \
     FOR s IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'loxo') \
     LOOP EXECUTE format('DROP SCHEMA %I CASCADE', s); END LOOP; EXECUTE 'CREATE SCHEMA public'; END $$";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(list) = arguments.next() else {
        eprintln!("usage: clients LIST [name…]");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&list), &arguments.collect::<Vec<_>>()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("clients: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Gives the number of programs that saw a difference.
fn run(list: &Path, only: &[String]) -> Result<usize> {
    let cluster = Cluster::start(2, 1)?;
    let server = Server::start(&ServerOptions::like(&mut cluster.connect(0)?)?)?;
    let uris = [server.uri(), cluster.coordinator_uris().swap_remove(0)];
    let (mut differ, mut secured) = (0, None);
    for line in std::fs::read_to_string(list)?.lines() {
        let mut words = line.split('\t');
        let (Some(name), command) = (words.next(), words.collect::<Vec<_>>()) else { continue };
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        if command.is_empty() {
            println!("{name:24} SKIPPED: it is not installed");
            continue;
        }
        for client in [server.connect()?, cluster.connect(0)?] {
            clean(client)?;
        }
        if name.ends_with("tls") && secured.is_none() {
            secured = Some(Secured::start()?);
        }
        let uris = match &secured {
            Some(secured) if name.ends_with("tls") => &secured.uris(),
            _ => &uris,
        };
        let begin = Instant::now();
        let score = compare(name, &command, uris)?;
        println!("{name:24} {} ({} s)", score.text, begin.elapsed().as_secs());
        differ += usize::from(score.differs);
    }
    if let Some(found) = cluster.wrong_rows() {
        println!("{found}");
        differ += 1;
    }
    Ok(differ)
}

fn clean(mut client: Client) -> Result<()> {
    for gid in client.strings("SELECT gid FROM pg_prepared_xacts")?.concat() {
        client.run(&format!("ROLLBACK PREPARED '{}'", gid.replace('\'', "''")))?;
    }
    client.run(CLEAN).map(drop)
}

struct Score {
    text: String,
    differs: bool,
}

fn compare(name: &str, command: &[&str], uris: &[String; 2]) -> Result<Score> {
    let dir = TempDir::new("clients")?;
    let outputs = ["server", "cluster"].map(|side| dir.path().join(side));
    let mut children = Vec::new();
    for (uri, output) in uris.iter().zip(&outputs) {
        children.push(start(command, uri, output)?);
    }
    for child in &mut children {
        wait(child)?;
    }
    let lines = std::fs::read(&outputs[0])?.iter().filter(|byte| **byte == b'\n').count();
    let diff = Command::new("diff").arg("-a").args(&outputs).output()?;
    let found = String::from_utf8_lossy(&diff.stdout).into_owned();
    let file = PathBuf::from("clients/known").join(name.replace('/', "-"));
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    if std::env::var_os("LOXO_E2E_BLESS").is_some() && found != known {
        match found.is_empty() {
            true => std::fs::remove_file(&file)?,
            false => std::fs::write(&file, &found)?,
        }
    }
    let changed = found.lines().filter(|line| line.starts_with(['<', '>'])).count();
    Ok(match (found.is_empty(), found == known) {
        _ if lines == 0 => Score { text: "printed nothing".to_owned(), differs: true },
        (true, true) => Score { text: format!("{lines} lines, all the same"), differs: false },
        (false, true) => Score { text: format!("{lines} lines, {changed} differ as known"), differs: false },
        (..) => {
            let shown: String = found.lines().take(SHOWN_MAX).map(|line| format!("\n  {line}")).collect();
            Score { text: format!("{lines} lines, {changed} differ:{shown}\n "), differs: true }
        }
    })
}

fn start(command: &[&str], uri: &str, output: &Path) -> Result<Child> {
    let file = std::fs::File::create(output)?;
    let mut program = Command::new(command[0]);
    program.args(&command[1..]).arg(uri).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    program.spawn().map_err(|error| PgError::internal(format!("cannot run {command:?}: {error}")))
}

fn wait(child: &mut Child) -> Result<()> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > PROGRAM_MAX {
            child.kill()?;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
