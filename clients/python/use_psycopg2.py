"""psycopg2: mogrified statements, server-side cursors, COPY, large objects, two-phase commit, execute_values."""

import io
import sys

import psycopg2
import psycopg2.extras

from shown import attempt, show

conn = psycopg2.connect(sys.argv[1])
cur = conn.cursor()
cur.execute("CREATE TABLE person (id serial PRIMARY KEY, name text UNIQUE, born date, data json)")
cur.execute("CREATE TABLE pet (id int PRIMARY KEY, owner int REFERENCES person, kind text)")
conn.commit()


def run(sql, args=None):
    try:
        cur.execute(sql, args)
        return cur.fetchall() if cur.description else cur.rowcount
    except psycopg2.Error:
        conn.rollback()
        raise


attempt("values", lambda: psycopg2.extras.execute_values(cur, "INSERT INTO person (name, data) VALUES %s RETURNING id, name", [(f"p{i}", psycopg2.extras.Json({"i": i})) for i in range(50)], fetch=True))
attempt("batch", lambda: psycopg2.extras.execute_batch(cur, "INSERT INTO pet VALUES (%s, %s, %s)", [(i, 1 + i % 50, "cat") for i in range(120)], page_size=50))
conn.commit()
attempt("join", lambda: run("SELECT p.name, count(*) FROM person p JOIN pet ON owner = p.id GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5"))
attempt("error", lambda: run("INSERT INTO person (name) VALUES ('p1')"))
attempt("after", lambda: run("SELECT count(*) FROM person"))
attempt("in", lambda: run("SELECT name FROM person WHERE id IN %s ORDER BY 1", ((1, 2, 3),)))
attempt("mogrify", lambda: cur.mogrify("SELECT %s, %s", ("it's", [1, 2])).decode())
attempt("dict", lambda: [dict(r)["name"] for r in _dicts("SELECT name FROM person WHERE id < 4 ORDER BY id")])


def _dicts(sql):
    with conn.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as c:
        c.execute(sql)
        return c.fetchall()


attempt("dicts", lambda: [r["name"] for r in _dicts("SELECT name FROM person WHERE id < 4 ORDER BY id")])


def server_side(hold):
    with conn.cursor("server_side", withhold=hold) as c:
        c.itersize = 7
        c.execute("SELECT pet.id, name FROM pet JOIN person ON owner = person.id ORDER BY pet.id")
        rows = c.fetchmany(3)
        if hold:
            conn.commit()
        return rows + list(c)[:20]


attempt("server side", lambda: server_side(False))
conn.commit()
attempt("held", lambda: server_side(True))
conn.commit()


def copies():
    cur.copy_expert("COPY pet FROM STDIN CSV", io.StringIO("".join(f"{i},{1 + i % 50},\"do,g\"\n" for i in range(200, 260))))
    out = io.StringIO()
    cur.copy_expert("COPY (SELECT kind, count(*) FROM pet GROUP BY 1 ORDER BY 1) TO STDOUT CSV HEADER", out)
    return out.getvalue().splitlines()


attempt("copy", copies)
conn.commit()


def large_object():
    lob = conn.lobject(0, "wb")
    lob.write(b"abc" * 1000)
    lob.seek(10)
    oid = lob.oid
    lob.close()
    back = conn.lobject(oid, "rb")
    back.seek(5)
    data = back.read(4)
    back.unlink()
    return [data]


attempt("large object", large_object)
conn.commit()


def two_phase(gather):
    xid = conn.xid(7, f"psycopg2 {gather}", "b")
    conn.tpc_begin(xid)
    if gather:
        cur.execute("SELECT kind, array_agg(id ORDER BY id DESC) FROM pet WHERE id < 9 GROUP BY 1 ORDER BY 1")
        show("gathered", cur.fetchall())
    cur.execute("UPDATE pet SET kind = kind || '!' WHERE id < 30")
    cur.execute("UPDATE person SET born = '2000-01-01'")
    conn.tpc_prepare()
    conn.reset()
    cur.execute("SELECT gid FROM pg_prepared_xacts")
    show("prepared", len(cur.fetchall()))
    conn.rollback()
    conn.tpc_commit(xid)
    cur.execute("SELECT count(*) FROM pet WHERE kind LIKE '%%!%%' UNION ALL SELECT count(born) FROM person")
    rows = cur.fetchall()
    conn.rollback()
    return sorted(rows)


attempt("two phases", lambda: two_phase(False))
attempt("two phases after a gather", lambda: two_phase(True))
conn.set_session(isolation_level="SERIALIZABLE", readonly=True)
attempt("read only", lambda: run("DELETE FROM pet"))
conn.rollback()
conn.set_session(isolation_level="READ COMMITTED", readonly=False, autocommit=True)
attempt("autocommit", lambda: run("DELETE FROM pet WHERE id < 10"))
