//! Rows that travel between nodes as text: in words that do not depend on the session's settings.
//!
//! Rows travel in binary where they can. A type of the user's may have no binary form that another node understands (an array
//! or a composite value has object ids in it), and then the row is text. As the user's settings would have it, that text could
//! be ambiguous or rounded: `DateStyle`, `IntervalStyle` and `extra_float_digits` decide. But what the statement computes
//! must still be computed under the user's settings (`d::text`). So the rows are made first, and only then, for their
//! output, are the settings changed, by the statement itself; afterwards they are put back:
//!
//! ```text
//! WITH loxo_rows AS MATERIALIZED (query), loxo_fixed AS MATERIALIZED (SELECT set_config(…) FROM (SELECT count(*) FROM loxo_rows))
//! SELECT loxo_rows.* FROM loxo_fixed, loxo_rows
//! ```
//!
//! Input needs nothing of the kind: these words mean the same under all settings.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use pgerror::{PgError, Result};

use crate::block::Block;
use crate::session::Session;

/// Settings and the values under which no value is ambiguous or rounded.
const FIXED: [(&str, &str); 4] =
    [("DateStyle", "ISO"), ("IntervalStyle", "iso_8601"), ("extra_float_digits", "3"), ("bytea_output", "hex")];

/// The query whose rows are to travel, in binary or as text. After one as text [`restore`] must follow.
pub(crate) fn travelling(sql: &str, binary: bool) -> Cow<'_, str> {
    match binary {
        true => Cow::Borrowed(sql),
        false => Cow::Owned(format!(
            "WITH loxo_rows AS MATERIALIZED ({sql}), loxo_fixed AS MATERIALIZED \
             ({} FROM (SELECT pg_catalog.count(*) FROM loxo_rows) loxo_all) \
             SELECT loxo_rows.* FROM loxo_fixed, loxo_rows",
            fix()
        )),
    }
}

/// Changes the settings for the output of the statements that follow in the transaction.
pub(crate) fn fix() -> String {
    let calls = FIXED.map(|(name, value)| {
        format!(
            "pg_catalog.set_config('loxo.kept_{name}', pg_catalog.current_setting('{name}'), true), \
             pg_catalog.set_config('{name}', '{value}', true)"
        )
    });
    format!("SELECT {}", calls.join(", "))
}

/// Puts the settings back.
pub(crate) fn restore() -> String {
    let calls = FIXED.map(|(name, _)| {
        format!(
            "pg_catalog.set_config('{name}', coalesce(nullif(pg_catalog.current_setting('loxo.kept_{name}', true), ''), \
             pg_catalog.current_setting('{name}')), true), pg_catalog.set_config('loxo.kept_{name}', '', true)"
        )
    });
    format!("SELECT {}", calls.join(", "))
}

/// Types whose text depends on none of these settings: numbers but for floating point, texts, uuid, bytea, json, addresses, and
/// arrays of the commonest.
const PLAIN: [u32; 40] = [
    16, 17, 18, 19, 20, 21, 23, 25, 26, 27, 114, 142, 650, 829, 869, 1042, 1043, 1083, 1560, 1562, 1700, 2278, 2950,
    3614, 3615, 3802, 1000, 1001, 1002, 1003, 1005, 1007, 1009, 1014, 1015, 1016, 1028, 1231, 2951, 3807,
];

impl Session {
    /// A number that stands for the settings of the session and its open block.
    pub(crate) fn settings_now(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let made = self.block.as_ref().map(Block::settings_made);
        (self.settings().fingerprint(), made).hash(&mut hasher);
        hasher.finish()
    }

    /// For values of these types that come as text from where the settings cannot be changed between computing and printing
    /// them: are they neither ambiguous nor rounded?
    pub async fn require_plain_text(&mut self, what: &str, types: impl IntoIterator<Item = u32>) -> Result<()> {
        const ARE_PLAIN: &str = "SELECT pg_catalog.starts_with(pg_catalog.current_setting('DateStyle'), 'ISO') \
             AND pg_catalog.current_setting('extra_float_digits')::int OPERATOR(pg_catalog.>) 0";
        if types.into_iter().all(|of| PLAIN.contains(&of)) {
            return Ok(());
        }
        let settings = self.settings_now();
        let known = self.plain_text.filter(|(under, _)| *under == settings).map(|(_, are_plain)| are_plain);
        let are_plain = match known {
            Some(are_plain) => are_plain,
            None => {
                let rows = self.rows_on(self.home, ARE_PLAIN).await?;
                let are_plain = rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t");
                self.plain_text = Some((settings, are_plain));
                are_plain
            }
        };
        if are_plain {
            return Ok(());
        }
        Err(PgError::unsupported(format!("{what} under these settings"))
            .detail("Dates, times, floating point numbers and composite values would travel in words that are ambiguous or rounded.")
            .hint("Set DateStyle to ISO and extra_float_digits to 1 or more."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_is_wrapped() {
        assert_eq!(travelling("SELECT 1", true), "SELECT 1");
        assert!(travelling("SELECT 1", false).starts_with("WITH loxo_rows AS MATERIALIZED (SELECT 1), "));
    }
}
