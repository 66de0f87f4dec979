//! Statements that rules made of one (`planner::Rewritten`), run one after the other in one transaction.

use std::sync::Arc;

use executor::{Call, Completion, Spool};
use pgerror::{PgError, Result, SqlState, field};
use planner::{OfOwner, Rewritten, Statement};
use routine::Pending;

use super::runner::Runner;

impl Runner {
    /// Runs them; the client hears of the one that answers.
    pub(super) fn rewritten<'s>(
        &'s mut self,
        rewritten: &'s Rewritten,
        statement: &'s Statement,
        call: &'s Call,
        mut spool: Option<&'s mut Spool>,
    ) -> Pending<'s, Completion> {
        Box::pin(async move {
            let validity = self.session().validity_of_all(rewritten.steps.iter().map(|step| &*step.statement.sql));
            let call = self.with_types(statement, call).await?;
            self.follows_rules().await?;
            if rewritten.checks_rights {
                self.may_run(&statement.sql, &call).await?;
            }
            self.has_rights_of_owners(rewritten, &call).await?;
            let mut ended = Completion::tag(rewritten.tag);
            for step in &rewritten.steps {
                match step.answers {
                    true => ended = self.step(&step.statement, &call, spool.take()).await?,
                    false => self.run_suspended(&step.statement, &call).await?,
                }
            }
            self.session().check_plans(validity).await?;
            Ok(ended)
        })
    }

    /// PostgreSQL's own errors, and the types of the parameters: a step may name some of them only.
    pub(super) async fn with_types(&mut self, statement: &Statement, call: &Call) -> Result<Call> {
        let mut call = call.clone();
        let types = call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default();
        let described = self.session().describe(&statement.sql, &types).await?;
        if let Some(parameters) = &mut call.parameters {
            Arc::make_mut(parameters).types = described.parameters;
        }
        Ok(call)
    }

    /// What rules make of a statement PostgreSQL runs with the rights of their tables' owners, we with the user's.
    async fn has_rights_of_owners(&mut self, rewritten: &Rewritten, call: &Call) -> Result<()> {
        if rewritten.of_owners.is_empty() {
            return Ok(());
        }
        let rows = self.asked(&planner::own_text(&rights_asked(&rewritten.of_owners))?).await?;
        let answers: Vec<bool> = rows.into_iter().flatten().map(|of| of.as_deref() == Some(b"t")).collect();
        let of_others: Vec<(&str, bool)> = std::iter::zip(&rewritten.of_owners, answers.chunks(2))
            .filter(|(_, answer)| answer.first() != Some(&true))
            .map(|(of, answer)| (of.name.as_str(), answer.get(1) == Some(&true)))
            .collect();
        let Some((first, _)) = of_others.first() else { return Ok(()) };
        if let Some((name, _)) = of_others.iter().find(|(_, may)| !may) {
            return Err(refused(name));
        }
        for step in rewritten.steps.iter().filter(|step| step.statement.kind.row_command().is_some()) {
            let may = self.may_run(&step.statement.sql, call).await;
            may.map_err(|error| match error.code() == SqlState::INSUFFICIENT_PRIVILEGE {
                true => refused(first),
                false => error.without(field::POSITION),
            })?;
        }
        Ok(())
    }

    /// A replica follows other rules than those that we have followed.
    async fn follows_rules(&mut self) -> Result<()> {
        let rows = self.asked("SELECT pg_catalog.current_setting('session_replication_role')").await?;
        match rows.first().and_then(|row| row.first()?.as_deref()) {
            Some(b"replica") => {
                Err(PgError::unsupported("a change that rules rewrite, with session_replication_role = replica,")
                    .hint("Use ALTER TABLE … DISABLE RULE."))
            }
            _ => Ok(()),
        }
    }

    /// The home node looks whether the user may do what the statement itself says.
    pub(super) async fn may_run(&mut self, sql: &str, call: &Call) -> Result<()> {
        let own = self.rows_into(Some(Spool::default().described()));
        let explained = self.forward_home(&format!("EXPLAIN {sql}"), &for_ourselves(call)).await;
        self.rows_into(own);
        explained.map(drop)
    }

    /// What it gives is not for the client.
    async fn run_suspended(&mut self, statement: &Statement, call: &Call) -> Result<()> {
        let own = self.rows_into(Some(Spool::default().described()));
        let ended = self.step(statement, &for_ourselves(call), None).await;
        self.rows_into(own);
        ended.map(drop)
    }

    /// Errors are about a text that the client has not written.
    async fn step(&mut self, statement: &Statement, call: &Call, spool: Option<&mut Spool>) -> Result<Completion> {
        let ended = Box::pin(self.execute(statement, call, spool)).await;
        ended.map_err(|error| error.without(field::POSITION))
    }
}

/// For each: is the user the owner, and has the owner the rights, with no policies?
fn rights_asked(of_owners: &[OfOwner]) -> String {
    let asked = of_owners.iter().map(|of| {
        let may = |right: &&str| format!("pg_catalog.has_table_privilege(c.relowner, {}::oid, '{right}')", of.on);
        let may: Vec<String> = of.rights.iter().map(may).chain([(!of.has_policies).to_string()]).collect();
        let about = format!("FROM pg_catalog.pg_class c WHERE c.oid = {}", of.relation);
        let is_owner = "pg_catalog.pg_get_userbyid(c.relowner) = CURRENT_USER";
        format!("(SELECT {is_owner} {about}), (SELECT {} {about})", may.join(" AND "))
    });
    format!("SELECT {}", asked.collect::<Vec<_>>().join(", "))
}

fn refused(name: &str) -> PgError {
    PgError::unsupported(format!("a change by rules of \"{name}\", which run with the rights of its owner,"))
        .detail("The user or the owner may not do all that the rules do, or policies may show them different rows.")
        .hint("GRANT both the rights, or make the change as the owner.")
}

/// Rows as text, with their description.
fn for_ourselves(call: &Call) -> Call {
    Call { result_formats: Vec::new(), describe: true, ..call.clone() }
}
