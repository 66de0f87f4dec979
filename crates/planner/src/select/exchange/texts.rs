//! Small changes of fragments.

use catalog::{Column, Generated};
use pg_query::Node;
use pg_query::protobuf::SelectStmt;
use pgerror::Result;

use crate::tree::{self, Ask};

/// A column of which only the name is known: it is equal to nothing we could prove.
pub(super) fn unknown_column() -> Column {
    Column {
        number: 0,
        name: String::new(),
        type_oid: 0,
        type_modifier: -1,
        type_name: String::new(),
        not_null: false,
        default: None,
        default_is_stable: true,
        generated: Generated::No,
        deterministic: false,
        default_collation: false,
        bytewise: false,
    }
}
