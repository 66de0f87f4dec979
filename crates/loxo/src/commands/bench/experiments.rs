//! From what was typed to what is measured.

use bench::lineitem::Columns;
use bench::oltp::tpcb::Kind;
use bench::tpcds::Queries;
use bench::{
    Bulk, BulkOptions, Concurrency, ConcurrencyOptions, Grow, GrowOptions, Insert, InsertOptions, Load, LoadOptions,
    Nodes, NodesOptions, Power, PowerOptions, Question, Small, SmallOptions, Snapshot, SnapshotOptions, Sustained,
    SustainedOptions, Target, Ticks, TicksOptions, Tpcb, TpcbOptions, Tpcds, TpcdsOptions,
};
use pgerror::{PgError, Result, SqlState};

use super::arguments::{
    BulkArguments, BulkLoad, ConcurrencyArguments, GrowArguments, InsertArguments, LoadArguments, NodesArguments,
    PowerArguments, ScalingArguments, SmallArguments, SnapshotArguments, SustainedArguments, TicksArguments,
    TpcbArguments, TpcdsArguments,
};
use super::clusters::{coordinators, size};
use super::membership::Here;
use super::oltp::through_pgbouncer;

pub(super) fn chosen<T: Clone>(list: &[T], default: Vec<T>) -> Vec<T> {
    if list.is_empty() { default } else { list.to_vec() }
}

pub(super) fn load(arguments: &LoadArguments) -> Result<Load> {
    let defaults = if arguments.common.quick { LoadOptions::quick() } else { LoadOptions::full() };
    Ok(Load(LoadOptions {
        scale_factor: arguments.sf.unwrap_or(defaults.scale_factor),
        columns: arguments.columns.unwrap_or(defaults.columns),
        format: arguments.format,
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        streams: arguments.streams,
        stdin: arguments.stdin,
        logged: !arguments.unlogged_only,
        unlogged: !arguments.logged_only,
        all_ways: arguments.all_ways.then(std::env::current_exe).transpose()?,
        ..defaults
    }))
}

pub(super) fn tpcb(arguments: &TpcbArguments) -> Result<Tpcb> {
    let defaults = if arguments.common.quick { TpcbOptions::quick() } else { TpcbOptions::full() };
    let kinds = match (arguments.select_only, arguments.tpcb_only) {
        (true, _) => vec![Kind::SelectOnly],
        (_, true) => vec![Kind::TpcB],
        _ => defaults.kinds,
    };
    Ok(Tpcb(TpcbOptions {
        scale: arguments.scale.unwrap_or(defaults.scale),
        clients: chosen(&arguments.clients, defaults.clients),
        seconds: arguments.seconds.unwrap_or(defaults.seconds),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        modes: chosen(&arguments.modes, defaults.modes),
        kinds,
        pgbouncer: through_pgbouncer(&arguments.pooler)?,
    }))
}

pub(super) fn snapshot(arguments: &SnapshotArguments) -> Snapshot {
    let defaults = if arguments.common.quick { SnapshotOptions::quick() } else { SnapshotOptions::full() };
    Snapshot(SnapshotOptions {
        writers: arguments.writers,
        seconds: arguments.seconds.unwrap_or(defaults.seconds),
        rounds: usize::from(arguments.rounds),
    })
}

pub(super) fn insert(arguments: &InsertArguments) -> Result<Insert> {
    let defaults = if arguments.common.quick { InsertOptions::quick() } else { InsertOptions::full() };
    let nodes = match &arguments.dir {
        Some(dir) => vec![size(dir)?],
        None => arguments.nodes.clone(),
    };
    Ok(Insert(InsertOptions {
        clients: arguments.clients,
        seconds: arguments.seconds.unwrap_or(defaults.seconds),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        shapes: chosen(&arguments.shapes, defaults.shapes),
        nodes,
    }))
}

pub(super) fn power(arguments: &PowerArguments) -> Result<Power> {
    let layout = arguments.layout.clone();
    let defaults = if arguments.common.quick { PowerOptions::quick(layout) } else { PowerOptions::new(layout) };
    let queries = arguments.queries.iter().map(|number| usize::from(*number)).collect::<Vec<_>>();
    let options = PowerOptions {
        scale_factor: arguments.sf.unwrap_or(defaults.scale_factor),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        queries: chosen(&queries, defaults.queries.clone()),
        streams: usize::from(arguments.streams),
        timeout_seconds: arguments.timeout,
        keep_tables: arguments.keep,
        ..defaults
    };
    let nodes = match &arguments.dir {
        Some(dir) => vec![size(dir)?],
        None => arguments.nodes.clone(),
    };
    Ok(Power { options, nodes })
}

pub(super) fn tpcds(arguments: &TpcdsArguments) -> Result<Tpcds> {
    let defaults = if arguments.common.quick { TpcdsOptions::quick() } else { TpcdsOptions::full() };
    let queries = match &arguments.queries {
        Some(dir) => Queries::of_dir(dir)?,
        None => defaults.queries,
    };
    let datanodes = match &arguments.dir {
        Some(dir) => size(dir)?,
        None => arguments.nodes,
    };
    Ok(Tpcds(TpcdsOptions {
        scale_factor: arguments.sf.unwrap_or(defaults.scale_factor),
        layout: arguments.layout,
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        queries: queries.only(&arguments.only)?,
        timeout_seconds: arguments.timeout.unwrap_or(defaults.timeout_seconds),
        datanodes,
        ..defaults
    }))
}

pub(super) fn small(arguments: &SmallArguments) -> Result<Small> {
    let defaults = if arguments.common.quick { SmallOptions::quick() } else { SmallOptions::full() };
    let datanodes = match &arguments.dir {
        Some(dir) => size(dir)?,
        None => arguments.nodes,
    };
    Ok(Small(SmallOptions { rounds: arguments.rounds.map_or(defaults.rounds, usize::from), datanodes }))
}

pub(super) fn grow(arguments: &GrowArguments) -> Result<Grow<impl Fn(&Target) -> Here + use<>>> {
    let defaults = if arguments.common.quick { GrowOptions::quick() } else { GrowOptions::full() };
    let nodes = match &arguments.dir {
        Some(dir) => size(dir)?,
        None => arguments.nodes,
    };
    let options = GrowOptions {
        scale_factor: arguments.sf.unwrap_or(defaults.scale_factor),
        writers: arguments.writers,
        readers: arguments.readers,
        seconds: arguments.seconds.unwrap_or(defaults.seconds),
        nodes,
        ..defaults
    };
    Ok(growing(options, arguments.dir.is_some()))
}

/// Why it takes no --against.
pub(super) fn grow_has_one_build() -> PgError {
    let text =
        "two builds cannot be compared by \"grow\": this program would add its own datanodes to the other's cluster";
    PgError::new(SqlState::FEATURE_NOT_SUPPORTED, text)
}

pub(super) fn growing(options: GrowOptions, keeps_cluster: bool) -> Grow<impl Fn(&Target) -> Here> {
    Grow { options, keeps_cluster, datanodes: |target: &Target| Here::new(&target.dir) }
}

pub(super) fn nodes(arguments: &NodesArguments) -> Nodes {
    let defaults = if arguments.common.quick { NodesOptions::quick() } else { NodesOptions::full() };
    Nodes(NodesOptions {
        sizes: chosen(&arguments.sizes, defaults.sizes),
        rows: arguments.rows.unwrap_or(defaults.rows),
        clients: usize::from(arguments.clients),
        ..defaults
    })
}

pub(super) fn bulk(arguments: &BulkArguments) -> Result<Bulk> {
    let defaults = BulkOptions::bulk();
    let mut options = loads(&arguments.load, if arguments.common.quick { defaults.quick() } else { defaults });
    if let Some(dir) = &arguments.dir {
        options.datanodes = vec![size(dir)?];
        if arguments.load.coordinators.is_empty() {
            let there = coordinators(dir)?;
            options.coordinators.retain(|count| *count <= there);
        }
    }
    Ok(Bulk { options, question: Question::Rate })
}

pub(super) fn scaling(arguments: &ScalingArguments) -> Bulk {
    let defaults = BulkOptions::scaling();
    let options = loads(&arguments.load, if arguments.common.quick { defaults.quick() } else { defaults });
    Bulk { options, question: Question::Scaling }
}

pub(super) fn concurrency(arguments: &ConcurrencyArguments) -> Concurrency {
    let defaults = if arguments.common.quick { ConcurrencyOptions::quick() } else { ConcurrencyOptions::full() };
    Concurrency(ConcurrencyOptions {
        rows: arguments.rows.unwrap_or(defaults.rows),
        processes: chosen(&arguments.processes, defaults.processes),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        datanodes: arguments.nodes,
    })
}

pub(super) fn ticks(arguments: &TicksArguments) -> Ticks {
    let defaults = if arguments.common.quick { TicksOptions::quick() } else { TicksOptions::full() };
    Ticks(TicksOptions {
        rows: arguments.rows.unwrap_or(defaults.rows),
        datanodes: chosen(&arguments.datanodes, defaults.datanodes),
        loaders: chosen(&arguments.loaders, defaults.loaders),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
    })
}

pub(super) fn sustained(arguments: &SustainedArguments) -> Sustained {
    let defaults = if arguments.common.quick { SustainedOptions::quick() } else { SustainedOptions::full() };
    Sustained(SustainedOptions {
        scale_factor: arguments.sf.unwrap_or(defaults.scale_factor),
        loads: arguments.loads.map_or(defaults.loads, usize::from),
        streams: usize::from(arguments.streams),
        datanodes: arguments.nodes,
        shared_buffers: arguments.shared_buffers.clone().unwrap_or(defaults.shared_buffers),
        max_wal_size: arguments.max_wal_size.clone().unwrap_or(defaults.max_wal_size),
    })
}

fn loads(load: &BulkLoad, defaults: BulkOptions) -> BulkOptions {
    debug_assert!(defaults.columns == Columns::Seven);
    BulkOptions {
        scale_factor: load.sf.unwrap_or(defaults.scale_factor),
        columns: load.columns,
        streams: load.streams.map_or(defaults.streams, usize::from),
        datanodes: chosen(&load.datanodes, defaults.datanodes),
        coordinators: chosen(&load.coordinators, defaults.coordinators),
        rounds: load.rounds.map_or(defaults.rounds, usize::from),
        on_the_fly: load.on_the_fly,
        ..defaults
    }
}
