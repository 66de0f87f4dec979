"""What all Python programs share: lines of results that do not depend on the server, and errors as lines."""

import datetime
import re
import sys
import traceback


def value(v):
    """A value as text; aware times in UTC."""
    if isinstance(v, datetime.datetime) and v.tzinfo:
        v = v.astimezone(datetime.timezone.utc)
    if isinstance(v, memoryview):
        v = bytes(v)
    return repr(v)


def show(label, rows):
    """One line a row."""
    rows = rows if isinstance(rows, (list, tuple)) else [rows]
    print(f"{label}: {len(rows)}")
    for row in rows:
        cells = row if isinstance(row, (list, tuple)) else [row]
        print("   ", ", ".join(value(cell) for cell in cells))


def code_of(error):
    """SQLSTATE and first line of an error of any of the drivers."""
    origin = getattr(error, "orig", None) or error.__cause__ or error
    for e in (origin, getattr(origin, "__cause__", None), error):
        code = getattr(e, "sqlstate", None) or getattr(e, "pgcode", None)
        if code:
            primary = getattr(getattr(e, "diag", None), "message_primary", None)
            return f"{code} {primary or str(e).splitlines()[0]}"
    # Object ids differ from run to run.
    return re.sub(r"\d{5,}", "N", f"{type(error).__name__} {str(error).splitlines()[0] if str(error) else ''}")


def attempt(label, work):
    """Runs a piece; its error is a result."""
    try:
        result = work()
        if result is not None:
            show(label, result)
        else:
            print(f"{label}: done")
    except Exception as error:  # noqa: BLE001
        print(f"{label}: ERROR {code_of(error)}")
        if "-v" in sys.argv:
            traceback.print_exc()


async def attempt_async(label, work):
    """The same for a coroutine."""
    try:
        result = await work
        if result is not None:
            show(label, [tuple(r) if hasattr(r, "keys") else r for r in result] if isinstance(result, list) else result)
        else:
            print(f"{label}: done")
    except Exception as error:  # noqa: BLE001
        print(f"{label}: ERROR {code_of(error)}")
        if "-v" in sys.argv:
            traceback.print_exc()
