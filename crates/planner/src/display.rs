//! Plans as an indented tree.
use std::fmt;
use crate::plan::Plan;
pub(crate) fn write_plan(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    write!(f, "{plan:?}")
}
