//! Does a change of a replicated table do the same on every copy? Only what is shown here does.
//!
//! The statement may be made of constants, parameters, the row's own columns, and what PostgreSQL's catalog says is IMMUTABLE and its own:
//! operators between known types, casts, functions. Whatever reads other rows could meet them in another order, or in another spelling (1.0 and
//! 1.00 are equal); a function of the user's may be said to be IMMUTABLE and not be it; a cast that is STABLE reads settings of its node.
//!
//! Types are followed as far as that takes: a doubt about one ends in "no", which costs some round trips.

use catalog::{BuiltinFunction, BuiltinOperator, BuiltinType, Oid, Relation};
use pg_query::protobuf::{
    AConst, AExpr, AExprKind, CaseWhen, FuncCall, InsertStmt, List, OnConflictClause, ParamRef, ResTarget, SelectStmt,
    SetToDefault, TypeCast, UpdateStmt, a_const,
};
use pg_query::{Node, NodeEnum};

use crate::context::Context;
use crate::session::ParameterValue;
use crate::tree::{self, Get};

const BOOL: Oid = 16;

/// See the module's page. `table`: the one that the statement names, itself, not a view.
pub(super) fn does_the_same(ctx: &Context<'_>, statement: &NodeEnum, table: &Relation) -> bool {
    let proof = Proof { ctx, table };
    match statement {
        NodeEnum::InsertStmt(insert) => proof.insert(insert).is_some(),
        NodeEnum::UpdateStmt(update) => proof.update(update).is_some(),
        NodeEnum::DeleteStmt(delete) => {
            let is_plain = delete.using_clause.is_empty() && delete.with_clause.is_none();
            is_plain && proof.condition(delete.where_clause.as_deref()).is_some()
        }
        _ => false,
    }
}

/// Does ON CONFLICT of an INSERT, whose rows are made once, do the same on every copy?
pub(super) fn conflict_does_the_same(ctx: &Context<'_>, insert: &InsertStmt, table: &Relation) -> bool {
    Proof { ctx, table }.conflict(insert.on_conflict_clause.as_deref()).is_some()
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// A constant that gets its type from its place. True: its text has letters.
    Untyped(bool),
    /// `numeric`, `text` and their kin are as good as each other.
    Numbers,
    Texts,
    Of(BuiltinType),
    /// A user's enum.
    Enum(Oid),
}

struct Proof<'a> {
    ctx: &'a Context<'a>,
    table: &'a Relation,
}

impl Proof<'_> {
    fn insert(&self, insert: &InsertStmt) -> Option<()> {
        let query = insert.select_stmt.get::<SelectStmt>()?;
        if insert.with_clause.is_some() || query.with_clause.is_some() || query.values_lists.is_empty() {
            return None;
        }
        let named: Vec<Option<&str>> = insert.cols.iter().map(tree::name_of).collect();
        let all = || self.table.columns.iter().map(|column| Some(column.name.as_str())).collect();
        let names: Vec<Option<&str>> = if named.is_empty() { all() } else { named };
        for row in &query.values_lists {
            let row = row.get::<List>()?;
            row.items.iter().zip(&names).try_for_each(|(value, name)| self.assigned((*name)?, value))?;
        }
        self.conflict(insert.on_conflict_clause.as_deref())
    }

    fn conflict(&self, conflict: Option<&OnConflictClause>) -> Option<()> {
        let Some(conflict) = conflict else { return Some(()) };
        self.targets(&conflict.target_list)?;
        self.condition(conflict.where_clause.as_deref())
    }

    fn update(&self, update: &UpdateStmt) -> Option<()> {
        if !update.from_clause.is_empty() || update.with_clause.is_some() {
            return None;
        }
        self.targets(&update.target_list)?;
        self.condition(update.where_clause.as_deref())
    }

    fn targets(&self, targets: &[Node]) -> Option<()> {
        targets.iter().try_for_each(|target| {
            let target = target.get::<ResTarget>().filter(|target| target.indirection.is_empty())?;
            self.assigned(&target.name, target.val.as_deref()?)
        })
    }

    /// What a column gets. Where it is DEFAULT the planner has seen to that.
    fn assigned(&self, column: &str, value: &Node) -> Option<()> {
        let column = self.table.column(column)?;
        if value.get::<SetToDefault>().is_some() {
            return column.default.is_none().then_some(());
        }
        let value = self.value(value)?;
        self.becomes(value, self.of_type(column.type_oid)?).map(|_| ())
    }

    fn condition(&self, condition: Option<&Node>) -> Option<()> {
        condition.map_or(Some(()), |condition| self.value(condition).map(|_| ()))
    }

    fn values<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>) -> Option<Vec<Value>> {
        nodes.into_iter().map(|node| self.value(node)).collect()
    }

    fn value(&self, node: &Node) -> Option<Value> {
        match node.node.as_ref()? {
            NodeEnum::AConst(constant) => Some(self.constant(constant)),
            NodeEnum::ParamRef(parameter) => self.parameter(parameter),
            NodeEnum::ColumnRef(column) => {
                let names = tree::names_of(&column.fields);
                let name = (names.len() == column.fields.len()).then_some(names.last())??;
                self.of_type(self.table.column(name)?.type_oid)
            }
            NodeEnum::AExpr(e) => self.expression(e),
            NodeEnum::BoolExpr(e) => self.values(&e.args).and_then(|_| self.bool()),
            NodeEnum::NullTest(test) => self.value(test.arg.as_deref()?).and_then(|_| self.bool()),
            NodeEnum::BooleanTest(test) => self.value(test.arg.as_deref()?).and_then(|_| self.bool()),
            NodeEnum::CoalesceExpr(e) => one_of(&self.values(&e.args)?),
            NodeEnum::MinMaxExpr(e) => one_of(&self.values(&e.args)?),
            NodeEnum::CaseExpr(case) => self.case(case),
            NodeEnum::TypeCast(cast) => self.cast(cast),
            NodeEnum::FuncCall(call) => self.call(call),
            _ => None,
        }
    }

    fn bool(&self) -> Option<Value> {
        self.of_type(BOOL)
    }

    fn constant(&self, constant: &AConst) -> Value {
        match &constant.val {
            Some(a_const::Val::Ival(_) | a_const::Val::Fval(_)) => Value::Numbers,
            Some(a_const::Val::Boolval(_)) => self.bool().unwrap_or(Value::Untyped(true)),
            Some(a_const::Val::Sval(text)) => Value::Untyped(has_letters(text.sval.as_bytes())),
            _ => Value::Untyped(!constant.isnull),
        }
    }

    /// A text may name the time (`now`), in whatever type it is declared.
    fn parameter(&self, parameter: &ParamRef) -> Option<Value> {
        let bound = self.ctx.session.parameters.get(usize::try_from(parameter.number).ok()?.checked_sub(1)?);
        let has_letters = bound.is_none_or(|bound| match bound.value {
            ParameterValue::Unknown => true,
            ParameterValue::Null | ParameterValue::Binary(_) => false,
            ParameterValue::Text(text) => has_letters(text),
        });
        match bound.map_or(0, |bound| bound.type_oid) {
            0 => Some(Value::Untyped(has_letters)),
            oid => self.becomes(Value::Untyped(has_letters), self.of_type(oid)?),
        }
    }

    fn of_type(&self, oid: Oid) -> Option<Value> {
        match self.ctx.catalog.user_type(oid) {
            Some(of) if of.kind == 'd' => return self.of_type(of.base),
            Some(of) if of.kind == 'e' => return Some(Value::Enum(oid)),
            Some(_) => return None,
            None => {}
        }
        let of = self.ctx.catalog.builtins().type_of(oid)?;
        Some(match of.category {
            'N' if of.reads_alike => Value::Numbers,
            'S' => Value::Texts,
            _ => Value::Of(of),
        })
    }

    /// A value as one of another type, by a cast or an assignment.
    fn becomes(&self, value: Value, wanted: Value) -> Option<Value> {
        let is_alike = match (value, wanted) {
            // What letters mean there may depend on the clock and on settings.
            (Value::Untyped(has_letters), Value::Of(of)) => {
                of.reads_alike || of.category == 'T' || (of.category == 'D' && !has_letters)
            }
            (Value::Untyped(_), _) => true,
            (Value::Numbers | Value::Texts, Value::Numbers | Value::Texts) => true,
            (Value::Of(of), Value::Numbers | Value::Texts) => of.oid == BOOL,
            (value, wanted) => value == wanted,
        };
        is_alike.then_some(wanted)
    }

    fn expression(&self, e: &AExpr) -> Option<Value> {
        let left = match e.lexpr.as_deref() {
            Some(left) => self.operands(left)?.into_iter().map(Some).collect(),
            None => vec![None],
        };
        let right = self.operands(e.rexpr.as_deref()?)?;
        let name = tree::own_name(&e.name)?;
        let between = |name: &str| -> Option<Value> {
            let pairs = right.iter().flat_map(|right| left.iter().map(move |left| (*left, *right)));
            let results = pairs.map(|(left, right)| self.operator(name, left, right));
            results.collect::<Option<Vec<_>>>()?.pop()
        };
        match e.kind() {
            AExprKind::AexprOp | AExprKind::AexprIn | AExprKind::AexprLike | AExprKind::AexprIlike => between(name),
            AExprKind::AexprDistinct | AExprKind::AexprNotDistinct => between("="),
            AExprKind::AexprNullif => between("=").and(*left.first()?),
            AExprKind::AexprBetween | AExprKind::AexprNotBetween => between(">=").and_then(|_| between("<=")),
            _ => None,
        }
    }

    /// One value, or those of a list behind IN or BETWEEN.
    fn operands(&self, node: &Node) -> Option<Vec<Value>> {
        node.get::<List>().map_or_else(|| Some(vec![self.value(node)?]), |list| self.values(&list.items))
    }

    /// All operators that could be meant are IMMUTABLE; gives the type of what comes of them.
    fn operator(&self, name: &str, left: Option<Value>, right: Value) -> Option<Value> {
        let (left, right) = match (left, right) {
            (Some(Value::Untyped(_)), Value::Untyped(_)) => (Some(Value::Texts), Value::Texts),
            (Some(untyped @ Value::Untyped(_)), right) => (Some(self.becomes(untyped, right)?), right),
            (Some(left), untyped @ Value::Untyped(_)) => (Some(left), self.becomes(untyped, left)?),
            other => other,
        };
        if let (Some(Value::Enum(one)), Value::Enum(other)) = (left, right) {
            let compares = ["=", "<>", "<", "<=", ">", ">="].contains(&name);
            return (one == other && compares).then(|| self.bool()).flatten();
        }
        let takes = |operator: &&BuiltinOperator| {
            let left_fits = match left {
                Some(left) => self.of_type(operator.left) == Some(left),
                None => operator.left == 0,
            };
            left_fits && self.of_type(operator.right) == Some(right)
        };
        let meant: Vec<&BuiltinOperator> = self.ctx.catalog.builtin_operators(name).iter().filter(takes).collect();
        let result = self.of_type(meant.first()?.result)?;
        let is_alike =
            |operator: &&BuiltinOperator| operator.is_immutable && self.of_type(operator.result) == Some(result);
        meant.iter().all(is_alike).then_some(result)
    }

    fn case(&self, case: &pg_query::protobuf::CaseExpr) -> Option<Value> {
        let mut results = Vec::new();
        let subject = case.arg.as_deref().map(|subject| self.value(subject));
        for when in &case.args {
            let when = when.get::<CaseWhen>()?;
            let condition = self.value(when.expr.as_deref()?)?;
            if let Some(subject) = subject {
                self.operator("=", Some(subject?), condition)?;
            }
            results.push(self.value(when.result.as_deref()?)?);
        }
        results.extend(case.defresult.as_deref().map(|value| self.value(value)).unwrap_or(Some(Value::Untyped(false))));
        one_of(&results)
    }

    fn cast(&self, cast: &TypeCast) -> Option<Value> {
        let wanted = self.of_type(self.ctx.builtin_type(cast.type_name.as_ref()?)?.oid)?;
        self.becomes(self.value(cast.arg.as_deref()?)?, wanted)
    }

    fn call(&self, call: &FuncCall) -> Option<Value> {
        let (_, name) = tree::qualified(&call.funcname);
        let is_plain = self.ctx.is_builtin(&call.funcname)
            && self.ctx.is_of_postgresql(&call.funcname)
            && tree::is_plain_call(call);
        let arguments = self.values(&call.args).filter(|_| is_plain)?;
        // An argument of another type might be cast on its way.
        let fits = |(value, oid): (&Value, &Oid)| match self.of_type(*oid) {
            Some(wanted) if matches!(value, Value::Untyped(_)) => self.becomes(*value, wanted).is_some(),
            wanted => wanted == Some(*value),
        };
        let takes = |function: &&BuiltinFunction| {
            function.arguments.len() == arguments.len() && arguments.iter().zip(&function.arguments).all(fits)
        };
        let mut results = self.ctx.catalog.builtins().immutable_functions(name).iter().filter(takes);
        let result = self.of_type(results.next()?.result)?;
        results.all(|other| self.of_type(other.result) == Some(result)).then_some(result)
    }
}

/// The type of the first that has one, if all others have it too.
fn one_of(values: &[Value]) -> Option<Value> {
    let typed = values.iter().find(|value| !matches!(value, Value::Untyped(_)));
    let wanted = *typed.or(values.first())?;
    let is_alike = |value: &Value| matches!(value, Value::Untyped(false)) || *value == wanted;
    let is_text = wanted == Value::Texts || typed.is_none();
    values.iter().all(|value| is_alike(value) || (is_text && matches!(value, Value::Untyped(_)))).then_some(wanted)
}

fn has_letters(text: &[u8]) -> bool {
    text.iter().any(|byte| !byte.is_ascii() || byte.is_ascii_alphabetic())
}
