//! Whether a cluster has said what one PostgreSQL says.

use super::stream::{ENCRYPTED, END, Said};

/// What a comparison has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Both sides answer alike.
    Same,
    /// They answer alike up to a place from which on the two may differ, and why.
    LeftOut(&'static str),
    /// Not the same: where.
    Different(String),
}

/// Compares all that was said on two connections.
pub fn compare(reference: &[Said], cluster: &[Said]) -> Comparison {
    let (reference, cluster) = (sorted(reference), sorted(cluster));
    let same = reference
        .iter()
        .zip(&cluster)
        .take_while(|(one, other)| (one.tag, &one.text) == (other.tag, &other.text))
        .count();
    if same == reference.len() && same == cluster.len() {
        return Comparison::Same;
    }
    if let Some(reason) = may_differ(&reference, &cluster, same) {
        return Comparison::LeftOut(reason);
    }
    let from = same.saturating_sub(4);
    let list = |said: &[Said]| said[from..].iter().take(12).map(|said| format!("    {said}\n")).collect::<String>();
    Comparison::Different(format!(
        "  one server, from answer {from}:\n{}  the cluster:\n{}",
        list(&reference),
        list(&cluster)
    ))
}

/// The accepted differences; the reasons are in the page of the module.
fn may_differ(reference: &[Said], cluster: &[Said], at: usize) -> Option<&'static str> {
    let (expected, actual) = (reference.get(at)?, cluster.get(at)?);
    if expected.tag == ENCRYPTED {
        return Some("the stock server takes GSSAPI encryption");
    }
    if actual.code == "0A000" {
        return Some("the cluster refuses the statement");
    }
    let is_flushed = |said: &Said| matches!(said.tag, b'Z' | b'E');
    let (rest, last) = cluster[at..].split_at(cluster.len() - at - 1);
    if expected.tag == END && last[0].tag == END && !rest.iter().any(is_flushed) {
        return Some("the connection ends before one server sends what it has to say");
    }
    let is_no_value = expected.code.starts_with("22") || expected.is_short;
    if is_no_value && (actual.tag == b'2' || actual.code == "08P01") {
        return Some("a value that is none is found by Execute");
    }
    if actual.code == "34000" && (expected.tag == b'n' || ["25P02", "55000", "24000"].contains(&expected.code.as_str()))
    {
        return Some("a portal that only one server still has");
    }
    if (expected.code.as_str(), actual.code.as_str()) == ("28000", "3D000") {
        return Some("neither role nor database exists");
    }
    if expected.code == "XX000" {
        return Some("an error that no server should have");
    }
    if actual.text.ends_with("a startup parameter is not UTF-8") {
        return Some("a startup parameter is not UTF-8");
    }
    let is_of_data = |pair: &[Said]| pair[0].tag == b'G' && !matches!(pair[1].code.as_str(), "" | "57014" | "08P01");
    if reference[..=at].windows(2).any(is_of_data) {
        return Some("the client goes on after an error in the data of a COPY");
    }
    None
}

/// Rows of one answer, or of one COPY, in the order of their bytes.
fn sorted(said: &[Said]) -> Vec<Said> {
    let mut all = said.to_vec();
    for run in all.chunk_by_mut(|one, other| one.tag == other.tag && matches!(one.tag, b'D' | b'd')) {
        run.sort_by(|one, other| one.text.cmp(&other.text));
    }
    all
}
