#!/bin/bash
# Prints the directory of the regression files of the installed PostgreSQL, out of its source package; fetches that with apt
# into target/postgresql-source the first time. Changes nothing of the system's own package lists.
# POSTGRESQL_SOURCE=dir names an unpacked source tree instead, for systems without apt.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "postgresql-source: $*" >&2; }

if [ -n "${POSTGRESQL_SOURCE:-}" ]; then
    realpath "$POSTGRESQL_SOURCE/src/test/regress"
    exit
fi

bin=${LOXO_PG_BIN:-$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)}
major=$("${bin:+$bin/}postgres" --version | grep -oE '[0-9]+' | head -n 1)
dir=$PWD/${CARGO_TARGET_DIR:-target}/postgresql-source/$major
regress() { find "$dir" -type d -path '*/src/test/regress' -print -quit 2>/dev/null; }

if [ -z "$(regress)" ]; then
    command -v apt-get >/dev/null || { say "no apt here: set POSTGRESQL_SOURCE to an unpacked PostgreSQL $major"; exit 1; }
    mkdir -p "$dir"/{sources,lists/partial,cache/archives/partial}
    # The system's sources, as sources of source packages.
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        case $file in
        *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"$dir/sources/${file##*/}" ;;
        *.list) [ ! -e "$file" ] || sed 's/^deb /deb-src /' "$file" >"$dir/sources/${file##*/}" ;;
        esac
    done
    apt() {
        local command=$1
        shift
        "$command" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$dir/sources" \
            -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache" -o APT::Sandbox::User= "$@"
    }
    say "fetching the source package of PostgreSQL $major"
    apt apt-get update >&2 || say "not all package sources have source packages"
    # The installed version, else any other of the same major version that is still offered.
    installed=$(dpkg-query -W -f '${Version}' "postgresql-$major" 2>/dev/null || true)
    offered=$(apt apt-cache showsrc "postgresql-$major" | sed -n 's/^Version: //p')
    (
        cd "$dir"
        for version in $installed $offered; do
            ! apt apt-get source --download-only "postgresql-$major=$version" >&2 || break
        done
        tar xf postgresql-"$major"_*.orig.tar.* --wildcards '*/src/test/regress/*'
        # The servers read the data files, and run as another user.
        chmod -R a+rX .
    )
fi
regress
