-- More of what only PostgreSQL's analysis can tell.
CREATE TABLE t (k int, v int, w text) /*dist: hash(k) | modulo(v) | replication | roundrobin*/;
CREATE TABLE o (id int, x int) /*dist: hash(id) | hash(x) | roundrobin | replication*/;
CREATE TYPE pt AS (a int, b text);
CREATE TABLE p (id int, q pt) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO t SELECT g, g % 4, 'w' || g % 3 FROM generate_series(1, 9) g;
INSERT INTO o SELECT g, g % 3 FROM generate_series(1, 6) g;
INSERT INTO p SELECT g, (g, 'p' || g)::pt FROM generate_series(1, 5) g;

-- Prepared statements.
PREPARE one AS SELECT 1;
EXECUTE one(5);
EXECUTE one;
DEALLOCATE one;
PREPARE of_k(int) AS SELECT v FROM t WHERE k = $1;
EXECUTE of_k(3);
EXECUTE of_k;
EXECUTE of_k('x');
EXECUTE of_k(2 + 2);
PREPARE wrong AS SELECT nothing FROM t;
PREPARE of_pair(pt) AS SELECT id FROM p WHERE q = $1;
EXECUTE of_pair('(2,p2)');
CREATE TABLE made AS SELECT nowhere FROM t;
CREATE TABLE made AS SELECT k, nope(v) FROM t;

-- Parameters of composite and array types.
-- params: (2,p2)
SELECT id FROM p WHERE q = $1 ORDER BY id;
-- params: (3,p3)
SELECT ($1::pt).a, count(*) FROM p WHERE id <= ($1::pt).a;
-- params: {1,2,3}
SELECT k FROM t WHERE k = ANY ($1) ORDER BY k;
-- params: {1,2,3} | (9,new)
SELECT count(*), ($2::pt).b FROM p WHERE id = ANY ($1::int[]) GROUP BY 2;
-- params: 20 | (20,p20)
INSERT INTO p VALUES ($1, $2);
-- params: 21 | 7
INSERT INTO p SELECT $1, ROW($1, max(k)::text)::pt FROM t WHERE k < $2;
SELECT * FROM p ORDER BY id;
-- params: w1
INSERT INTO o SELECT (SELECT max(k) + 100 FROM t WHERE w = $1), 1;
-- params: x
INSERT INTO t (k, w) SELECT 50 + id, $1 FROM o WHERE id < 3;
SELECT k, w FROM t WHERE k > 50 ORDER BY k;

-- Parts that do not mention a parameter of such a type.
CREATE FUNCTION moved(q pt) RETURNS pt LANGUAGE sql STABLE AS 'SELECT max(k) + q.a, q.b FROM t WHERE k < 10';
CREATE FUNCTION told(q pt) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN PERFORM 1 FROM t; RETURN q; END $$;
-- params: (5,z)
SELECT moved($1), told($1);
-- params: (5,z)
SELECT told($1), k FROM t WHERE k < 3 ORDER BY k;
-- params: (5,z)
SELECT * FROM moved($1);

-- OUT parameters, rows of functions.
CREATE FUNCTION outs(a int, OUT x int, OUT y text) LANGUAGE sql IMMUTABLE AS $$ SELECT a + 1, 'y' || a $$;
SELECT (outs(3)).x, (outs(4)).*;
SELECT (outs(k)).y FROM t WHERE k < 4 ORDER BY k;
SELECT x, count(*) FROM t, outs(v) GROUP BY x ORDER BY x;
CREATE FUNCTION reads(a int, OUT n bigint, OUT m int) LANGUAGE sql STABLE AS 'SELECT count(*), max(k) FROM t WHERE v = a';
SELECT * FROM reads(1);
SELECT (reads(1)).n;
SELECT o.id, r.n FROM o, LATERAL reads(o.x) r ORDER BY o.id;

-- Collations.
CREATE COLLATION an_posix FROM "POSIX";
SELECT w FROM t WHERE k < 10 ORDER BY w COLLATE an_posix, k;
SELECT w COLLATE "C" AS s FROM t UNION SELECT 'zz' COLLATE "C" ORDER BY s;
SELECT w FROM t WHERE k < 10 ORDER BY w COLLATE "C" DESC, w COLLATE an_posix LIMIT 3;
SELECT w COLLATE "C" < 'w1' COLLATE "POSIX" FROM t;
SELECT max(w COLLATE "C"), min(w) FROM t;
SELECT w FROM t GROUP BY w COLLATE "C", w ORDER BY w COLLATE "C";

-- Rows as a whole, and columns that joins merge, in ORDER BY and GROUP BY.
SELECT o FROM o WHERE id < 4 ORDER BY o DESC LIMIT 2;
SELECT id FROM o WHERE id < 4 ORDER BY o.* DESC;
SELECT o, count(*) FROM o WHERE id < 4 GROUP BY o ORDER BY 1;
SELECT DISTINCT ON (o) o.x, id FROM o WHERE id < 4 ORDER BY o;
SELECT id, p.id, o.id FROM o FULL JOIN p USING (id) WHERE id < 9 ORDER BY 1;
SELECT DISTINCT ON (id) id, p.id FROM o FULL JOIN p USING (id) WHERE id < 9 ORDER BY 1 DESC;

-- Constants that are cut, or have no sign.
SELECT k, 'abc'::text, 'abc'::"char" FROM t WHERE k < 3 ORDER BY k;
SELECT k, 'xyz'::text, 'xyz'::"char" FROM t WHERE k < 3 ORDER BY k;
SELECT k - -0, -0.0, - 0 FROM t WHERE k < 3 ORDER BY k;
SELECT k - -0, -0.0, - 0 FROM t WHERE k < 2 ORDER BY k;

-- Temporary functions.
CREATE FUNCTION pg_temp.f(a int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + 1';
SELECT pg_temp.f(1);
SELECT pg_temp.f(max(k)) FROM t;
SELECT k FROM t WHERE k = pg_temp.f(2);

-- MERGE evaluates what it reaches.
MERGE INTO o USING t ON o.id = t.k WHEN MATCHED AND t.v = 1 THEN UPDATE SET x = -1 WHEN MATCHED THEN DO NOTHING;
MERGE INTO o USING (VALUES (1, 1)) s (a, b) ON o.id = s.a WHEN MATCHED AND false AND o.x > (SELECT 1 / 0) THEN DELETE WHEN MATCHED THEN UPDATE SET x = 77;
SELECT * FROM o ORDER BY id;

-- Sub-queries with names like columns, and columns like functions.
SELECT (SELECT k) FROM t WHERE k < 3 ORDER BY 1;
SELECT (SELECT max(t.k) FROM o) FROM t;
SELECT sum(k), (SELECT sum(o.x) FROM o WHERE o.id = max(t.v)) FROM t WHERE k < 10;
SELECT k AS sum, v AS count FROM t ORDER BY sum DESC, count LIMIT 2;
SELECT length(w) AS max FROM t GROUP BY max ORDER BY max;
SELECT t.w AS "select", k AS "Group By" FROM t ORDER BY "Group By" LIMIT 2;
SELECT * FROM (SELECT k, k FROM t) q(a, b) WHERE a = 2;
SELECT * FROM t NATURAL JOIN (SELECT k, 'more' AS more FROM t WHERE k < 3) q ORDER BY k;
SELECT * FROM t JOIN o ON t.k = o.id JOIN p USING (id) ORDER BY k;
SELECT q.* FROM t LEFT JOIN LATERAL (SELECT o.id, t.k + o.x AS s FROM o WHERE o.id = t.k) q ON true ORDER BY q.id NULLS LAST, q.s;
SELECT count(*) FILTER (WHERE k > 3), count(DISTINCT v) FROM t;
SELECT v, grouping(v), count(*) FROM t GROUP BY ROLLUP (v) ORDER BY v NULLS LAST, 2;
SELECT k, sum(v) OVER w, rank() OVER (w ROWS UNBOUNDED PRECEDING) FROM t WINDOW w AS (PARTITION BY v ORDER BY k) ORDER BY k;
SELECT k FROM t WHERE (k, v) IN (SELECT id, x FROM o) OR (k, v) = (9, 1) ORDER BY k;
SELECT k FROM t WHERE k NOT IN (SELECT x FROM o) AND k BETWEEN SYMMETRIC 8 AND 5 ORDER BY k;
SELECT k FROM t WHERE v IS DISTINCT FROM 1 AND w LIKE 'w_' ESCAPE '\' AND w SIMILAR TO 'w(0|1)' ORDER BY k;
TABLE o ORDER BY id;
VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC;
SELECT FROM t WHERE k = 1;
SELECT k FROM ONLY t WHERE k < 3 ORDER BY k FETCH FIRST 1 ROW WITH TIES;
SELECT DISTINCT v, count(*) OVER () FROM t ORDER BY v OFFSET 1;
SELECT v FROM t EXCEPT ALL SELECT x FROM o ORDER BY 1;
SELECT extract(year FROM date '2020-02-03' + k), position('w' IN w), trim(both 'w' FROM w), overlay(w PLACING 'x' FROM 1 FOR 1), w::varchar(1) FROM t WHERE k = 2;
SELECT array_agg(k ORDER BY k DESC) FROM t WHERE k < 4;
SELECT string_agg(DISTINCT w, '+' ORDER BY w) FROM t;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FROM t WHERE k < 10;
SELECT jsonb_object_agg(k, w ORDER BY k) FROM t WHERE k < 3;
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(v) FROM t)) SELECT count(*) FROM r;
WITH a AS MATERIALIZED (SELECT k FROM t WHERE v = 1), b AS NOT MATERIALIZED (SELECT id FROM o) SELECT a.k FROM a JOIN b ON a.k = b.id ORDER BY 1;
WITH d AS (DELETE FROM o WHERE id = 6 RETURNING id, x) SELECT d.id, t.w FROM d JOIN t ON t.k = d.id;
WITH i AS (INSERT INTO o VALUES (60, 1), (61, 2) RETURNING *) SELECT sum(id) FROM i;
UPDATE o SET x = s.n FROM (SELECT v, count(*) AS n FROM t GROUP BY v) s WHERE s.v = o.x RETURNING o.*;
DELETE FROM o USING t WHERE t.k = o.id AND t.v = 2 RETURNING o.id, t.w;
INSERT INTO o AS mine VALUES (1, 5) RETURNING mine.id * 2 AS twice, x;

-- Temporary relations that others hide.
CREATE SCHEMA an_c;
CREATE TABLE an_c.both (k int) /*dist: hash(k) | roundrobin | replication*/;
INSERT INTO an_c.both SELECT generate_series(1, 5);
CREATE TEMP TABLE both AS SELECT 100 AS k;
CREATE TEMP VIEW sums AS SELECT sum(k) AS s FROM an_c.both;
CREATE TABLE an_c.sums (s int) /*dist: hash(s) | replication | roundrobin*/;
BEGIN;
SET LOCAL search_path = an_c, pg_temp;
SELECT count(*), max(k) FROM both;
SELECT count(*), max(k) FROM pg_temp.both;
SELECT s FROM pg_temp.sums;
SELECT count(*) FROM sums;
INSERT INTO both VALUES (6), (7);
SELECT count(*) FROM both;
COMMIT;
SELECT count(*) FROM both;
SELECT count(*) FROM an_c.both;
TRUNCATE both;
SELECT count(*) FROM an_c.both;
DROP SCHEMA an_c CASCADE;

-- What may be an argument of EXECUTE.
PREPARE of_two(int, text) AS SELECT k, w FROM t WHERE k = $1 AND w = $2;
EXECUTE of_two((SELECT 1), 'w1');
EXECUTE of_two(max(1), 'w1');
EXECUTE of_two(true, 'w1');
EXECUTE of_two('1'::text, 'w1');
EXECUTE of_two(1.4, 'w' || 1);
EXECUTE of_two(k, 'w1');
EXECUTE of_two(generate_series(1, 2), 'w1');
BEGIN;
EXECUTE of_two(1 / 0, 'w1');
ROLLBACK;
EXECUTE of_two(1, $$w1$$);
