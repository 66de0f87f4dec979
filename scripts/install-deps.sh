#!/bin/bash
# Installs what building and running Loxodonta needs, on Debian and Ubuntu; does nothing if all of it is there.
set -euo pipefail

say() { echo "install-deps: $*" >&2; }

have_postgresql() {
    [ -n "$(find /usr/lib/postgresql/*/bin -name initdb 2>/dev/null | head -n 1)" ] || command -v initdb >/dev/null
}

have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] ||
        [ -n "$(find /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib64 -maxdepth 1 -name 'libclang*.so*' 2>/dev/null | head -n 1)" ]
}

packages=()
have_postgresql || packages+=(postgresql)
have_libclang || packages+=(libclang-dev)
command -v cc >/dev/null || packages+=(gcc libc6-dev)
# bindgen reads the C library's headers.
[ -e /usr/include/stdio.h ] || packages+=(libc6-dev)

if [ ${#packages[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        say "missing: ${packages[*]} (these are Debian's names)"
        say "install PostgreSQL 15 to 18 (server), libclang and a C compiler with this system's package manager, then try again"
        exit 1
    fi
    sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "missing: ${packages[*]}; run as root: apt-get install ${packages[*]}"; exit 1; }
        sudo=(sudo)
    fi
    say "installing ${packages[*]}"
    if [[ " ${packages[*]} " == *" postgresql "* ]]; then
        # Debian's package starts a server of its own on port 5432, which nobody here needs.
        if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
            "${sudo[@]}" mkdir -p /etc/postgresql-common/createcluster.d
            echo 'create_main_cluster = false' |
                "${sudo[@]}" tee /etc/postgresql-common/createcluster.d/loxodonta.conf >/dev/null
        fi
    fi
    install() {
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"
    }
    # The package lists of a fresh machine are empty or old.
    install || { "${sudo[@]}" apt-get update && install; }
fi

command -v cargo >/dev/null || { say "cargo is missing: install Rust from https://rustup.rs, then try again"; exit 1; }
