//! `loxo`: the one command of Loxodonta. Each subcommand is a file of `commands/`; this page only parses, dispatches
//! and prints errors.
//!
//! Invariants: results go to stdout, progress and errors to stderr; exit status 0 means done, 1 a failure that was
//! explained, 2 a command line that was not understood.

// A statement is a future in a future, from the socket to the datanode: deeper than the compiler expects.
#![recursion_limit = "256"]

use clap::{Parser, Subcommand};

mod commands;

/// Row buffers are larger than the system allocator keeps mapped: with it every one of them costs page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Many ordinary PostgreSQL servers as one PostgreSQL.
#[derive(Parser)]
#[command(
    version,
    about,
    arg_required_else_help = true,
    after_help = "Examples:\n  loxo up --datanodes 4 --coordinators 2   start a cluster on this machine\n  loxo status                              what runs\n  loxo down                                stop it; the data stays\n  loxo node add && loxo rebalance          one more datanode, and its share of the rows\n  loxo load t 'data/*.csv.gz'                load files into a table\n  loxo demo                                load TPC-H lineitem and look at it"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(commands::up::Arguments),
    Down(commands::down::Arguments),
    Status(commands::status::Arguments),
    Node(commands::node::Arguments),
    Rebalance(commands::rebalance::Arguments),
    Load(commands::load::Arguments),
    Unload(commands::unload::Arguments),
    Demo(commands::demo::Arguments),
    Bench(commands::bench::Arguments),
    Deploy(commands::deploy::Arguments),
    Init(commands::init::Arguments),
    Check(commands::check::Arguments),
    Coordinator(commands::coordinator::Arguments),
    Gtm(commands::gtm::Arguments),
    #[command(hide = true)]
    Host(commands::deploy::host::Arguments),
}

/// Stack of a worker thread: a statement's future polls many others inside each other, in debug builds with large frames, and the
/// tree of a statement is walked to its full depth (`planner::parse`). What is not used costs address space only.
const STACK_BYTES: usize = 256 << 20;

fn main() -> std::process::ExitCode {
    let command = Arguments::parse().command;
    // Before any thread exists: what follows is inherited by the whole process.
    match &command {
        Command::Coordinator(arguments) if arguments.detached => cluster::detach("loxo"),
        Command::Gtm(arguments) if arguments.detached => cluster::detach("loxo"),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(coordinator::note_stack_base)
        .build();
    let outcome = runtime.map_err(pgerror::PgError::from).and_then(|runtime| {
        let outcome = runtime.block_on(async {
            match command {
                Command::Up(arguments) => commands::up::run(arguments).await,
                Command::Down(arguments) => commands::down::run(arguments).await,
                Command::Status(arguments) => commands::status::run(arguments).await,
                Command::Node(arguments) => commands::node::run(arguments).await,
                Command::Rebalance(arguments) => commands::rebalance::run(arguments).await,
                Command::Load(arguments) => commands::load::run(arguments).await,
                Command::Unload(arguments) => commands::unload::run(arguments).await,
                Command::Demo(arguments) => commands::demo::run(arguments).await,
                Command::Bench(arguments) => commands::bench::run(arguments).await,
                Command::Deploy(arguments) => commands::deploy::run(arguments).await,
                Command::Host(arguments) => commands::deploy::host::run(arguments).await,
                Command::Init(arguments) => commands::init::run(arguments).await,
                Command::Check(arguments) => commands::check::run(arguments).await,
                Command::Coordinator(arguments) => commands::coordinator::run(arguments).await,
                Command::Gtm(arguments) => commands::gtm::run(arguments).await,
            }
        });
        // What still runs then has had its time: a thread that reads a file, a session that was cut off.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loxo: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
