//! How a crate is built inside, read off its own text: a folder uses none above it, circles of files are few and small, files and
//! folders are short.
//!
//! Paths that begin with `crate::`, `super::` or `self::` are looked at. A method is called without being named, so this sees what
//! knows of what, not what calls what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files that may use each other in a circle.
const CIRCLE_MAX: usize = 3;
const LINES_MAX: usize = 600;
const FILES_MAX: usize = 15;

/// Modules by name (`engine::run`, the root as the empty name), and the modules that each uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Fails unless all that is said on this page holds of a crate; of its folders (and files beside `lib.rs`) the lowest comes first.
///
/// # Panics
/// With what does not hold.
pub fn check(crate_root: &str, floors: &[&str]) {
    let uses = uses(Path::new(crate_root));
    let mut wrong = upward(&uses, floors);
    wrong.extend(circles(&uses, CIRCLE_MAX));
    wrong.sort();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Fails unless circles of files are few and small, and files and folders short, in a crate without floors.
///
/// # Panics
/// With what does not hold.
pub fn check_circles(crate_root: &Path) {
    let wrong = circles(&uses(crate_root), CIRCLE_MAX);
    assert!(wrong.is_empty(), "{}: {wrong:#?}", crate_root.display());
}

fn uses(crate_root: &Path) -> Uses {
    let mut texts = BTreeMap::new();
    read(&crate_root.join("src"), "", &mut texts);
    texts.iter().map(|(module, text)| (module.clone(), used(module, text, &texts))).collect()
}

/// Reads a folder; short ones of short files.
fn read(folder: &Path, module: &str, texts: &mut BTreeMap<String, String>) {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let entries: Vec<_> = entries.collect();
    let files = entries.iter().filter(|path| path.is_file()).count();
    assert!(files <= FILES_MAX, "{} holds {files} files", folder.display());
    for path in entries {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let below = if module.is_empty() { name.clone() } else { format!("{module}::{name}") };
        if path.is_dir() {
            read(&path, &below, texts);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        let is_folder = matches!(name.as_str(), "mod" | "lib");
        texts.insert(if is_folder { module.to_owned() } else { below }, code.join("\n"));
    }
}

/// The modules that a text names.
fn used(module: &str, text: &str, texts: &BTreeMap<String, String>) -> BTreeSet<String> {
    let own: Vec<&str> = module.split("::").filter(|word| !word.is_empty()).collect();
    let mut found = BTreeSet::new();
    for path in paths(text) {
        let (mut at, mut rest): (Vec<&str>, &str) = (own.clone(), &path);
        loop {
            match rest.split_once("::") {
                Some(("crate", behind)) => (at, rest) = (Vec::new(), behind),
                Some(("self", behind)) => rest = behind,
                Some(("super", behind)) => {
                    at.pop();
                    rest = behind;
                }
                _ => break,
            }
        }
        at.extend(rest.split("::"));
        while !at.is_empty() && !texts.contains_key(&at.join("::")) {
            at.pop();
        }
        found.insert(at.join("::"));
    }
    found.remove(module);
    found.remove("");
    found
}

/// All paths that begin with `crate::`, `super::` or `self::`, those in braces one by one.
fn paths(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(word).filter(|(at, _)| !text[..*at].ends_with(is_word)) {
            unfold("", &text[at..], &mut paths);
        }
    }
    paths
}

/// Adds the paths that begin here; gives what is behind them.
fn unfold<'t>(before: &str, text: &'t str, paths: &mut Vec<String>) -> &'t str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let path = format!("{before}{}", &text[..end]);
    let Some(mut rest) = text[end..].strip_prefix('{') else {
        paths.push(path);
        return &text[end..];
    };
    loop {
        rest = unfold(&path, rest.trim_start(), paths).trim_start_matches(|c| c != ',' && c != '}');
        match rest.strip_prefix(',').map(str::trim_start) {
            Some(next) if !next.starts_with('}') => rest = next,
            Some(end) => return &end[1..],
            None => return rest.strip_prefix('}').unwrap_or(rest),
        }
    }
}

fn upward(uses: &Uses, floors: &[&str]) -> Vec<String> {
    let floor = |module: &str| {
        let folder = module.split("::").next().unwrap_or_default();
        floors.iter().position(|name| *name == folder).unwrap_or_else(|| panic!("{module} is on no floor"))
    };
    let all = uses.iter().filter(|(module, _)| !module.is_empty());
    let pairs = all.flat_map(|(module, used)| used.iter().map(move |used| (module, used)));
    let wrong = pairs.filter(|(module, used)| floor(used) > floor(module));
    wrong.map(|(module, used)| format!("{module} uses {used}, which is above it")).collect()
}

fn circles(uses: &Uses, files_max: usize) -> Vec<String> {
    let reached = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(uses[module].iter().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reached: Uses = uses.keys().map(|module| (module.clone(), reached(module))).collect();
    let circle = |(module, all): (&String, &BTreeSet<String>)| -> Vec<String> {
        all.iter().filter(|other| reached[*other].contains(module)).cloned().collect()
    };
    let circles: BTreeSet<Vec<String>> = reached.iter().map(circle).filter(|circle| circle.len() > files_max).collect();
    circles.into_iter().map(|circle| format!("a circle of {} files: {}", circle.len(), circle.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_braces_are_found() {
        let text = "use crate::a::{self, b::{C, D}, e};\nlet x = super::f::g(1);\npub(crate) fn h(i: supercrate::j) {}";
        assert_eq!(paths(text), ["crate::a::self", "crate::a::b::C", "crate::a::b::D", "crate::a::e", "super::f::g"]);
    }

    #[test]
    fn circles_are_found() {
        let pair = |of: &str, used: &[&str]| (of.to_owned(), used.iter().map(|used| (*used).to_owned()).collect());
        let uses: Uses =
            [pair("a", &["b"]), pair("b", &["c"]), pair("c", &["d"]), pair("d", &["a"]), pair("e", &["a"])].into();
        assert_eq!(circles(&uses, CIRCLE_MAX), ["a circle of 4 files: a, b, c, d"]);
        assert_eq!(upward(&uses, &["d", "c", "b", "a", "e"]), ["d uses a, which is above it"]);
    }
}
