//! Blocks: declarations, statements one after the other, and handlers.

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState};

use crate::Pending;
use crate::run::assign::null_in;
use crate::run::{Flow, Place, Run, Scope};
use crate::value::{Holds, TEXT, Type, Typed, Variable};
use plpgsql::ast::{Block, Declaration, Declared, Handler, Kind, Statement, TypeText};

impl<'a> Run<'a> {
    pub(crate) fn block<'s>(&'s mut self, block: &'a Block) -> Pending<'s, Flow> {
        Box::pin(async move {
            let depth = self.scopes.len();
            self.scopes.push(Scope { label: block.label.clone(), ..Scope::default() });
            for declaration in &block.declarations {
                self.place =
                    Place { line: declaration.line, at: "during statement block local variable initialization" };
                self.declare(declaration).await?;
            }
            let flow = match &block.handlers {
                None => self.statements(&block.body).await?,
                Some(handlers) => self.guarded(&block.body, handlers).await?,
            };
            self.scopes.truncate(depth);
            Ok(match flow {
                Flow::Exit(Some(label)) if block.label.as_ref() == Some(&label) => Flow::Next,
                flow => flow,
            })
        })
    }

    async fn declare(&mut self, declaration: &'a Declaration) -> Result<()> {
        let name = &declaration.name;
        match &declaration.what {
            Declared::Alias(meant) => {
                self.scope().aliases.push((name.clone(), meant.clone()));
            }
            Declared::Cursor(cursor) => {
                let refcursor = self.host.type_of("NULL::pg_catalog.refcursor").await?;
                let named = self.host.names_bound_cursors().await?;
                let value = named.then(|| Bytes::copy_from_slice(name.as_bytes()));
                self.scope().variables.push(Variable::scalar(name, refcursor, value));
                self.scope().cursors.push((name.clone(), cursor));
            }
            Declared::Variable { collated: true, .. } => {
                return Err(
                    PgError::unsupported("COLLATE of a PL/pgSQL variable").hint("Write COLLATE in the expressions.")
                );
            }
            Declared::Variable { of, constant, not_null, default, .. } => {
                let mut variable = Variable::new(name, self.type_named(of).await?);
                variable.not_null = *not_null;
                let value = match default {
                    // Before the variable itself is there: an outer one of the name is meant.
                    Some(default) => {
                        let shown = format!("PL/pgSQL expression \"{}\"", default.text);
                        Some(self.value_shown(default, &shown).await?)
                    }
                    None => None,
                };
                // NULL may be no value of a domain.
                let is_domain = matches!(&variable.holds, Holds::Scalar(of) | Holds::Row(of) if of.over.is_some());
                self.scope().variables.push(variable);
                if let Some(typed) = value.or_else(|| is_domain.then(|| Typed::text(None))) {
                    self.assign(std::slice::from_ref(name), typed).await?;
                }
                let Some(variable) = self.scope().variables.last_mut() else { return Ok(()) };
                if *not_null && variable.value.is_none() && matches!(variable.holds, Holds::Scalar(_)) {
                    return Err(null_in(name));
                }
                variable.constant = *constant;
            }
        }
        Ok(())
    }

    pub(crate) fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// A type as it is written; `None` for records.
    async fn type_named(&mut self, of: &TypeText) -> Result<Option<Type>> {
        let quoted = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
            names.join(".")
        };
        let expression = match of {
            TypeText::Record => return Ok(None),
            TypeText::Named(name) => format!("NULL::{name}"),
            TypeText::RowOf(name) => format!("NULL::{}", quoted(name)),
            TypeText::Like { name, array } => {
                if let Some(of) = self.type_of_variable(name).await? {
                    match (of, array) {
                        (Some(of), false) => return Ok(Some(of)),
                        (Some(of), true) => format!("NULL::{}[]", of.name),
                        (None, _) => return Ok(None),
                    }
                } else {
                    let Some((column, table)) = name.split_last().filter(|(_, table)| !table.is_empty()) else {
                        let message = format!("variable \"{}\" does not exist", name.join("."));
                        return Err(PgError::new(SqlState::UNDEFINED_OBJECT, message));
                    };
                    let column = format!("(NULL::{}).{}", quoted(table), quoted(std::slice::from_ref(column)));
                    match array {
                        true => format!("ARRAY[{column}]"),
                        false => column,
                    }
                }
            }
        };
        self.host.type_of(&expression).await.map(Some)
    }

    /// `None`: there is no such variable; `Some(None)`: it is a record.
    async fn type_of_variable(&mut self, name: &[String]) -> Result<Option<Option<Type>>> {
        let Some(spot) = self.look_up(name) else { return Ok(None) };
        let variable = &self.scopes[spot.scope].variables[spot.at];
        match (&spot.field, &variable.holds) {
            (Some(field), _) => {
                let typed = &variable.cell(field)?.typed;
                let (oid, modifier) = (typed.oid, typed.modifier);
                self.host.type_with(oid, modifier).await.map(|of| Some(Some(of)))
            }
            (None, Holds::Scalar(of) | Holds::Row(of)) => Ok(Some(Some(of.clone()))),
            (None, Holds::Record) => Ok(Some(None)),
        }
    }

    pub(crate) fn statements<'s>(&'s mut self, statements: &'a [Statement]) -> Pending<'s, Flow> {
        Box::pin(async move {
            for statement in statements {
                match self.one(statement).await? {
                    Flow::Next => {}
                    flow => return Ok(flow),
                }
            }
            Ok(Flow::Next)
        })
    }

    /// A body whose errors are handled. What it did is undone then.
    async fn guarded(&mut self, body: &'a [Statement], handlers: &'a [Handler]) -> Result<Flow> {
        let depth = self.scopes.len();
        let savepoint = format!("loxo_handler_{}_{}", self.host.depth(), self.savepoints);
        self.host.savepoint(&savepoint).await?;
        self.savepoints += 1;
        let ended = self.statements(body).await;
        self.savepoints -= 1;
        let error = match ended {
            Ok(flow) => {
                self.host.release(&savepoint).await?;
                return Ok(flow);
            }
            Err(error) => error,
        };
        let Some(handler) = handlers.iter().find(|handler| handles(handler, &error)) else { return Err(error) };
        let error = self.traced(error);
        if error.code() == SqlState::QUERY_CANCELED {
            self.host.cancel_caught(&error).await?;
        }
        self.host.undo(&savepoint).await?;
        self.scopes.truncate(depth);
        let mut scope = Scope::default();
        for (name, value) in [("sqlstate", error.code().to_string()), ("sqlerrm", error.message().into_owned())] {
            let of = Type { oid: TEXT, modifier: -1, name: "text".to_owned(), fields: None, over: None };
            scope.variables.push(Variable::scalar(name, of, Typed::text(Some(value)).value));
        }
        self.scopes.push(scope);
        self.caught.push(error);
        let flow = self.statements(&handler.body).await;
        self.caught.pop();
        self.scopes.truncate(depth);
        flow
    }

    /// A statement, whatever it is.
    fn one<'s>(&'s mut self, statement: &'a Statement) -> Pending<'s, Flow> {
        Box::pin(async move {
            self.place = Place { line: statement.line, at: statement.kind.name() };
            match &statement.kind {
                Kind::Block(block) => self.block(block).await,
                Kind::If { .. }
                | Kind::Case { .. }
                | Kind::Loop { .. }
                | Kind::While { .. }
                | Kind::ForInteger { .. }
                | Kind::ForRows { .. }
                | Kind::ForEach { .. }
                | Kind::Exit { .. } => self.control(&statement.kind).await,
                Kind::Return(value) => self.give_back(value.as_ref()).await,
                Kind::Null => Ok(Flow::Next),
                other => self.plain(other).await.map(|()| Flow::Next),
            }
        })
    }
}

fn handles(handler: &Handler, error: &PgError) -> bool {
    if error.is_fatal() {
        return false;
    }
    let state = *error.code().as_bytes();
    // OTHERS is not for these two.
    let is_special = state == *b"57014" || state == *b"P0004";
    handler.conditions.iter().any(|condition| match condition {
        None => !is_special,
        Some(wanted) if wanted.ends_with(b"000") => wanted[..2] == state[..2],
        Some(wanted) => *wanted == state,
    })
}

/// The SQLSTATE of a condition.
pub(crate) fn state_of(text: &str) -> Result<SqlState> {
    let state = plpgsql::conditions::named_or_state(text)?;
    SqlState::from_bytes(&state).ok_or_else(|| PgError::internal("a condition without SQLSTATE"))
}
