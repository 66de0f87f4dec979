//! The floors of the crate.

const FLOORS: [&str; 21] = [
    "session",
    "keys",
    "tree",
    "look_alikes",
    "parse",
    "plan",
    "context",
    "facts",
    "views",
    "select",
    "distribution",
    "dml",
    "template",
    "copy",
    "ddl",
    "with",
    "rewrite",
    "first_copy",
    "expanded",
    "driver",
    "api",
];

#[test]
fn no_folder_uses_one_above_it() {
    testkit::rooms::check(env!("CARGO_MANIFEST_DIR"), &FLOORS);
}
