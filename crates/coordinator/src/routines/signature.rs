//! What the catalog says of a function or procedure.

use bytes::Bytes;
use executor::Parameters;
use pgerror::{PgError, Result, SqlState};
use planner::{Argument, RoutineCall};
use routine::{Ended, Parameter, Type};

use super::runner::Runner;

/// See the page.
pub(super) struct Signature {
    /// As CONTEXT names it.
    text: String,
    name: String,
    parameters: Vec<Declared>,
    pub(super) columns: Vec<(String, Type)>,
    by_parameters: bool,
    pub(super) is_set: bool,
    pub(super) is_strict: bool,
    is_volatile: bool,
    is_procedure: bool,
    language: String,
    source: String,
    may_execute: bool,
    pub(super) is_definer: bool,
    is_own: bool,
    /// Its SET clauses.
    pub(super) settings: Vec<(String, String)>,
    /// Definition of a SQL function.
    definition: String,
    is_shadowed: bool,
}

struct Declared {
    name: Option<String>,
    of: Type,
    is_in: bool,
    is_out: bool,
    is_variadic: bool,
    is_polymorphic: bool,
    default: Option<String>,
}

pub(super) const VOID: u32 = 2278;
const RECORD: u32 = 2249;

impl Runner {
    pub(super) async fn signature(&mut self, one: &RoutineCall) -> Result<Signature> {
        let oid = one.function;
        let sql = format!(
            "SELECT p.oid::pg_catalog.regprocedure::text, p.proname, l.lanname, p.provolatile, p.prokind, p.proisstrict, \
             p.proretset, p.prorettype, p.prosrc, pg_catalog.has_function_privilege(p.oid, 'EXECUTE'), p.prosecdef, \
             pg_catalog.pg_get_userbyid(p.proowner) = CURRENT_USER, pg_catalog.array_to_json(p.proconfig)::text, \
             EXISTS (SELECT FROM pg_catalog.pg_proc o WHERE o.proname = p.proname \
               AND o.pronamespace = 'pg_catalog'::pg_catalog.regnamespace), \
             CASE l.lanname WHEN 'sql' THEN pg_catalog.pg_get_functiondef(p.oid) END \
             FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE p.oid = {oid}"
        );
        let rows = self.asked(&planner::own_text(&sql)?).await?;
        let row = rows.first().ok_or_else(|| PgError::new(SqlState::UNDEFINED_FUNCTION, "the function is gone"))?;
        let text = |at: usize| text_at(row, at);
        let flag = |at: usize| text_at(row, at) == "t";
        let parameters = self.declared(oid).await?;
        let mut signature = Signature {
            text: text(0),
            name: text(1),
            language: text(2),
            is_volatile: text(3) == "v",
            is_procedure: text(4) == "p",
            is_strict: flag(5),
            is_set: flag(6),
            source: text(8),
            may_execute: flag(9),
            is_definer: flag(10),
            is_own: flag(11),
            settings: settings(&text(12))?,
            definition: text(14),
            is_shadowed: flag(13) && one.is_bare,
            columns: Vec::new(),
            by_parameters: parameters.iter().any(|parameter| parameter.is_out),
            parameters,
        };
        signature.columns = self.columns(&signature, text(7).parse().unwrap_or(0)).await?;
        Ok(signature)
    }

    async fn declared(&mut self, oid: u32) -> Result<Vec<Declared>> {
        let sql = format!(
            "SELECT a.type, coalesce(p.proargmodes[a.nth], 'i'), CASE WHEN p.proargnames[a.nth] <> '' THEN p.proargnames[a.nth] END, \
             pg_catalog.pg_get_function_arg_default(p.oid, a.nth::int), \
             EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid = a.type AND t.typtype = 'p' AND t.oid <> {RECORD}) \
             FROM pg_catalog.pg_proc p, \
             pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY a(type, nth) \
             WHERE p.oid = {oid} ORDER BY a.nth"
        );
        let rows = self.asked(&planner::own_text(&sql)?).await?;
        let mut parameters = Vec::with_capacity(rows.len());
        for row in &rows {
            let mode = text_at(row, 1);
            let optional =
                |at: usize| row.get(at).cloned().flatten().map(|text| String::from_utf8_lossy(&text).into_owned());
            parameters.push(Declared {
                name: optional(2),
                of: self.find_type(text_at(row, 0).parse().unwrap_or(0), -1).await?,
                is_in: ["i", "b", "v"].contains(&mode.as_str()),
                is_out: ["o", "b", "t"].contains(&mode.as_str()),
                is_variadic: mode == "v",
                is_polymorphic: text_at(row, 4) == "t",
                default: optional(3),
            });
        }
        Ok(parameters)
    }

    async fn columns(&mut self, signature: &Signature, returns: u32) -> Result<Vec<(String, Type)>> {
        if signature.by_parameters {
            let outs = signature.parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_out);
            let name =
                |at: usize, parameter: &Declared| parameter.name.clone().unwrap_or_else(|| format!("column{}", at + 1));
            return Ok(outs.map(|(at, parameter)| (name(at, parameter), parameter.of.clone())).collect());
        }
        if returns == VOID || signature.is_procedure {
            return Ok(Vec::new());
        }
        if returns == RECORD {
            return Err(PgError::unsupported(format!(
                "function {} that returns records without columns",
                signature.text
            ))
            .hint("Declare it with RETURNS TABLE (…) or OUT parameters."));
        }
        let of = self.find_type(returns, -1).await?;
        Ok(vec![(signature.name.clone(), of)])
    }
}

fn text_at(row: &[Option<Bytes>], at: usize) -> String {
    String::from_utf8_lossy(row.get(at).and_then(Option::as_deref).unwrap_or_default()).into_owned()
}

/// `["name=value", …]`.
fn settings(json: &str) -> Result<Vec<(String, String)>> {
    if json.is_empty() {
        return Ok(Vec::new());
    }
    let list: Vec<String> = serde_json::from_str(json).map_err(|error| PgError::internal(error.to_string()))?;
    let pair = |setting: &String| setting.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(list.iter().filter_map(pair).collect())
}

impl Signature {
    /// Is this a function that may be run, and as it should?
    pub(super) fn check(&self, one: &RoutineCall, keeps_snapshot: bool) -> Result<()> {
        let kind = if self.is_procedure { "procedure" } else { "function" };
        if !self.may_execute {
            let message = format!("permission denied for {kind} {}", self.name);
            return Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.check_body(one, keeps_snapshot)
    }

    /// Is this a function that roles without the right to call it may run, a trigger's?
    pub(super) fn check_body(&self, one: &RoutineCall, keeps_snapshot: bool) -> Result<()> {
        let kind = if self.is_procedure { "procedure" } else { "function" };
        let refuse = |what: &str, hint: &str| {
            Err(PgError::unsupported(format!("{kind} {}, which {what} and touches partitioned tables,", self.text))
                .hint(hint))
        };
        if self.is_shadowed {
            return refuse("bears the name of a built-in one", &format!("Put the schema before {}.", one.name));
        }
        if self.is_definer && !self.is_own {
            return refuse("is SECURITY DEFINER for another role", "Call it as its owner.");
        }
        let refused = self.settings.iter().find_map(|(name, _)| executor::refused_in_definer(name));
        if let Some(error) = refused.filter(|_| self.is_definer) {
            return Err(error);
        }
        if !["plpgsql", "sql"].contains(&self.language.as_str()) {
            return refuse(&format!("is in language {}", self.language), "Write it in PL/pgSQL.");
        }
        if self.parameters.iter().any(|parameter| parameter.is_variadic || parameter.is_polymorphic) {
            return refuse("is polymorphic or VARIADIC", "Name the types of its parameters.");
        }
        if !self.is_volatile && !keeps_snapshot {
            return refuse("is not VOLATILE", "Declare it VOLATILE, or call it in a REPEATABLE READ transaction.");
        }
        Ok(())
    }

    /// The argument of each parameter as SQL, cast to its type; `None` for what only goes out.
    pub(super) fn expressions(&self, arguments: &[Argument]) -> Result<Vec<Option<String>>> {
        let positional: Vec<&Argument> = arguments.iter().take_while(|argument| argument.name.is_none()).collect();
        let mut given = positional.into_iter();
        let mut expressions = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            // CALL names OUT parameters too.
            let takes = parameter.is_in || (self.is_procedure && parameter.is_out);
            let value = if takes { given.next() } else { None };
            let named = || arguments.iter().find(|argument| argument.name.is_some() && argument.name == parameter.name);
            let sql = value.or_else(named).map(|argument| argument.sql.clone()).or_else(|| parameter.default.clone());
            expressions.push(match (parameter.is_in, sql) {
                (false, _) => None,
                (true, Some(sql)) => Some(parameter.of.assigned(&sql)),
                (true, None) => {
                    return Err(PgError::internal(format!("an argument of {} is missing", self.text)));
                }
            });
        }
        Ok(expressions)
    }

    /// Those of the parameters.
    pub(super) fn types(&self) -> impl Iterator<Item = &Type> {
        self.parameters.iter().map(|parameter| &parameter.of)
    }

    pub(super) fn has_null(&self, values: &[Option<Bytes>]) -> bool {
        self.parameters.iter().zip(values).any(|(parameter, value)| parameter.is_in && value.is_none())
    }

    pub(super) fn body(&self) -> Result<routine::ast::Body> {
        if self.language == "plpgsql" {
            return routine::body(&self.source);
        }
        let statements = planner::sql_statements(&self.definition);
        let statements = statements.ok_or_else(|| {
            PgError::unsupported(format!("the body of function {}", self.text)).hint("Write it in PL/pgSQL.")
        })?;
        Ok(routine::sql_body(statements))
    }

    pub(super) fn routine(&self, values: Vec<Option<Bytes>>, may_end: bool, callers: String) -> routine::Routine {
        let parameter = |(parameter, value): (&Declared, Option<Bytes>)| Parameter {
            name: parameter.name.clone(),
            of: parameter.of.clone(),
            is_out: parameter.is_out,
            value,
            tableoid: None,
        };
        routine::Routine {
            signature: self.text.clone(),
            name: self.name.clone(),
            parameters: self.parameters.iter().zip(values).map(parameter).collect(),
            columns: self.columns.clone(),
            by_parameters: self.by_parameters,
            is_set: self.is_set,
            is_sql: self.language == "sql",
            is_atomic: !may_end || self.is_definer || !self.settings.is_empty(),
            reads_only: !self.is_volatile,
            is_trigger: false,
            callers,
        }
    }

    /// A query that gives the values of OUT parameters.
    pub(super) fn row(&self, ended: Ended) -> (String, Parameters) {
        let values = ended.rows.into_iter().next().unwrap_or_else(|| vec![None; self.columns.len()]);
        let column = |(at, (name, of)): (usize, &(String, Type))| {
            format!("CAST(${} AS {}) AS {}", at + 1, of.name, catalog::quote_identifier(name))
        };
        let list: Vec<String> = self.columns.iter().enumerate().map(column).collect();
        let parameters = Parameters { types: vec![0; values.len()], formats: Vec::new(), values };
        (format!("SELECT {}", list.join(", ")), parameters)
    }
}
