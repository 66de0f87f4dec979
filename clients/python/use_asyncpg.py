"""asyncpg: prepared statements, cursors, types of our own with its introspection, COPY, listeners, changed schemas."""

import asyncio
import datetime
import decimal
import io
import sys

import asyncpg

from shown import attempt_async as attempt, show


async def main():
    conn = await asyncpg.connect(sys.argv[1])
    await conn.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE TYPE pair AS (a int, b text);"
        "CREATE DOMAIN small AS int CHECK (VALUE < 1000);"
        "CREATE TABLE t (id int PRIMARY KEY, m mood, p pair, ps pair[], s small, n numeric, at timestamptz, r int4range, v interval)"
    )
    now = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)
    rows = [
        (i, ["sad", "ok", "happy"][i % 3], (i, f"b{i}"), [(1, "x"), (i, None)], i, decimal.Decimal(i) / 4, now + datetime.timedelta(hours=i), asyncpg.Range(i, i + 3), datetime.timedelta(minutes=i))
        for i in range(50)
    ]
    await attempt("insert", conn.executemany("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", rows))
    await attempt("fetch", conn.fetch("SELECT * FROM t WHERE id < 5 ORDER BY id"))
    await attempt("one", conn.fetchrow("SELECT m, p, ps FROM t WHERE id = $1", 7))
    await attempt("value", conn.fetchval("SELECT count(*) FROM t WHERE m = $1::mood", "ok"))
    await attempt("group", conn.fetch("SELECT m, sum(n), array_agg(id ORDER BY id DESC) FROM t GROUP BY m ORDER BY m"))
    await attempt("any", conn.fetch("SELECT id FROM t WHERE id = ANY($1::int[]) ORDER BY id", [3, 1, 2]))
    await attempt("unique", conn.execute("INSERT INTO t (id) VALUES (1)"))
    await attempt("check", conn.execute("INSERT INTO t (id, s) VALUES (100, 5000)"))
    await attempt("status", conn.execute("UPDATE t SET n = n + 1 WHERE id < 10"))

    async def cursors():
        async with conn.transaction():
            seen = []
            async for row in conn.cursor("SELECT id, m FROM t ORDER BY id", prefetch=7):
                seen.append(row["id"])
                if row["id"] == 10:
                    # A statement between two portions of another one's rows.
                    seen.append(await conn.fetchval("SELECT max(id) FROM t"))
            first = await conn.cursor("SELECT id FROM t WHERE id >= $1 ORDER BY id DESC", 5)
            second = await conn.cursor("SELECT a.id, b.id FROM t a JOIN t b ON a.s = b.id ORDER BY 1")
            out = [tuple(r) for r in await first.fetch(3)]
            out += [tuple(r) for r in await second.fetch(3)]
            await first.forward(5)
            out += [tuple(r) for r in await first.fetch(2)]
            out += [tuple(r) for r in await second.fetch(2)]
            await conn.execute("UPDATE t SET n = 0 WHERE id = 1")
            out += [tuple(r) for r in await first.fetch(1)]
            return out + [len(seen), seen[12]]

    await attempt("cursors", cursors())

    async def prepared_cursor():
        statement = await conn.prepare("SELECT id FROM t WHERE n > $1 ORDER BY id")
        async with conn.transaction():
            return [r["id"] async for r in statement.cursor(decimal.Decimal(3), prefetch=4)]

    await attempt("prepared cursor", prepared_cursor())
    await attempt("explain", described(conn))
    statement = await conn.prepare("SELECT * FROM t WHERE id = $1")
    await attempt("before", statement.fetch(1))
    other = await asyncpg.connect(sys.argv[1])
    await other.execute("ALTER TABLE t ADD COLUMN more text DEFAULT 'm'")
    await attempt("changed", conn.fetch("SELECT * FROM t WHERE id = $1", 2))
    await attempt("changed prepared", statement.fetch(1))
    await other.execute("CREATE TYPE later AS (x int, y mood); ALTER TABLE t ADD COLUMN l later; UPDATE t SET l = ROW(id, m) WHERE id < 3")
    await attempt("introspection", conn.fetch("SELECT id, l FROM t WHERE id < 3 ORDER BY id"))
    await other.execute("DROP TABLE IF EXISTS gone; CREATE TYPE colour AS ENUM ('red', 'blue'); CREATE TABLE c (id int, c colour, cs colour[])")
    await attempt("new type", conn.execute("INSERT INTO c VALUES ($1, $2, $3)", 1, "red", ["blue", "red"]))
    await attempt("new type", conn.fetch("SELECT * FROM c"))
    await attempt("codec", conn.set_type_codec("colour", encoder=str.lower, decoder=str.upper, format="text"))
    await attempt("decoded", conn.fetch("SELECT c, cs FROM c"))

    async def nested():
        async with conn.transaction(isolation="repeatable_read"):
            await conn.execute("DELETE FROM t WHERE id = 49")
            try:
                async with conn.transaction():
                    await conn.execute("DELETE FROM t")
                    raise ValueError
            except ValueError:
                pass
            return await conn.fetchval("SELECT count(*) FROM t")

    await attempt("nested", nested())
    await attempt("copy in", conn.copy_records_to_table("t", records=[(i, None) for i in range(200, 230)], columns=["id", "m"]))
    out = io.BytesIO()
    await attempt("copy out", conn.copy_from_query("SELECT id FROM t WHERE id >= $1 ORDER BY id", 225, output=out))
    show("copied", out.getvalue().decode().split())
    heard = asyncio.Queue()
    await conn.add_listener("news", lambda *args: heard.put_nowait(args[2:]))
    await other.execute("SELECT pg_notify('news', 'hello')")
    await attempt("heard", asyncio.wait_for(heard.get(), 5))

    async def pool():
        async with asyncpg.create_pool(sys.argv[1], min_size=3, max_size=3) as pool:
            async def work(i):
                async with pool.acquire() as c, c.transaction():
                    await c.execute("UPDATE t SET n = n + $1 WHERE id = $2", i, i)
                    return await c.fetchval("SELECT n FROM t WHERE id = $1", i)
            return list(await asyncio.gather(*(work(i) for i in range(1, 12))))

    await attempt("pool", pool())
    await attempt("reset", conn.reset())
    await attempt("timeout", conn.fetch("SELECT pg_sleep(5)", timeout=0.3))
    await attempt("after", conn.fetchval("SELECT 1"))


async def described(conn):
    statement = await conn.prepare("SELECT id, m, p, n FROM t WHERE id = $1 AND m = $2")
    return [(a.name, a.type.name) for a in statement.get_attributes()] + [p.name for p in statement.get_parameters()]


asyncio.run(main())
