//! The floors of the crate.

const FLOORS: [&str; 15] = [
    "session",
    "tree",
    "look_alikes",
    "parse",
    "context",
    "facts",
    "plan",
    "select",
    "template",
    "copy",
    "dml",
    "ddl",
    "with",
    "rewrite",
    "first_copy",
];

#[test]
fn no_more_uses_go_up_than_did() {
    testkit::rooms::check_no_worse(env!("CARGO_MANIFEST_DIR"), &FLOORS, 44, 44);
}
