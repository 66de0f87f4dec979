//! What PL/pgSQL's settings make of INTO: `plpgsql.extra_errors`, `plpgsql.extra_warnings`, `plpgsql.print_strict_params`. They are
//! asked for where they make a difference only, which is seldom.

use std::collections::BTreeSet;

use pgerror::{PgError, Result};

use crate::run::statements::state;
use crate::run::{Run, with_context};
use crate::value::{Holds, TEXT, Typed};
use plpgsql::ast::{Sql, Target};

/// What the settings are, while nothing sets them.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    /// Names of checks.
    errors: Vec<String>,
    warnings: Vec<String>,
    prints_parameters: bool,
}

impl Run<'_> {
    async fn checks(&mut self) -> Result<Checks> {
        if let Some(known) = &self.checks {
            return Ok(known.clone());
        }
        let names = ["extra_errors", "extra_warnings", "print_strict_params"];
        let columns = names.map(|name| format!("pg_catalog.current_setting('plpgsql.{name}', true)"));
        let rows = self.host.ask(format!("SELECT {}", columns.join(", "))).await?;
        let mut values = rows.into_iter().flatten().map(|value| value.unwrap_or_default());
        let mut next = || String::from_utf8_lossy(&values.next().unwrap_or_default()).to_ascii_lowercase();
        let list = |text: String| text.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect();
        let checks = Checks { errors: list(next()), warnings: list(next()), prints_parameters: next() == "on" };
        self.checks = Some(checks.clone());
        Ok(checks)
    }

    /// Tells of what a check has found, if it is switched on.
    async fn found(&mut self, check: &str, tell: impl Fn(&str, &'static str) -> PgError) -> Result<()> {
        let checks = self.checks().await?;
        let is_on = |names: &[String]| names.iter().any(|name| name == check || name == "all");
        if is_on(&checks.errors) {
            return Err(tell("extra_errors", "ERROR"));
        }
        if is_on(&checks.warnings) && self.is_told("WARNING").await? {
            let context = self.context();
            self.host.notice(with_context(tell("extra_warnings", "WARNING"), &context));
        }
        Ok(())
    }

    /// A query without STRICT gave several rows.
    pub(crate) async fn found_many_rows(&mut self) -> Result<()> {
        self.found("too_many_rows", |_, severity| {
            PgError::with_severity(severity, state(b"P0003"), "query returned more than one row")
                .hint("Make sure the query returns a single row, or use LIMIT 1.")
        })
        .await
    }

    /// Has a row as many columns as there are variables for it?
    pub(crate) async fn check_width(&mut self, target: &Target, columns: usize) -> Result<()> {
        let wanted = match target {
            Target::List(names) => names.len(),
            Target::One(name) => {
                let spot = self.spot(name)?;
                match &self.scopes[spot.scope].variables[spot.at].holds {
                    Holds::Row(of) if spot.field.is_none() => of.fields.as_ref().map_or(columns, Vec::len),
                    Holds::Record if spot.field.is_none() => columns,
                    _ => 1,
                }
            }
        };
        // Each variable without a column is told of.
        let times = if wanted == columns { 0 } else { wanted.saturating_sub(columns).max(1) };
        for _ in 0..times {
            self.found("strict_multi_assignment", |setting, severity| {
                let message = "number of source and target fields in assignment does not match";
                PgError::with_severity(severity, state(b"42804"), message)
                    .detail(format!("strict_multi_assignment check of {setting} is active."))
                    .hint("Make sure the query returns the exact list of columns.")
            })
            .await?;
        }
        Ok(())
    }

    /// An error of STRICT with the values of what the statement was given, if they are to be printed.
    pub(crate) async fn with_parameters(&mut self, error: PgError, given: Vec<(String, Typed)>) -> Result<PgError> {
        let prints = match self.prints_parameters {
            Some(prints) => prints,
            None => self.checks().await?.prints_parameters,
        };
        if !prints || given.is_empty() {
            return Ok(error);
        }
        let shown = given.into_iter().map(|(name, typed)| match typed.value {
            Some(value) => format!("{name} = '{}'", String::from_utf8_lossy(&value).replace('\'', "''")),
            None => format!("{name} = NULL"),
        });
        Ok(error.detail(format!("parameters: {}", shown.collect::<Vec<_>>().join(", "))))
    }

    /// The variables in a statement, in the order of their declaration.
    pub(crate) async fn variables_in(&mut self, sql: &Sql) -> Result<Vec<(String, Typed)>> {
        let resolved = self.resolve(sql).await?;
        let spots: BTreeSet<_> = resolved.variables().filter_map(|parts| self.look_up(parts)).collect();
        spots
            .into_iter()
            .map(|spot| {
                let variable = &self.scopes[spot.scope].variables[spot.at];
                match spot.field {
                    Some(field) => Ok((field.clone(), variable.cell(&field)?.typed.clone())),
                    None => {
                        let value = variable.value.clone().or_else(|| variable.row());
                        Ok((variable.name.clone(), Typed { oid: TEXT, modifier: -1, value }))
                    }
                }
            })
            .collect()
    }
}
