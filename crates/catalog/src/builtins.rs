//! PostgreSQL's own types, operators, functions and aggregates, as its catalog tells them.

use std::collections::{HashMap, HashSet};

use crate::{Meaning, Oid, meaning};

/// What a server says of its own objects. Empty: nothing is known, and nothing can be shown to be the same.
#[derive(Clone, Debug, Default)]
pub struct Builtins {
    types: HashMap<Oid, BuiltinType>,
    type_names: HashMap<String, Oid>,
    pseudo_types: HashSet<String>,
    operators: HashMap<String, Vec<BuiltinOperator>>,
    functions: HashMap<String, Vec<BuiltinFunction>>,
    server_settings: HashSet<String>,
    counted_views: HashSet<String>,
}

/// A row of `pg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BuiltinType {
    pub oid: Oid,
    /// `typcategory`.
    pub category: char,
    /// What its input function makes of a text depends on the text alone.
    pub reads_alike: bool,
    /// It is `oid`, or one that is stored as an `oid` and means an object of one node.
    pub is_object_id: bool,
}

/// A row of `pg_operator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BuiltinOperator {
    /// 0 for a prefix operator.
    pub left: Oid,
    pub right: Oid,
    pub result: Oid,
    pub is_immutable: bool,
}

/// A row of `pg_proc`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BuiltinFunction {
    pub oid: Oid,
    /// `prokind`: `f`unction, `a`ggregate, `w`indow function, `p`rocedure.
    pub kind: char,
    /// `provolatile`.
    pub volatility: char,
    /// `proparallel`.
    pub parallel: char,
    pub returns_set: bool,
    pub result: Oid,
    pub arguments: Vec<Oid>,
    /// How many of the last arguments may be left out.
    pub defaults: usize,
    pub is_variadic: bool,
    pub aggregate: Option<BuiltinAggregate>,
    /// What a function in SQL consists of: its statements, or a statement that makes it of them.
    pub body: Option<String>,
    /// What no catalog tells.
    pub meaning: Option<Meaning>,
}

/// A row of `pg_aggregate`. 0: it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BuiltinAggregate {
    pub transition: Oid,
    pub combine: Oid,
    pub finish: Oid,
    pub state: Oid,
    /// It gives the first or the last value in the order of an operator.
    pub is_extreme: bool,
    /// It is NULL for no rows.
    pub starts_null: bool,
}

impl BuiltinFunction {
    /// Can it be called with so many arguments?
    pub fn takes(&self, count: usize) -> bool {
        let most = if self.is_variadic { usize::MAX } else { self.arguments.len() };
        // A VARIADIC parameter comes last, so if any has a default it has one.
        let least = self.arguments.len() - self.defaults.max(usize::from(self.is_variadic));
        (least..=most).contains(&count)
    }
}

impl Builtins {
    /// From lines of fields between tabs: `t`ype, `o`perator, `f`unction, as the fields of the structures above are in order;
    /// `p`seudo-type; `s`etting of the server; `v`iew that calls what tells a server's counts. `None` if a line is none of these.
    pub fn from_lines(lines: &str) -> Option<Self> {
        let mut all = Self::default();
        lines.lines().try_for_each(|line| all.line(&line.split('\t').collect::<Vec<_>>()))?;
        let mut functions = std::mem::take(&mut all.functions);
        for (name, functions) in &mut functions {
            functions.iter_mut().for_each(|function| function.meaning = meaning::of(&all, name, &function.arguments));
        }
        all.functions = functions;
        Some(all)
    }

    fn line(&mut self, fields: &[&str]) -> Option<()> {
        match fields {
            ["t", name, oid, category, alike, object_id] => {
                let oid = oid.parse().ok()?;
                let of = BuiltinType {
                    oid,
                    category: letter(category)?,
                    reads_alike: *alike == "t",
                    is_object_id: *object_id == "t",
                };
                self.types.insert(oid, of);
                self.type_names.insert((*name).to_owned(), oid);
            }
            ["o", name, left, right, result, immutable] => {
                let operator = BuiltinOperator {
                    left: left.parse().ok()?,
                    right: right.parse().ok()?,
                    result: result.parse().ok()?,
                    is_immutable: *immutable == "t",
                };
                self.operators.entry((*name).to_owned()).or_default().push(operator);
            }
            ["f", name, oid, kinds, result, arguments, defaults, aggregate, body] => {
                let [kind, volatility, parallel, set, variadic] =
                    <[char; 5]>::try_from(kinds.chars().collect::<Vec<_>>()).ok()?;
                let function = BuiltinFunction {
                    oid: oid.parse().ok()?,
                    kind,
                    volatility,
                    parallel,
                    returns_set: set == 't',
                    result: result.parse().ok()?,
                    arguments: oids(arguments)?,
                    defaults: defaults.parse().ok()?,
                    is_variadic: variadic == 't',
                    aggregate: of_aggregate(aggregate)?,
                    body: (!body.is_empty()).then(|| (*body).to_owned()),
                    meaning: None,
                };
                self.functions.entry((*name).to_owned()).or_default().push(function);
            }
            ["p", name] => drop(self.pseudo_types.insert((*name).to_owned())),
            ["s", name] => drop(self.server_settings.insert((*name).to_owned())),
            ["v", name] => drop(self.counted_views.insert((*name).to_owned())),
            _ => return None,
        }
        Some(())
    }

    /// The type with this object id.
    pub fn type_of(&self, oid: Oid) -> Option<BuiltinType> {
        self.types.get(&oid).copied()
    }

    /// The type with this name in `pg_catalog`.
    pub fn type_named(&self, name: &str) -> Option<BuiltinType> {
        self.type_names.get(name).and_then(|oid| self.type_of(*oid))
    }

    /// Is it a pseudo-type, like `anyelement`, `record` and `void`?
    pub fn is_pseudo_type(&self, name: &str) -> bool {
        self.pseudo_types.contains(name)
    }

    /// The operators of a name.
    pub fn operators(&self, name: &str) -> &[BuiltinOperator] {
        self.operators.get(name).map_or(&[], Vec::as_slice)
    }

    /// Is it a setting of the server, which no session can change? Another server may have another value.
    pub fn is_of_server(&self, setting: &str) -> bool {
        self.server_settings.contains(setting)
    }

    /// Is it a view of `pg_catalog` that shows what one server has counted?
    pub fn is_counted_view(&self, name: &str) -> bool {
        self.counted_views.contains(name)
    }

    /// The functions of a name.
    pub fn functions(&self, name: &str) -> &[BuiltinFunction] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// The function with this object id, and its name.
    pub fn function_of(&self, oid: Oid) -> Option<(&str, &BuiltinFunction)> {
        let mut all =
            self.functions.iter().flat_map(|(name, of)| of.iter().map(move |function| (name.as_str(), function)));
        all.find(|(_, function)| function.oid == oid)
    }

    /// The functions of a name, if all of them are IMMUTABLE and make one value of their arguments.
    pub fn immutable_functions(&self, name: &str) -> &[BuiltinFunction] {
        let all = self.functions(name);
        let is_alike = |f: &BuiltinFunction| f.volatility == 'i' && f.kind == 'f' && !f.returns_set;
        if all.iter().all(is_alike) { all } else { &[] }
    }
}

fn letter(text: &str) -> Option<char> {
    text.chars().next()
}

fn oids(text: &str) -> Option<Vec<Oid>> {
    text.split_whitespace().map(|oid| oid.parse().ok()).collect()
}

/// `None` if it cannot be read.
fn of_aggregate(text: &str) -> Option<Option<BuiltinAggregate>> {
    let numbers = oids(text)?;
    Some(match *numbers.as_slice() {
        [] => None,
        [transition, combine, finish, state, extreme, null] => Some(BuiltinAggregate {
            transition,
            combine,
            finish,
            state,
            is_extreme: extreme != 0,
            starts_null: null != 0,
        }),
        _ => return None,
    })
}
