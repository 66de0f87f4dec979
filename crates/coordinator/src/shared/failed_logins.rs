//! Failed logins are counted, so that whoever guesses passwords has few guesses.
//!
//! They are counted for each user that is tried from an address, and for the address, which may fail [`USERS`] times as often.
//! After half of what is allowed further tries are delayed; after all of it they are refused, until the pause has passed since the
//! last that failed. Below that they are forgotten evenly, all that are allowed within one pause: now and then a wrong password from
//! an address of many users delays nobody.
//!
//! Invariants: what comes from one address keeps nobody out who comes from another. A try that is refused is not judged: it tells
//! nothing of the password, and it prolongs nothing. There are at most [`KNOWN_MAX`] entries.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::ByLabel;
use pgerror::{PgError, Result, SqlState};

pub(super) static HELD_LOGINS: ByLabel = ByLabel::new();

/// Where many users come from one address, some may err.
const USERS: u32 = 5;
const KNOWN_MAX: usize = 10_000;
/// A failure, in thousandths.
const ONE: u64 = 1000;
/// Far less than the time that a client has to log in.
const DELAY_MAX: u32 = 5;

/// How many logins may fail, and what then.
#[derive(Clone, Copy, Debug)]
pub struct LoginLimits {
    /// Of one user from one address; 0: any number.
    pub failures_max: u32,
    /// How long further tries are refused.
    pub pause: Duration,
}

/// A client that says who it is.
pub(crate) struct Login<'a> {
    address: IpAddr,
    user: &'a str,
}

impl<'a> Login<'a> {
    /// An IPv6 address counts as its network of 64 bits: a host has all the addresses in it.
    pub(crate) fn new(address: IpAddr, user: &'a str) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            v4 => v4,
        };
        Self { address, user }
    }

    pub(crate) fn user(&self) -> &'a str {
        self.user
    }

    fn of_user(&self) -> Source {
        (self.address, Some(self.user.to_owned()))
    }

    fn of_address(&self) -> Source {
        (self.address, None)
    }
}

/// `None`: any user.
type Source = (IpAddr, Option<String>);

struct Failures {
    /// In thousandths: they are forgotten bit by bit.
    thousandths: u64,
    last: Instant,
}

/// See the page.
pub(crate) struct FailedLogins {
    limits: LoginLimits,
    known: Mutex<HashMap<Source, Failures>>,
}

impl FailedLogins {
    pub(super) fn new(limits: LoginLimits) -> Self {
        Self { limits, known: Mutex::default() }
    }

    /// Before a client proves who it is. It is delayed if logins like this one have failed, or gets 53300.
    pub(crate) async fn hold(&self, login: &Login<'_>) -> Result<()> {
        let delay = self.delay(&self.known(), login, Instant::now())?;
        if !delay.is_zero() {
            HELD_LOGINS.add("delayed", 1);
            tokio::time::sleep(delay).await;
        }
        Ok(())
    }

    /// Judges a proof, unless so many have failed meanwhile. No two are judged at a time, so none slips in beside the last one that
    /// is allowed.
    pub(crate) fn judge<T>(&self, login: &Login<'_>, now: Instant, proof: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut known = self.known();
        self.delay(&known, login, now)?;
        let proven = proof();
        match &proven {
            // Of the address nothing is forgotten: somebody who guesses may have a role of his own.
            Ok(_) => drop(known.remove(&login.of_user())),
            Err(_) if self.limits.failures_max > 0 => {
                for source in [login.of_user(), login.of_address()] {
                    self.add(&mut known, source, now);
                }
            }
            Err(_) => {}
        }
        proven
    }

    fn delay(&self, known: &HashMap<Source, Failures>, login: &Login<'_>, now: Instant) -> Result<Duration> {
        let mut delay = 0;
        for source in [login.of_user(), login.of_address()] {
            let max = self.max(&source);
            let counted = known.get(&source).and_then(|failures| self.counted(max, failures, now));
            let Some((thousandths, left)) = counted else { continue };
            let number = u32::try_from(thousandths.div_ceil(ONE)).unwrap_or(u32::MAX);
            if number >= max {
                HELD_LOGINS.add("refused", 1);
                return Err(refusal(login, &source, left));
            }
            delay = delay.max(number.saturating_sub(max / 2));
        }
        Ok(Duration::from_secs(delay.min(DELAY_MAX).into()))
    }

    /// How many thousandths of so many that are allowed, and how long at most they still count.
    fn counted(&self, max: u32, failures: &Failures, now: Instant) -> Option<(u64, Duration)> {
        let elapsed = now.saturating_duration_since(failures.last);
        let left = self.limits.pause.checked_sub(elapsed).filter(|left| !left.is_zero())?;
        let max = ONE * u64::from(max);
        let forgotten = elapsed.as_millis() * u128::from(max) / self.limits.pause.as_millis().max(1);
        let thousandths = match failures.thousandths >= max {
            true => failures.thousandths,
            false => failures.thousandths.saturating_sub(u64::try_from(forgotten).unwrap_or(u64::MAX)),
        };
        (thousandths > 0).then_some((thousandths, left))
    }

    fn max(&self, (_, user): &Source) -> u32 {
        self.limits.failures_max.saturating_mul(if user.is_some() { 1 } else { USERS })
    }

    fn add(&self, known: &mut HashMap<Source, Failures>, source: Source, now: Instant) {
        if known.len() >= KNOWN_MAX && !known.contains_key(&source) {
            make_room(known, |failures| now.saturating_duration_since(failures.last) < self.limits.pause);
        }
        let before = known.get(&source).and_then(|failures| self.counted(self.max(&source), failures, now));
        let mut thousandths = before.map_or(0, |(before, _)| before) + ONE;
        let max = ONE * u64::from(self.max(&source));
        // One that is begun counts whole: from here on nothing is forgotten before the pause is over.
        if thousandths > max - ONE {
            thousandths = max;
            let ((address, user), pause) = (&source, self.limits.pause);
            tracing::warn!(%address, ?user, ?pause, "too many logins have failed: further ones are refused");
        }
        known.insert(source, Failures { thousandths, last: now });
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Source, Failures>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops what does not count any more; if that is nothing, the oldest quarter, so that there is room for a while.
fn make_room(known: &mut HashMap<Source, Failures>, counts: impl Fn(&Failures) -> bool) {
    known.retain(|_, failures| counts(failures));
    if known.len() >= KNOWN_MAX {
        let mut times: Vec<Instant> = known.values().map(|failures| failures.last).collect();
        let (_, &mut oldest, _) = times.select_nth_unstable(KNOWN_MAX / 4);
        known.retain(|_, failures| failures.last > oldest);
    }
}

fn refusal(login: &Login<'_>, source: &Source, left: Duration) -> PgError {
    let of_user = source.1.as_ref().map_or(String::new(), |_| format!(" of user \"{}\"", login.user));
    let network = if login.address.is_ipv6() { "/64" } else { "" };
    let seconds = left.as_secs() + 1;
    PgError::fatal(
        SqlState::TOO_MANY_CONNECTIONS,
        format!("too many failed logins{of_user} from {}{network}", login.address),
    )
    .hint(format!("Try again in {seconds} s."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    fn counts(failures_max: u32) -> FailedLogins {
        FailedLogins::new(LoginLimits { failures_max, pause: PAUSE })
    }

    fn tries(failed: &FailedLogins, address: &str, user: &str, now: Instant, is_right: bool) -> String {
        let wrong = || PgError::fatal(SqlState::INVALID_PASSWORD, "wrong");
        let login = Login::new(address.parse().unwrap(), user);
        let judged = failed.judge(&login, now, || is_right.then_some("in".to_owned()).ok_or_else(wrong));
        judged.unwrap_or_else(|error| error.message().into_owned())
    }

    #[test]
    fn a_user_is_kept_out_of_where_his_password_is_guessed() {
        let (failed, now) = (counts(4), Instant::now());
        let delay = || failed.delay(&failed.known(), &Login::new("10.0.0.1".parse().unwrap(), "ann"), now).unwrap();
        let mut delays = Vec::new();
        for _ in 0..4 {
            delays.push(delay().as_secs());
            assert_eq!(tries(&failed, "10.0.0.1", "ann", now, false), "wrong");
        }
        assert_eq!(delays, [0, 0, 0, 1]);
        let refused = "too many failed logins of user \"ann\" from 10.0.0.1";
        assert_eq!(tries(&failed, "10.0.0.1", "ann", now, true), refused);
        assert_eq!(tries(&failed, "::ffff:10.0.0.1", "ann", now, true), refused);
        assert_eq!(tries(&failed, "10.0.0.1", "bob", now, true), "in");
        assert_eq!(tries(&failed, "10.0.0.2", "ann", now, true), "in");
        // Refused tries do not prolong it.
        assert_eq!(tries(&failed, "10.0.0.1", "ann", now + PAUSE - Duration::from_secs(1), true), refused);
        assert_eq!(tries(&failed, "10.0.0.1", "ann", now + PAUSE, true), "in");
    }

    #[test]
    fn a_login_clears_the_user_and_not_the_address() {
        let (failed, now) = (counts(4), Instant::now());
        for _ in 0..6 {
            for is_right in [false, false, false, true] {
                tries(&failed, "fd00::1", "ann", now, is_right);
            }
        }
        assert_eq!(tries(&failed, "fd00::1", "ann", now, false), "wrong");
        assert_eq!(tries(&failed, "fd00::2", "bob", now, false), "wrong");
        assert_eq!(tries(&failed, "fd00::3", "eve", now, true), "too many failed logins from fd00::/64");
        assert_eq!(tries(&failed, "fd00:0:0:1::1", "ann", now, true), "in");
    }

    #[test]
    fn failures_now_and_then_keep_nobody_out() {
        let (failed, mut now) = (counts(4), Instant::now());
        for _ in 0..100 {
            now += PAUSE / 4;
            assert_eq!(tries(&failed, "10.0.0.1", "ann", now, false), "wrong");
            let login = Login::new("10.0.0.1".parse().unwrap(), "ann");
            assert!(failed.delay(&failed.known(), &login, now).unwrap().is_zero());
        }
    }

    #[test]
    fn without_a_limit_nothing_is_known_and_with_one_not_too_much() {
        let (failed, now) = (counts(0), Instant::now());
        (0..100).for_each(|_| assert_eq!(tries(&failed, "10.0.0.1", "ann", now, false), "wrong"));
        assert!(failed.known().is_empty());
        let failed = counts(1);
        for at in 0..KNOWN_MAX as u32 {
            let address = std::net::Ipv4Addr::from_bits(at).to_string();
            tries(&failed, &address, "ann", now + Duration::from_millis(at.into()), false);
        }
        let number = failed.known().len();
        assert!((KNOWN_MAX / 2..=KNOWN_MAX).contains(&number), "{number}");
        let later = now + Duration::from_secs(11);
        assert_eq!(tries(&failed, "0.0.0.0", "ann", later, true), "in", "the oldest is forgotten");
        assert!(tries(&failed, "0.0.39.15", "ann", later, true).starts_with("too many"), "the newest is not");
    }
}
