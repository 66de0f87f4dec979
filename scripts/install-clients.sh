#!/bin/bash
# Installs the drivers and frameworks that `make clients` tries, below target/clients, each by its language's own tool, and
# prints the list of programs: name, command and arguments between tabs; a name alone where something is missing.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
to=${CARGO_TARGET_DIR:-$root/target}/clients
mkdir -p "$to"

say() { echo "install-clients: $*" >&2; }

# listed NAME COMMAND…
listed() { local IFS=$'\t'; echo "$*"; }

# The last run's are kept while what they were made from is the same.
# made_from MARK FILE…
is_made() { [ -e "$to/$1" ] && ! find "${@:2}" -newer "$to/$1" | grep -q .; }

python_programs() {
    if ! is_made python/made clients/python/requirements.txt; then
        python3 -m venv "$to/python" && "$to/python/bin/pip" install -q -r clients/python/requirements.txt >&2 &&
            touch "$to/python/made" || say "no Python packages"
    fi
    for file in clients/python/use_*.py; do
        name=python/$(basename "${file#*use_}" .py)
        if [ -e "$to/python/made" ]; then listed "$name" "$to/python/bin/python" "$root/$file"; else listed "$name"; fi
    done
}

# Django's own tests come with its source package alone.
django_programs() {
    local version suite
    version=$(sed -n 's/^Django==//p' clients/python/requirements.txt)
    if ! is_made django/made clients/python/requirements.txt; then
        mkdir -p "$to/django" && "$to/python/bin/pip" download -q --no-deps --no-binary :all: -d "$to/django" "Django==$version" >&2 &&
            tar xzf "$to/django/"[Dd]jango-"$version".tar.gz -C "$to/django" --strip-components 1 &&
            touch "$to/django/made" || say "no source package of Django"
    fi
    for suite in queries expressions aggregation migrations transactions postgres_tests; do
        if [ -e "$to/django/made" ]; then
            listed "django/$suite" "$to/python/bin/python" "$root/clients/django/run.py" "$to/django/tests" "$suite"
        else
            listed "django/$suite"
        fi
    done
}

node_programs() {
    if command -v npm >/dev/null && ! is_made node/made clients/node/package.json; then
        mkdir -p "$to/node" && cp clients/node/package.json "$to/node/" &&
            npm install --prefix "$to/node" --no-package-lock --silent >&2 && touch "$to/node/made" || say "no Node.js packages"
    fi
    for file in clients/node/use_*.cjs; do
        name=node/$(basename "${file#*use_}" .cjs)
        if [ -e "$to/node/made" ]; then listed "$name" env "NODE_PATH=$to/node/node_modules" node "$root/$file"; else listed "$name"; fi
    done
}

go_programs() {
    command -v go >/dev/null && (cd clients/go && go build -o "$to/go/" ./... >&2) || say "no Go programs"
    for file in clients/go/*/main.go; do
        name=$(basename "$(dirname "$file")")
        if [ -x "$to/go/$name" ]; then listed "go/$name" "$to/go/$name"; else listed "go/$name"; fi
    done
}

java_programs() {
    if command -v mvn >/dev/null && ! is_made java/made clients/java/pom.xml; then
        mvn -q -f clients/java/pom.xml dependency:copy-dependencies -DoutputDirectory="$to/java" >&2 && touch "$to/java/made" ||
            say "no Java packages"
    fi
    for file in clients/java/Use*.java; do
        name=$(basename "${file#*Use}" .java)
        if [ -e "$to/java/made" ]; then listed "java/${name,,}" java -cp "$to/java/*" "$root/$file"; else listed "java/${name,,}"; fi
    done
}

rust_programs() {
    cargo build --quiet --manifest-path clients/rust/Cargo.toml --target-dir "$to/rust" >&2 || say "no Rust programs"
    for file in clients/rust/src/bin/*.rs; do
        name=$(basename "$file" .rs)
        if [ -x "$to/rust/debug/$name" ]; then listed "rust/$name" "$to/rust/debug/$name"; else listed "rust/$name"; fi
    done
}

# Ruby, PHP and Perl with what the distribution packages.
debian_programs() {
    local packages=(ruby ruby-pg ruby-activerecord php-cli php-pgsql libdbd-pg-perl)
    if command -v apt-get >/dev/null && ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
        local root_by=()
        [ "$(id -u)" -eq 0 ] || root_by=(sudo)
        "${root_by[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" >&2 ||
            say "no packages of Ruby, PHP and Perl"
    fi
    has() { if "${@:3}" >/dev/null 2>&1; then listed "$1" "$3" "$root/$2"; else listed "$1"; fi; }
    has ruby/pg clients/debian/use_pg.rb ruby -e 'require "pg"'
    has ruby/activerecord clients/debian/use_activerecord.rb ruby -e 'require "pg"; require "active_record"'
    has php/pdo clients/debian/use_pdo.php php -r 'exit((int) !in_array("pgsql", PDO::getAvailableDrivers()));'
    has perl/dbd-pg clients/debian/use_dbd_pg.pl perl -e 'use DBD::Pg'
}

python_programs
django_programs
node_programs
go_programs
java_programs
rust_programs
debian_programs
