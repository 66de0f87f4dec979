//! Files as pieces of whole rows, read by threads.
//!
//! * [`input`]: which files, and their bytes without compression; [`ranges`]: a large one in the hands of several readers.
//! * [`cut`]: bytes into pieces of whole rows; [`lines`]: a line number of a COPY back to file and line.
//! * [`readers`]: the threads, and the bounded queue between them and the streams; [`counters`]: how far they are.
//!
//! Invariants: a piece begins and ends at a row end as `copyfmt`'s scanner sees it; pieces of all files tell where they are from;
//! nothing here talks to a server.

pub(crate) mod counters;
pub(crate) mod cut;
pub(crate) mod input;
pub(crate) mod lines;
pub(crate) mod ranges;
pub(crate) mod readers;
