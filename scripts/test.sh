#!/bin/bash
# Everything that must be green: format, lints, documentation, tests. `short` leaves long suites out (scripts/run-tests.py says which).
# Leaves no process and no cluster behind.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { echo "== $* ($((SECONDS / 60)) min $((SECONDS % 60)) s)" >&2; }

# Clusters that tests start lie here, so that one look at the process table shows whether any stayed.
# Open to others, since root's servers run as the OS user postgres.
TMPDIR=$(mktemp -d /tmp/loxo-test.XXXXXX)
chmod 755 "$TMPDIR"
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# Process ids whose command line names that directory.
left_processes() {
    # The pattern comes through a pipe: on grep's own command line it would find itself.
    grep -alF -f <(echo "$TMPDIR") /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3 || true
}

step format
cargo fmt --all --check

step lints
cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

# Crates of others: their licences and where they come from. What is known against them lies in a database on the net; without a
# way there the rest is looked at all the same.
step dependencies
cargo_deny=$(scripts/install-deps.sh --cargo-deny)
if [ -n "$cargo_deny" ]; then
    "$cargo_deny" --locked check --hide-inclusion-graph licenses bans sources
    known="$TMPDIR/advisories.txt"
    if ! "$cargo_deny" --locked check --hide-inclusion-graph advisories >"$known" 2>&1; then
        grep -q 'failed to fetch advisory database' "$known" || { cat "$known" >&2; exit 1; }
        echo "advisories: SKIPPED, their database cannot be fetched" >&2
    fi
else
    echo "licences and advisories: SKIPPED, cargo-deny cannot be installed" >&2
fi

# For whoever works on the crates, so with private items: the pages link to modules.
step documentation
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
    cargo doc --workspace --no-deps --document-private-items --locked --quiet

# Builds the loxo binary too, before any test runs: it belongs to the integration tests of crate `loxo`. With control points,
# which the tests of crate `faults` kill at; nothing else differs.
step build
cargo test --workspace --features loxo/control-points --locked --no-run \
    --message-format json-render-diagnostics >"$TMPDIR/built.json"

step tests
failed=0
scripts/run-tests.py "$@" <"$TMPDIR/built.json" || failed=$?

# A test binary that has ended leaves it to a watchdog to take its cluster down, which takes a moment.
for _ in {1..60}; do
    left=$(left_processes)
    [ -n "$left" ] || break
    sleep 0.5
done
if [ -n "$left" ]; then
    echo "tests left processes behind:" >&2
    # shellcheck disable=SC2086
    ps -o pid,user,args -p $(echo $left) >&2 || true
    failed=1
fi
exit "$failed"
