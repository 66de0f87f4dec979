//! Clusters that live in one directory of this machine: `loxo up`, `down`, `status`, `node`.

use std::path::PathBuf;

use pgerror::{PgError, Result, SqlState};

pub(crate) mod daemon;
pub(crate) mod datanode;
pub(crate) mod directory;
mod down;
pub(crate) mod layout;
pub(crate) mod lock;
pub mod node;
pub mod primary;
mod status;
mod up;

pub use directory::{Directory, Kind, Part};
pub use down::down;
pub use layout::Layout;
pub use status::{PartStatus, State, Status, status};
pub(crate) use up::SPACE_NEW_DATANODE;
pub use up::{UpOptions, up};

/// Coordinators listen on P, P + 1, …; the gtm on P + 50, its standby on P + 51; datanodes on P + 100, P + 101, ….
pub(crate) const GTM_PORT_OFFSET: u16 = 50;
/// Behind those of the gtms. Coordinators beyond so many have none.
pub(crate) const PAGE_PORT_OFFSET: u16 = 60;
pub(crate) const PAGES_MAX: usize = 40;
pub(crate) const DATANODE_PORT_OFFSET: u16 = 100;

/// Port of the first coordinator if nothing else is asked for.
pub const PORT_DEFAULT: u16 = 5433;
/// Datanodes if nothing else is asked for.
pub const DATANODES_DEFAULT: usize = 2;
/// Coordinators if nothing else is asked for.
pub const COORDINATORS_DEFAULT: usize = 1;

/// Where a cluster lives if nothing else is asked for: `/var/lib/loxo` for root (its servers run as `postgres`, who
/// must be able to get there), else `$XDG_DATA_HOME/loxo`, that is `~/.local/share/loxo`.
pub fn default_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/loxo");
    }
    let data_home = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".local/share");
    data_home.unwrap_or_else(home).join("loxo")
}

/// Has this process noted first that it will use these ports? Until it ends; the empty file stays for the next.
fn is_noted(first: u16) -> bool {
    let path = std::env::temp_dir().join(format!("loxo-ports-{first}.lock"));
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let locked =
        file.ok().filter(|file| rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok());
    locked.map(std::mem::forget).is_some()
}

/// A first port such that all ports of a cluster of this shape are free now; for clusters that live only briefly.
pub fn free_port(coordinators: u16, datanodes: u16) -> Result<u16> {
    /// Ports of a cluster, at most.
    const SLOT: u16 = 250;
    // Below 32768, from where on outgoing connections take ports. Programs that look at the same moment begin at different places,
    // and note what they have found: servers listen only once they are made.
    const SLOTS: u16 = 8;
    let own = (std::process::id() % u32::from(SLOTS)) as u16;
    let mut firsts = (0..SLOTS)
        .map(|i| 30_600 + SLOT * ((own + i) % SLOTS))
        .chain((15_433..30_350).step_by(usize::from(SLOT)))
        .chain((33_000..60_000).step_by(usize::from(SLOT)));
    let offsets = |first: u16| {
        let datanodes = (0..datanodes).map(move |i| first + DATANODE_PORT_OFFSET + i);
        (0..coordinators)
            .map(move |i| first + i)
            .chain((0..coordinators.min(PAGES_MAX as u16)).map(move |i| first + PAGE_PORT_OFFSET + i))
            .chain([first + GTM_PORT_OFFSET, first + GTM_PORT_OFFSET + 1])
            .chain(datanodes)
    };
    let is_free = |first: &u16| offsets(*first).all(|port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok());
    firsts
        .find(|first| is_free(first) && is_noted(*first))
        .ok_or_else(|| PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "no range of free ports was found"))
}
