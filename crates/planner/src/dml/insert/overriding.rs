//! OVERRIDING USER VALUE: what an INSERT gives for identity columns is left out.

use catalog::{Column, quote_identifier};
use pg_query::NodeEnum;
use pg_query::protobuf::InsertStmt;

use crate::plan::Stage;
use crate::tree;

/// Has the stage make the values of these columns; those that a query gives go to columns of the stage that nobody reads.
pub(super) fn ignore_values(
    ignored: &[&Column],
    given: &[&str],
    is_rows: bool,
    fill: &mut InsertStmt,
    stage: &mut Stage,
) {
    for column in ignored {
        let Some(place) = given.iter().position(|name| *name == column.name) else { continue };
        if is_rows {
            set_to_default(fill, place);
        } else {
            let name = format!("loxo_ignored_{}", column.name);
            stage.definitions.insert(0, format!("{} {}", quote_identifier(&name), column.type_name));
            fill.cols[place] = tree::target_name_only(&name);
        }
    }
}

/// In all rows of a VALUES list.
fn set_to_default(fill: &mut InsertStmt, place: usize) {
    let query = fill.select_stmt.as_deref_mut().and_then(|query| query.node.as_mut());
    let Some(NodeEnum::SelectStmt(select)) = query else { return };
    for row in &mut select.values_lists {
        if let Some(NodeEnum::List(row)) = &mut row.node
            && let Some(value) = row.items.get_mut(place)
        {
            *value = tree::node(NodeEnum::SetToDefault(Box::default()));
        }
    }
}
