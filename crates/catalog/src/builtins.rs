//! PostgreSQL's own types, operators and functions, as far as the same arguments give the same value on every node.

use std::collections::HashMap;

use crate::Oid;

/// What a server says of its own objects. Empty: nothing is known, and nothing can be shown to be the same.
#[derive(Clone, Debug, Default)]
pub struct Builtins {
    types: HashMap<Oid, BuiltinType>,
    type_names: HashMap<String, Oid>,
    operators: HashMap<String, Vec<BuiltinOperator>>,
    /// Functions all of whose variants are IMMUTABLE.
    functions: HashMap<String, Vec<BuiltinFunction>>,
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
    pub result: Oid,
    pub arguments: Vec<Oid>,
}

impl Builtins {
    /// From lines of fields between tabs: `t`ype (name, oid, category, `t` if it reads alike), `o`perator (name, left, right,
    /// result, `t` if it is immutable), immutable `f`unction (name, result, arguments between blanks). `None` if a line is
    /// none of these.
    pub fn from_lines(lines: &str) -> Option<Self> {
        let mut all = Self::default();
        for line in lines.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields.as_slice() {
                ["t", name, oid, category, alike] => {
                    let oid = oid.parse().ok()?;
                    let of = BuiltinType { oid, category: category.chars().next()?, reads_alike: *alike == "t" };
                    all.types.insert(oid, of);
                    all.type_names.insert((*name).to_owned(), oid);
                }
                ["o", name, left, right, result, immutable] => {
                    let operator = BuiltinOperator {
                        left: left.parse().ok()?,
                        right: right.parse().ok()?,
                        result: result.parse().ok()?,
                        is_immutable: *immutable == "t",
                    };
                    all.operators.entry((*name).to_owned()).or_default().push(operator);
                }
                ["f", name, result, arguments] => {
                    let arguments = arguments.split_whitespace().map(|oid| oid.parse().ok()).collect::<Option<_>>()?;
                    let function = BuiltinFunction { result: result.parse().ok()?, arguments };
                    all.functions.entry((*name).to_owned()).or_default().push(function);
                }
                _ => return None,
            }
        }
        Some(all)
    }

    /// The type with this object id.
    pub fn type_of(&self, oid: Oid) -> Option<BuiltinType> {
        self.types.get(&oid).copied()
    }

    /// The type with this name in `pg_catalog`.
    pub fn type_named(&self, name: &str) -> Option<BuiltinType> {
        self.type_names.get(name).and_then(|oid| self.type_of(*oid))
    }

    /// The operators of a name.
    pub fn operators(&self, name: &str) -> &[BuiltinOperator] {
        self.operators.get(name).map_or(&[], Vec::as_slice)
    }

    /// The functions of a name, if all of them are IMMUTABLE.
    pub fn immutable_functions(&self, name: &str) -> &[BuiltinFunction] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }
}
