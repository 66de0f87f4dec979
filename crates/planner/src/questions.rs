//! Questions that may fail, asked of many things.

use pgerror::Result;

/// Does it hold of one of them? As [`Iterator::any`], it asks no further then.
pub(crate) fn try_any<T>(
    things: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool>,
) -> Result<bool> {
    for thing in things {
        if holds(thing)? {
            return Ok(true);
        }
    }
    Ok(false)
}
