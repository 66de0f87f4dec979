#!/usr/bin/env python3
"""Runs the test binaries that cargo built, as many at once as there are processors.

`cargo test` runs one binary after the other, and most of ours wait for servers half of the time. Usage:

    cargo test --no-run --message-format=json ... | scripts/run-tests.py

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
    print(f"\n{len(tests)} test binaries, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
