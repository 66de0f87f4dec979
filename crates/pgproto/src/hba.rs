//! Which clients may connect from where, and how they authenticate: the rules of `pg_hba.conf` and the maps of `pg_ident.conf`.
//!
//! The first rule that fits a connection decides; one that no rule fits is refused. The messages are PostgreSQL's.
//!
//! Invariants: no I/O; a word that PostgreSQL would give a meaning that is not known here is an error when the rules are read.

use std::collections::HashSet;
use std::net::IpAddr;

use pgerror::{PgError, Result, SqlState};

/// A rule as it is written.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Line<'a> {
    /// `host`, `hostssl` or `hostnossl`.
    pub kind: &'a str,
    pub databases: &'a [String],
    pub users: &'a [String],
    pub address: &'a str,
    pub method: &'a str,
    pub map: Option<&'a str>,
    /// `CN` or `DN`.
    pub client_name: Option<&'a str>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    channel: Channel,
    databases: Vec<Database>,
    users: Vec<User>,
    origin: Origin,
    /// `None`: he is refused.
    method: Option<Method>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Any,
    Encrypted,
    Plain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Database {
    All,
    SameUser,
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    All,
    Named(String),
    MemberOf(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    All,
    SameHost,
    Network { address: IpAddr, bits: u32 },
}

/// How a client authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    Trust,
    /// SCRAM-SHA-256 or SCRAM-SHA-256-PLUS.
    Scram,
    /// By a certificate whose name is the user's, or leads to it by this map.
    Certificate {
        /// Its name.
        map: Option<String>,
        /// Which name of the certificate.
        name: ClientName,
    },
}

/// `clientname` of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientName {
    /// The subject's common name (`CN`).
    #[default]
    Common,
    /// The whole subject, as [`crate::x509::distinguished_name`] writes it (`DN`).
    Distinguished,
}

/// A line of a map: a client whose certificate has this name may be this user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Mapping {
    pub map: String,
    pub certificate: String,
    pub user: String,
}

/// All rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
    mappings: Vec<Mapping>,
}

/// A client that wants in.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Attempt<'a> {
    pub user: &'a str,
    pub database: &'a str,
    /// Where he comes from, and where he has come to.
    pub peer: IpAddr,
    pub own: IpAddr,
    pub is_encrypted: bool,
}

impl Rules {
    /// An error says which rule cannot be.
    pub fn parse<'a>(lines: impl Iterator<Item = Line<'a>>, mappings: Vec<Mapping>) -> Result<Self> {
        let rules = lines.enumerate().map(|(at, line)| {
            Rule::parse(&line).map_err(|error| {
                let message = format!("rule {} of [[hba]]: {}", at + 1, error.message());
                error.with(pgerror::field::MESSAGE, message)
            })
        });
        Ok(Self { rules: rules.collect::<Result<_>>()?, mappings })
    }

    /// Does it matter which roles a user is a member of?
    pub fn ask_for_roles(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.users).any(|user| matches!(user, User::MemberOf(_)))
    }

    /// Must clients be asked for certificates?
    pub fn ask_for_certificates(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.method, Some(Method::Certificate { .. })))
    }

    /// How the client has to authenticate; 28000 if nothing lets him in. `roles`: all that he is a member of, if that matters.
    pub fn judge(&self, attempt: &Attempt<'_>, roles: &HashSet<String>) -> Result<&Method> {
        let found = self.rules.iter().find(|rule| rule.fits(attempt, roles));
        let beginning = match found.map(|rule| &rule.method) {
            Some(Some(method)) => return Ok(method),
            Some(None) => "pg_hba.conf rejects connection for host",
            None => "no pg_hba.conf entry for host",
        };
        let Attempt { user, database, peer, is_encrypted, .. } = attempt;
        let channel = if *is_encrypted { "SSL encryption" } else { "no encryption" };
        let text = format!("{beginning} \"{peer}\", user \"{user}\", database \"{database}\", {channel}");
        Err(PgError::fatal(SqlState::INVALID_AUTHORIZATION, text)
            .hint("The rules are [[hba]] of the cluster's configuration."))
    }

    /// May a client whose certificate has this name be the user?
    pub fn is_user(&self, certificate: &str, user: &str, map: Option<&str>) -> bool {
        let leads = |known: &Mapping| known.certificate == certificate && known.user == user;
        match map {
            None => certificate == user,
            Some(map) => self.mappings.iter().any(|known| known.map == map && leads(known)),
        }
    }
}

impl Rule {
    fn parse(line: &Line<'_>) -> Result<Self> {
        let channel = match line.kind {
            "host" => Channel::Any,
            "hostssl" => Channel::Encrypted,
            "hostnossl" => Channel::Plain,
            "local" => {
                return Err(invalid("a coordinator has no Unix socket").hint("Use host with address = \"samehost\"."));
            }
            other => {
                return Err(
                    invalid(&format!("\"{other}\" is no type")).hint("The types are host, hostssl and hostnossl.")
                );
            }
        };
        let origin = Origin::parse(line.address)?;
        let map = line.map.map(str::to_owned);
        let name = match line.client_name {
            None => ClientName::default(),
            Some(_) if line.method != "cert" => return Err(invalid("clientname is for the method cert")),
            Some("CN") => ClientName::Common,
            Some("DN") => ClientName::Distinguished,
            Some(other) => {
                return Err(invalid(&format!("clientname = \"{other}\" is not supported")).hint("Write CN or DN."));
            }
        };
        let method = match line.method {
            "scram-sha-256" => Some(Method::Scram),
            "reject" => None,
            "cert" if channel == Channel::Encrypted => Some(Method::Certificate { map, name }),
            "cert" => return Err(invalid("cert authentication is only supported on hostssl connections")),
            "trust" if origin.is_this_host() => Some(Method::Trust),
            "trust" => {
                return Err(invalid("trust would let everybody in who comes from another host")
                    .hint("It is for loopback addresses and samehost only."));
            }
            other => {
                return Err(invalid(&format!("\"{other}\" is no method that is supported"))
                    .hint("The methods are scram-sha-256, cert, trust and reject."));
            }
        };
        if line.map.is_some() && line.method != "cert" {
            return Err(invalid("a map is for the method cert"));
        }
        if line.databases.is_empty() || line.users.is_empty() {
            return Err(invalid("it names no database, or no user").hint("Write \"all\", or leave the rule out."));
        }
        let databases = line.databases.iter().map(|word| Database::parse(word)).collect::<Result<_>>()?;
        let users = line.users.iter().map(|word| User::parse(word)).collect::<Result<_>>()?;
        Ok(Self { channel, databases, users, origin, method })
    }

    fn fits(&self, attempt: &Attempt<'_>, roles: &HashSet<String>) -> bool {
        let channel = match self.channel {
            Channel::Any => true,
            Channel::Encrypted => attempt.is_encrypted,
            Channel::Plain => !attempt.is_encrypted,
        };
        channel
            && self.origin.covers(attempt.peer, attempt.own)
            && self.databases.iter().any(|database| database.fits(attempt))
            && self.users.iter().any(|user| user.fits(attempt.user, roles))
    }
}

impl Database {
    fn parse(word: &str) -> Result<Self> {
        match word {
            "all" => Ok(Database::All),
            "sameuser" => Ok(Database::SameUser),
            "samerole" | "samegroup" | "replication" => Err(unknown(word)),
            name => named(name, "").map(Database::Named),
        }
    }

    fn fits(&self, attempt: &Attempt<'_>) -> bool {
        match self {
            Database::All => true,
            Database::SameUser => attempt.database == attempt.user,
            Database::Named(name) => attempt.database == name,
        }
    }
}

impl User {
    fn parse(word: &str) -> Result<Self> {
        match word.strip_prefix('+') {
            _ if word == "all" => Ok(User::All),
            Some(role) => named(role, "+").map(User::MemberOf),
            None => named(word, "").map(User::Named),
        }
    }

    fn fits(&self, user: &str, roles: &HashSet<String>) -> bool {
        match self {
            User::All => true,
            User::Named(name) => user == name,
            User::MemberOf(role) => roles.contains(role),
        }
    }
}

/// A name that is no regular expression, no file and no list, and has no quotes: in pg_hba.conf that would be something else, and
/// here a rule that fits nobody.
fn named(word: &str, before: &str) -> Result<String> {
    let means_more = word.starts_with(['/', '@', '+']) || word.contains(['"', ',']) || word.trim() != word;
    match word.is_empty() || means_more {
        true => Err(unknown(&format!("{before}{word}"))),
        false => Ok(word.to_owned()),
    }
}

impl Origin {
    fn parse(word: &str) -> Result<Self> {
        match word {
            "all" => return Ok(Origin::All),
            "samehost" => return Ok(Origin::SameHost),
            _ => {}
        }
        let wrong = || {
            invalid(&format!("\"{word}\" is no address"))
                .hint("Write all, samehost, or an address with the length of its mask, for example 10.0.0.0/8.")
        };
        let (address, bits) = word.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u32 = bits.parse().map_err(|_| wrong())?;
        match bits <= width(address) {
            true => Ok(Origin::Network { address, bits }),
            false => Err(wrong()),
        }
    }

    fn is_this_host(self) -> bool {
        match self {
            Origin::All => false,
            Origin::SameHost => true,
            Origin::Network { address, bits } => {
                address.is_loopback() && bits >= if address.is_ipv4() { 8 } else { 128 }
            }
        }
    }

    fn covers(self, peer: IpAddr, own: IpAddr) -> bool {
        let peer = peer.to_canonical();
        match self {
            Origin::All => true,
            Origin::SameHost => peer.is_loopback() || peer == own.to_canonical(),
            Origin::Network { address, bits } => {
                let is_one_family = address.is_ipv4() == peer.is_ipv4();
                is_one_family && (number(address) ^ number(peer)).checked_shr(width(address) - bits).unwrap_or(0) == 0
            }
        }
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn invalid(text: &str) -> PgError {
    PgError::new(SqlState::CONFIG_FILE_ERROR, text.to_owned())
}

fn unknown(word: &str) -> PgError {
    invalid(&format!("\"{word}\" is not supported"))
        .hint("Write names, or all; for users also +role, for databases sameuser.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type, database, user, address, method.
    fn rules(lines: &[[&str; 5]]) -> Result<Rules> {
        let names = |at: usize| lines.iter().map(|line| vec![line[at].to_owned()]).collect::<Vec<_>>();
        let (databases, users) = (names(1), names(2));
        let lines = lines.iter().zip(databases.iter().zip(&users)).map(|([kind, _, _, address, method], names)| Line {
            kind,
            databases: names.0,
            users: names.1,
            address,
            method,
            map: None,
            client_name: None,
        });
        Rules::parse(lines, Vec::new())
    }

    fn judge(rules: &Rules, user: &str, peer: &str, is_encrypted: bool) -> std::result::Result<Method, String> {
        let (peer, own) = (peer.parse().unwrap(), "10.0.0.9".parse().unwrap());
        let attempt = Attempt { user, database: "d", peer, own, is_encrypted };
        let roles = HashSet::from([user.to_owned(), "staff".to_owned()]);
        rules.judge(&attempt, &roles).cloned().map_err(|error| error.message().into_owned())
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(&[
            ["hostnossl", "all", "all", "192.168.0.0/24", "reject"],
            ["host", "all", "mallory", "10.0.0.0/8", "reject"],
            ["hostssl", "d", "+staff", "10.1.0.0/16", "cert"],
            ["host", "sameuser", "all", "0.0.0.0/0", "scram-sha-256"],
            ["host", "all", "postgres", "samehost", "trust"],
            ["host", "all", "six", "fd00::/8", "scram-sha-256"],
        ])
        .unwrap();
        let refused = |rest: &str| Err(rest.to_owned());
        let ends =
            |user: &str, peer: &str, channel: &str| format!("\"{peer}\", user \"{user}\", database \"d\", {channel}");
        let rejects = |end: String| refused(&format!("pg_hba.conf rejects connection for host {end}"));
        let nothing = |end: String| refused(&format!("no pg_hba.conf entry for host {end}"));
        assert_eq!(judge(&rules, "a", "192.168.0.7", false), rejects(ends("a", "192.168.0.7", "no encryption")));
        assert_eq!(judge(&rules, "mallory", "10.1.2.3", true), rejects(ends("mallory", "10.1.2.3", "SSL encryption")));
        assert_eq!(
            judge(&rules, "a", "10.1.2.3", true),
            Ok(Method::Certificate { map: None, name: ClientName::Common })
        );
        assert_eq!(judge(&rules, "a", "10.1.2.3", false), nothing(ends("a", "10.1.2.3", "no encryption")));
        assert_eq!(judge(&rules, "a", "10.2.2.3", true), nothing(ends("a", "10.2.2.3", "SSL encryption")));
        assert_eq!(judge(&rules, "d", "10.2.2.3", true), Ok(Method::Scram));
        assert_eq!(judge(&rules, "d", "::ffff:10.2.2.3", true), Ok(Method::Scram));
        assert_eq!(judge(&rules, "postgres", "10.0.0.9", false), Ok(Method::Trust));
        assert!(judge(&rules, "postgres", "10.0.0.8", false).is_err());
        assert_eq!(judge(&rules, "six", "fd12::1", false), Ok(Method::Scram));
        assert!(judge(&rules, "six", "fe12::1", false).is_err());
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for wrong in [
            ["local", "all", "all", "all", "reject"],
            ["hostgssenc", "all", "all", "all", "reject"],
            ["host", "replication", "all", "all", "reject"],
            ["host", "all", "/^a", "all", "reject"],
            ["host", "all", "+", "all", "reject"],
            ["host", "all", "mallory,eve", "all", "reject"],
            ["host", "all", "\"Mallory\"", "all", "reject"],
            ["host", "all", "mallory ", "all", "reject"],
            ["host", "all", "all", "samenet", "reject"],
            ["host", "all", "all", "10.0.0.0", "reject"],
            ["host", "all", "all", "10.0.0.0/33", "reject"],
            ["host", "all", "all", "all", "md5"],
            ["host", "all", "all", "all", "cert"],
            ["host", "all", "all", "10.0.0.0/8", "trust"],
            ["host", "all", "all", "127.0.0.0/7", "trust"],
            ["host", "all", "all", "::1/127", "trust"],
        ] {
            assert!(rules(&[wrong]).is_err(), "{wrong:?}");
        }
        let nobody = Line {
            kind: "host",
            databases: &["all".to_owned()],
            users: &[],
            address: "all",
            method: "reject",
            map: None,
            client_name: None,
        };
        for (client_name, method) in [("dn", "cert"), ("DN", "scram-sha-256")] {
            let users = &["all".to_owned()];
            let line = Line { kind: "hostssl", users, method, client_name: Some(client_name), ..nobody };
            assert!(Rules::parse([line].into_iter(), Vec::new()).is_err(), "{client_name} {method}");
        }
        assert!(Rules::parse([nobody].into_iter(), Vec::new()).is_err());
    }
}
