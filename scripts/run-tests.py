#!/usr/bin/env python3
"""Runs the test binaries that cargo built, as many at once as there are processors.

`cargo test` runs one binary after the other, and most of ours wait for servers half of the time. Usage:

    cargo test --no-run --message-format=json ... | scripts/run-tests.py [short]

`short` leaves out what takes long and guards what few changes touch (LONG below), and takes half of the case files.
Prints what each binary printed when it has ended, and those that failed once more by name. Exit status 1 if any failed.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

# Binaries, and crates, whose tests take longest: begun first, so that none is left running alone at the end.
LONGEST_FIRST = ["e2e/differential", "faults/workloads", "faults/control_points", "e2e", "faults", "txn", "loxo"]
# Left out of a short run: faults, growing, hosts, bulk loads, fuzzers, limits. Together they take two thirds of the time.
LONG = {
    "e2e": "copy_fuzz crowd databases databases_altered dumps limits lineitem links lookalikes malformed many_nodes no_temp "
    "outdated protocol_fuzz query_fuzz",
    "faults": "control_points growing lost renamed workloads",
    "loxo": "bench deploy growing levelled_rows live_page load lost_nodes moved_rows repaired_rows",
    "txn": "global_snapshots user_prepared",
}
# No binary takes a third of this on two cores: one that does hangs, is ended, and its output says in which test.
SECONDS_MAX = 60 * 60
# Where the tests' servers listen. Binaries that run at the same time get different parts of it: a port that one has found
# free would otherwise be another's when its server starts.
PORTS = range(10_500, 30_500)


def binaries(messages):
    """(crate, name, path, directory) of each test binary in cargo's messages."""
    for line in messages:
        message = json.loads(line)
        if message.get("reason") == "build-finished" and not message["success"]:
            sys.exit("the tests were not built")
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message.get("executable"):
            directory = os.path.dirname(message["manifest_path"])
            yield os.path.basename(directory), message["target"]["name"], message["executable"], directory


def is_long(test):
    return test[1] in LONG.get(test[0], "").split()


def run(crate, name, path, directory, parts):
    start = time.monotonic()
    part = parts.get()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [path],
            cwd=directory,
            env={**os.environ, "LOXO_TEST_PORTS": f"{part.start}-{part.stop}"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            processes = subprocess.run(["ps", "-eo", "pid,ppid,etime,stat,args"], stdout=subprocess.PIPE, check=False).stdout
            process.kill()
            code = process.wait()
            output.write(f"\nnot done after {SECONDS_MAX} s, ended; what ran then:\n".encode() + processes)
        output.seek(0)
        printed = output.read()
    parts.put(part)
    return f"{crate}/{name}", code, time.monotonic() - start, printed


def main():
    def place(test):
        names = [f"{test[0]}/{test[1]}", test[0]]
        return min((LONGEST_FIRST.index(name) for name in names if name in LONGEST_FIRST), default=len(LONGEST_FIRST))

    tests = sorted(binaries(sys.stdin), key=place)
    is_short = sys.argv[1:] == ["short"]
    if is_short:
        os.environ.setdefault("LOXO_E2E_EVERY", "2")
        unknown = [f"{crate}/{name}" for crate in LONG for name in LONG[crate].split() if (crate, name) not in [t[:2] for t in tests]]
        if unknown:
            sys.exit(f"LONG names what was not built: {', '.join(unknown)}")
        tests = [test for test in tests if not is_long(test)]
    failed = []
    workers = os.cpu_count() or 1
    parts = queue.Queue()
    for number in range(workers):
        parts.put(PORTS[number * len(PORTS) // workers : (number + 1) * len(PORTS) // workers])
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for future in as_completed([pool.submit(run, *test, parts) for test in tests]):
            name, code, seconds, output = future.result()
            sys.stdout.buffer.write(f"\n== {name}: {'ok' if code == 0 else 'FAILED'}, {seconds:.1f} s\n".encode() + output)
            sys.stdout.flush()
            if code:
                failed.append(name)
    kind = " (the short ones: `make suites` runs all)" if is_short else ""
    print(f"\n{len(tests)} test binaries{kind}, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
