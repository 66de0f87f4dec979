//! What a [`Router`](crate::Router) must know of one COPY.

use std::sync::Arc;

use placement::{BucketMap, KeyType};

use crate::CopyOptions;

/// One COPY FROM.
#[derive(Clone, Debug)]
pub struct RouterSpec {
    /// The table's bare name, for CONTEXT.
    pub relation: String,
    /// The columns of the COPY, in the order of its column list.
    pub columns: Vec<CopyColumn>,
    /// Its checked options.
    pub options: CopyOptions,
    /// The session's `client_encoding` (used unless the options name an encoding).
    pub client_encoding: String,
    /// `server_version_num` of the oldest datanode: rules and messages are those of that version.
    pub server_version: u32,
    /// The session's TimeZone is UTC, so a timestamptz without offset needs no help.
    pub timezone_is_utc: bool,
    /// Where the bytes come from.
    pub source: Source,
    /// What is sent to datanodes.
    pub output: Output,
    /// How rows find their destination.
    pub routing: Routing,
    /// Columns, in order, that must not be given words like `now`: each destination's servers would read their own clocks. Only of
    /// [`Output::Raw`].
    pub clockless: Vec<usize>,
    /// Output bytes after which [`Step::Full`](crate::Step::Full) hands a buffer over.
    pub frame_bytes: usize,
}

/// A column of a COPY.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct CopyColumn {
    pub name: String,
    pub type_oid: u32,
    /// `atttypmod`.
    pub type_modifier: i32,
}

/// Where the bytes come from; the end-of-copy marker means slightly different things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `FROM STDIN`.
    Client,
    /// `FROM '/path'`.
    File,
}

/// What is sent to datanodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Binary COPY tuples. Every column must be [`transcodable`](crate::transcodable()) unless the input is binary too.
    Binary,
    /// The rows as they came, for a COPY with [`CopyOptions::to_sql`].
    Raw,
}

/// How rows find their destination, a number below the count of outputs.
#[derive(Clone, Debug)]
pub enum Routing {
    /// By the chained hash of the key's columns.
    Hash {
        /// The key's columns in key order.
        key: Vec<KeyPart>,
        /// Bucket → node.
        map: Arc<BucketMap>,
        /// Node → destination: the destination is the index of the bucket's node here.
        nodes: Vec<u16>,
    },
    /// By the key's value modulo the number of buckets.
    Modulo {
        /// The key.
        key: KeyPart,
        /// Bucket → node.
        map: Arc<BucketMap>,
        /// As in `Hash`.
        nodes: Vec<u16>,
    },
    /// Row after row to so many destinations in turn.
    RoundRobin {
        /// How many.
        destinations: usize,
        /// The destination of the first row.
        start: usize,
    },
    /// All rows into the one output 0: for a single node, or for all nodes alike (every node gets the same bytes).
    Single,
}

/// One column of a distribution key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPart {
    /// Its type.
    pub key_type: KeyType,
    /// Where its value comes from.
    pub value: KeyValue,
}

/// Where a key column's value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyValue {
    /// From the COPY's column of this index.
    Column(usize),
    /// Not in the column list: the column's default in binary send format, `None` for NULL.
    Default(Option<Vec<u8>>),
}
