"""Writes the samples of this directory, and beside each what it holds, as COPY's text format has it.

Run it with pyarrow, fastparquet, duckdb and polars installed; the tests only read what is committed. The texts come from the
values that the writers were given, never from a reader: line 1 the columns, line 2 their types, then the rows. Of a sample
that must be refused, the text is the error.
"""
import datetime as dt
import os
from decimal import Decimal

import duckdb
import fastparquet
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

os.chdir(os.path.dirname(os.path.abspath(__file__)))
UTC = dt.timezone.utc


def shown(value, of):
    if value is None:
        return "\\N"
    if of == "boolean":
        return "t" if value else "f"
    if of == "bytea":
        return "\\\\x" + value.hex()
    if of == "uuid":
        return value.hex()
    if of.startswith("timestamp"):
        text = value.isoformat(" ").removesuffix("+00:00")
        return text + "+00" if of == "timestamptz" else text
    if of in ("real", "double precision"):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
    if isinstance(value, str):
        for plain, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            value = value.replace(plain, escaped)
    return str(value)


def expect(name, columns):
    """`columns`: name, SQL type, values."""
    lines = ["\t".join(c[0] for c in columns), "\t".join(c[1] for c in columns)]
    lines += ["\t".join(map(shown, row, (c[1] for c in columns))) for row in zip(*(c[2] for c in columns))]
    with open(name + ".txt", "w") as file:
        file.write("\n".join(lines) + "\n")


def refuse(name, error):
    with open(name + ".txt", "w") as file:
        file.write("refused: " + error + "\n")


def cycle(values, count):
    """So many of these values and NULL."""
    values = values + [None]
    return [values[i % len(values)] for i in range(count)]


# pyarrow: every type, in each kind of page, codec and encoding.
MOMENT = dt.datetime(2024, 2, 29, 1, 2, 3, 456789)
TYPES = [
    ("i8", pa.int8(), "smallint", [-128, 127]),
    ("i16", pa.int16(), "smallint", [-(2**15), 2**15 - 1]),
    ("i32", pa.int32(), "integer", [-(2**31), 2**31 - 1]),
    ("i64", pa.int64(), "bigint", [-(2**63), 2**63 - 1]),
    ("u8", pa.uint8(), "smallint", [255, 0]),
    ("u16", pa.uint16(), "integer", [65535]),
    ("u32", pa.uint32(), "bigint", [2**32 - 1]),
    ("u64", pa.uint64(), "numeric(20)", [2**64 - 1]),
    ("f16", pa.float16(), "real", [1.5, -65504.0, float("inf")]),
    ("f32", pa.float32(), "real", [0.5, -2.25, float("-inf")]),
    ("f64", pa.float64(), "double precision", [0.1, -1.5, float("nan")]),
    ("flag", pa.bool_(), "boolean", [True, False]),
    ("note", pa.string(), "text", ["a\tb\\N\r\n", "", "ü😀", "\\."]),
    ("large", pa.large_string(), "text", ["x"]),
    ("raw", pa.binary(), "bytea", [b"\0\xff\\", b""]),
    ("four", pa.binary(4), "bytea", [b"\0\1\2\3"]),
    ("day", pa.date32(), "date", [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    ("t_ms", pa.time32("ms"), "time", [dt.time(23, 59, 59)]),
    ("t_us", pa.time64("us"), "time", [dt.time(1, 2, 3, 456789)]),
    ("ts_us", pa.timestamp("us"), "timestamp", [MOMENT, dt.datetime(1, 1, 1, 0, 0, 0, 1)]),
    ("tz_ms", pa.timestamp("ms", "UTC"), "timestamptz", [dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)]),
    ("tz_us", pa.timestamp("us", "Europe/Berlin"), "timestamptz", [MOMENT.replace(tzinfo=UTC)]),
    ("d9", pa.decimal128(9, 2), "numeric(9,2)", [Decimal("1234567.89"), Decimal("-0.01")]),
    ("d18", pa.decimal128(18, 8), "numeric(18,8)", [Decimal("-1234567890.12345678")]),
    ("d38", pa.decimal128(38, 10), "numeric(38,10)", [Decimal("-1234567890123456789012345678.0123456789")]),
    ("none", pa.null(), "text", []),
]


def arrow(name, rows, types=TYPES, **options):
    columns = [(n, sql, cycle(values, rows)) for n, _, sql, values in types]
    table = pa.table([pa.array(c[2], t[1]) for c, t in zip(columns, types)], names=[t[0] for t in types])
    pq.write_table(table, name + ".parquet", store_schema=False, write_statistics=False, **options)
    expect(name, columns)


arrow("pyarrow-plain", 7, use_dictionary=False, compression="none", data_page_version="1.0")
arrow("pyarrow-dictionary", 7, use_dictionary=True, compression="gzip", data_page_version="2.0")
arrow("pyarrow-integer-decimals", 7, store_decimal_as_integer=True, compression="zstd", row_group_size=2)
ENCODINGS = {
    "i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED", "f16": "BYTE_STREAM_SPLIT", "f32": "BYTE_STREAM_SPLIT",
    "f64": "BYTE_STREAM_SPLIT", "note": "DELTA_BYTE_ARRAY", "raw": "DELTA_LENGTH_BYTE_ARRAY", "four": "BYTE_STREAM_SPLIT",
    "flag": "RLE", "d38": "DELTA_BYTE_ARRAY", "tz_us": "DELTA_BINARY_PACKED", "u32": "BYTE_STREAM_SPLIT",
}
for version in ("1.0", "2.0"):
    arrow(f"pyarrow-delta-{version[0]}", 120, [t for t in TYPES if t[0] in ENCODINGS], use_dictionary=False,
          column_encoding=ENCODINGS, compression="brotli", data_page_version=version, data_page_size=64, write_batch_size=8)
arrow("pyarrow-empty", 0)
arrow("pyarrow-names", 2, [("Id", pa.int64(), "bigint", [1]), ("id", pa.int64(), "bigint", [2]),
                           ("a Blank", pa.string(), "text", ["x"]), ('ÜB"ER.x', pa.string(), "text", ["y"])])
INT96 = [("at", pa.timestamp("us"), "timestamp", [MOMENT, dt.datetime(1700, 1, 1, 0, 0, 0, 1)])]
arrow("pyarrow-int96", 3, INT96, use_deprecated_int96_timestamps=True, compression="lz4")
expect("pyarrow-int96", [("at", "timestamptz", [v and v.replace(tzinfo=UTC) for v in cycle(INT96[0][3], 3)])])
for name, of, value, what in (
    ("list", pa.list_(pa.int32()), [1], "a list, a map or a struct"),
    ("struct", pa.struct([("a", pa.int32())]), {"a": 1}, "a list, a map or a struct"),
    ("map", pa.map_(pa.string(), pa.int32()), [("a", 1)], "a list, a map or a struct"),
    ("decimal", pa.decimal256(60, 0), Decimal("1" * 60), "a decimal(60,0)"),
):
    table = pa.table([[1], pa.array([value], of)], names=["k", "v"])
    pq.write_table(table, f"pyarrow-{name}.parquet", store_schema=False)
    refuse(f"pyarrow-{name}", f'Parquet column "v" is {what}, which is not read')

# fastparquet: pandas' types, which have their own converted types.
frame = pd.DataFrame({
    "i64": np.array([1, -2, 3], "int64"), "u8": np.array([1, 2, 255], "uint8"), "u64": np.array([1, 2, 2**64 - 1], "uint64"),
    "f32": np.array([0.5, 2, np.inf], "float32"), "b": [True, False, True], "s": ["a", None, "c\\"],
    "cat": pd.Categorical(["a", "b", "a"]), "n": pd.array([1, None, 3], dtype="Int64"),
    "ts": pd.to_datetime(["2024-02-29 01:02:03.000004", "1969-12-31", "2000-01-01"], format="mixed"),
})
STAMPS = [dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.datetime(1969, 12, 31), dt.datetime(2000, 1, 1)]
PANDAS = [
    ("i64", "bigint", [1, -2, 3]), ("u8", "smallint", [1, 2, 255]), ("u64", "numeric(20)", [1, 2, 2**64 - 1]),
    ("f32", "real", [0.5, 2.0, float("inf")]), ("b", "boolean", [True, False, True]), ("s", "text", ["a", None, "c\\"]),
    ("cat", "text", ["a", "b", "a"]), ("n", "bigint", [1, None, 3]), ("ts", "timestamp", STAMPS),
]
for codec in ("SNAPPY", "LZ4", "LZ4_RAW", "BROTLI"):
    name = f"fastparquet-{codec.lower()}"
    fastparquet.write(name + ".parquet", frame, compression=codec, row_group_offsets=[0, 2])
    expect(name, PANDAS)

# DuckDB: types of SQL.
db = duckdb.connect()
db.execute("SET threads = 1; SET TimeZone = 'UTC'")
DUCK = [
    ("ti", "tinyint", "smallint", -1), ("ui", "uinteger", "bigint", 2**31 - 1), ("h", "hugeint", "double precision", 3.0),
    ("f", "float", "real", 1.5), ("v", "varchar", "text", "it"), ("bl", "blob", "bytea", b"ab"),
    ("da", "date", "date", dt.date(2024, 2, 29)), ("ti_us", "time", "time", dt.time(1, 2, 3, 4)),
    ("ts", "timestamp", "timestamp", MOMENT), ("tz", "timestamptz", "timestamptz", MOMENT.replace(tzinfo=UTC)),
    ("d4", "decimal(4,1)", "numeric(4,1)", Decimal("-1.5")), ("d18", "decimal(18,3)", "numeric(18,3)", Decimal("1.125")),
    ("d38", "decimal(38,4)", "numeric(38,4)", Decimal("-1.5000")), ("e", "enum('sad', 'ok')", "text", "ok"),
]
values = ", ".join(f"?::{of} AS {name}" for name, of, _, _ in DUCK)
db.execute(f"CREATE TABLE d AS SELECT {values}", [d[3] for d in DUCK])
db.execute("INSERT INTO d (ti) VALUES (7)")
for version, codec in (("v1", "gzip"), ("v2", "lz4_raw"), ("v1", "brotli"), ("v2", "zstd")):
    name = f"duckdb-{version}-{codec}"
    db.execute(f"COPY d TO '{name}.parquet' (FORMAT parquet, PARQUET_VERSION {version}, COMPRESSION {codec})")
    expect(name, [(n, sql, [value, 7 if n == "ti" else None]) for n, _, sql, value in DUCK])
db.execute("COPY (SELECT INTERVAL 1 DAY AS v) TO 'duckdb-interval.parquet' (FORMAT parquet)")
refuse("duckdb-interval", 'Parquet column "v" is of type INTERVAL, which is not read')

# Its first value of a page is not one of 32 bits; other readers refuse it as well.
db.execute("COPY (SELECT 4294967295::uinteger AS v) TO 'duckdb-unsigned.parquet' (FORMAT parquet, PARQUET_VERSION v2)")
refuse("duckdb-unsigned", 'Parquet error: column "v" cannot be read: first value too large')

# Polars.
POLARS = [
    ("i8", pl.Int8, "smallint", [1, None, -3]), ("u16", pl.UInt16, "integer", [1, None, 65535]),
    ("f", pl.Float64, "double precision", [1.5, None, 2.5]), ("s", pl.String, "text", ["a", None, "ü"]),
    ("c", pl.Categorical, "text", ["a", "b", None]), ("d", pl.Date, "date", [dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
    ("t", pl.Time, "time", [dt.time(1, 2, 3), None, dt.time(0)]), ("bo", pl.Boolean, "boolean", [True, None, False]),
    ("ts", pl.Datetime("us"), "timestamp", [MOMENT, None, dt.datetime(1900, 1, 1)]),
    ("dec", pl.Decimal(20, 2), "numeric(20,2)", [Decimal("1.50"), None, Decimal("-2.25")]),
]
polars = pl.DataFrame({name: pl.Series(values, dtype=of) for name, of, _, values in POLARS})
for codec, options in (("zstd", {}), ("lz4", {"row_group_size": 1}), ("uncompressed", {"data_page_size": 1})):
    polars.write_parquet(f"polars-{codec}.parquet", compression=codec, statistics=False, **options)
    expect(f"polars-{codec}", [(name, sql, values) for name, _, sql, values in POLARS])
