//! The floors of the crate.

#[test]
fn no_floor_uses_one_above_it() {
    testkit::rooms::check(
        env!("CARGO_MANIFEST_DIR"),
        &[
            "stack",
            "query_id",
            "shared",
            "protocol",
            "routines",
            "session_commands",
            "statements",
            "client",
            "listener",
        ],
    );
}
