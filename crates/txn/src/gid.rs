//! The name of a distributed transaction.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use pgerror::PgError;

/// The only version of the text form there is; another version's transactions are left alone.
pub const GID_VERSION: u8 = 1;
/// `GIDSIZE` of PostgreSQL (xact.h) less the NUL.
pub const GID_BYTES_MAX: usize = 199;
/// `FirstNormalTransactionId`: smaller ids are no real transactions.
const FIRST_NORMAL_XID: u64 = 3;

/// What the transaction of a [`Gid`] is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// A commit under way.
    Commit,
    /// Prepared by a user's PREPARE TRANSACTION, to be kept ([`crate::user_prepared`]).
    User,
}

/// Name under which the writers of a transaction but one are prepared. It says which node is the commit point and which
/// local transaction there decides, so the finder of a prepared transaction knows which node to ask.
///
/// Text form: `loxo_<version>_<commit point's node>_<its xid>_<coordinator, hexadecimal>_<counter>`; those of users begin
/// with `loxo_user_<version>_`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Gid {
    /// A commit, or a transaction that a user prepared.
    pub kind: Kind,
    /// Node id of the commit point.
    pub commit_point: u16,
    /// `pg_current_xact_id()` there (an `xid8`, so it does not wrap around).
    pub xid: u64,
    /// A random number drawn at the start of each coordinator process.
    pub coordinator: u64,
    /// Counts the distributed transactions of that process.
    pub counter: u64,
}

impl Gid {
    /// What all our gids of commits under way begin with, for a search in `pg_prepared_xacts`.
    pub fn prefix() -> String {
        Kind::Commit.prefix()
    }
}

impl Kind {
    /// What all gids of this kind begin with.
    pub fn prefix(self) -> String {
        match self {
            Kind::Commit => format!("loxo_{GID_VERSION}_"),
            Kind::User => format!("loxo_user_{GID_VERSION}_"),
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, commit_point, xid, coordinator, counter } = self;
        write!(f, "{}{commit_point}_{xid}_{coordinator:016x}_{counter}", kind.prefix())
    }
}

impl FromStr for Gid {
    type Err = PgError;

    /// Takes exactly what `Display` writes; anything else (another version, a user's own gid) is an error.
    fn from_str(text: &str) -> Result<Self, PgError> {
        parse(text)
            .filter(|gid| gid.xid >= FIRST_NORMAL_XID && gid.to_string() == text)
            .ok_or_else(|| PgError::internal(format!("\"{text}\" is not the gid of a distributed transaction")))
    }
}

fn parse(text: &str) -> Option<Gid> {
    let known =
        [Kind::Commit, Kind::User].into_iter().find_map(|kind| Some((kind, text.strip_prefix(&kind.prefix())?)));
    let (kind, rest) = known?;
    let mut parts = rest.split('_');
    let gid = Gid {
        kind,
        commit_point: parts.next()?.parse().ok()?,
        xid: parts.next()?.parse().ok()?,
        coordinator: u64::from_str_radix(parts.next()?, 16).ok()?,
        counter: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(gid)
}

/// Gives each distributed transaction of this process its own (coordinator, counter). One per coordinator process.
#[derive(Debug)]
pub struct GidSource {
    coordinator: u64,
    counter: AtomicU64,
}

impl GidSource {
    /// Draws the coordinator's number anew, so that a restarted coordinator never repeats a gid of its former life.
    #[allow(clippy::new_without_default)] // two values made this way differ
    pub fn new() -> Self {
        // The keys of `RandomState` come from the operating system's random source.
        Self { coordinator: RandomState::new().build_hasher().finish(), counter: AtomicU64::new(1) }
    }

    /// This process's number in its gids.
    pub fn coordinator(&self) -> u64 {
        self.coordinator
    }

    pub(crate) fn next_counter(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_is_read_back_as_it_was_written_and_fits() {
        for (commit_point, number) in [(0, 3), (7, 4_294_967_296), (u16::MAX, u64::MAX)] {
            for kind in [Kind::Commit, Kind::User] {
                let gid = Gid { kind, commit_point, xid: number, coordinator: number, counter: number };
                assert_eq!(gid.to_string().parse::<Gid>().unwrap(), gid);
                assert!(gid.to_string().len() <= GID_BYTES_MAX);
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let good = "loxo_1_0_700_00000000000000ff_1";
        assert!(good.parse::<Gid>().is_ok());
        for bad in [
            "",
            "mine",
            "loxo_2_0_700_00000000000000ff_1",
            "loxo_user_2_0_700_00000000000000ff_1",
            "loxo_user_0_700_00000000000000ff_1",
            "loxo_1_0_700_00000000000000ff",
            "loxo_1_0_700_00000000000000ff_1_2",
            "loxo_1_0_2_00000000000000ff_1",
            "loxo_1_0_+700_00000000000000ff_1",
            "loxo_1_0_0700_00000000000000ff_1",
            "loxo_1_65536_700_00000000000000ff_1",
            "loxo_1_0_700_ff_1",
            "loxo_1_0_700_00000000000000FF_1",
        ] {
            assert!(bad.parse::<Gid>().is_err(), "{bad}");
        }
    }

    #[test]
    fn two_processes_never_share_gids() {
        assert_ne!(GidSource::new().coordinator(), GidSource::new().coordinator());
    }
}
