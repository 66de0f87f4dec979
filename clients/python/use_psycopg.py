"""psycopg 3: values of every kind both ways, pipelines, server-side cursors, COPY, two-phase commit, notifications."""

import datetime
import decimal
import sys
import uuid

import psycopg
from psycopg import sql
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.json import Jsonb
from psycopg.types.range import Range
from psycopg_pool import ConnectionPool

from shown import attempt, show

conn = psycopg.connect(sys.argv[1], autocommit=True)
cur = conn.cursor()
cur.execute(
    "CREATE TABLE item (id bigint PRIMARY KEY, name text, price numeric(10,2), made date, seen timestamptz, tags text[],"
    " doc jsonb, span int4range, raw bytea, ok boolean, ratio float8, code uuid)"
)
cur.execute("CREATE TABLE sale (id serial PRIMARY KEY, item bigint REFERENCES item ON DELETE CASCADE, n int)")
rows = [
    (
        i,
        f"item {i}",
        decimal.Decimal(i) / 3,
        datetime.date(2024, 1, 1) + datetime.timedelta(i),
        datetime.datetime(2024, 1, 1, 12, i % 60, tzinfo=datetime.timezone.utc),
        [f"t{i % 3}", "x"],
        Jsonb({"i": i, "deep": [i, None]}),
        Range(i, i + 5),
        bytes([i % 256, 0, 255]),
        i % 2 == 0,
        i / 7,
        uuid.UUID(int=i),
    )
    for i in range(60)
]
attempt("insert", lambda: cur.executemany(f"INSERT INTO item VALUES ({', '.join(['%s'] * 12)})", rows))
attempt("returning", lambda: [cur.execute("INSERT INTO sale (item, n) VALUES (%s, %s) RETURNING id, n", (i % 60, i)).fetchone() for i in range(100)])
for binary in (False, True):
    c = conn.cursor(binary=binary)
    attempt("all", lambda: c.execute("SELECT * FROM item ORDER BY id LIMIT 7").fetchall())
    attempt("one", lambda: c.execute("SELECT * FROM item WHERE id = %s", (7,)).fetchall())
    attempt("any", lambda: c.execute("SELECT id, name FROM item WHERE id = ANY(%s) ORDER BY id", ([1, 5, 9],)).fetchall())
    attempt("group", lambda: c.execute("SELECT tags[1], count(*), sum(price), avg(ratio) FROM item GROUP BY 1 ORDER BY 1").fetchall())
    attempt("join", lambda: c.execute("SELECT i.name, sum(s.n) FROM item i JOIN sale s ON s.item = i.id WHERE i.price > %s GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5", (decimal.Decimal(3),)).fetchall())
    attempt("json", lambda: c.execute("SELECT doc->>'i', doc @> %s FROM item WHERE span @> %s ORDER BY id", (Jsonb({"i": 3}), 4)).fetchall())
attempt("unique", lambda: cur.execute("INSERT INTO item (id) VALUES (1)"))
attempt("foreign", lambda: cur.execute("INSERT INTO sale (item) VALUES (1000)"))
attempt("syntax", lambda: cur.execute("SELEC 1"))
attempt("type", lambda: cur.execute("SELECT * FROM item WHERE id = %s", ("seven",)))
attempt("composed", lambda: cur.execute(sql.SQL("SELECT {} FROM {} ORDER BY 1 LIMIT 3").format(sql.Identifier("name"), sql.Identifier("item"))).fetchall())
attempt("dicts", lambda: conn.cursor(row_factory=dict_row).execute("SELECT id, ok FROM item WHERE id < 3 ORDER BY id").fetchall())
attempt("tuples", lambda: [r.name for r in conn.cursor(row_factory=namedtuple_row).execute("SELECT name FROM item WHERE id < 3 ORDER BY id")])
attempt("stream", lambda: list(conn.cursor().stream("SELECT id FROM item ORDER BY id LIMIT 10")))
attempt("description", lambda: [(d.name, d.type_code) for d in cur.execute("SELECT id, price, sum(ratio) OVER () FROM item WHERE id = 1").description])


def pipeline():
    with conn.pipeline() as p:
        cursors = [conn.execute("SELECT count(*) FROM item WHERE id < %s", (i,)) for i in range(5)]
        p.sync()
        return [c.fetchone() for c in cursors]


def failed_pipeline():
    with conn.pipeline() as p:
        conn.execute("UPDATE sale SET n = n + 1 WHERE id = 1")
        conn.execute("SELECT 1/0")
        p.sync()


attempt("pipeline", pipeline)
attempt("failed pipeline", failed_pipeline)
attempt("prepared", lambda: [conn.execute("SELECT name FROM item WHERE id = %s", (i,), prepare=True).fetchone() for i in range(8)])


def nested():
    with conn.transaction():
        conn.execute("UPDATE item SET name = 'outer' WHERE id = 1")
        try:
            with conn.transaction():
                conn.execute("UPDATE item SET name = 'inner' WHERE id IN (1, 2)")
                raise psycopg.Rollback()
        finally:
            pass
        with conn.transaction("named"):
            conn.execute("UPDATE item SET name = 'kept' WHERE id = 3")
    return conn.execute("SELECT id, name FROM item WHERE id < 5 ORDER BY id").fetchall()


def server_cursor(**options):
    with conn.transaction(), conn.cursor("named", **options) as named:
        named.execute("SELECT i.id, s.n FROM item i LEFT JOIN sale s ON s.item = i.id ORDER BY i.id, s.id")
        first = named.fetchmany(3)
        if options.get("scrollable"):
            named.scroll(-2)
            named.scroll(10, mode="absolute")
        named.itersize = 20
        return first + named.fetchall()


attempt("nested", nested)
attempt("server cursor", server_cursor)
attempt("scrolled cursor", lambda: server_cursor(scrollable=True))


def hold():
    with conn.cursor("held", withhold=True) as held:
        held.execute("SELECT id FROM sale ORDER BY id DESC")
        conn.execute("DELETE FROM sale WHERE id = 100")
        return held.fetchmany(4)


def copy_both_ways(binary):
    fmt = " (FORMAT BINARY)" if binary else ""
    with conn.cursor() as c:
        c.execute(f"CREATE TABLE copied{int(binary)} (k int, v text, n numeric)")
        with c.copy(f"COPY copied{int(binary)} FROM STDIN{fmt}") as copy:
            copy.set_types(["int4", "text", "numeric"])
            for i in range(200):
                copy.write_row((i, None if i % 7 == 0 else f"a\tb\n{i}", decimal.Decimal(i) / 8))
        with c.copy(f"COPY (SELECT k, v, n FROM copied{int(binary)} WHERE k % 20 < 2 ORDER BY k) TO STDOUT{fmt}") as copy:
            copy.set_types(["int4", "text", "numeric"])
            return list(copy.rows())


attempt("hold", hold)
attempt("copy", lambda: copy_both_ways(False))
attempt("binary copy", lambda: copy_both_ways(True))


def two_phase(gather, end, insert="INSERT INTO sale (item, n) VALUES (1, -1), (2, -1), (3, -1)"):
    other = psycopg.connect(sys.argv[1])
    xid = other.xid(1, f"gtrid {gather} {end}", "branch")
    other.tpc_begin(xid)
    if gather:
        show("gathered", other.execute("SELECT name, row_number() OVER (ORDER BY price DESC) FROM item ORDER BY 2 LIMIT 3").fetchall())
        show("gathered", other.execute("SELECT a.id, b.id FROM item a JOIN item b ON a.id = b.price::int ORDER BY 1, 2 LIMIT 5").fetchall())
    other.execute("UPDATE item SET ratio = ratio + 1 WHERE id < 20")
    other.execute(insert)
    other.tpc_prepare()
    known = None
    if end == "rollback":
        other.tpc_rollback()
    elif end == "recover":
        other.close()
        other = psycopg.connect(sys.argv[1])
        found = other.tpc_recover()
        other.rollback()
        known = [x.gtrid for x in found]
        for x in found:
            other.tpc_commit(x)
    else:
        other.tpc_commit()
    other.close()
    row = conn.execute("SELECT sum(ratio)::numeric(12,4), (SELECT count(*) FROM sale WHERE n = -1) FROM item").fetchone()
    return [row, (known,)]


for gather in (False, True):
    for end in ("commit", "rollback", "recover"):
        attempt(f"two phases {gather} {end}", lambda: two_phase(gather, end))
of_query = "INSERT INTO sale (item, n) SELECT id, -1 FROM item WHERE id < 5"
attempt("two phases of a query's rows", lambda: two_phase(False, "commit", of_query))


def notifications():
    listener = psycopg.connect(sys.argv[1], autocommit=True)
    listener.execute("LISTEN news")
    with conn.transaction():
        conn.execute("SELECT pg_notify('news', 'one')")
        conn.execute("NOTIFY news, 'two'")
    return [(n.channel, n.payload) for n in listener.notifies(timeout=5, stop_after=2)]


def pool():
    with ConnectionPool(sys.argv[1], min_size=2, max_size=4) as p:
        with p.connection() as a, p.connection() as b:
            a.execute("SET LOCAL work_mem = '5MB'")
            return [a.execute("SHOW work_mem").fetchone()[0] != b.execute("SHOW work_mem").fetchone()[0]]


attempt("notifications", notifications)
attempt("pool", pool)
attempt("isolation", lambda: conn.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE))
attempt("transaction", lambda: conn.execute("SHOW transaction_isolation").fetchone())
