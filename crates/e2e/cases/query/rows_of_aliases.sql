-- The row as a whole of a sub-select, a WITH item, VALUES or a function, which ORDER BY, GROUP BY and DISTINCT may name.
CREATE TABLE t (a int, b text, c int) /*dist: hash(a) | replication | roundrobin*/;
CREATE TABLE u (k int, w text) /*dist: hash(k) | roundrobin | replication*/;
INSERT INTO t VALUES (1, 'x', 10), (2, 'y', NULL), (3, 'x', 10), (4, NULL, 20), (5, 'y', 20), (6, NULL, NULL);
INSERT INTO u VALUES (1, 'x'), (2, NULL), (3, 'y'), (10, 'x');
CREATE TYPE cp AS (x int, y text);
CREATE FUNCTION f4(p int) RETURNS SETOF cp LANGUAGE sql IMMUTABLE AS 'SELECT p, p::text';

-- ORDER BY.
SELECT q.* FROM (SELECT a, b FROM t) q ORDER BY q;
SELECT q.a FROM (SELECT b, c, a FROM t) q ORDER BY q DESC;
SELECT q FROM (SELECT a, b FROM t) q ORDER BY q;
SELECT q FROM (SELECT a, b FROM t) q ORDER BY 1 DESC LIMIT 2;
SELECT q FROM (SELECT b, a FROM t) q ORDER BY q.a LIMIT 3;
SELECT q, q.a FROM (SELECT b, a FROM t) q ORDER BY q.a % 3, q.b || 'z', q.a;
SELECT to_jsonb(q) FROM (SELECT a, b FROM t) q ORDER BY q LIMIT 2;
WITH q AS (SELECT a, b FROM t) SELECT a FROM q ORDER BY q DESC;
WITH q AS MATERIALIZED (SELECT b, a FROM t) SELECT q, a FROM q ORDER BY q OFFSET 1;
SELECT t.a, v FROM t, (VALUES (1, 'x'), (0, 'y')) v ORDER BY v, t.a;
SELECT t.a, v.n FROM t JOIN (VALUES (1, 'x'), (2, 'y')) v (n, b) USING (b) ORDER BY v DESC, t.a;
SELECT t.a, s FROM t, f4(t.a) s ORDER BY 1, 2;
SELECT t.a, s FROM t, f4(-t.a) s ORDER BY s;
SELECT t.a, u FROM t, unnest(ARRAY[ROW(1, 'x')::cp, ROW(0, NULL)::cp, NULL]) u ORDER BY u, a;
SELECT x.a, z.a FROM (SELECT a, b FROM t) x JOIN (SELECT b, a FROM t) z ON x.b = z.b ORDER BY x, z;
-- A row that an outer join leaves out is NULL, unlike one of NULLs.
SELECT k, z FROM u LEFT JOIN (SELECT CASE WHEN a < 3 THEN b END AS b, a AS n FROM t) z ON u.k = z.n ORDER BY z NULLS FIRST, k;
SELECT k, z IS NULL FROM u LEFT JOIN (SELECT nullif(a, a) AS o, nullif(b, b) AS p, a FROM t WHERE a < 3) z ON u.k = z.a ORDER BY z, k DESC;
SELECT k FROM u LEFT JOIN LATERAL (SELECT NULL::int AS i, NULL::text AS j WHERE k < 3) z ON true ORDER BY z DESC, k;

-- GROUP BY.
SELECT q, count(*) FROM (SELECT b, c FROM t) q GROUP BY q ORDER BY q;
SELECT q, count(*) FROM (SELECT a, b FROM t) q GROUP BY q;
SELECT q, count(*) FROM (SELECT b, c FROM t) q GROUP BY 1 ORDER BY 2, 1;
SELECT to_jsonb(q), sum(q.c) FROM (SELECT b, c FROM t) q GROUP BY q, q.c ORDER BY q;
SELECT count(*) FROM (SELECT a FROM t) q GROUP BY q ORDER BY 1;
SELECT count(*) FROM (SELECT b FROM t) q GROUP BY q ORDER BY 1;
SELECT max(q.b) FROM (SELECT a, b FROM t) q GROUP BY q, q.b ORDER BY 1;
SELECT max(q.b), count(*) FROM (SELECT b, c FROM t) q GROUP BY ROLLUP (q, q.b) ORDER BY 1, 2;
SELECT count(*) FROM (SELECT b, c FROM t) q GROUP BY GROUPING SETS ((q), ()) ORDER BY 1;
SELECT t.a, max(s.y) FROM t, f4(t.a) s GROUP BY t.a, s ORDER BY s;
SELECT s, count(*) FROM t, f4(t.a % 2) s GROUP BY s ORDER BY s;
SELECT u, count(*), min(t.a) FROM t, unnest(ARRAY[NULL, ROW(1, 'x'), ROW(1, NULL)]::cp[]) u GROUP BY u ORDER BY u DESC;
SELECT v, max(t.a) FROM t, (VALUES (1, 'x'), (2, 'y')) v GROUP BY v ORDER BY v;
WITH q AS (SELECT b, c FROM t) SELECT count(*) FROM q GROUP BY q HAVING q IS NOT NULL ORDER BY 1;
SELECT q.b, count(*) FROM (SELECT b, c FROM t) q GROUP BY q.b, q HAVING max(q.c) > 5 ORDER BY q DESC;
SELECT z, count(*) FROM u LEFT JOIN (SELECT b FROM t WHERE a < 4) z ON z.b = u.w GROUP BY z ORDER BY z;

-- DISTINCT, windows, aggregates, UNION.
SELECT DISTINCT q FROM (SELECT b, c FROM t) q;
SELECT DISTINCT q FROM (SELECT b, c FROM t) q ORDER BY q;
SELECT DISTINCT s FROM t, f4(t.a % 2) s ORDER BY s;
SELECT DISTINCT ON (s) s, t.a FROM t, f4(t.a % 3) s ORDER BY s DESC, t.a;
SELECT DISTINCT ON (q) q.b, q.c FROM (SELECT b, c FROM t) q ORDER BY q;
SELECT count(DISTINCT q) FROM (SELECT b, c FROM t) q;
SELECT q.a, count(*) OVER (PARTITION BY q), rank() OVER (ORDER BY q DESC) FROM (SELECT b, a FROM t) q ORDER BY q;
SELECT array_agg(q ORDER BY q) FROM (SELECT b, a FROM t) q;
SELECT q FROM (SELECT a, b FROM t) q UNION ALL SELECT ROW(k, w) FROM u ORDER BY 1;
SELECT q FROM (SELECT a, b FROM t) q UNION SELECT z FROM (SELECT k, w FROM u) z ORDER BY 1 DESC;
SELECT a, (SELECT max(q.k) FROM (SELECT k, w FROM u) q GROUP BY q ORDER BY q DESC LIMIT 1) FROM t ORDER BY a;

-- In other statements.
CREATE TABLE kept AS SELECT q.a, to_jsonb(q) AS j FROM (SELECT a, b FROM t) q ORDER BY q;
SELECT * FROM kept ORDER BY a;
INSERT INTO kept (a) SELECT count(*) FROM (SELECT b, c FROM t) q GROUP BY q;
SELECT * FROM kept ORDER BY a, j;
BEGIN;
DECLARE cu CURSOR FOR SELECT q.a FROM (SELECT b, a FROM t) q ORDER BY q;
FETCH ALL FROM cu;
COMMIT;
-- params: 2
SELECT q.b FROM (SELECT a, b FROM t) q WHERE q.a > $1::int ORDER BY q DESC;

-- A number in a row is no column's.
SELECT a FROM t ORDER BY ROW(2, b), a;
SELECT a FROM t ORDER BY ROW(2), a DESC;
SELECT b, count(*) FROM t GROUP BY ROW(2, b), b ORDER BY b;
SELECT ROW(2, b), count(*) FROM t GROUP BY ROW(2, b) ORDER BY 1;
