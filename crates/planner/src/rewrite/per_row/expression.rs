//! Expressions with calls in them: the same over slots.
//!
//! What has no call in it is computed with the rows, as a whole, if PostgreSQL would come to it for every row. Elsewhere only the
//! columns in it are, and the rest of it where the expression is.

use pg_query::protobuf::{
    self, AIndices, AIndirection, BoolExprType, BoolTestType, CaseExpr, CaseWhen, ColumnRef, FuncCall, NullTestType,
    SelectStmt,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::effects::{self, outdate, read_only};
use super::slots::{Call, Draft, SetCall, Slot};
use crate::select::{names::is_closed, shape};
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// Where an expression stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    /// The rows are those of a query that groups by these.
    pub group: &'p [Node],
    /// PostgreSQL comes to it only for rows of which this is true, over slots.
    pub when: Option<&'p Node>,
    /// What the rows are made for is not all computed for every row: only columns are taken from them.
    pub only_columns: bool,
}

impl<'p> Place<'p> {
    /// Only where another part of the expression allows it.
    fn under(self, when: Option<&'p Node>) -> Self {
        Place { when, only_columns: true, ..self }
    }
}

impl Draft<'_> {
    /// The expression over slots.
    pub fn part(&mut self, node: &Node, place: Place<'_>) -> Result<Node> {
        if !self.calls_in(node)? {
            return self.plain(node, place);
        }
        let Some(inner) = &node.node else { return Ok(node.clone()) };
        Ok(match inner {
            NodeEnum::FuncCall(call) if !self.ours(call)?.is_empty() => self.call(call, None, place)?,
            NodeEnum::AIndirection(part) => self.indirection(part, place)?,
            NodeEnum::BoolExpr(e) if e.boolop != BoolExprType::NotExpr as i32 => self.boolean(e, place)?,
            NodeEnum::CaseExpr(case) => self.case(case, place)?,
            NodeEnum::CoalesceExpr(coalesce) => self.coalesce(coalesce, place)?,
            NodeEnum::FuncCall(call) if call.over.is_some() || shape::is_aggregate(self.ctx, call) => self.fail(node),
            NodeEnum::AExpr(e) if tree::is_by_turns(e) => self.fail(node),
            NodeEnum::SubLink(link) => self.sub_select(link, place)?,
            NodeEnum::FuncCall(_)
            | NodeEnum::AExpr(_)
            | NodeEnum::BoolExpr(_)
            | NodeEnum::TypeCast(_)
            | NodeEnum::CollateClause(_)
            | NodeEnum::MinMaxExpr(_)
            | NodeEnum::RowExpr(_)
            | NodeEnum::AArrayExpr(_)
            | NodeEnum::NullTest(_)
            | NodeEnum::BooleanTest(_)
            | NodeEnum::NamedArgExpr(_)
            | NodeEnum::List(_) => self.children(node, place)?,
            _ => self.fail(node),
        })
    }

    fn fail(&mut self, node: &Node) -> Node {
        self.fails = true;
        node.clone()
    }

    /// The node over what its children have become: all of them are evaluated.
    fn children(&mut self, node: &Node, place: Place<'_>) -> Result<Node> {
        let mut made = node.clone();
        let mut is_top = true;
        made.rewrite(&mut |child| {
            if std::mem::take(&mut is_top) {
                return Ok(true);
            }
            *child = self.part(child, place)?;
            Ok(false)
        })?;
        Ok(made)
    }

    /// An expression without a call.
    fn plain(&mut self, node: &Node, place: Place<'_>) -> Result<Node> {
        if is_constant(node)? {
            return Ok(node.clone());
        }
        if tree::is_whole_row(node) {
            return self.whole_row(node);
        }
        if !place.only_columns || place.group.iter().any(|by| tree::same_expression(by, node)) {
            return Ok(self.column(node));
        }
        let mut made = node.clone();
        made.rewrite(&mut |child| {
            let is_column = match &child.node {
                Some(NodeEnum::ColumnRef(_)) => true,
                Some(NodeEnum::FuncCall(call)) => call.over.is_some() || shape::is_aggregate(self.ctx, call),
                Some(NodeEnum::SubLink(_)) => {
                    self.fails = true;
                    false
                }
                _ => place.group.iter().any(|by| tree::same_expression(by, child)),
            };
            if is_column {
                *child = if tree::is_whole_row(child) { self.whole_row(child)? } else { self.column(child) };
            }
            Ok(!is_column)
        })?;
        Ok(made)
    }

    /// `t.*` as a value, with its type.
    fn whole_row(&mut self, row: &Node) -> Result<Node> {
        let Some(column) = row.get::<ColumnRef>() else { return Ok(row.clone()) };
        let of = match column.fields.as_slice() {
            [alias, _] => tree::text_of(alias).and_then(|alias| self.tables.get(alias)),
            _ => None,
        };
        let Some(of) = of else { return Ok(self.fail(row)) };
        let of = tree::parse_type(of)?;
        Ok(self.column(&tree::cast(row.clone(), &of)))
    }

    /// A call, or a field of the record that it gives.
    fn call(&mut self, call: &FuncCall, field: Option<&str>, place: Place<'_>) -> Result<Node> {
        let functions = self.ours(call)?;
        let shape = self.shape(&functions).filter(|_| tree::is_plain_call(call));
        let Some(shape) = shape else { return Ok(self.fail(&call.clone().into_node())) };
        // A STABLE one sees nothing that the statement has changed by then.
        self.fails |= (place.when.is_some() || self.in_conditions) && outdate(self.ctx, &self.writers, &functions)?;
        self.functions.extend(&functions);
        let is_target = std::mem::take(&mut self.at_target);
        let mut call = call.clone();
        self.arguments(&mut call, place)?;
        let is_set = |column: &ColumnRef| matches!(Slot::of_column(column), Some(Slot::Set(_) | Slot::Void(_)));
        self.fails |= call.args.any(|node| matches!(node, Ref::ColumnRef(column) if is_set(column)))?;
        let call = call.into_node();
        // All fields of a set come from one call.
        let names = field.filter(|_| shape.set).map(|_| shape.names(self.ctx, "loxo_c").unwrap_or_default());
        let at = names.as_ref().map_or(Some(0), |names| names.iter().position(|name| Some(name.as_str()) == field));
        let Some(at) = at else { return Ok(self.fail(&call)) };
        let columns = match (&names, field) {
            (Some(names), _) => names.len(),
            (None, Some(_)) => 1,
            (None, None) => shape.columns().len().max(1),
        };
        let slot = |at: usize| match (shape.is_void, shape.set) {
            (true, _) => Slot::Void(at),
            (_, true) => Slot::Set(at),
            (_, false) => Slot::Value(at),
        };
        if shape.set {
            let set = SetCall { call: call.clone(), when: place.when.cloned(), is_target, columns, first: self.values };
            if let Some(known) = self.sets.iter().find(|known| known.serves(&set)) {
                self.fails |= known.columns != columns;
                return Ok(slot(known.first + at).node());
            }
            self.sets.push(set);
            self.fails |= columns > 1 && names.is_none();
        }
        let query = match field {
            None if columns == 1 => {
                SelectStmt { target_list: vec![tree::target(call, Some("c"))], ..tree::empty_select() }
            }
            field => {
                let field = field.filter(|_| names.is_none());
                let value = field.map_or_else(|| tree::star(None), |field| tree::column(&["loxo_c", field]));
                let alias = tree::alias("loxo_c");
                tree::select_from(vec![tree::target(value, None)], vec![tree::call_in_from(call, alias).into_node()])
            }
        };
        let first = self.add(Call { query, when: place.when.cloned(), columns, is_set: shape.set, once: false });
        Ok(match columns {
            1 => slot(first).node(),
            _ if shape.set => slot(first + at).node(),
            _ => tree::record(shape.outs.iter().zip(first..).map(|((name, _), at)| (name.as_str(), slot(at).node()))),
        })
    }

    /// Arguments over slots.
    pub fn arguments(&mut self, call: &mut FuncCall, place: Place<'_>) -> Result<()> {
        for value in call.args.iter_mut().filter_map(tree::argument_mut) {
            *value = self.part(value, place)?;
        }
        Ok(())
    }

    /// Notes a call; gives the number of its first slot.
    pub fn add(&mut self, call: Call) -> usize {
        let first = self.values;
        self.values += call.columns;
        self.calls.push(call);
        first
    }

    fn indirection(&mut self, part: &AIndirection, place: Place<'_>) -> Result<Node> {
        if let (Some(NodeEnum::FuncCall(call)), [field, further @ ..]) =
            (part.arg.as_deref().and_then(|arg| arg.node.as_ref()), part.indirection.as_slice())
            && let Some(field) = tree::text_of(field)
            && !self.ours(call)?.is_empty()
        {
            let value = self.call(call, Some(field), place)?;
            return Ok(match further {
                [] => value,
                further => AIndirection { arg: Some(Box::new(value)), indirection: further.to_vec() }.into_node(),
            });
        }
        let mut made = part.clone();
        made.arg = part.arg.as_deref().map(|arg| self.part(arg, place)).transpose()?.map(Box::new);
        for index in &mut made.indirection {
            if index.get::<AIndices>().is_some() {
                *index = self.children(index, place)?;
            }
        }
        Ok(made.into_node())
    }

    /// A sub-select that does not look at the row. In `f(x) IN (SELECT …)` what is compared is a value, and nothing that is called
    /// changes what the sub-select reads, which stays. A value PostgreSQL computes once, for the first row that gets there; of
    /// EXISTS it computes no select list. Items of WITH are the statement's.
    fn sub_select(&mut self, link: &protobuf::SubLink, place: Place<'_>) -> Result<Node> {
        let node = link.clone().into_node();
        let Some(select) = link.subselect.get::<SelectStmt>() else { return Ok(self.fail(&node)) };
        let (called, reads_item) =
            (self.functions_in(select)?, select.tables()?.iter().any(|table| table.schemaname.is_empty()));
        Ok(match link.testexpr.as_deref() {
            _ if !is_closed(self.ctx, select)? => self.fail(&node),
            Some(compared) if called.is_empty() && read_only(self.ctx, &self.functions_in(compared)?)? => {
                let testexpr = Some(Box::new(self.part(compared, place)?));
                protobuf::SubLink { testexpr, ..link.clone() }.into_node()
            }
            None if tree::is_value(link) && !reads_item => {
                self.functions.extend(called);
                self.fails |= outdate(self.ctx, &self.writers, &effects::called(self.ctx, select)?)?;
                let query = SelectStmt { target_list: vec![tree::target(node, Some("c"))], ..tree::empty_select() };
                let when = place.when.cloned();
                Slot::Value(self.add(Call { query, when, columns: 1, is_set: false, once: true })).node()
            }
            _ => self.fail(&node),
        })
    }

    /// AND and OR stop at the first part that decides.
    fn boolean(&mut self, e: &protobuf::BoolExpr, place: Place<'_>) -> Result<Node> {
        use BoolTestType::{IsNotFalse, IsNotTrue};
        let undecided = if e.boolop() == BoolExprType::AndExpr { IsNotFalse } else { IsNotTrue };
        let mut made = e.clone();
        self.in_turn(&mut made.args, place, |argument| tree::boolean_test(argument, undecided))?;
        Ok(made.into_node())
    }

    /// Parts that PostgreSQL comes to one after the other, as long as each lets it go on.
    fn in_turn(&mut self, parts: &mut [Node], place: Place<'_>, goes_on: impl Fn(Node) -> Node) -> Result<()> {
        let mut reached = place.when.cloned();
        for (at, part) in parts.iter_mut().enumerate() {
            *part = self.part(part, if at == 0 { place } else { place.under(reached.as_ref()) })?;
            reached = Some(tree::and_then(reached, goes_on(part.clone())));
        }
        Ok(())
    }

    fn case(&mut self, case: &CaseExpr, place: Place<'_>) -> Result<Node> {
        let mut made = case.clone();
        let tested = case.arg.as_deref().map(|arg| self.part(arg, place)).transpose()?;
        made.arg = tested.clone().map(Box::new);
        let mut reached = place.when.cloned();
        for (at, arm) in made.args.iter_mut().enumerate() {
            let Some(arm) = arm.get_mut::<CaseWhen>() else { continue };
            let Some(condition) = arm.expr.as_deref_mut() else { continue };
            *condition = self.part(condition, if at == 0 { place } else { place.under(reached.as_ref()) })?;
            let holds = match &tested {
                Some(tested) => tree::equal(tested.clone(), condition.clone()),
                None => condition.clone(),
            };
            let taken = tree::and_then(reached.clone(), holds.clone());
            if let Some(result) = arm.result.as_deref_mut() {
                *result = self.part(result, place.under(Some(&taken)))?;
            }
            reached = Some(tree::and_then(reached, tree::boolean_test(holds, BoolTestType::IsNotTrue)));
        }
        if let Some(result) = made.defresult.as_deref_mut() {
            *result = self.part(result, place.under(reached.as_ref()))?;
        }
        Ok(made.into_node())
    }

    fn coalesce(&mut self, coalesce: &protobuf::CoalesceExpr, place: Place<'_>) -> Result<Node> {
        let mut made = coalesce.clone();
        self.in_turn(&mut made.args, place, |argument| tree::null_test(argument, NullTestType::IsNull))?;
        Ok(made.into_node())
    }
}

impl SetCall {
    /// Are its rows those of another call, too? PostgreSQL makes equal ones once, but where each is all of an output column
    /// (`split_pathtarget_at_srfs` in `tlist.c`).
    fn serves(&self, other: &Self) -> bool {
        let same = |one: &Node, other: &Node| tree::same_expression(one, other);
        let is_same_when = match (&self.when, &other.when) {
            (Some(one), Some(other)) => same(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same(&self.call, &other.call) && is_same_when && !(self.is_target && other.is_target)
    }
}

/// Nothing that has to be computed with the rows.
fn is_constant(node: &Node) -> Result<bool> {
    Ok(!node.any(|node| {
        matches!(node, Ref::ColumnRef(_) | Ref::FuncCall(_) | Ref::SubLink(_) | Ref::SqlvalueFunction(_))
    })?)
}
