//! What a coordinator's host does for the whole cluster, by its configuration.

use futures_util::future::try_join_all;
use pgerror::{PgError, Result, SqlState, field};

use super::Host;
use super::wanted::Report;
use crate::check::{Level, check};
use crate::config::{Config, Datanode};
use crate::init::{at, init};
use crate::join::Join;
use crate::membership;
use crate::sql::Session;
use crate::upgrade::upgrade;

/// What `loxo init` leaves in between if it is killed.
const UNFINISHED_SQL: &str = "SELECT count(*) > 0 FROM pg_catalog.pg_prepared_xacts WHERE gid LIKE 'loxo_init_%'";

impl Host<'_> {
    pub(super) async fn initialise(&self, report: &mut Report) -> Result<()> {
        let config = self.config()?;
        if let Some(id) = existing(&config).await? {
            match self.progress.step("upgrading the metadata", upgrade(&config)).await? {
                Some(layout) => report.did("cluster", &format!("metadata of layout {layout} upgraded")),
                None => report.left("cluster"),
            }
            report.cluster_id = Some(id);
            return Ok(());
        }
        report.cluster_id = Some(self.progress.step("writing the metadata", init(&config)).await?);
        report.did("cluster", "initialised");
        Ok(())
    }

    /// Servers among `datanodes` of the request that are no datanodes yet. A call that was killed is taken up.
    pub(super) async fn join(&self, report: &mut Report) -> Result<()> {
        let config = self.config()?;
        for new in &self.wanted.joining {
            let members = membership::members(&config).await?;
            let member = members.iter().find(|member| member.name == new.name);
            if let Some(member) = member
                && membership::lacking(&config, member.id).await?.is_empty()
            {
                report.left(&new.name);
                report.joined.insert(new.name.clone(), member.id);
                continue;
            }
            let node = Datanode {
                name: new.name.clone(),
                id: None,
                host: new.host.clone(),
                port: new.port,
                primary: false,
                preferred: false,
            };
            let id = self.progress.step(&format!("adding {}", new.name), added(&config, &node, self)).await?;
            report.did(&new.name, "a datanode of the cluster; \"loxo rebalance\" gives it its share of the rows");
            report.joined.insert(new.name.clone(), id);
        }
        Ok(())
    }

    pub(super) async fn check(&self, report: &mut Report) -> Result<()> {
        let config = self.config()?;
        self.note_nodes(&config, report).await?;
        let findings = self.progress.step("checking", check(&config)).await?;
        let line = |finding: &crate::Finding| format!("{}: {}\n    {}", finding.subject, finding.text, finding.hint);
        let (errors, warnings): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.level == Level::Error);
        if !errors.is_empty() {
            let errors: Vec<String> = errors.into_iter().map(line).collect();
            let text = "the cluster runs, but something is wrong with it";
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text).detail(errors.join("\n  ")));
        }
        for warning in warnings {
            report.warnings.push(line(warning));
        }
        Ok(())
    }

    async fn note_nodes(&self, config: &Config, report: &mut Report) -> Result<()> {
        let noted = membership::others(config).await?;
        let gtms = config.gtms.iter().enumerate();
        let gtms = gtms.map(|(at, gtm)| (crate::gtm_name(at), "gtm", gtm.host.clone(), gtm.port));
        let coordinators = config.coordinators.iter().map(|own| {
            // The configuration was validated, so every address has its two parts.
            let (host, port) = own.address().unwrap_or_default();
            (own.name.clone(), "coordinator", host, port)
        });
        for (name, kind, host, port) in gtms.chain(coordinators).filter(|(name, ..)| !noted.contains(name)) {
            let create = format!(
                "CREATE NODE {} WITH (TYPE = '{kind}', HOST = {}, PORT = {port})",
                crate::sql::identifier(&name),
                crate::sql::literal(&host)
            );
            membership::coordinator(config).await?.run(&create).await?;
            report.did(&name, "part of the cluster");
        }
        Ok(())
    }
}

/// The id of the cluster that the datanodes are; `None` unless all of them are, and nothing is left to be finished.
async fn existing(config: &Config) -> Result<Option<String>> {
    let look = async |node: &Datanode| {
        let session = Session::connect(&config.endpoint(&node.host, node.port)?).await.map_err(|e| at(node, e))?;
        if session.value("SELECT to_regclass('loxo.identity')").await?.is_none() {
            return Ok::<_, PgError>(None);
        }
        let is_unfinished = session.value(UNFINISHED_SQL).await?.as_deref() == Some("t");
        let id = session.value("SELECT cluster_id FROM loxo.identity").await?;
        Ok(id.filter(|_| !is_unfinished))
    };
    let ids = try_join_all(config.datanodes.iter().map(look)).await?;
    let Some(first) = ids.first().cloned().flatten() else { return Ok(None) };
    Ok(ids.iter().all(|id| id.as_ref() == Some(&first)).then_some(first))
}

async fn added(config: &Config, new: &Datanode, host: &Host<'_>) -> Result<u16> {
    let join = Join::new(config, new, &host.progress).await?;
    let outcome = tokio::select! {
        outcome = join.add() => outcome,
        name = crate::interrupted() => Err(PgError::new(SqlState::QUERY_CANCELED, format!("stopped by {name}"))),
    };
    match outcome {
        Ok(id) => Ok(id),
        Err(error) => {
            let id = join.left_after(error.clone()).await?;
            join.check_complete(id, &error).await.map(|()| id)
        }
    }
    .map_err(|error| error.clone().with(field::MESSAGE, format!("{}: {}", new.name, error.message())))
}
