//! End-to-end tests: the same bytes go to one stock PostgreSQL and to a cluster, and everything that comes back must be
//! the same.
//!
//! - `cases/` + [`differential`]: plain SQL files that anyone can read and run with psql, in folders by what they are about.
//!   `tests/compare/differential.rs` runs each by several distributions and by both protocols.
//! - `interleaved/` + [`interleaved`]: such files for several sessions at once: who waits for whom.
//! - [`generator`]: random statements over random tables. `tests/fuzz/query_fuzz.rs`, the same way.
//! - [`parity`]: PostgreSQL's own regression files, as psql runs them. `make parity` prints the share that is the same.
//! - [`fuzz`]: random COPY input, of any type, option and client encoding. `tests/fuzz/copy_fuzz.rs` runs it for a while, `make fuzz SECONDS=…` for longer.
//! - [`protocol`]: random messages of clients, also wrong ones. `tests/fuzz/protocol_fuzz.rs`, the same way.
//! - `tests/copy/malformed`: 1,500 COPYs with something wrong, or nearly so, against the stock server.
//! - `tests/copy/lineitem.rs`, `tests/compare/clients.rs`: loads, a coordinator killed in mid-COPY, psql, pgbench, psycopg.
//! - `tests/rows/round_trips.rs`: how often each shape of statement asks the datanodes, which is never more than before.
//!
//! # How a case file is written
//! ```sql
//! CREATE TABLE t (a int, b text) /*dist: hash(a) | replication | roundrobin*/;
//! INSERT INTO t VALUES (1, 'x');
//! SELECT * FROM t;
//! -- refused: v3
//! CREATE UNIQUE INDEX ON t (a);
//! ```
//! - `/*dist: A | B | …*/` is a comment for PostgreSQL; the cluster sees `DISTRIBUTE BY A` in the first run of the file,
//!   `DISTRIBUTE BY B` in the second, … (`default` stands for no clause). A table with fewer alternatives starts over. If a file
//!   has several tables there is also a `mixed` run, in which the k-th table takes the k-th alternative.
//! - `-- refused` before a statement: the cluster must answer 0A000, in every run or in those named after a colon (`v1`,
//!   `v2`, … for the first, second, … alternative; `mixed`). It has no effect on the stock server either.
//!   `LOXO_E2E_BLESS=1` writes these lines anew, as the cluster now answers: read the change before you keep it.
//! - `-- params: 1 | abc | \N` before a statement gives values for `$1`, …; it then runs in the extended protocol only.
//! - `-- ordered` before a statement: rows are compared in order. So they are when the outermost query has ORDER BY, and
//!   for FETCH and SHOW. Otherwise order does not count.
//! - `COPY … FROM STDIN;` is followed by its data and a line `\.`.
//!
//! A file starts in an empty schema of its own. Statements must have one right answer: no ties under LIMIT, no sums of
//! floating point numbers that depend on their order, no current time.

pub mod differential;
pub mod fuzz;
pub mod generator;
pub mod interleaved;
pub mod parity;
pub mod protocol;
pub mod script;
pub mod watch;
