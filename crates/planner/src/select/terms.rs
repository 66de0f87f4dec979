//! Columns, scopes and equalities of a query: what each name means, and which columns are known to be equal.

use std::collections::BTreeMap;

use catalog::{Column, Oid, Relation};
use pg_query::protobuf::{self, AExpr, AExprKind, BoolExpr, ColumnRef, RowExpr};
use pg_query::{Node, NodeEnum};
use placement::KeyType;

use crate::context::Context;
use crate::facts::constant::Constant;
use crate::tree::{self, Get};

/// A column of a leaf: leaf number and 0-based column position.
pub(crate) type Term = (usize, usize);

/// What is known of a column.
#[derive(Clone, Debug)]
pub(crate) struct LeafColumn {
    pub name: String,
    /// The hash class of its type, if equal values of it hash equally: only then do equalities mean anything to us.
    pub class: Option<KeyType>,
    /// The key type itself.
    pub key_type: Option<KeyType>,
    /// 0 if not known.
    pub type_oid: Oid,
    /// As [`Column::bytewise`].
    pub bytewise: bool,
}

impl LeafColumn {
    /// A column we know by name only.
    pub fn unknown(name: &str) -> Self {
        Self { name: name.to_owned(), class: None, key_type: None, type_oid: 0, bytewise: false }
    }

    fn of(ctx: &Context<'_>, column: &Column) -> Self {
        let key_type = if column.deterministic { ctx.catalog.key_type(column.type_oid) } else { None };
        Self {
            name: column.name.clone(),
            class: key_type.map(KeyType::hash_class),
            key_type,
            type_oid: column.type_oid,
            bytewise: column.bytewise,
        }
    }
}

/// Columns of a table.
pub(crate) fn table_columns(ctx: &Context<'_>, relation: &Relation) -> Vec<LeafColumn> {
    relation.columns.iter().map(|c| LeafColumn::of(ctx, c)).collect()
}

/// One item of FROM that is not a join.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub alias: String,
    /// `None` if not known (functions, system catalogs).
    pub columns: Option<Vec<LeafColumn>>,
    /// Positions of a table's primary key; empty if it has none.
    pub primary_key: Vec<usize>,
}

/// The names visible at one query level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub leaves: Vec<usize>,
    /// Columns merged by USING, and the term that stands for the merged one (`None`: not a plain column).
    pub merged: Vec<(String, Option<Term>)>,
}

/// Finds the term of a column reference at this level. `Err(())`: the name is not of this level.
pub(crate) fn resolve_here(leaves: &[Leaf], scope: &Scope, column: &ColumnRef) -> Result<Option<Term>, ()> {
    let names: Option<Vec<&str>> = column.fields.iter().map(tree::text_of).collect();
    let Some(names) = names else { return Ok(None) };
    match names.as_slice() {
        [name] => resolve_bare(leaves, scope, name),
        [.., alias, name] => {
            let Some(&leaf) = scope.leaves.iter().find(|l| leaves[**l].alias == *alias) else { return Err(()) };
            let position = leaves[leaf].columns.as_ref().and_then(|c| c.iter().position(|c| c.name == *name));
            Ok(position.map(|p| (leaf, p)))
        }
        [] => Ok(None),
    }
}

fn resolve_bare(leaves: &[Leaf], scope: &Scope, name: &str) -> Result<Option<Term>, ()> {
    if let Some((_, term)) = scope.merged.iter().find(|(merged, _)| merged == name) {
        return Ok(*term);
    }
    let mut found = Vec::new();
    let mut all_known = true;
    for &leaf in &scope.leaves {
        match &leaves[leaf].columns {
            Some(columns) => found.extend(columns.iter().position(|c| c.name == name).map(|p| (leaf, p))),
            None => all_known = false,
        }
    }
    match found.as_slice() {
        [term] => Ok(Some(*term)),
        // PostgreSQL looks at outer levels only if no leaf here has the name.
        [] if all_known && !scope.leaves.iter().any(|l| leaves[*l].alias == name) => Err(()),
        _ => Ok(None),
    }
}

/// Equalities that hold for every row a query level works on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Equalities {
    parent: BTreeMap<Term, Term>,
    constants: Vec<(Term, Constant)>,
    pub lists: Vec<(Term, Vec<Constant>)>,
}

impl Equalities {
    /// The representative of a term's class.
    fn root(&self, mut term: Term) -> Term {
        while let Some(next) = self.parent.get(&term) {
            term = *next;
        }
        term
    }

    /// Are the two known to be equal?
    pub fn same(&self, a: Term, b: Term) -> bool {
        self.root(a) == self.root(b)
    }

    /// Adds `a = b`.
    pub fn join(&mut self, a: Term, b: Term) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.parent.insert(a, b);
        }
    }

    /// Adds `a = constant`.
    pub fn pin(&mut self, a: Term, constant: Constant) {
        self.constants.push((a, constant));
    }

    /// Constants a term is equal to.
    pub fn constants(&self, term: Term) -> impl Iterator<Item = &Constant> {
        self.constants.iter().filter(move |(t, _)| self.same(*t, term)).map(|(_, c)| c)
    }

    /// Lists a term's value is in.
    pub fn lists(&self, term: Term) -> impl Iterator<Item = &Vec<Constant>> {
        self.lists.iter().filter(move |(t, _)| self.same(*t, term)).map(|(_, l)| l)
    }
}

/// `a = b` as two sides, also each pair of `(a, b) = (c, d)`.
pub(crate) fn equal_sides(condition: &Node) -> Vec<(&Node, &Node)> {
    let Some(e) = condition.get::<AExpr>() else { return Vec::new() };
    let (Some(left), Some(right)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return Vec::new() };
    if e.kind != AExprKind::AexprOp as i32 || tree::own_name(&e.name) != Some("=") {
        return Vec::new();
    }
    match (&left.node, &right.node) {
        (Some(NodeEnum::RowExpr(l)), Some(NodeEnum::RowExpr(r))) if l.args.len() == r.args.len() => {
            l.args.iter().zip(&r.args).collect()
        }
        _ => vec![(left, right)],
    }
}

/// What a condition equates: itself, or what every branch of a disjunction equates.
pub(crate) fn equal_pairs(condition: &Node) -> Vec<(&Node, &Node)> {
    let Some(any) = condition.get::<BoolExpr>() else { return equal_sides(condition) };
    if any.boolop != protobuf::BoolExprType::OrExpr as i32 {
        return Vec::new();
    }
    let of_branch = |branch| tree::conjuncts(Some(branch)).into_iter().flat_map(equal_sides).collect::<Vec<_>>();
    let mut branches = any.args.iter().map(of_branch);
    let mut common = branches.next().unwrap_or_default();
    for branch in branches {
        common.retain(|(a, b)| branch.iter().any(|(c, d)| tree::same_expression(a, c) && tree::same_expression(b, d)));
    }
    common
}

/// What is in a list: `a` of `a IN (list)` and `a = ANY (ARRAY[list])`, `a` and `b` of `(a, b) IN (list of rows)`, and what every branch of
/// a disjunction equates, be it with something else each.
pub(crate) fn in_lists(condition: &Node) -> Vec<(&Node, Vec<&Node>)> {
    if let Some(any) = condition.get::<BoolExpr>().filter(|any| any.boolop() == protobuf::BoolExprType::OrExpr) {
        let of_branch = |branch| tree::conjuncts(Some(branch)).into_iter().flat_map(equal_sides).collect::<Vec<_>>();
        return in_every(any.args.iter().map(of_branch).collect());
    }
    let listed = condition.get::<AExpr>().filter(|e| tree::own_name(&e.name) == Some("=")).and_then(|e| {
        match (e.kind(), e.lexpr.as_deref()?, e.rexpr.as_deref()?.node.as_ref()?) {
            (AExprKind::AexprIn, left, NodeEnum::List(list)) => Some((left, &list.items)),
            // In arrays rows are values of their own, whose nulls are equal.
            (AExprKind::AexprOpAny, left, NodeEnum::AArrayExpr(array)) if left.get::<RowExpr>().is_none() => {
                Some((left, &array.elements))
            }
            _ => None,
        }
    });
    let Some((left, items)) = listed else { return Vec::new() };
    let Some(row) = left.get::<RowExpr>() else { return vec![(left, items.iter().collect())] };
    let pairs = |item: &'_ Node| item.get::<RowExpr>().filter(|one| one.args.len() == row.args.len()).is_some();
    match items.iter().all(pairs) {
        true => in_every(
            items.iter().filter_map(Get::get::<RowExpr>).map(|one| row.args.iter().zip(&one.args).collect()).collect(),
        ),
        false => Vec::new(),
    }
}

/// What is equated with something in each of the branches.
fn in_every<'n>(branches: Vec<Vec<(&'n Node, &'n Node)>>) -> Vec<(&'n Node, Vec<&'n Node>)> {
    let other = |side: &Node, pairs: &[(&'n Node, &'n Node)]| {
        let swapped = pairs.iter().map(|(a, b)| (*b, *a));
        pairs.iter().copied().chain(swapped).find(|(a, _)| tree::same_expression(a, side)).map(|(_, b)| b)
    };
    let sides = branches.first().into_iter().flatten().flat_map(|(a, b)| [*a, *b]);
    sides
        .filter_map(|side| Some((side, branches.iter().map(|pairs| other(side, pairs)).collect::<Option<_>>()?)))
        .collect()
}

/// The column reference below casts that keep the hash class (`(name)::text`), which views are full of, and the value: of float8
/// float4 keeps but some digits, and name keeps 63 bytes of a text.
pub(crate) fn peel<'n>(ctx: &Context<'_>, node: &'n Node) -> Option<(&'n ColumnRef, Option<KeyType>)> {
    match node.node.as_ref()? {
        NodeEnum::ColumnRef(c) => Some((c, None)),
        NodeEnum::TypeCast(cast) => {
            let to = crate::facts::constant::key_type_of(ctx, cast.type_name.as_ref()?)?;
            let class = (!matches!(to, KeyType::Float4 | KeyType::Name)).then(|| to.hash_class())?;
            match peel(ctx, cast.arg.as_deref()?)? {
                (c, None) => Some((c, Some(class))),
                (c, Some(inner)) => (inner == class).then_some((c, Some(class))),
            }
        }
        _ => None,
    }
}
