//! All parts of a body, in the order of its text.

use crate::ast::{Block, Declaration, Declared, Kind, Opened, Rows, Sql, Statement, Step, Target};

/// A part of a body.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Part<'a> {
    Declaration(&'a Declaration),
    /// Before what is in it.
    Statement(&'a Kind),
    Sql(&'a Sql),
}

impl Block {
    /// Shows every part of the block.
    pub fn walk<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        for declaration in &self.declarations {
            see(Part::Declaration(declaration));
            match &declaration.what {
                Declared::Variable { default, .. } => all(default, see),
                Declared::Cursor(cursor) => see(Part::Sql(&cursor.query)),
                Declared::Alias(_) => {}
            }
        }
        statements(&self.body, see);
        self.handlers.iter().flatten().for_each(|handler| statements(&handler.body, see));
    }
}

fn statements<'a>(list: &'a [Statement], see: &mut dyn FnMut(Part<'a>)) {
    for statement in list {
        see(Part::Statement(&statement.kind));
        statement.kind.walk(see);
    }
}

fn all<'a>(list: impl IntoIterator<Item = &'a Sql>, see: &mut dyn FnMut(Part<'a>)) {
    list.into_iter().for_each(|sql| see(Part::Sql(sql)));
}

fn values<'a>(list: &'a [(Option<String>, Sql)], see: &mut dyn FnMut(Part<'a>)) {
    all(list.iter().map(|(_, sql)| sql), see);
}

fn branches<'a>(list: &'a [(usize, Sql, Vec<Statement>)], see: &mut dyn FnMut(Part<'a>)) {
    for (_, condition, body) in list {
        see(Part::Sql(condition));
        statements(body, see);
    }
}

impl Step {
    fn walk<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        match self {
            Step::Subscript(subscript) => see(Part::Sql(subscript)),
            Step::Slice(lower, upper) => all(lower.iter().chain(upper), see),
            Step::Field(_) => {}
        }
    }
}

impl Kind {
    fn walk<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        match self {
            Kind::Block(block) => block.walk(see),
            Kind::Assign { value, .. } => all([value], see),
            Kind::AssignElement { path, value, .. } => {
                path.iter().for_each(|step| step.walk(see));
                see(Part::Sql(value));
            }
            Kind::If { branches: list, otherwise } => {
                branches(list, see);
                statements(otherwise, see);
            }
            Kind::Case { subject, branches: list, otherwise } => {
                all(subject, see);
                branches(list, see);
                otherwise.iter().for_each(|body| statements(body, see));
            }
            Kind::Loop { body, .. } => statements(body, see),
            Kind::While { condition, body, .. } => {
                see(Part::Sql(condition));
                statements(body, see);
            }
            Kind::ForInteger { lower, upper, step, body, .. } => {
                all([lower, upper].into_iter().chain(step), see);
                statements(body, see);
            }
            Kind::ForRows { rows, body, .. } => {
                match rows {
                    Rows::Query(query) => see(Part::Sql(query)),
                    Rows::Dynamic { query, using } => all([query].into_iter().chain(using), see),
                    Rows::Cursor { arguments, .. } => values(arguments, see),
                }
                statements(body, see);
            }
            Kind::ForEach { array, body, .. } => {
                see(Part::Sql(array));
                statements(body, see);
            }
            Kind::Exit { when, .. } => all(when, see),
            Kind::Return(value) | Kind::ReturnNext(value) => all(value, see),
            Kind::ReturnQuery(sql) | Kind::Perform(sql) | Kind::Call(sql) => see(Part::Sql(sql)),
            Kind::Sql { sql, .. } | Kind::Step { sql, .. } => see(Part::Sql(sql)),
            Kind::ReturnExecute { query, using } | Kind::Execute { query, using, .. } => {
                all([query].into_iter().chain(using), see);
            }
            Kind::Raise(raise) => all(raise.parameters.iter().chain(raise.options.iter().map(|(_, sql)| sql)), see),
            Kind::Assert { condition, message } => all([condition].into_iter().chain(message), see),
            Kind::Open { opened, .. } => match opened {
                Opened::Bound(arguments) => values(arguments, see),
                Opened::Query { query, .. } => see(Part::Sql(query)),
                Opened::Dynamic { query, using, .. } => all([query].into_iter().chain(using), see),
            },
            Kind::Fetch(fetch) => all(&fetch.count, see),
            Kind::Diagnostics { .. } | Kind::Close(_) | Kind::End { .. } | Kind::Null => {}
        }
    }

    /// The variables that the statement itself gives a value, but for those that a CALL does.
    pub fn targets(&self) -> Vec<&[String]> {
        match self {
            Kind::Assign { target, .. } | Kind::AssignElement { target, .. } => vec![target],
            Kind::ForInteger { variable, .. } => vec![std::slice::from_ref(variable)],
            Kind::ForRows { target, .. } | Kind::ForEach { target, .. } => target.names(),
            Kind::Sql { into: Some((target, _)), .. } | Kind::Execute { into: Some((target, _)), .. } => target.names(),
            Kind::Fetch(fetch) => fetch.into.iter().flat_map(Target::names).collect(),
            Kind::Diagnostics { items, .. } => items.iter().map(|(target, _)| target.as_slice()).collect(),
            _ => Vec::new(),
        }
    }

    /// Does it run a statement whose text is computed?
    pub fn is_dynamic(&self) -> bool {
        matches!(
            self,
            Kind::Execute { .. }
                | Kind::ReturnExecute { .. }
                | Kind::ForRows { rows: Rows::Dynamic { .. }, .. }
                | Kind::Open { opened: Opened::Dynamic { .. }, .. }
        )
    }
}
