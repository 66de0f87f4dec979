# What "loxo deploy" asks of a host before it writes anything there. $1: the directory, $2: where PostgreSQL is, or nothing.
LC_ALL=C
export LC_ALL
d=$1
# A line each, whatever others have put into names and command lines.
say() { printf '%s\t%s\n' "$1" "$(printf %s "$2" | tr '\n\t' '  ')"; }
digest() { sha256sum <"$1" | cut -d' ' -f1; }

say system "$(uname -s)"
say machine "$(uname -m)"
say libc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
say uid "$(id -u)"
grep -q '^postgres:' /etc/passwd && say user postgres
command -v sha256sum >/dev/null && say tool sha256sum

postgres() {
    [ -x "$1/initdb" ] && [ -x "$1/pg_ctl" ] && [ -x "$1/postgres" ] && say postgres "$1 $("$1/postgres" --version)"
}
if [ -n "$2" ]; then
    postgres "$2"
else
    for bin in /usr/lib/postgresql/*/bin "$(pg_config --bindir 2>/dev/null)"; do
        postgres "$bin"
    done
    (IFS=:; for bin in $PATH; do postgres "$bin"; done)
fi

# What root runs nobody else may replace: "$d/bin/loxo" and all that leads there.
part() { if [ -e "$1" ] || [ -L "$1" ]; then say part "$1 $(stat -c '%u %a %F' "$1")"; fi; }
if [ "$(id -u)" = 0 ]; then
    part /
    p='' rest=${d#/}/
    while [ -n "$rest" ]; do
        p=$p/${rest%%/*} rest=${rest#*/}
        part "$p"
    done
    part "$d/bin"
    part "$d/bin/loxo"
fi

p=$d
while [ ! -e "$p" ]; do
    p=${p%/*}
    [ -n "$p" ] || p=/
done
[ -w "$p" ] && [ -d "$p" ] && say writable "$p"
for entry in "$d"/* "$d"/.[!.]*; do
    [ -e "$entry" ] && say entry "${entry##*/}"
done
[ -f "$d/bin/loxo" ] && say program "$(digest "$d/bin/loxo")"
[ -f "$d/cluster/ca.crt" ] && say authority "$(digest "$d/cluster/ca.crt")"
for version in "$d"/cluster/*/PG_VERSION; do
    data=${version%/PG_VERSION}
    [ -f "$version" ] && case $data in *.new) ;; *) say data "${data##*/} $(head -n 1 "$version")" ;; esac
done

grep -h ' 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r _ address _; do
    say listens "$address"
done
grep -slF "$d/cluster" /proc/[0-9]*/cmdline | while read -r file; do
    say process "$(tr '\0\n\t' '   ' 2>/dev/null <"$file")"
done
say end ""
