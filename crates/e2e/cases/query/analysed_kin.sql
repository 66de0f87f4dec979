-- Names, types and settings that only PostgreSQL's analysis reads rightly, in statements of many kinds.
CREATE TABLE t (k int, v int) /*dist: hash(k) | modulo(v) | replication | roundrobin*/;
CREATE TABLE u (id int, n numeric(8,3), c varchar(5), d date, ts timestamptz, f float4) /*dist: hash(id) | roundrobin | hash(c) | replication*/;
CREATE SCHEMA lib;
INSERT INTO t SELECT g, g % 4 FROM generate_series(1, 9) g;
INSERT INTO u SELECT g, g / 3.0, 'c' || g % 3, date '2024-01-01' + g, timestamptz '2024-01-01 00:00:00+00' + g * interval '7 hours', g / 10.0 FROM generate_series(1, 12) g;

-- Functions, operators and types of another schema that are called like PostgreSQL's own.
CREATE FUNCTION lib.sum(int, text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION lib.avg(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION lib.array_agg(int, int) RETURNS int[] LANGUAGE sql IMMUTABLE AS 'SELECT ARRAY[$1, $2]';
CREATE FUNCTION lib.now(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION lib.random(text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT length($1)';
CREATE FUNCTION lib.nextval(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
CREATE DOMAIN lib.int4 AS text;
SELECT sum(v), avg(k), count(*), array_agg(k ORDER BY k) FROM t;
SELECT v, sum(k), avg(k)::numeric(6,2) FROM t GROUP BY v HAVING sum(k) > 5 ORDER BY v;
SELECT lib.random('abc'), lib.now(3), lib.nextval(k), k FROM t WHERE lib.now(k) = 4;
INSERT INTO t SELECT lib.nextval(100), lib.random('xx') FROM t WHERE k = 1;
SELECT sum(x) FROM (SELECT v AS x FROM t UNION ALL SELECT id FROM u) AS both_;
SELECT (SELECT sum(v) FROM t WHERE k <= u.id) FROM u ORDER BY id LIMIT 4;
SELECT sum(v) OVER (ORDER BY k) FROM t ORDER BY 1 DESC LIMIT 3;
SELECT 'x'::lib.int4, 5::int4, '7'::pg_catalog.int4 + 1;

-- The same name for a column, an alias, a table and a WITH item.
SELECT t.t FROM (SELECT k AS t FROM t) AS t ORDER BY t LIMIT 2;
SELECT k AS v, v AS k FROM t ORDER BY k, v LIMIT 4;
SELECT v AS k FROM t GROUP BY v ORDER BY k;
SELECT v % 2 AS v FROM t GROUP BY v ORDER BY v;
SELECT DISTINCT ON (v) v % 2 AS v, k FROM t ORDER BY v, k;
WITH u AS (SELECT k AS id FROM t WHERE k < 3) SELECT u.id, (SELECT count(*) FROM public.pg_class_not_there) FROM u;
WITH t AS (SELECT 1 AS k) SELECT k FROM t UNION ALL SELECT id FROM u WHERE id = 2 ORDER BY 1;
WITH RECURSIVE b AS (SELECT k FROM a WHERE k > 2), a AS (SELECT k FROM t WHERE k < 6) SELECT * FROM b ORDER BY 1;
WITH RECURSIVE r(n) AS (SELECT min(k) FROM t UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(v) FROM t)) SELECT * FROM r;
WITH never AS (SELECT 1 / (v - v) FROM t) SELECT count(*) FROM t;
WITH never AS MATERIALIZED (SELECT k / 0 FROM t), once AS (SELECT k FROM t) SELECT count(*) FROM once;
SELECT x FROM t x WHERE x.k = 3;
SELECT x IS NOT NULL, x.* FROM t x WHERE (x).k = 3;
SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t id WHERE id.k = u.id AND id IS NOT NULL) ORDER BY id;
SELECT count(u) FROM u;
SELECT row_to_json(t) FROM t WHERE k = 2;
SELECT json_agg(x ORDER BY x.k) FROM (SELECT * FROM t WHERE k < 3) x;
SELECT s FROM pg_relation_size('t') s WHERE s IS NULL;
SELECT g FROM generate_series(1, 3) g, t WHERE t.k = g ORDER BY g;

-- Schemas in names.
CREATE TABLE lib.t (k int, w int) /*dist: hash(k) | roundrobin | replication | hash(w)*/;
INSERT INTO lib.t SELECT g, g FROM generate_series(3, 12) g;
BEGIN;
DELETE FROM t WHERE EXISTS (SELECT 1 FROM lib.t WHERE lib.t.k = t.k AND lib.t.w > 4);
SELECT k FROM t ORDER BY k;
ROLLBACK;
UPDATE lib.t SET w = (SELECT count(*) FROM t WHERE t.v = lib.t.k % 4) WHERE lib.t.k < 6;
SELECT * FROM lib.t ORDER BY k;
SELECT a.k, lib.t.w FROM t a JOIN lib.t USING (k) ORDER BY 1;
INSERT INTO lib.t SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM lib.t WHERE lib.t.k = t.k) RETURNING k, w;

-- Casts that lose something.
SELECT count(DISTINCT f), count(DISTINCT f::float8::numeric(3,1)) FROM u;
SELECT id FROM u WHERE f IN (0.4, 0.7, 0.9) ORDER BY id;
SELECT a.id, b.id FROM u a JOIN u b ON a.f = b.f::float8 WHERE a.id < 5 ORDER BY 1, 2;
SELECT n::int, count(*) FROM u GROUP BY n::int ORDER BY 1;
SELECT c::char(1), count(*) FROM u GROUP BY 1;
SELECT c::name FROM u UNION SELECT 'c1' ORDER BY 1;
SELECT id FROM u WHERE c IN (SELECT ('c' || v)::varchar(2) FROM t) ORDER BY id;
SELECT ts::date, count(*) FROM u GROUP BY 1 ORDER BY 1;
SELECT d FROM u WHERE d::timestamptz = '2024-01-03' ORDER BY 1;

CREATE TABLE wide (id int, f float8, g float4, s text, n name) /*dist: hash(f) | hash(s) | hash(g) | roundrobin*/;
INSERT INTO wide SELECT i, i / 10.0, i / 10.0, repeat('x', 60 + i), repeat('x', 60 + i) FROM generate_series(1, 9) i;
SELECT count(*) FROM wide a JOIN wide b ON a.f::float4 = b.g;
SELECT count(*) FROM wide a JOIN wide b ON a.s::name = b.n;
SELECT id FROM wide WHERE g IN (SELECT f::float4 FROM wide) ORDER BY id;
SELECT s::name, count(*) FROM wide GROUP BY s::name ORDER BY 1;
SELECT f::float4 FROM wide UNION SELECT g FROM wide ORDER BY 1;
SELECT count(*) OVER (PARTITION BY s::name), id FROM wide ORDER BY id;
DROP TABLE wide;

-- Settings that say how text is read.
BEGIN;
SET LOCAL TimeZone = 'Asia/Tokyo';
SET LOCAL DateStyle = 'SQL, DMY';
SELECT id, ts, d FROM u WHERE ts >= '02/01/2024 09:00' AND d < '06/01/2024' ORDER BY id;
SELECT count(*), min(ts), max(d) FROM u WHERE ts::date = '03/01/2024';
UPDATE u SET ts = ts + interval '1 day', d = '07/02/2024' WHERE id = 3;
SELECT ts, d FROM u WHERE id = 3;
ROLLBACK;
BEGIN;
SET LOCAL IntervalStyle = 'sql_standard';
SELECT '-1 2:03:04'::interval, count(*) FROM u WHERE ts > timestamptz '2024-01-01 00:00+00' + '-1 2:03:04'::interval;
COMMIT;
BEGIN;
SET LOCAL extra_float_digits = 0;
SELECT f, f::float8 FROM u WHERE f = 0.3::float4;
COMMIT;

-- Positions, numbers and constants that are no values.
SELECT k, v FROM t WHERE k < 5 ORDER BY 2 DESC, 1;
SELECT v, count(*) FROM t GROUP BY 1 ORDER BY 2, 1;
SELECT k, v FROM t ORDER BY 3;
SELECT v + 1, v + 1 AS again FROM t GROUP BY v + 1 ORDER BY v + 1;
SELECT v + 1 FROM t GROUP BY v + 2;
SELECT 'a' || v FROM t GROUP BY 'a' || v ORDER BY 'a' || v;
SELECT 'a' || v FROM t GROUP BY 'b' || v;
SELECT -v, - 5, -5.50, '-5'::int FROM t WHERE v > -2 AND k = 1;
SELECT k FROM t ORDER BY k LIMIT 2 OFFSET 3;
SELECT k FROM t ORDER BY k FETCH FIRST 2 ROWS WITH TIES;
SELECT n::numeric(10,1), n::numeric(6), c::varchar(1), ts::timestamptz(0) FROM u WHERE id = 7;
SELECT k::bit(8), (k::text)::"char" FROM t WHERE k = 5;
SELECT ntile(3) OVER (ORDER BY k), lag(k, 2, -1) OVER (ORDER BY k) FROM t ORDER BY k;
SELECT substring('abcdef' FROM k FOR 2), overlay('abcdef' PLACING 'X' FROM 2) FROM t WHERE k < 3 ORDER BY k;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v), mode() WITHIN GROUP (ORDER BY v) FROM t;
SELECT interval '1' day, interval '3 days' / 2, extract(day FROM interval '40 days') FROM t WHERE k = 1;
SELECT ARRAY[1,2,3][2], '{4,5}'::int[], (ARRAY[k, v])[1:1] FROM t WHERE k = 2;
SELECT k FROM t WHERE (k, v) IN ((1, 1), (2, 2), (3, 0)) ORDER BY k;
SELECT k FROM t WHERE k BETWEEN SYMMETRIC 5 AND 3 AND v BETWEEN 0 AND 3 ORDER BY k;
SELECT CASE v WHEN 0 THEN 'none' WHEN 1 THEN 'one' ELSE 'many' END AS word, count(*) FROM t GROUP BY 1 ORDER BY 1;
SELECT count(*) FILTER (WHERE v = 1), count(*) FILTER (WHERE v = 2) FROM t;
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS x (n, w) JOIN t ON t.k = x.n ORDER BY 1;
SELECT grouping(v), v, count(*) FROM t GROUP BY ROLLUP (v) ORDER BY 1, 2;
SELECT * FROM t TABLESAMPLE BERNOULLI (100) WHERE k = 1;
SELECT 'it''s', E'a\nb', U&'\0041', $$dollar$$, B'101', X'1F' FROM t WHERE k = 1;
SELECT 3000000000, 9223372036854775807, 1e3, .5, 5. FROM t WHERE k = 1;
SELECT 'today'::date = current_date, 'now'::timestamptz <= clock_timestamp() FROM t WHERE k = 1;

-- Errors, and their places.
SELECT nope FROM t;
SELECT k FROM t WHERE nosuch(k) = 1;
SELECT k + 'x' FROM t;
SELECT max(v) FROM t WHERE max(v) > 1;
SELECT k, sum(v) FROM t;
INSERT INTO t VALUES (1, 2, 3);
INSERT INTO t (k, nope) VALUES (1, 2);
UPDATE t SET k = 'x' WHERE v = 1;
SELECT '2024-02-30'::date FROM t;
PREPARE one AS SELECT 1;
EXECUTE one(5);
DEALLOCATE one;
CREATE TABLE made AS SELECT nope FROM t;
DROP SCHEMA lib CASCADE;
-- The input functions of some types fail with codes of their own.
CREATE EXTENSION IF NOT EXISTS hstore;
CREATE TABLE pairs (k int, h hstore, a hstore[]) /*dist: hash(k) | roundrobin | replication*/;
INSERT INTO pairs VALUES (1, 'a=>b'::hstore, NULL::hstore[]) RETURNING h;
INSERT INTO pairs VALUES (2, 'a=>NULL'::hstore, ARRAY['x=>1'::hstore]) RETURNING h, a;
INSERT INTO pairs VALUES (3, 'nothing'::hstore, NULL);
SELECT k, h -> 'a' FROM pairs WHERE h ? 'a' AND h @> 'a=>b'::hstore ORDER BY k;
DROP TABLE pairs;
DROP EXTENSION hstore;
