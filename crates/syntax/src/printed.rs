//! Undoes what PostgreSQL's printing of a statement means to itself only, so that the tree can be planned and taken apart.

use std::collections::HashSet;

use pg_query::protobuf::{
    AArrayExpr, AConst, ColumnRef, ResTarget, RowExpr, SelectStmt, SortBy, SortByNulls, TypeCast, TypeName, XmlExpr,
    XmlExprOp,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::{self as tree, Ask, Get, Ref, Syntax, Walk};

/// A column that it prints without a name is called `?column?`, and a constant whose type comes from where it goes is printed as one of type
/// `unknown`. A row is sorted by its fields, one after the other, and fields have types that a column can have. Types of schemas that are
/// `closed` to the user he has not named: they come from where their values go, too.
pub fn say_plainly(statement: &mut Node, closed: &HashSet<String>) -> Result<()> {
    statement.rewrite(&mut |node| {
        match &mut node.node {
            Some(NodeEnum::SelectStmt(select)) => {
                rows_with_types(select);
                columns_by_position(select);
                select.group_clause = select.group_clause.drain(..).flat_map(grouped_by_fields).collect();
                if select.distinct_clause.is_empty() {
                    select.sort_clause = select.sort_clause.drain(..).flat_map(by_fields).collect();
                }
            }
            Some(NodeEnum::ResTarget(target)) if target.name.is_empty() => {
                let value = target.val.as_deref().and_then(|value| value.node.as_ref());
                if value.is_some_and(|value| !matches!(value, NodeEnum::ColumnRef(_))) {
                    target.name = "?column?".to_owned();
                }
            }
            Some(NodeEnum::TypeCast(cast)) if is_untold(cast, closed) => {
                if let Some(value) = cast.arg.take() {
                    *node = *value;
                }
            }
            Some(NodeEnum::XmlExpr(xml)) if xml.op() == XmlExprOp::IsXmlroot => plain_version(xml)?,
            Some(NodeEnum::AArrayExpr(array)) => {
                *node = literal_of(array, closed).unwrap_or_else(|| std::mem::take(node))
            }
            _ => {}
        }
        Ok(true)
    })
}

/// A row as a whole is printed with its type everywhere but in ORDER BY, GROUP BY and DISTINCT ON: `t.*`. Of a function's row the output
/// may tell it.
fn rows_with_types(select: &mut SelectStmt) {
    let SelectStmt { target_list, from_clause, sort_clause, group_clause, distinct_clause, .. } = select;
    let casts: Vec<&TypeCast> = target_list.iter().filter_map(|shown| tree::value_of(shown)?.get()).collect();
    for value in sort_clause.iter_mut().chain(group_clause).chain(distinct_clause).filter_map(tree::sorted_mut) {
        let Some(alias) = value.get::<ColumnRef>().and_then(tree::row_alias) else { continue };
        let shown = casts.iter().filter_map(|cast| tree::whole_row(cast)).find(|(of, _)| *of == alias);
        let names = table_called(from_clause, alias).or_else(|| shown.map(|(_, of)| of.names.clone()));
        let Some(names) = names.filter(|names| names.len() > 1) else { continue };
        *value = tree::cast(value.clone(), &TypeName { names, typemod: -1, location: -1, ..TypeName::default() });
    }
}

/// Schema and name of a table in FROM.
fn table_called(from: &[Node], alias: &str) -> Option<Vec<Node>> {
    let mut pending: Vec<&Node> = from.iter().collect();
    while let Some(item) = pending.pop() {
        match &item.node {
            Some(NodeEnum::RangeVar(table)) => {
                let name = tree::alias_of(table);
                if name == alias && !table.schemaname.is_empty() {
                    return Some(vec![tree::string(&table.schemaname), tree::string(&table.relname)]);
                }
            }
            Some(NodeEnum::JoinExpr(join)) if join.alias.is_none() => {
                pending.extend(join.larg.as_deref().into_iter().chain(join.rarg.as_deref()));
            }
            _ => {}
        }
    }
    None
}

/// A column that a join has merged is printed by its bare name; in ORDER BY that would be an output column, of which there may be
/// several of that name.
fn columns_by_position(select: &mut SelectStmt) {
    let SelectStmt { target_list, sort_clause, distinct_clause, .. } = select;
    let outputs: Vec<&ResTarget> = target_list.iter().filter_map(|target| target.get::<ResTarget>()).collect();
    for value in sort_clause.iter_mut().chain(distinct_clause).filter_map(tree::sorted_mut) {
        let Some(name) = tree::bare_name(value) else { continue };
        let is_ambiguous = outputs.iter().filter(|output| tree::output_name(output) == name).count() > 1;
        let position = outputs.iter().position(|output| output.val.as_deref().and_then(tree::bare_name) == Some(name));
        if let Some(position) = position.filter(|_| is_ambiguous) {
            *value = tree::integer(position as i64 + 1);
        }
    }
}

/// `ORDER BY ROW(a, b) DESC` as `ORDER BY a DESC, b DESC` (`record_cmp` of rowtypes.c, which takes NULL for the greatest). A bare constant,
/// which would be the number of a column there, puts nothing in order.
fn by_fields(item: Node) -> Vec<Node> {
    let Some(by) = item.get::<SortBy>() else { return vec![item] };
    let is_value = |value: &&Node| value.get::<AConst>().is_none();
    let row = by.node.get::<RowExpr>().filter(|row| row.args.iter().any(|one| is_value(&one)) && by.use_op.is_empty());
    let Some(row) = row else { return vec![item] };
    let field = |value: &Node| {
        let sorted = SortBy {
            node: Some(Box::new(value.clone())),
            sortby_nulls: SortByNulls::SortbyNullsDefault as i32,
            ..by.clone()
        };
        by_fields(sorted.into_node())
    };
    row.args.iter().filter(is_value).flat_map(field).collect()
}

/// `GROUP BY ROW(a, b)` as `GROUP BY a, b`, without bare constants beside others.
fn grouped_by_fields(item: Node) -> Vec<Node> {
    let fields = item.get::<RowExpr>().map_or(&[][..], |row| &row.args);
    match fields.iter().filter(|field| field.get::<AConst>().is_none()).cloned().collect::<Vec<_>>() {
        fields if fields.is_empty() => vec![item],
        fields => fields.into_iter().flat_map(grouped_by_fields).collect(),
    }
}

/// `VERSION '1.1'::text` as `VERSION '1.1'`: libpg_query prints no other.
fn plain_version(xml: &mut XmlExpr) -> Result<()> {
    let Some(version) = xml.args.get_mut(1) else { return Ok(()) };
    let constant = tree::under_casts(version).clone();
    if constant.get::<AConst>().is_none() {
        return Err(
            PgError::unsupported("XMLROOT with a version that is computed").hint("Write the version as a constant.")
        );
    }
    *version = constant;
    Ok(())
}

fn is_untold(cast: &TypeCast, closed: &HashSet<String>) -> bool {
    let schema = cast.type_name.as_ref().filter(|of| of.names.len() > 1).and_then(|of| tree::text_of(&of.names[0]));
    tree::type_of(cast) == Some("unknown") && cast.arg.get::<AConst>().is_some()
        || schema.is_some_and(|schema| closed.contains(schema))
}

/// `ARRAY['a'::closed.t, …]` as `'{"a", …}'`: without the type it would be an array of text.
fn literal_of(array: &AArrayExpr, closed: &HashSet<String>) -> Option<Node> {
    let item = |item: &Node| {
        let text = tree::quoted(item.get::<TypeCast>().filter(|cast| is_untold(cast, closed))?.arg.get()?)?;
        Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
    };
    let items = array.elements.iter().map(item).collect::<Option<Vec<_>>>().filter(|items| !items.is_empty())?;
    Some(tree::text(&format!("{{{}}}", items.join(","))))
}

/// What its printing does not tell as it was meant: 0A000 if this text is to be run in place of the user's.
///
/// - It prints a grouping set by its expression, and reads the first output column of that for each. Where two columns show the
///   expression, another one may have been meant.
/// - Columns of one name in a sub-select get numbers, which the sub-select's row as a whole would show: `to_jsonb(q)`.
pub fn check_meaning(tree: &NodeEnum) -> Result<()> {
    let (mut numbered, mut whole, mut is_grouped_twice) = (HashSet::new(), HashSet::new(), false);
    tree.each(|node| match node {
        Ref::SelectStmt(select) => is_grouped_twice |= groups_in_sets_by_two_alike(select),
        Ref::Alias(alias) if has_numbered(&alias.colnames) => {
            numbered.insert(alias.aliasname.as_str());
        }
        Ref::ColumnRef(column) if tree::is_star(&column.fields) => {
            whole.extend(column.fields.first().and_then(tree::text_of))
        }
        _ => {}
    })?;
    if is_grouped_twice {
        let what = "GROUPING SETS, ROLLUP or CUBE by an expression that two output columns show";
        return Err(PgError::unsupported(what).hint("Select it once."));
    }
    match numbered.intersection(&whole).next() {
        Some(name) => Err(PgError::unsupported(format!("the row \"{name}\" as a whole, with columns of one name,"))
            .hint("Give each column a name of its own.")),
        None => Ok(()),
    }
}

/// Is there a name that is another one with a number?
fn has_numbered(names: &[Node]) -> bool {
    let names = tree::names_of(names);
    names.iter().any(|name| {
        let split = name.rsplit_once('_').filter(|(_, number)| number.parse::<u32>().is_ok());
        split.is_some_and(|(base, _)| names.iter().any(|other| other == base))
    })
}

fn groups_in_sets_by_two_alike(select: &SelectStmt) -> bool {
    let shown: Vec<&Node> = select.target_list.iter().filter_map(tree::value_of).collect();
    let is_shown_twice = |by: &Node| shown.iter().filter(|value| tree::same_expression(value, by)).count() > 1;
    let is_such = |node: Ref<'_>| match node {
        Ref::GroupingSet(set) => set.content.iter().any(|by| match by.get::<RowExpr>() {
            Some(row) => row.args.iter().any(is_shown_twice),
            None => is_shown_twice(by),
        }),
        _ => false,
    };
    select.group_clause.may_have(is_such)
}
