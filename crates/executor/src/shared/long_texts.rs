//! Long texts take long to parse and to plan. Meanwhile other sessions must go on.

use tokio::runtime::{Handle, RuntimeFlavor};

/// From this length on a text is worth the handing over: about a millisecond of parsing.
const LENGTHY_BYTES: usize = 16 << 10;

/// Does work whose time grows with a text. The sessions of this thread are handed over to another one if it may take long.
pub fn lengthy<T>(text_bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others = || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    match text_bytes >= LENGTHY_BYTES && has_others() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}
