//! The parts that queries and changes of rows have in common.

use pg_query::protobuf::{
    self, AConst, AExpr, AExprKind, AlterTableCmd, AlterTableStmt, BoolExprType, ColumnRef, CommonTableExpr, DefElem,
    FuncCall, InsertStmt, List, MultiAssignRef, NamedArgExpr, OnConflictAction, RangeFunction, RangeVar, ResTarget,
    ReturningClause, RowExpr, SelectStmt, SetOperation, SetToDefault, SortBy, TypeCast, TypeName, WithClause, a_const,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::get::Get;
use super::make::{string, table};
use super::same_expression;
use super::walk::Ref;

/// A clause of several kinds of statements, and where it stands.
macro_rules! clause {
    ($what:literal, $of:ident, $mut:ident: $type:ty = $field:ident of $($kind:ident)*) => {
        #[doc = $what]
        pub fn $of(node: &NodeEnum) -> Option<&$type> {
            match node {
                $(NodeEnum::$kind(statement) => statement.$field.as_ref(),)*
                _ => None,
            }
        }

        #[doc = concat!("Where it stands. ", $what)]
        pub fn $mut(node: &mut NodeEnum) -> Option<&mut Option<$type>> {
            match node {
                $(NodeEnum::$kind(statement) => Some(&mut statement.$field),)*
                _ => None,
            }
        }
    };
}

clause!("The WITH clause.", with_of, with_mut: WithClause = with_clause of SelectStmt InsertStmt UpdateStmt DeleteStmt MergeStmt);
clause!("The table or view that a data change is about.", target_of, target_mut: RangeVar = relation of InsertStmt UpdateStmt DeleteStmt MergeStmt);
clause!("The RETURNING clause of a data change.", returning_of, returning_mut: ReturningClause = returning_clause of InsertStmt UpdateStmt DeleteStmt MergeStmt);

/// Is it a query or a change of rows?
pub fn is_about_rows(node: &NodeEnum) -> bool {
    matches!(node, NodeEnum::SelectStmt(_)) || target_of(node).is_some()
}

/// The part of a statement that reads tables. Other statements name a table without reading it, or make something of that name.
pub fn query_of(node: Option<&Node>) -> Option<&NodeEnum> {
    let node = node?.node.as_ref()?;
    match node {
        node if is_about_rows(node) => Some(node),
        NodeEnum::CopyStmt(copy) => query_of(copy.query.as_deref()),
        NodeEnum::ExplainStmt(explain) => query_of(explain.query.as_deref()),
        NodeEnum::PrepareStmt(prepare) => query_of(prepare.query.as_deref()),
        NodeEnum::DeclareCursorStmt(declare) => query_of(declare.query.as_deref()),
        NodeEnum::CreateTableAsStmt(create) => query_of(create.query.as_deref()),
        NodeEnum::ViewStmt(view) => query_of(view.query.as_deref()),
        _ => None,
    }
}

/// The output list of RETURNING.
pub fn returned_by(node: &NodeEnum) -> &[Node] {
    returning_of(node).map_or(&[], |clause| &clause.exprs)
}

/// Is this list of names `*`, or does it end with one?
pub fn is_star(names: &[Node]) -> bool {
    matches!(names, [.., Node { node: Some(NodeEnum::AStar(_)) }])
}

/// The schema and the table in `schema.table.column`.
pub fn table_with_schema(column: &ColumnRef) -> Option<(&str, &str)> {
    let [schema, table, _] = column.fields.as_slice() else { return None };
    Some((text_of(schema)?, text_of(table)?))
}

/// Is it an item of FROM that has the table's name, and is not the table of this schema? A bare name of a catalog is `pg_catalog`'s.
pub fn is_seen_as_another(node: Ref<'_>, (schema, table): (&str, &str)) -> bool {
    let alias = match node {
        Ref::RangeVar(of) if of.alias.is_none() => {
            let is_it = of.schemaname == schema || of.schemaname.is_empty() && schema == "pg_catalog";
            return of.relname == table && !is_it;
        }
        Ref::RangeVar(of) => &of.alias,
        Ref::RangeSubselect(of) => &of.alias,
        Ref::RangeFunction(of) => &of.alias,
        Ref::RangeTableFunc(of) => &of.alias,
        Ref::JoinExpr(of) => &of.alias,
        _ => return false,
    };
    alias.as_ref().is_some_and(|alias| alias.aliasname == table)
}

/// Is an entry of a select list `*` or `t.*`?
pub fn shows_star(target: &Node) -> bool {
    match value_of(target).and_then(|value| value.node.as_ref()) {
        Some(NodeEnum::ColumnRef(column)) => is_star(&column.fields),
        Some(NodeEnum::AIndirection(part)) => is_star(&part.indirection),
        _ => false,
    }
}

/// Is it a UNION, INTERSECT or EXCEPT?
pub fn is_operation(query: &SelectStmt) -> bool {
    query.op() != SetOperation::SetopNone
}

/// The query whose columns are those of a UNION, INTERSECT or EXCEPT.
pub fn leftmost(query: &SelectStmt) -> &SelectStmt {
    query.larg.as_deref().map_or(query, leftmost)
}

/// Has it neither LIMIT nor OFFSET?
pub fn is_unlimited(query: &SelectStmt) -> bool {
    query.limit_count.is_none() && query.limit_offset.is_none()
}

/// Has it ORDER BY, LIMIT or OFFSET?
pub fn is_ordered(query: &SelectStmt) -> bool {
    !query.sort_clause.is_empty() || !is_unlimited(query)
}

/// `DISTINCT ON (…)`.
pub fn has_distinct_on(query: &SelectStmt) -> bool {
    query.distinct_clause.iter().any(|item| item.node.is_some())
}

/// How many columns a query gives, if its text tells.
pub fn width(query: &SelectStmt) -> Option<usize> {
    let query = leftmost(query);
    if let Some(row) = query.values_lists.first().and_then(|row| row.get::<List>()) {
        return Some(row.items.len());
    }
    (!query.target_list.iter().any(shows_star)).then_some(query.target_list.len())
}

/// The value that an item of ORDER BY, GROUP BY or DISTINCT ON is about.
pub fn sorted_mut(item: &mut Node) -> Option<&mut Node> {
    match item.get::<SortBy>() {
        Some(_) => item.get_mut::<SortBy>()?.node.as_deref_mut(),
        None => Some(item),
    }
}

/// The items of a WITH clause.
pub fn with_items(with: Option<&WithClause>) -> impl Iterator<Item = &CommonTableExpr> {
    with.into_iter().flat_map(|with| &with.ctes).filter_map(|item| item.get::<CommonTableExpr>())
}

/// Does a change of rows look at other tables in FROM or USING?
pub fn reads_others(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::UpdateStmt(update) => !update.from_clause.is_empty(),
        NodeEnum::DeleteStmt(delete) => !delete.using_clause.is_empty(),
        _ => false,
    }
}

/// The value in an entry of a select list, or of SET.
pub fn value_of(target: &Node) -> Option<&Node> {
    target.get::<ResTarget>()?.val.as_deref()
}

/// The name that such an entry gives, also one of INSERT's columns.
pub fn name_of(target: &Node) -> Option<&str> {
    target.get::<ResTarget>().map(|target| target.name.as_str())
}

/// What the rest of the statement calls a table.
pub fn alias_of(table: &RangeVar) -> &str {
    table.alias.as_ref().map_or(&table.relname, |alias| &alias.aliasname)
}

/// The value of an argument, with a name or without.
pub fn argument_mut(argument: &mut Node) -> Option<&mut Node> {
    match argument.get::<NamedArgExpr>() {
        Some(_) => argument.get_mut::<NamedArgExpr>()?.arg.as_deref_mut(),
        None => Some(argument),
    }
}

/// The type of a parameter or result of a function, which has no length, whatever its name means elsewhere: `character` is `char(1)`. The parser's
/// printer makes that of `pg_catalog.bpchar`, too.
pub fn of_any_length(of: protobuf::TypeName) -> protobuf::TypeName {
    let names = match last_name(&of.names) {
        Some("bpchar") => vec![string("bpchar")],
        _ => of.names,
    };
    TypeName { names, typmods: Vec::new(), ..of }
}

/// The last of several names: what is named, without its schema or table.
pub fn last_name(names: &[Node]) -> Option<&str> {
    names.last().and_then(text_of)
}

/// The only function of an item of FROM.
pub fn only_call(item: &RangeFunction) -> Option<&FuncCall> {
    match item.functions.as_slice() {
        [list] => list.get::<List>()?.items.first()?.get(),
        _ => None,
    }
}

/// The only function of an item of FROM that is nothing but the call.
pub fn bare_call(item: &RangeFunction) -> Option<&FuncCall> {
    only_call(item).filter(|_| !item.ordinality && !item.is_rowsfrom && item.coldeflist.is_empty())
}

/// Has a call nothing but arguments, one by one?
pub fn is_plain_call(call: &FuncCall) -> bool {
    call.agg_order.is_empty()
        && call.agg_filter.is_none()
        && call.over.is_none()
        && !call.agg_distinct
        && !call.agg_star
        && !call.func_variadic
}

/// The commands of ALTER TABLE.
pub fn commands(alter: &AlterTableStmt) -> impl Iterator<Item = &AlterTableCmd> {
    alter.cmds.iter().filter_map(|command| command.get())
}

/// Options, as of CREATE FUNCTION, COPY and VACUUM.
pub fn options(nodes: &[Node]) -> impl Iterator<Item = &DefElem> {
    nodes.iter().filter_map(|option| option.get())
}

/// The value of one.
pub fn option_of<'n>(nodes: &'n [Node], name: &str) -> Option<&'n Node> {
    options(nodes).find(|option| option.defname == name)?.arg.as_deref()
}

/// Is it DEFAULT?
pub fn is_default(value: &Node) -> bool {
    value.get::<SetToDefault>().is_some()
}

/// A bare integer constant.
pub fn integer_of(node: &Node) -> Option<i32> {
    if let Some(a_const::Val::Ival(number)) = &node.get::<AConst>()?.val { Some(number.ival) } else { None }
}

/// The text of a quoted constant.
pub fn quoted(constant: &AConst) -> Option<&str> {
    if let Some(a_const::Val::Sval(text)) = &constant.val { Some(&text.sval) } else { None }
}

/// The text of a String node.
pub fn text_of(node: &Node) -> Option<&str> {
    node.get::<protobuf::String>().map(|text| text.sval.as_str())
}

/// The schema, if it is written, and the name of a list of String nodes.
pub fn qualified(names: &[Node]) -> (Option<&str>, &str) {
    let schema = if names.len() > 1 { names.first().and_then(text_of) } else { None };
    (schema, names.last().and_then(text_of).unwrap_or_default())
}

/// All names of a list of String nodes.
pub fn names_of(nodes: &[Node]) -> Vec<String> {
    nodes.iter().filter_map(text_of).map(str::to_owned).collect()
}

/// `pg_temp`, or a session's own name for it.
pub fn is_temporary_schema(name: &str) -> bool {
    name.starts_with("pg_temp")
}

/// Splits a condition at its top-level ANDs.
pub fn conjuncts(condition: Option<&Node>) -> Vec<&Node> {
    let mut list = Vec::new();
    let mut stack: Vec<&Node> = condition.into_iter().collect();
    while let Some(next) = stack.pop() {
        match &next.node {
            Some(NodeEnum::BoolExpr(b)) if b.boolop == BoolExprType::AndExpr as i32 => {
                stack.extend(b.args.iter().rev());
            }
            _ => list.push(next),
        }
    }
    list
}

/// The name of a function, an operator, … if it is bare or of pg_catalog.
pub fn own_name(names: &[Node]) -> Option<&str> {
    let (None | Some("pg_catalog"), name) = qualified(names) else { return None };
    Some(name)
}

/// A column reference of one name.
pub fn bare_name(node: &Node) -> Option<&str> {
    let [name] = node.get::<ColumnRef>()?.fields.as_slice() else { return None };
    text_of(name)
}

/// The name of the type that a cast is to, without its schema.
pub fn type_of(cast: &TypeCast) -> Option<&str> {
    last_name(&cast.type_name.as_ref()?.names)
}

/// Is the value a row as a whole, which is of no type that a table's column can have, or which a select list takes for all columns?
pub fn is_row(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::RowExpr(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => type_of(cast) == Some("record"),
        Some(NodeEnum::ColumnRef(column)) => is_star(&column.fields),
        Some(NodeEnum::AIndirection(part)) => is_star(&part.indirection),
        _ => false,
    }
}

/// `tableoid::regclass`: only the row's own node can tell.
pub fn is_table_name(cast: &TypeCast) -> bool {
    let of = cast.arg.get::<ColumnRef>().and_then(|column| last_name(&column.fields));
    type_of(cast) == Some("regclass") && of == Some("tableoid")
}

/// The alias of `alias.*` in a cast, and the cast's type.
pub fn whole_row(cast: &TypeCast) -> Option<(&str, &TypeName)> {
    Some((row_alias(cast.arg.get()?)?, cast.type_name.as_ref()?))
}

/// The alias of `alias.*`.
pub fn row_alias(column: &ColumnRef) -> Option<&str> {
    match column.fields.as_slice() {
        [alias, Node { node: Some(NodeEnum::AStar(_)) }] => text_of(alias),
        _ => None,
    }
}

/// `RangeVar::relpersistence` of a view that is read as a table. No SQL text says it, so it lasts as long as the tree.
pub const AS_TABLE: &str = "v";

/// `RangeVar::relpersistence` of a name that a WITH clause of the view's definition gives: no table or view bears it there, whatever the
/// search path finds. PostgreSQL writes the schema before every name that could be confused with one of these.
pub const WITH_ITEM: &str = "w";

/// A value without the casts around it.
pub fn under_casts(value: &Node) -> &Node {
    value.get::<TypeCast>().and_then(|cast| cast.arg.as_deref()).map_or(value, under_casts)
}

/// The table whose rows a statement changes.
pub fn changed(node: Ref<'_>) -> Option<&RangeVar> {
    match node {
        Ref::InsertStmt(insert) => insert.relation.as_ref(),
        Ref::UpdateStmt(update) => update.relation.as_ref(),
        Ref::DeleteStmt(delete) => delete.relation.as_ref(),
        Ref::MergeStmt(merge) => merge.relation.as_ref(),
        _ => None,
    }
}

/// A query, or that of an INSERT.
pub fn rows_of(statement: &NodeEnum) -> Option<&SelectStmt> {
    match statement {
        NodeEnum::InsertStmt(insert) => insert.select_stmt.get(),
        other => other.get(),
    }
}

/// The text of a statement, but for the name of a table that it adds rows to without looking at others.
pub fn read_by(statement: &NodeEnum) -> Result<String> {
    match statement {
        NodeEnum::InsertStmt(insert) if !updates_on_conflict(insert) => {
            let nothing = table("pg_catalog", "nothing", None);
            super::deparse(&NodeEnum::InsertStmt(Box::new(InsertStmt {
                relation: Some(nothing),
                ..(**insert).clone()
            })))
        }
        NodeEnum::CopyStmt(copy) if copy.is_from => Ok(String::new()),
        NodeEnum::TruncateStmt(_) => Ok(String::new()),
        _ => super::deparse(statement),
    }
}

fn updates_on_conflict(insert: &InsertStmt) -> bool {
    let conflict = insert.on_conflict_clause.as_ref();
    conflict.is_some_and(|clause| clause.action == OnConflictAction::OnconflictUpdate as i32)
}

/// The call that a query without FROM or any other clause consists of.
pub fn sole_call(query: &SelectStmt) -> Option<&FuncCall> {
    let [target] = query.target_list.as_slice() else { return None };
    let call = value_of(target)?.get::<FuncCall>().filter(|call| is_plain_call(call))?;
    let rest = SelectStmt { target_list: Vec::new(), ..query.clone() };
    (rest == super::empty_select()).then_some(call)
}

/// The name that a constant cast to `regclass` or its like has, also if that is cast to `oid`; `None` if it is a number.
pub fn named_object(value: &Node) -> Option<&str> {
    let cast = value.get::<TypeCast>()?;
    let inner = cast.arg.as_deref()?;
    match (type_of(cast)?, inner.get().and_then(quoted)) {
        ("oid", None) => named_object(inner),
        (of, Some(name)) if of.starts_with("reg") && !name.trim_start().starts_with(|c: char| c.is_ascii_digit()) => {
            Some(name)
        }
        _ => None,
    }
}

/// A string, NULL or parameter without a cast.
pub fn is_bare(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::AConst(constant)) => constant.isnull || quoted(constant).is_some(),
        _ => false,
    }
}

/// Does an aggregate sort by all that it collects? Rows that its ORDER BY cannot tell apart come in any order.
pub fn sorts_arguments(call: &FuncCall) -> bool {
    let sorts_by = |item: &Node, argument: &Node| {
        item.get::<SortBy>().is_some_and(|sort| sort.node.as_deref().is_some_and(|by| same_expression(by, argument)))
    };
    let is_sorted = |argument: &Node| call.agg_order.iter().any(|item| sorts_by(item, argument));
    let is_constant = |argument: &Node| matches!(argument.node, Some(NodeEnum::AConst(_)));
    !call.agg_order.is_empty() && call.args.iter().all(|argument| is_constant(argument) || is_sorted(argument))
}

/// What SET gives a column; `None` for a part of what a sub-select gives.
pub fn single_value(value: &Node) -> Option<Node> {
    let Some(part) = value.get::<MultiAssignRef>() else { return Some(value.clone()) };
    part.source.get::<RowExpr>()?.args.get(usize::try_from(part.colno - 1).ok()?).cloned()
}

/// Is there a WITH item of this name?
pub fn is_item_of(with: Option<&WithClause>, name: &str) -> bool {
    let items = with.into_iter().flat_map(|with| &with.ctes);
    items.filter_map(|item| item.get::<CommonTableExpr>()).any(|item| item.ctename == name)
}

/// `a IN (b, c)` and its kin may not look at all of their parts.
pub fn is_by_turns(e: &AExpr) -> bool {
    use AExprKind::{AexprBetween, AexprBetweenSym, AexprIn, AexprNotBetween, AexprNotBetweenSym};
    matches!(e.kind(), AexprIn | AexprBetween | AexprNotBetween | AexprBetweenSym | AexprNotBetweenSym)
}
