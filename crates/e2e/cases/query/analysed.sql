-- What PostgreSQL finds out about names, types, operators and casts is not to be guessed.
CREATE TABLE t (k int, v int) /*dist: hash(k) | modulo(v) | replication | roundrobin*/;
CREATE TABLE o (id int, x int, f float8, c text, n numeric) /*dist: hash(id) | hash(f) | roundrobin | replication*/;
CREATE TABLE dup (a int, b int) /*dist: hash(a) | hash(b) | roundrobin | replication*/;
INSERT INTO t SELECT g, g % 4 FROM generate_series(1, 9) g;
INSERT INTO o SELECT g, g % 3, g / 3.0, 'c' || g, g * 1.5 FROM generate_series(1, 6) g;
INSERT INTO dup SELECT g % 3, g FROM generate_series(1, 6) g;

-- Functions of the user's that are called as PostgreSQL's own, in a schema that nobody looks into.
CREATE SCHEMA an_util;
CREATE FUNCTION an_util.max(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT greatest($1, $2)';
CREATE FUNCTION an_util.sum(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION an_util.count(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE FUNCTION an_util.upper(text) RETURNS text LANGUAGE sql VOLATILE AS 'SELECT $1';
CREATE FUNCTION an_util.string_agg(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION sign(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT count(*)::int FROM t WHERE k > $1';
SELECT max(v) FROM t;
SELECT sum(v), count(v), avg(v), min(v) FROM t;
SELECT string_agg(v::text, ',' ORDER BY v, k) FROM t;
SELECT v, max(k) FROM t GROUP BY v ORDER BY v;
SELECT an_util.max(k, v) FROM t ORDER BY 1;
SELECT upper('x') FROM t WHERE k = 1;
SELECT sign(-2.5), sign(k) FROM t WHERE k < 4 ORDER BY k;
CREATE TABLE max_of (m int) /*dist: hash(m) | replication | roundrobin*/;
INSERT INTO max_of SELECT max(v) FROM t;
SELECT * FROM max_of;
CREATE MATERIALIZED VIEW an_sums AS SELECT v, sum(k) AS s FROM t GROUP BY v;
SELECT * FROM an_sums ORDER BY v;
DROP SCHEMA an_util CASCADE;

-- Names of outputs, inputs, WITH items and rows.
SELECT DISTINCT ON (k) v % 2 AS k FROM t ORDER BY 1;
SELECT v % 2 AS k, count(*) FROM t GROUP BY k ORDER BY count(*), k;
SELECT k AS v FROM t ORDER BY v;
SELECT k AS v, v AS k FROM t ORDER BY v DESC LIMIT 3;
WITH RECURSIVE a AS (SELECT k FROM b2 WHERE k > 3), b2 AS (SELECT * FROM t) SELECT count(*) FROM a;
SELECT id FROM o WHERE EXISTS (SELECT 1 FROM t x WHERE x IS NOT NULL) ORDER BY id;
SELECT id FROM o WHERE EXISTS (SELECT 1 FROM t x WHERE x IS NULL) ORDER BY id;
SELECT count(x) FROM t x;
SELECT x FROM t x WHERE k = 3;
SELECT x, o.id FROM t x JOIN o ON o.x = x.v ORDER BY o.id, x.k;
SELECT (x).v, x.* FROM t x ORDER BY x.k LIMIT 2;
WITH t AS (SELECT 1 AS k) SELECT count(*) FROM t;
WITH t AS (SELECT k + 100 AS k FROM t) SELECT max(k), min(k) FROM t;
WITH unread AS (SELECT 1 / 0 AS k), also_unread AS (SELECT * FROM unread) SELECT count(*) FROM t;
WITH unread AS (SELECT k / 0 AS k FROM t) SELECT max(v) FROM t;

-- The same table name in two schemas.
CREATE SCHEMA an_s1;
CREATE SCHEMA an_s2;
CREATE TABLE an_s1.o (id int, x int) /*dist: hash(id) | replication | roundrobin | hash(x)*/;
CREATE TABLE an_s2.o (id int, x int) /*dist: hash(id) | roundrobin | hash(x) | replication*/;
INSERT INTO an_s1.o SELECT g, g FROM generate_series(1, 6) g;
INSERT INTO an_s2.o SELECT g, g * 10 FROM generate_series(4, 9) g;
SELECT count(*) FROM an_s1.o, an_s2.o WHERE an_s1.o.id = an_s2.o.id;
SELECT an_s1.o.id, an_s2.o.x FROM an_s1.o JOIN an_s2.o USING (id) ORDER BY 1;
SELECT id FROM an_s1.o WHERE EXISTS (SELECT 1 FROM an_s2.o WHERE an_s2.o.id = an_s1.o.id) ORDER BY id;
SELECT (SELECT an_s2.o.x FROM an_s2.o WHERE an_s2.o.id = an_s1.o.id) FROM an_s1.o ORDER BY 1;
UPDATE an_s1.o SET x = 0 WHERE EXISTS (SELECT 1 FROM an_s2.o WHERE an_s2.o.id = an_s1.o.id);
INSERT INTO an_s1.o SELECT an_s2.o.id, 7 FROM an_s2.o WHERE NOT EXISTS (SELECT 1 FROM an_s1.o WHERE an_s1.o.id = an_s2.o.id);
DELETE FROM an_s1.o WHERE EXISTS (SELECT 1 FROM an_s2.o WHERE an_s2.o.id = an_s1.o.id AND an_s2.o.x > 60);
SELECT * FROM an_s1.o ORDER BY id;
BEGIN;
SET LOCAL search_path = an_s2, an_s1;
SELECT count(*), sum(x) FROM o;
COMMIT;

-- Casts that lose something; constants whose type is that of what they meet.
SELECT f::float4, count(*) FROM o GROUP BY f::float4 ORDER BY 1;
SELECT count(DISTINCT f::float4), count(DISTINCT f::int) FROM o;
SELECT a.id, b.id FROM o a JOIN o b ON a.f::int = b.f::int ORDER BY 1, 2;
SELECT DISTINCT f::int FROM o ORDER BY 1;
SELECT f::int FROM o UNION SELECT k FROM t ORDER BY 1;
SELECT count(*) FROM o a JOIN o b ON a.c::name = b.c::name;
SELECT id FROM o WHERE f IN (1, 2, 0.3333333333333333) ORDER BY id;
SELECT id FROM o WHERE n IN (1.50, '3.0', 4.5) ORDER BY id;
CREATE TABLE real_keys (r float4, w int) /*dist: hash(r) | hash(w) | roundrobin | replication*/;
INSERT INTO real_keys VALUES (0.4, 1), (0.7, 2), (0.9, 3), (0.5, 4);
SELECT w FROM real_keys WHERE r IN (0.4, 0.7, 0.9) ORDER BY w;
SELECT w FROM real_keys WHERE r IN (0.5, 0.25) ORDER BY w;
SELECT w FROM real_keys WHERE r = 0.4;
SELECT w FROM real_keys WHERE r = 0.4::float4;
SELECT w FROM real_keys WHERE r = ANY ('{0.4,0.7}');
SELECT w FROM real_keys WHERE r = 0.5 ORDER BY w;

-- Operators and types of the user's under names of PostgreSQL's.
CREATE SCHEMA an_ops;
CREATE FUNCTION an_ops.parity(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 OPERATOR(pg_catalog.=) $2 % 2';
CREATE OPERATOR an_ops.= (FUNCTION = an_ops.parity, LEFTARG = int, RIGHTARG = int);
SELECT k FROM t WHERE k = 3;
SELECT k FROM t WHERE k OPERATOR(an_ops.=) 3 ORDER BY k;
SELECT count(*) FROM t a JOIN t b ON a.k OPERATOR(an_ops.=) b.k;
SELECT count(*) FROM t a JOIN t b ON a.k = b.k;
BEGIN;
SET LOCAL search_path = an_ops, pg_catalog;
SELECT 1 = 3;
COMMIT;
CREATE DOMAIN an_ops.text AS varchar CHECK (value <> 'bad');
SELECT c::an_ops.text FROM o ORDER BY 1;
DROP SCHEMA an_ops CASCADE;

-- Columns: as many as given, names twice, names of functions.
CREATE TABLE wide (a int, b int DEFAULT 7, c text DEFAULT 'z') /*dist: hash(a) | replication | roundrobin*/;
INSERT INTO wide SELECT * FROM generate_series(1, 3);
INSERT INTO wide SELECT k, v FROM t WHERE k > 7;
SELECT * FROM wide ORDER BY a;
SELECT x.a FROM (SELECT k AS a, v AS a2 FROM t) x ORDER BY 1 LIMIT 2;
SELECT count(*) FROM (SELECT t.k, o.id AS k FROM t JOIN o ON t.k = o.id) q;
SELECT s > 0 AS some FROM pg_relation_size('pg_class') s;
SELECT max(k) FROM t HAVING count(*) > 1;
SELECT 'x' FROM t HAVING max(k) = 9;
SELECT max(k) + 1, 'y', k IS NULL FROM t GROUP BY k ORDER BY 1 LIMIT 2;
SELECT v FROM t ORDER BY (v, k);
SELECT (v, k) FROM t ORDER BY (v, k) LIMIT 3;
SELECT b FROM dup GROUP BY abs(a), b ORDER BY abs(a), b;
SELECT DISTINCT abs(a) FROM dup ORDER BY abs(a);
UPDATE wide SET (b, c) = (1, 'one') WHERE a = 1;
UPDATE wide SET (b, c) = (SELECT max(k), 'most' FROM t) WHERE a = 2;
SELECT * FROM wide ORDER BY a;

-- Constants of every kind, read once and printed for all.
SET datestyle = 'SQL, DMY';
SELECT k, date '02/03/2020', timestamp '02/03/2020 10:00', interval '1 day 2 hours' FROM t ORDER BY k LIMIT 2;
SELECT max(k), min(date '02/03/2020' + k) FROM t;
SET intervalstyle = 'sql_standard';
SELECT max(interval '-1 2:03:04' * k) FROM t;
RESET intervalstyle;
RESET datestyle;
SET timezone = 'Asia/Tokyo';
SELECT max(timestamptz '2020-01-01 00:00' + k * interval '1 hour') FROM t;
RESET timezone;
SELECT sum(k + 0.1), sum(k * 1e-3::numeric), max(k::float8 / 3) FROM t;
SELECT string_agg(E'a\\b''c' || k, '\' ORDER BY k) FROM t WHERE k < 3;
SELECT max('{1,NULL,3}'::int[]), max(ARRAY[k, v]), max(B'101'), max('\x0a0b'::bytea::text), max('$1.50'::money) FROM t;
SELECT max(c COLLATE "C"), min(c COLLATE "POSIX") FROM o;
SELECT c FROM o ORDER BY c COLLATE "C" DESC LIMIT 2;
SELECT CASE WHEN k > 3 THEN 'big' ELSE 'small' END AS size, count(*) FROM t GROUP BY 1 ORDER BY 1;
SELECT CASE k WHEN 1 THEN 'one' WHEN 2 THEN 'two' END FROM t ORDER BY k LIMIT 3;
-- params: 3
SELECT CASE WHEN k > $1 THEN 1 ELSE 0 END AS c, count(*) FROM t GROUP BY CASE WHEN k > $1 THEN 1 ELSE 0 END ORDER BY 1;
-- params: x | 2
SELECT $1 || k FROM t WHERE v = $2 ORDER BY 1;
