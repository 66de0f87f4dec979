//! No crate of the workspace has a large circle of files, a long file or a full folder.

use std::path::Path;

#[test]
fn every_crate_is_built_of_small_rooms() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let crates: Vec<_> = std::fs::read_dir(crates).expect("a folder").map(|of| of.expect("an entry").path()).collect();
    let crates: Vec<_> = crates.into_iter().filter(|of| of.join("src").is_dir()).collect();
    assert!(crates.len() > 15, "{crates:?}");
    crates.iter().for_each(|of| testkit::rooms::check_circles(of));
}
