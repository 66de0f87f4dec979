//! A complete walk over raw parse trees of queries and data changes.
//!
//! Every node type that PostgreSQL's grammar can put into SELECT, INSERT, UPDATE, DELETE, MERGE or an expression is listed
//! once below with all its children. A type that is not listed is an error, so nothing can hide from an analysis.

use pg_query::protobuf::*;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

/// Called at every node on the way down; `false` skips its children.
pub type Visit<'v, 'a> = dyn FnMut(Ref<'a>) -> Result<bool> + 'v;
/// Called at every replaceable node on the way down; `false` skips its children.
pub type Rewrite<'v> = dyn FnMut(&mut Node) -> Result<bool> + 'v;

/// What can be walked.
pub trait Walk {
    /// Visits this node and all below, parents first.
    fn walk<'a>(&'a self, visit: &mut Visit<'_, 'a>) -> Result<()>;
    /// Offers every `Node` below (and itself, if it is one) for replacement, parents first.
    fn rewrite(&mut self, rewrite: &mut Rewrite<'_>) -> Result<()>;
}

macro_rules! walk_items {
    ($($of:ident)*) => {$(
        impl<T: Walk> Walk for $of<T> {
            fn walk<'a>(&'a self, visit: &mut Visit<'_, 'a>) -> Result<()> {
                self.iter().try_for_each(|item| item.walk(visit))
            }
            fn rewrite(&mut self, rewrite: &mut Rewrite<'_>) -> Result<()> {
                self.iter_mut().try_for_each(|item| item.rewrite(rewrite))
            }
        }
    )*};
}

walk_items!(Vec Option);

impl<T: Walk> Walk for Box<T> {
    fn walk<'a>(&'a self, visit: &mut Visit<'_, 'a>) -> Result<()> {
        (**self).walk(visit)
    }
    fn rewrite(&mut self, rewrite: &mut Rewrite<'_>) -> Result<()> {
        (**self).rewrite(rewrite)
    }
}

impl Walk for Node {
    fn walk<'a>(&'a self, visit: &mut Visit<'_, 'a>) -> Result<()> {
        self.node.walk(visit)
    }
    fn rewrite(&mut self, rewrite: &mut Rewrite<'_>) -> Result<()> {
        if rewrite(self)? {
            self.node.rewrite(rewrite)?;
        }
        Ok(())
    }
}

macro_rules! tree {
    ($($variant:ident($type:ident) { $($field:ident),* })*) => {
        /// A node of the walk. Every type has its variant; an analysis looks at those it cares for.
        #[allow(dead_code, clippy::enum_variant_names)]
        #[derive(Clone, Copy)]
        #[allow(missing_docs)]
        pub enum Ref<'a> { $($variant(&'a $type)),* }

        impl<'a> Ref<'a> {
            /// A node by itself, if it is of the walk.
            pub fn of(node: &'a NodeEnum) -> Option<Self> {
                match node {
                    $(NodeEnum::$variant(node) => Some(Ref::$variant(node)),)*
                    _ => None,
                }
            }
        }

        $(impl Walk for $type {
            fn walk<'a>(&'a self, visit: &mut Visit<'_, 'a>) -> Result<()> {
                if visit(Ref::$variant(self))? {
                    $(self.$field.walk(visit)?;)*
                }
                Ok(())
            }
            #[allow(unused_variables)]
            fn rewrite(&mut self, rewrite: &mut Rewrite<'_>) -> Result<()> {
                $(self.$field.rewrite(rewrite)?;)*
                Ok(())
            }
        })*

        impl Walk for NodeEnum {
            fn walk<'a>(&'a self, visit: &mut Visit<'_, 'a>) -> Result<()> {
                match self {
                    $(NodeEnum::$variant(node) => node.walk(visit),)*
                    other => Err(unknown(other)),
                }
            }
            fn rewrite(&mut self, rewrite: &mut Rewrite<'_>) -> Result<()> {
                match self {
                    $(NodeEnum::$variant(node) => node.rewrite(rewrite),)*
                    other => Err(unknown(other)),
                }
            }
        }
    };
}

tree! {
    SelectStmt(SelectStmt) {
        with_clause, distinct_clause, into_clause, target_list, from_clause, where_clause, group_clause, having_clause,
        window_clause, values_lists, sort_clause, limit_offset, limit_count, locking_clause, larg, rarg
    }
    InsertStmt(InsertStmt) { with_clause, relation, cols, select_stmt, on_conflict_clause, returning_clause }
    UpdateStmt(UpdateStmt) { with_clause, relation, target_list, from_clause, where_clause, returning_clause }
    DeleteStmt(DeleteStmt) { with_clause, relation, using_clause, where_clause, returning_clause }
    MergeStmt(MergeStmt) {
        with_clause, relation, source_relation, join_condition, merge_when_clauses, returning_clause
    }
    MergeWhenClause(MergeWhenClause) { condition, target_list, values }
    OnConflictClause(OnConflictClause) { infer, target_list, where_clause }
    InferClause(InferClause) { index_elems, where_clause }
    IndexElem(IndexElem) { expr, collation, opclass }
    ReturningClause(ReturningClause) { options, exprs }
    ReturningOption(ReturningOption) {}
    IntoClause(IntoClause) { rel, col_names }
    WithClause(WithClause) { ctes }
    CommonTableExpr(CommonTableExpr) { aliascolnames, ctequery, search_clause, cycle_clause }
    CtesearchClause(CteSearchClause) { search_col_list }
    CtecycleClause(CteCycleClause) { cycle_col_list, cycle_mark_value, cycle_mark_default }
    LockingClause(LockingClause) { locked_rels }
    RangeVar(RangeVar) { alias }
    Alias(Alias) { colnames }
    RangeSubselect(RangeSubselect) { subquery, alias }
    RangeFunction(RangeFunction) { functions, alias, coldeflist }
    RangeTableFunc(RangeTableFunc) { docexpr, rowexpr, namespaces, columns, alias }
    RangeTableFuncCol(RangeTableFuncCol) { type_name, colexpr, coldefexpr }
    RangeTableSample(RangeTableSample) { relation, method, args, repeatable }
    JoinExpr(JoinExpr) { larg, rarg, using_clause, join_using_alias, quals, alias }
    ColumnDef(ColumnDef) { type_name, coll_clause }
    ColumnRef(ColumnRef) { fields }
    ParamRef(ParamRef) {}
    AConst(AConst) {}
    AStar(AStar) {}
    AExpr(AExpr) { name, lexpr, rexpr }
    AIndices(AIndices) { lidx, uidx }
    AIndirection(AIndirection) { arg, indirection }
    AArrayExpr(AArrayExpr) { elements }
    TypeCast(TypeCast) { arg, type_name }
    TypeName(TypeName) { typmods, array_bounds }
    CollateClause(CollateClause) { arg, collname }
    FuncCall(FuncCall) { args, agg_order, agg_filter, over }
    WindowDef(WindowDef) { partition_clause, order_clause, start_offset, end_offset }
    NamedArgExpr(NamedArgExpr) { arg }
    ResTarget(ResTarget) { indirection, val }
    MultiAssignRef(MultiAssignRef) { source }
    SortBy(SortBy) { node, use_op }
    SubLink(SubLink) { testexpr, oper_name, subselect }
    BoolExpr(BoolExpr) { args }
    CaseExpr(CaseExpr) { arg, args, defresult }
    CaseWhen(CaseWhen) { expr, result }
    RowExpr(RowExpr) { args, colnames }
    CoalesceExpr(CoalesceExpr) { args }
    MinMaxExpr(MinMaxExpr) { args }
    SqlvalueFunction(SqlValueFunction) {}
    XmlExpr(XmlExpr) { named_args, arg_names, args }
    XmlSerialize(XmlSerialize) { expr, type_name }
    NullTest(NullTest) { arg }
    BooleanTest(BooleanTest) { arg }
    SetToDefault(SetToDefault) {}
    CurrentOfExpr(CurrentOfExpr) {}
    GroupingFunc(GroupingFunc) { args }
    GroupingSet(GroupingSet) { content }
    MergeSupportFunc(MergeSupportFunc) {}
    List(List) { items }
    String(String) {}
    Integer(Integer) {}
    Float(Float) {}
    Boolean(Boolean) {}
    DefElem(DefElem) { arg }
    JsonOutput(JsonOutput) { type_name }
    JsonArgument(JsonArgument) { val }
    JsonFuncExpr(JsonFuncExpr) { context_item, pathspec, passing, output, on_empty, on_error }
    JsonTablePathSpec(JsonTablePathSpec) { string }
    JsonTable(JsonTable) { context_item, pathspec, passing, columns, on_error, alias }
    JsonTableColumn(JsonTableColumn) { type_name, pathspec, columns, on_empty, on_error }
    JsonKeyValue(JsonKeyValue) { key, value }
    JsonParseExpr(JsonParseExpr) { expr, output }
    JsonScalarExpr(JsonScalarExpr) { expr, output }
    JsonSerializeExpr(JsonSerializeExpr) { expr, output }
    JsonObjectConstructor(JsonObjectConstructor) { exprs, output }
    JsonArrayConstructor(JsonArrayConstructor) { exprs, output }
    JsonArrayQueryConstructor(JsonArrayQueryConstructor) { query, output }
    JsonAggConstructor(JsonAggConstructor) { output, agg_filter, agg_order, over }
    JsonObjectAgg(JsonObjectAgg) { constructor, arg }
    JsonArrayAgg(JsonArrayAgg) { constructor, arg }
    JsonValueExpr(JsonValueExpr) { raw_expr }
    JsonIsPredicate(JsonIsPredicate) { expr }
    JsonBehavior(JsonBehavior) { expr }
}

fn unknown(node: &NodeEnum) -> PgError {
    PgError::unsupported(format!("the construct {}", super::text::kind_name(node)))
        .hint("Rewrite the statement without it.")
}
