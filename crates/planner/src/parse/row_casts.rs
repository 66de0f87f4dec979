//! Casts in a ROW that PostgreSQL's printing adds.
//!
//! A ROW that is assigned to a composite column has its fields converted as an assignment does: `ROW(1, 'abcdef')` is refused if the
//! second field is a `varchar(4)`. PostgreSQL prints such a conversion as a cast, `ROW(1, 'abcdef'::varchar(4))`, which would cut the
//! text. What the user has not written is left out again: wherever such a ROW stands, it is converted once more.

use pg_query::NodeEnum;
use pg_query::protobuf::{RowExpr, TypeCast};
use pgerror::Result;

use super::analysed::Analysis;
use crate::tree::{Ask, Get, Ref, Walk};

impl Analysis {
    /// `sql` is the text that PostgreSQL was asked about. If it has such casts of its own, nobody can tell which is which, and all of them stay.
    pub fn as_written(self, sql: &str) -> Result<Self> {
        if !has_sized_fields(self.tree())? || wrote_sized_fields(sql)? {
            return Ok(self);
        }
        let mut whole = self.tree().clone();
        whole.rewrite(&mut |node| {
            if let Some(row) = node.get_mut::<RowExpr>() {
                for field in &mut row.args {
                    if let Some(cast) = field.get_mut::<TypeCast>()
                        && is_sized(cast)
                        && let Some(value) = cast.arg.take()
                    {
                        *field = *value;
                    }
                }
            }
            Ok(true)
        })?;
        self.with_tree(whole)
    }
}

fn wrote_sized_fields(sql: &str) -> Result<bool> {
    crate::try_any(super::parse(sql)?, |statement| statement.node().map_or(Ok(false), has_sized_fields))
}

/// Is a field of a ROW a cast to a type with a modifier?
fn has_sized_fields(tree: &NodeEnum) -> Result<bool> {
    tree.any(|node| matches!(node, Ref::RowExpr(row) if row.args.iter().any(|field| matches!(&field.node, Some(NodeEnum::TypeCast(cast)) if is_sized(cast)))))
}

fn is_sized(cast: &pg_query::protobuf::TypeCast) -> bool {
    cast.type_name.as_ref().is_some_and(|of| !of.typmods.is_empty())
}
