//! How much of its stack a worker thread uses: bodies that call each other are polled inside each other.

use std::cell::Cell;

thread_local! {
    /// An address near the beginning of the thread's stack; 0 if nobody noted it.
    static BASE: Cell<usize> = const { Cell::new(0) };
}

/// To be called when a thread begins.
pub fn note_stack_base() {
    BASE.set(here());
}

/// Bytes in use.
pub(crate) fn used() -> usize {
    match BASE.get() {
        0 => 0,
        base => base.abs_diff(here()),
    }
}

#[inline(never)]
fn here() -> usize {
    let local = 0_u8;
    std::hint::black_box(std::ptr::from_ref(&local)).addr()
}
