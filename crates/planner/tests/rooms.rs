//! The floors of the crate.

const FLOORS: [&str; 20] = [
    "session",
    "look_alikes",
    "parse",
    "plan",
    "context",
    "row_locks",
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
