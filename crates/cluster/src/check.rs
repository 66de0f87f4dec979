//! `loxo check`: what is wrong with a configuration or with the processes it names.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};

use crate::config::{Config, Datanode, POOL_SIZE, SslMode, gtm_name, is_loopback};
use crate::postgres::{MAJOR_MAX, MAJOR_MIN};
use crate::sql::Session;

mod processes;

pub use processes::Process;
pub(crate) use processes::{process_of_coordinator, process_of_gtm};

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The cluster does not work, or not correctly.
    Error,
    /// It works; a person should know.
    Warning,
}

/// One thing that was found.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Finding {
    pub level: Level,
    /// The node or section it is about.
    pub subject: String,
    pub text: String,
    /// What to do.
    pub hint: String,
}

/// What must be the same on all datanodes, and why.
const EQUAL: [(&str, &str); 5] = [
    ("major version", "statements are written for one version of PostgreSQL"),
    ("encoding", "text keys are hashed as bytes"),
    ("collation", "sorted streams of several nodes are merged"),
    ("TimeZone", "timestamps are cast to dates on the nodes"),
    ("roles", "GRANT and OWNER TO run on every node"),
];

/// Everything that one query tells of a server.
const FACTS_SQL: &str = "
    SELECT current_setting('server_version_num')::int / 10000, current_setting('server_version'),
           current_setting('max_prepared_transactions')::int, current_setting('max_connections')::int,
           current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
           current_setting('wal_level'), current_setting('TimeZone'),
           pg_catalog.pg_encoding_to_char(d.encoding),
           concat_ws(' ', d.datcollate, nullif(d.datctype, d.datcollate), nullif(d.datlocprovider, 'c'),
                     to_jsonb(d) ->> 'daticulocale', to_jsonb(d) ->> 'datlocale', d.datcollversion),
           (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user),
           (SELECT coalesce(string_agg(rolname, ' ' ORDER BY rolname COLLATE \"C\"), '') FROM pg_catalog.pg_roles
            WHERE oid >= 16384 OR oid = 10),
           to_regclass('loxo.identity') IS NOT NULL, current_setting('statement_timeout'),
           current_setting('default_transaction_read_only'), pg_catalog.pg_is_in_recovery()
    FROM pg_catalog.pg_database AS d WHERE d.datname = current_database()";

/// Rules that let any user of other hosts in without a password.
const TRUST_SQL: &str = "
    SELECT line_number FROM pg_catalog.pg_hba_file_rules
    WHERE auth_method = 'trust' AND type <> 'local' AND address NOT IN ('127.0.0.1', '::1', 'localhost', 'samehost')
    ORDER BY line_number LIMIT 1";

/// What is stored of each role's password; for superusers.
const PASSWORDS_SQL: &str = "
    SELECT string_agg(rolname || ' ' || md5(rolpassword), E'\\n' ORDER BY rolname COLLATE \"C\")
    FROM pg_catalog.pg_authid WHERE (oid >= 16384 OR oid = 10) AND rolpassword IS NOT NULL";

struct Facts {
    major: u32,
    version: String,
    max_prepared: u32,
    max_connections: u32,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    wal_level: String,
    time_zone: String,
    encoding: String,
    collation: String,
    superuser: bool,
    roles: String,
    /// Lines of role and hash of the verifier.
    passwords: String,
    initialised: bool,
    statement_timeout: String,
    read_only: bool,
    in_recovery: bool,
}

#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, level: Level, subject: &str, text: impl Into<String>, hint: impl Into<String>) {
        self.findings.push(Finding { level, subject: subject.to_owned(), text: text.into(), hint: hint.into() });
    }

    fn error(&mut self, subject: &str, text: impl Into<String>, hint: impl Into<String>) {
        self.add(Level::Error, subject, text, hint);
    }

    fn warning(&mut self, subject: &str, text: impl Into<String>, hint: impl Into<String>) {
        self.add(Level::Warning, subject, text, hint);
    }
}

/// Looks at a valid configuration and at the datanodes it names; changes nothing. No finding means all is well.
pub async fn check(config: &Config) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    check_datanodes(config, &mut report).await?;
    Ok(report.findings)
}

/// [`check`], and tries every gtm and coordinator, unless there is no cluster yet that they could serve.
pub async fn check_all(config: &Config) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    if check_datanodes(config, &mut report).await? {
        processes::check(config, &mut report).await;
    }
    Ok(report.findings)
}

/// False if a datanode has no metadata.
async fn check_datanodes(config: &Config, report: &mut Report) -> Result<bool> {
    check_configuration(config, report);
    let mut facts = Vec::new();
    let mut cluster_ids = BTreeMap::new();
    for (id, node) in config.datanodes_by_id() {
        let session = match Session::connect(&config.endpoint(&node.host, node.port)?).await {
            Ok(session) => session,
            Err(e) => {
                report.error(&node.name, format!("unreachable: {e}"), way_in(config, &e));
                continue;
            }
        };
        let mut fact = facts_of(&session).await?;
        if fact.superuser {
            fact.passwords = session.value(PASSWORDS_SQL).await?.unwrap_or_default();
        }
        check_server(node, &fact, report);
        if let Some((text, hint)) = pool_shortage(config, fact.max_connections) {
            report.warning(&node.name, text, hint);
        }
        if fact.superuser
            && let Some(line) = session.value(TRUST_SQL).await?
        {
            let text = format!("pg_hba.conf line {line} lets other hosts in without a password");
            report.warning(&node.name, text, "Use scram-sha-256 there.");
        }
        if fact.initialised {
            check_identity(id, node, &session, &mut cluster_ids, report).await?;
        } else {
            report.error(&node.name, "has no metadata of a cluster", "Run \"loxo init --config F\" once.");
        }
        facts.push((node, fact));
    }
    check_equal(&facts, report);
    check_passwords(&facts, report);
    if cluster_ids.len() > 1 {
        let members: Vec<String> =
            cluster_ids.iter().map(|(id, nodes)| format!("{id}: {}", nodes.join(", "))).collect();
        let text = format!("the datanodes belong to different clusters ({})", members.join("; "));
        report.error("cluster", text, "Remove the foreign servers from the configuration.");
    }
    Ok(facts.iter().all(|(_, fact)| fact.initialised))
}

/// What to do about a server that does not let the cluster's user in.
fn way_in(config: &Config, error: &PgError) -> String {
    let user = &config.cluster.user;
    match error.code() {
        SqlState::INVALID_PASSWORD if config.cluster.password_file.is_none() => {
            format!("Set password_file in [cluster] to a file with the password of the role \"{user}\".")
        }
        SqlState::INVALID_PASSWORD => format!(
            "The server runs. password_file must have the password that the role \"{user}\" has there; set it by ALTER ROLE through a \
             coordinator, or on every datanode."
        ),
        SqlState::INVALID_AUTHORIZATION => {
            format!("The server runs. Its pg_hba.conf must let the role \"{user}\" in from here.")
        }
        _ => "Start the server, and check host, port, user, pg_hba.conf and the network.".to_owned(),
    }
}

/// What speaks against a server becoming a datanode beside the primary one. Roles and what they set are not looked at: they
/// will be copied.
pub(crate) async fn check_new(
    config: &Config,
    primary: (&Datanode, &Session),
    new: (&Datanode, &Session),
) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    let mut facts = [(primary.0, facts_of(primary.1).await?), (new.0, facts_of(new.1).await?)];
    check_server(new.0, &facts[1].1, &mut report);
    if let Some((text, hint)) = pool_shortage(config, facts[1].1.max_connections) {
        report.warning(&new.0.name, text, hint);
    }
    for (_, fact) in &mut facts {
        (fact.roles, fact.time_zone) = Default::default();
    }
    check_equal(&facts, &mut report);
    Ok(report.findings)
}

/// Connections to a datanode beside the pools: of the gtms, of listening sessions, and PostgreSQL's own reserve for superusers.
const OTHER_CONNECTIONS: usize = 15;

/// Connections of a coordinator's pool to one datanode: a tenth more for the moment, as the executor's pool counts it.
fn most_connections(pool_size: usize) -> usize {
    pool_size + pool_size / 10 + 1
}

/// What is wrong, and what to do, if a datanode takes fewer connections than the coordinators may open.
fn pool_shortage(config: &Config, max_connections: u32) -> Option<(String, String)> {
    let pools: usize = config.coordinators.iter().map(|coordinator| most_connections(coordinator.pool_size)).sum();
    let needed = pools + OTHER_CONNECTIONS;
    if needed <= max_connections as usize {
        return None;
    }
    let text = format!(
        "max_connections = {max_connections}, but the coordinators may open {pools} connections (pool_size and a tenth), and \
         {OTHER_CONNECTIONS} more are needed for other things"
    );
    let share = (max_connections as usize).saturating_sub(OTHER_CONNECTIONS) / config.coordinators.len().max(1);
    let each = (0..share).rev().find(|each| most_connections(*each) <= share).unwrap_or(0);
    let hint = format!(
        "Set max_connections to {needed} or more and restart the server, or set pool_size to {each} or less for each coordinator."
    );
    Some((text, hint))
}

/// The largest pools that one more coordinator each of `more` can have beside the others, [`POOL_SIZE`] at most.
pub fn pool_left(config: &Config, max_connections: usize, more: usize) -> usize {
    let taken: usize = config.coordinators.iter().map(|coordinator| most_connections(coordinator.pool_size)).sum();
    let share = max_connections.saturating_sub(OTHER_CONNECTIONS + taken) / more.max(1);
    (0..=POOL_SIZE).rev().find(|size| most_connections(*size) <= share).unwrap_or(0)
}

/// What is wrong if a coordinator with so many clients may need more open files than it is allowed. A connection to a datanode by a Unix
/// socket takes two, see `pgproto`.
pub fn open_files_shortage(datanodes: usize, pool_size: usize, clients: usize, allowed: u64) -> Option<String> {
    const OTHER_FILES: usize = 50;
    let needed = (2 * datanodes * most_connections(pool_size) + clients + OTHER_FILES) as u64;
    (needed > allowed).then(|| {
        format!(
            "{allowed} open files are allowed, but {needed} may be needed for {clients} clients and {} connections to each of \
             {datanodes} datanodes. Raise the limit (ulimit -Hn, LimitNOFILE of systemd), or set a smaller pool_size or max_clients.",
            most_connections(pool_size)
        )
    })
}

/// Warnings about datanodes that take fewer connections than the coordinators may open. A server that does not answer has none.
pub async fn pool_warnings(config: &Config) -> Vec<String> {
    let warning = async |node: &Datanode| {
        let asked = async {
            let session = Session::connect(&config.endpoint(&node.host, node.port)?).await?;
            session.value("SHOW max_connections").await
        };
        let limit = asked.await.ok().flatten().and_then(|value| value.parse().ok());
        let (text, hint) = limit.and_then(|limit| pool_shortage(config, limit))?;
        Some(format!("datanode {}: {text}. {hint}", node.name))
    };
    join_all(config.datanodes.iter().map(warning)).await.into_iter().flatten().collect()
}

fn check_configuration(config: &Config, report: &mut Report) {
    if config.coordinators.is_empty() {
        report.error("cluster", "no [[coordinator]] is configured", "Clients connect to coordinators: add one.");
    }
    if config.datanodes.len() == 1 {
        report.warning("cluster", "there is only one datanode", "Nothing is distributed; add [[datanode]] entries.");
    }
    if config.cluster.password_file.is_some()
        && let Err(e) = config.password()
    {
        report.error("cluster", format!("password_file: {e}"), "The file holds the password in its first line.");
    }
    let doors = config.gtms.iter().enumerate().map(|(at, gtm)| (gtm_name(at), config.check_gtm(gtm)));
    let others = config.coordinators.iter().map(|own| (own.name.clone(), config.check_coordinator(own)));
    for (name, refusal) in doors.chain(others) {
        if let Err(error) = refusal {
            report.error(&name, error.message(), error.text(pgerror::field::HINT));
        }
    }
    if let Err(error) = config.encryption() {
        report.error("cluster", error.to_string(), "Connections to datanodes need these files.");
    }
    for node in config.datanodes.iter().filter(|node| !is_loopback(&node.host)) {
        if config.cluster.sslmode == SslMode::Disable {
            let hint = "Set sslmode = \"verify-full\" and sslrootcert in [cluster], or use a private network.";
            report.warning(
                &node.name,
                format!("is reached over the network at {} without encryption", node.host),
                hint,
            );
        }
    }
}

async fn facts_of(session: &Session) -> Result<Facts> {
    let row = session.rows(FACTS_SQL).await?.into_iter().next().unwrap_or_default();
    let mut row = row.into_iter().map(Option::unwrap_or_default);
    let mut text = || row.next().unwrap_or_default();
    let number = |text: String| text.parse().unwrap_or(0);
    Ok(Facts {
        major: number(text()),
        version: text(),
        max_prepared: number(text()),
        max_connections: number(text()),
        fsync: text(),
        full_page_writes: text(),
        synchronous_commit: text(),
        wal_level: text(),
        time_zone: text(),
        encoding: text(),
        collation: text(),
        superuser: text() == "t",
        roles: text(),
        passwords: String::new(),
        initialised: text() == "t",
        statement_timeout: text(),
        read_only: text() == "on",
        in_recovery: text() == "t",
    })
}

fn check_server(node: &Datanode, fact: &Facts, report: &mut Report) {
    let name = &node.name;
    if !(MAJOR_MIN..=MAJOR_MAX).contains(&fact.major) {
        let hint = format!("Use PostgreSQL {MAJOR_MIN} to {MAJOR_MAX}.");
        report.error(name, format!("runs PostgreSQL {}, which is not supported", fact.version), hint);
    }
    let prepared = format!("max_prepared_transactions = {}", fact.max_prepared);
    let hint = format!("Set it to at least max_connections ({}) and restart the server.", fact.max_connections);
    if fact.max_prepared == 0 {
        report.error(name, format!("{prepared}: no distributed transaction can commit"), hint);
    } else if fact.max_prepared < fact.max_connections {
        report.warning(name, format!("{prepared} is lower than max_connections = {}", fact.max_connections), hint);
    }
    if fact.in_recovery || fact.read_only {
        report.error(name, "takes no writes", "Name the primary server, with default_transaction_read_only = off.");
    }
    if !fact.superuser {
        report.error(name, "the cluster's user is no superuser", "ALTER ROLE … SUPERUSER, or set another user.");
    }
    for (setting, value) in [("fsync", &fact.fsync), ("full_page_writes", &fact.full_page_writes)] {
        if value != "on" {
            let text = format!("{setting} = {value}: a power failure destroys data, and with it the whole cluster's");
            report.warning(name, text, "Turn it on.");
        }
    }
    if fact.synchronous_commit == "off" {
        let text = "synchronous_commit = off: a crash loses the last confirmed transactions of this node";
        report.warning(name, text, "Turn it on, or accept that.");
    }
    if fact.statement_timeout != "0" {
        let text = format!("statement_timeout = {} ends long loads and queries", fact.statement_timeout);
        report.warning(name, text, "Set it to 0 here and set it per session instead.");
    }
    if fact.wal_level == "minimal" && !is_loopback(&node.host) {
        let text = "wal_level = minimal: no standby and no backup to a point in time is possible";
        report.warning(name, text, "Set it to replica unless this is only for a load.");
    }
    if fact.encoding != "UTF8" {
        report.warning(name, format!("the encoding is {}", fact.encoding), "Use UTF8 on all datanodes.");
    }
}

async fn check_identity(
    id: u16,
    node: &Datanode,
    session: &Session,
    cluster_ids: &mut BTreeMap<String, Vec<String>>,
    report: &mut Report,
) -> Result<()> {
    let rows = session.rows("SELECT node_id, cluster_id FROM loxo.identity").await?;
    let Some([Some(found), Some(cluster_id)]) = rows.first().map(Vec::as_slice) else {
        report.error(&node.name, "its metadata does not say which node it is", "Restore the row of loxo.identity.");
        return Ok(());
    };
    if *found != id.to_string() {
        let text = format!("is node {found} by its own metadata, but number {id} in the configuration");
        let hint = "Give each datanode the name that it has in the metadata (\"loxo node list\"), and no id.";
        report.error(&node.name, text, hint);
    }
    cluster_ids.entry(cluster_id.clone()).or_default().push(node.name.clone());
    Ok(())
}

/// A client logs in to every datanode with what it has proved to a coordinator, which is about one verifier.
fn check_passwords(facts: &[(&Datanode, Facts)], report: &mut Report) {
    let Some(((_, first), others)) = facts.split_first() else { return };
    let differs = |line: &&str| others.iter().any(|(_, fact)| !fact.passwords.lines().any(|other| other == *line));
    let roles: Vec<&str> =
        first.passwords.lines().filter(differs).filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    if !roles.is_empty() {
        let text =
            format!("the stored passwords of these roles differ from datanode to datanode: {}", roles.join(", "));
        report.warning(
            "datanodes",
            text,
            "\"loxo init\" makes them the primary datanode's. Later, set them by ALTER ROLE … PASSWORD through a coordinator: it \
             sends all the same.",
        );
    }
}

fn check_equal(facts: &[(&Datanode, Facts)], report: &mut Report) {
    for (what, why) in EQUAL {
        let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (node, fact) in facts {
            let value = match what {
                "major version" => fact.major.to_string(),
                "encoding" => fact.encoding.clone(),
                "collation" => fact.collation.clone(),
                "TimeZone" => fact.time_zone.clone(),
                _ => fact.roles.clone(),
            };
            values.entry(value).or_default().push(&node.name);
        }
        if values.len() > 1 {
            let list: Vec<String> = values.iter().map(|(v, nodes)| format!("{v} on {}", nodes.join(", "))).collect();
            let text = format!("{what} differs: {}", list.join("; "));
            let level = if what == "roles" { Level::Warning } else { Level::Error };
            report.add(level, "datanodes", text, format!("Make it the same: {why}."));
        }
    }
}
