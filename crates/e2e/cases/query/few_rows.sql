-- Few rows travel to a last step in its parameters: every kind of column, what cannot travel so, and what turns out to be more.
CREATE TABLE t (id int, k int, n numeric(10,2), c char(3), v varchar(5), ts timestamp(3), d date, i interval, b bytea, f float8, u uuid, ip inet, j jsonb, x json, o boolean, m money, z bit(3), tz timestamptz) /*dist: hash(id) | hash(k) | replication | roundrobin*/;
INSERT INTO t SELECT g, g % 4, g / 8.0, chr(96 + g), 'v' || g, timestamp '2024-01-01 00:00:00.1239' + g * interval '1 day', date '2024-02-28' + g, g * interval '25 hours', decode(lpad(to_hex(g), 2, '0'), 'hex'), g / 3.0, md5(g::text)::uuid, '10.0.0.0'::inet + g, jsonb_build_object('g', g), json_build_array(g, NULL), g % 2 = 0, g * 1.5::money, (g % 8)::bit(3), timestamptz '2024-01-01 00:00+00' + g * interval '1 month' FROM generate_series(1, 9) g;
INSERT INTO t (id) VALUES (10), (11);
CREATE TABLE s (k int, w text, a int[]) /*dist: hash(k) | hash(k) | replication | roundrobin*/;
INSERT INTO s SELECT g, 'w' || g, ARRAY[g, g + 1] FROM generate_series(0, 5) g;
CREATE TABLE none (id int, k int, w text) /*dist: hash(id) | hash(k) | replication | roundrobin*/;
SELECT t.*, s.w FROM t JOIN s ON s.k = t.id ORDER BY t.id;
SELECT t.*, s.w FROM t LEFT JOIN s ON s.k = t.id - 5 ORDER BY t.id;
SELECT c || '|', length(c), v || '|', n, n * 3, ts, z || z, i + i, s.w FROM t JOIN s ON s.k = t.id ORDER BY t.id;
SELECT count(*), sum(n), avg(n), min(c), max(v), min(ts), max(d), sum(i), max(ip), bool_and(o), sum(m), min(tz), avg(f)::numeric(9,4) FROM t;
SELECT k, sum(n), array_agg(id ORDER BY id), string_agg(v, ',' ORDER BY v DESC), jsonb_agg(j ORDER BY id) FROM t GROUP BY k ORDER BY k;
SELECT n, c, v, ts, z FROM t ORDER BY id DESC LIMIT 3;
SELECT pg_typeof(t.n), pg_typeof(t.c), pg_typeof(t.ts), pg_typeof(t.z), pg_typeof(s.a) FROM t JOIN s ON s.k = t.id WHERE t.id = 1;
-- Two columns of one name, a whole row, a star.
SELECT x.id, y.id, x.k, y.k FROM t x JOIN t y ON x.id = y.k WHERE y.id < 8 ORDER BY 1, 2;
SELECT s.*, row_to_json(s) FROM s JOIN t ON t.id = s.k ORDER BY s.k;
SELECT s FROM s JOIN t ON t.id = s.k ORDER BY s.k;
SELECT (SELECT row(q.w, q.k)::text FROM s q WHERE q.k = t.id) FROM t WHERE t.id < 4 ORDER BY t.id;
-- Nothing at all.
SELECT count(*), max(w), sum(k) FROM none;
SELECT t.id, none.w FROM t LEFT JOIN none ON none.k = t.id WHERE t.id < 3 ORDER BY 1;
SELECT none.* FROM none JOIN s ON s.w = none.w;
-- WITH of its own, recursive or not, and sub-selects.
WITH q AS (SELECT t.k, count(*) AS c FROM t JOIN s ON s.k = t.id GROUP BY t.k) SELECT q.k, q.c, s.w FROM q JOIN s USING (k) ORDER BY 1;
WITH RECURSIVE q(id, depth) AS (SELECT 1, 0 UNION ALL SELECT t.id, depth + 1 FROM q JOIN t ON t.k = q.id WHERE depth < 3) SELECT id, depth FROM q ORDER BY 2, 1 LIMIT 20;
(SELECT t.id FROM t JOIN s ON s.k = t.id ORDER BY 1 LIMIT 2) UNION ALL (SELECT s.k FROM s JOIN t ON t.k = s.k AND t.id > 6) ORDER BY 1;
SELECT w FROM s WHERE k IN (SELECT t.id FROM t WHERE t.k = s.k % 4) OR EXISTS (SELECT FROM none WHERE none.k = s.k) ORDER BY 1;
SELECT w, (SELECT count(*) FROM t WHERE t.k = s.k) FROM s ORDER BY 1;
SELECT x.id FROM t x WHERE n > (SELECT avg(n) FROM t y WHERE y.k = x.k) ORDER BY 1;
-- Parameters beside those that the rows travel in.
-- params: p | 2
SELECT t.id, s.w, $1::text FROM t JOIN s ON s.k = t.id WHERE t.id > $2 ORDER BY 1;
-- params: v3 | \N
SELECT count(*), sum(n) FROM t WHERE v = $1 OR k = $2;
-- What does not travel so: arrays, enums, domains, composites, other collations, names.
SELECT s.a, s.a[2], t.v FROM s JOIN t ON t.id = s.k ORDER BY s.k;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE odd (id int, mo mood, p pos, pr pair, co text COLLATE "C", na name) /*dist: hash(id) | hash(p) | replication | roundrobin*/;
INSERT INTO odd SELECT g, (ARRAY['sad', 'ok', 'glad'])[g % 3 + 1]::mood, g, ROW(g, 'r')::pair, (ARRAY['b', 'A', 'a'])[g % 3 + 1], 'n' || g FROM generate_series(1, 9) g;
SELECT min(mo), max(mo), max(p), min(co), max(na) FROM odd;
SELECT pg_typeof(x.p) = 'pos'::regtype, x.co, x.na, (y.pr).b FROM odd x JOIN odd y ON x.id = y.id + 1 ORDER BY x.co, x.id;
SELECT co, count(*) FROM odd GROUP BY co ORDER BY co;
SELECT x.id::pos, x.mo::text FROM odd x JOIN odd y ON x.id = y.id + 2 ORDER BY 1;
SELECT t.v COLLATE "C" FROM t JOIN s ON s.k = t.id ORDER BY 1;
-- More rows, and wider ones, than was expected when they were put there without ANALYZE.
CREATE TABLE many (id int, k int, w text) /*dist: hash(id) | hash(k) | replication | roundrobin*/;
INSERT INTO many SELECT g, g % 7, 'm' FROM generate_series(1, 12000) g;
SELECT count(*), sum(x.id) FROM many x JOIN s ON s.k = x.k + 1;
SELECT count(DISTINCT x.id), sum(s.k) FROM many x LEFT JOIN s ON s.k = x.id;
SELECT id FROM many ORDER BY id DESC LIMIT 2;
TRUNCATE many;
INSERT INTO many SELECT g, g, repeat('wide', 20000) FROM generate_series(1, 30) g;
SELECT x.id, length(x.w), s.w FROM many x JOIN s ON s.k = x.k ORDER BY 1;
-- Inside transactions.
BEGIN READ ONLY;
SELECT t.id, s.w FROM t JOIN s ON s.k = t.id ORDER BY 1;
SELECT count(*), sum(k) FROM t;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT t.id, s.w FROM t JOIN s ON s.k = t.id ORDER BY 1;
UPDATE s SET w = w || '!' WHERE k = 3;
SELECT t.id, s.w FROM t JOIN s ON s.k = t.id ORDER BY 1;
SAVEPOINT a;
SELECT t.id / (t.id - 3) FROM t JOIN s ON s.k = t.id ORDER BY 1;
ROLLBACK TO a;
SELECT max(w), count(*) FROM s;
ROLLBACK;
SELECT t.id / (t.id - 3) FROM t JOIN s ON s.k = t.id ORDER BY 1;
SELECT s.nope FROM t JOIN s ON s.k = t.id;
