//! The order of the crate's folders, read off its own text: what a file names by `crate::…` lies in its own folder or in one
//! below, and files that name each other in a circle are few.
//!
//! A method of `Session` is called without being named, so this sees who knows of whom, not who calls whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Lowest first.
const FOLDERS: [&str; 13] = [
    "backend",
    "shared",
    "block",
    "session",
    "transaction",
    "snapshot",
    "plan_cache",
    "engine",
    "dml",
    "copy",
    "ddl",
    "growth",
    "commands",
];

/// Files that use a folder above their own, yet. The list only ever gets shorter.
const EXCEPTIONS: [(&str, &str); 0] = [];

/// So many files may use each other in a circle.
const CIRCLE_MAX: usize = 3;
const LINES_MAX: usize = 600;
const FILES_MAX: usize = 15;

/// A file by its module, `engine::run` say, and its text without comments and tests.
struct File {
    path: String,
    lines: usize,
    code: String,
}

fn files() -> BTreeMap<String, File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the crate") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(&root).expect("below src").display().to_string();
            let module = relative.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
            files.insert(module, File { path: relative, lines: text.lines().count(), code: code.join("\n") });
        }
    }
    files
}

/// All paths that start with `crate::`, those in braces one by one.
fn paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        unfold("", &code[at + "crate::".len()..], &mut paths);
    }
    paths
}

/// Adds the paths that begin here; gives what is behind them.
fn unfold<'c>(before: &str, code: &'c str, paths: &mut Vec<String>) -> &'c str {
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(code.len());
    let (path, mut rest) = code.split_at(end);
    let path = format!("{before}{path}");
    match rest.strip_prefix('{') {
        Some(inner) => {
            rest = inner;
            loop {
                rest = unfold(&path, rest.trim_start(), paths).trim_start();
                rest = rest.trim_start_matches(|c| c != ',' && c != '}');
                match rest.strip_prefix(',').map(str::trim_start) {
                    Some(next) if !next.starts_with('}') => rest = next,
                    Some(end) => return &end[1..],
                    None => return rest.strip_prefix('}').unwrap_or(rest),
                }
            }
        }
        None => paths.push(path),
    }
    rest
}

/// The modules that a file uses.
fn uses(module: &str, files: &BTreeMap<String, File>) -> BTreeSet<String> {
    let used = |path: String| {
        let mut words: Vec<&str> = path.split("::").collect();
        while !words.is_empty() && !files.contains_key(&words.join("::")) {
            words.pop();
        }
        words.join("::")
    };
    let all = paths(&files[module].code).into_iter().map(used);
    all.filter(|used| !used.is_empty() && used != module && used != "lib").collect()
}

fn folder(module: &str) -> &str {
    module.split("::").next().unwrap_or_default()
}

fn rank(module: &str) -> usize {
    let at = FOLDERS.iter().position(|name| *name == folder(module));
    at.unwrap_or_else(|| panic!("{module} is in no folder of the list"))
}

#[test]
fn no_folder_uses_one_above_it() {
    let files = files();
    let mut found = BTreeSet::new();
    for (module, file) in files.iter().filter(|(module, _)| *module != "lib") {
        for used in uses(module, &files) {
            if rank(&used) > rank(module) {
                found.insert((file.path.clone(), used.replace("::", "/")));
            }
        }
    }
    let known: BTreeSet<_> = EXCEPTIONS.iter().map(|(file, used)| ((*file).to_owned(), (*used).to_owned())).collect();
    let new: Vec<_> = found.difference(&known).collect();
    assert!(new.is_empty(), "these use a folder above their own: {new:#?}");
    let old: Vec<_> = known.difference(&found).collect();
    assert!(old.is_empty(), "these do so no more: take them off the list: {old:#?}");
}

#[test]
fn no_circle_is_large() {
    let files = files();
    let uses: BTreeMap<&str, BTreeSet<String>> =
        files.keys().map(|module| (module.as_str(), uses(module, &files))).collect();
    let reached = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = open.pop() {
            open.extend(uses[module.as_str()].iter().filter(|next| seen.insert((*next).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = uses.keys().map(|module| (*module, reached(module))).collect();
    for (module, all) in &reached {
        let circle: Vec<&String> = all.iter().filter(|other| reached[other.as_str()].contains(*module)).collect();
        assert!(circle.len() <= CIRCLE_MAX, "a circle of {} files: {circle:#?}", circle.len());
    }
}

#[test]
fn files_are_short_and_folders_small() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for file in files().values() {
        assert!(file.lines <= LINES_MAX, "{} has {} lines", file.path, file.lines);
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder.to_owned()).or_default() += 1;
    }
    for (folder, count) in folders {
        assert!(count <= FILES_MAX, "{folder} has {count} files");
    }
}

#[test]
fn paths_in_braces_are_found() {
    let code = "use crate::a::{self, b::{C, D}, e};\nlet x = crate::f::g(1);\npub(crate) fn h() {}";
    assert_eq!(paths(code), ["a::self", "a::b::C", "a::b::D", "a::e", "f::g"]);
}
