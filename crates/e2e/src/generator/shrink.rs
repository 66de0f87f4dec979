//! Makes a statement smaller as long as it still shows what is wrong.

use pgerror::Result;

use super::part::Part;

/// Attempts for one statement.
const ATTEMPTS_MAX: usize = 500;

/// The smallest statement found for which `still_wrong` holds.
///
/// # Errors
/// Those of `still_wrong`: a broken connection.
pub fn shrink(mut part: Part, mut still_wrong: impl FnMut(&Part) -> Result<bool>) -> Result<Part> {
    let (mut attempts, mut position, mut failed) = (0, 0, 0);
    loop {
        let candidates = part.simpler();
        // What stands before the last success has been tried already; it is tried again at the very end.
        if candidates.is_empty() || failed >= candidates.len() || attempts >= ATTEMPTS_MAX {
            return Ok(part);
        }
        attempts += 1;
        let candidate = &candidates[position % candidates.len()];
        match still_wrong(candidate)? {
            true => {
                part = candidate.clone();
                position %= candidates.len();
                failed = 0;
            }
            false => {
                position += 1;
                failed += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::part::{Constants, seq};
    use super::*;

    #[test]
    fn what_matters_stays() {
        let conditions = ["a", "b", "wrong", "c"].map(Part::from).to_vec();
        let list = Part::List { items: conditions, separator: " AND ", least: 1 };
        let part = seq!["SELECT 1", Part::optional(seq![" WHERE ", list]), Part::optional(" LIMIT 1")];
        let text = |part: &Part| part.render(Constants::Inline, 0).text;
        let shrunk = shrink(part, |part| Ok(text(part).contains("wrong"))).expect("no connection to break");
        assert_eq!(text(&shrunk), "SELECT 1 WHERE wrong");
    }
}
