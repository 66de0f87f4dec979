//! Plans at work: rows from datanodes to the client, to other datanodes, or into memory.
//!
//! * [`run`]: sends a plan's texts to its nodes and merges what they answer.
//! * [`gather`]: fragments into temp tables on the home node, then the last step there; [`inlined_rows`]: few rows, as parameters of
//!   the last step; [`sorted_merge`]: rows that the nodes have sorted, by keys in front of them ([`sort_key`]); [`exchange`]: from all
//!   nodes to all, by broadcast or by hash. [`mover`] moves the rows of these and of changes. [`temp`] says in which session the temp
//!   tables are.
//! * [`reads`]: over several nodes in one state of theirs; [`row_router`]: the node of a row.
//! * [`locked_rows`]: SELECT … FOR UPDATE over several nodes; [`owner_reads`]: tables read with the rights of a view's owner.
//! * [`output`]: where rows go; [`spool`]: rows kept for later, in memory up to `loxo.work_mem`; [`fixed_text`]: rows that travel
//!   as text.
//! * [`explain`]: EXPLAIN of what all this would do; [`estimates`]: how many rows fragments give.
//!
//! Invariants: rows are moved as bytes and looked into only for their distribution key, or for sort keys that the nodes put in front;
//! every buffer is bounded, and a slow receiver slows the sender down.

pub(crate) mod estimates;
pub(crate) mod exchange;
pub(crate) mod explain;
pub(crate) mod fixed_text;
pub(crate) mod gather;
pub(crate) mod inlined_rows;
pub(crate) mod locked_rows;
pub(crate) mod mover;
pub(crate) mod output;
pub(crate) mod owner_reads;
pub(crate) mod reads;
pub(crate) mod row_router;
pub(crate) mod run;
pub(crate) mod sort_key;
pub(crate) mod sorted_merge;
pub(crate) mod spool;
pub(crate) mod temp;
