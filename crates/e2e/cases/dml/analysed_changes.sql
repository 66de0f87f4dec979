-- Changes, copies and objects made of queries whose names, types and functions only PostgreSQL's analysis reads rightly.
CREATE TABLE t (k int, v int) /*dist: hash(k) | modulo(v) | replication | roundrobin*/;
CREATE TABLE dst (a numeric(6,1), b varchar(3), c timestamp(0), n int DEFAULT 7) /*dist: hash(a) | hash(b) | roundrobin | replication*/;
CREATE TABLE keyed (id varchar(4) PRIMARY KEY, v int) /*dist: hash(id) | hash(id) | replication | hash(id)*/;
CREATE SCHEMA lib;
INSERT INTO t SELECT g, g % 4 FROM generate_series(1, 9) g;
CREATE FUNCTION lib.max(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT greatest($1, $2)';
CREATE FUNCTION lib.count(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE lib.longest(text) (SFUNC = textcat, STYPE = text);
CREATE FUNCTION lib.plus(int, text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + length($2)';
CREATE OPERATOR lib.+ (LEFTARG = int, RIGHTARG = text, FUNCTION = lib.plus);

-- Values take the length of the column before their place is chosen.
INSERT INTO dst SELECT k + 0.04, 'ab' || k, timestamp '2024-01-01 10:00:00' + k * interval '0.6 s' FROM t;
INSERT INTO dst (a, b) SELECT 1.049999::float8, 'x  ' FROM t WHERE k = 1;
INSERT INTO dst SELECT sum(v) / 3.0, max(k)::text, min(timestamp '2024-05-05 00:00:00.5') FROM t GROUP BY v % 2;
SELECT * FROM dst ORDER BY a, b, c, n;
SELECT count(*) FROM dst WHERE a = 1.0;
SELECT count(*) FROM dst WHERE b = 'ab3';
SELECT count(*) FROM dst WHERE c = '2024-01-01 10:00:02';
INSERT INTO dst SELECT k, 'too long ' || k FROM t WHERE k = 2;
UPDATE dst SET a = a * 1.26, b = left(b || 'z', 3) WHERE n = 7 AND a < 5;
SELECT a, b FROM dst ORDER BY a, b;
SELECT a FROM dst d WHERE EXISTS (SELECT 1 FROM dst e WHERE e.a = d.a AND e.b < d.b) ORDER BY a;
INSERT INTO keyed SELECT 'k' || k, v FROM t ON CONFLICT (id) DO NOTHING;
INSERT INTO keyed SELECT 'k' || (k + 3), lib.max(v, 2) FROM t ON CONFLICT (id) DO UPDATE SET v = lib.max(keyed.v, EXCLUDED.v) + 10;
SELECT * FROM keyed ORDER BY id;
INSERT INTO keyed VALUES ('k1  ', 5), ('k77', lib.count(3)), ('k78', DEFAULT) ON CONFLICT DO NOTHING;
INSERT INTO keyed SELECT 'k9', 1;
SELECT * FROM keyed ORDER BY id;

-- A schema's own functions in changes.
UPDATE t SET v = lib.max(v, 2) WHERE k = lib.count(k) AND k > (SELECT max(v) FROM t);
UPDATE t SET v = x.m FROM (SELECT v % 2 AS p, max(k) AS m, count(*) AS n FROM t GROUP BY 1) x WHERE x.p = t.k % 2 AND t.k > 7;
DELETE FROM t WHERE v = (SELECT max(v) FROM t) AND k OPERATOR(lib.+) 'ab' = 11;
SELECT * FROM t ORDER BY k;
BEGIN;
SET LOCAL search_path = lib, public;
SELECT longest(v::text) IS NOT NULL, max(v, 3) FROM (SELECT 1 AS v) x GROUP BY v;
COMMIT;
SELECT lib.longest(x.w ORDER BY x.w) FROM (SELECT DISTINCT 'w' || v AS w FROM t) x;
SELECT v % 2, lib.longest(k::text ORDER BY k) FROM t GROUP BY 1 ORDER BY 1;

-- Queries in other statements.
CREATE MATERIALIZED VIEW m AS SELECT v, max(k), count(*) AS n, lib.max(v, 3) AS most FROM t GROUP BY v;
SELECT * FROM m ORDER BY v;
INSERT INTO t VALUES (50, 1);
REFRESH MATERIALIZED VIEW m;
SELECT * FROM m ORDER BY v;
CREATE VIEW w AS SELECT lib.max(k, v) AS biggest, t.* FROM t WHERE v < (SELECT max(v) FROM t);
SELECT * FROM w ORDER BY k;
SELECT max(biggest), lib.count(count(*)::int) FROM w;
CREATE TABLE made AS SELECT v AS k, max(k) AS v, avg(k)::numeric(5,2) FROM t GROUP BY v;
SELECT * FROM made ORDER BY k;
COPY (SELECT v, max(k), lib.max(v, 9) FROM t GROUP BY v ORDER BY v) TO STDOUT;
BEGIN;
DECLARE c CURSOR FOR SELECT v, max(k), count(*) FROM t GROUP BY v ORDER BY v;
FETCH 2 FROM c;
FETCH ALL FROM c;
COMMIT;
PREPARE p(int, text) AS SELECT v, max(k), lib.max(v, $1) FROM t WHERE v::text <> $2 GROUP BY v ORDER BY v;
EXECUTE p(2, '0');
EXECUTE p(0, 'x');
DEALLOCATE p;
INSERT INTO made SELECT * FROM generate_series(100, 102);
INSERT INTO made (v, k) SELECT * FROM (VALUES (1, 2), (3, 4)) x;
SELECT * FROM made ORDER BY k, v;

-- Several kinds of join and set operation, with constants that change from one to the next.
SELECT t.k, m.n FROM t LEFT JOIN m ON m.v = t.v AND m.n > 1 ORDER BY 1 LIMIT 3;
SELECT t.k, m.n FROM t LEFT JOIN m ON m.v = t.v AND m.n > 2 ORDER BY 1 LIMIT 4;
SELECT t.k, m.n FROM t LEFT JOIN m ON m.v = t.v AND m.n > -1 ORDER BY 2, 1 LIMIT 4;
SELECT v FROM t EXCEPT SELECT 1 ORDER BY 1;
SELECT v FROM t EXCEPT SELECT 2 ORDER BY 1;
SELECT v, 'a' AS c FROM t WHERE k < 3 UNION SELECT n, 'b' FROM m WHERE n < 3 ORDER BY 1, 2;
SELECT v, 'c' AS c FROM t WHERE k < 4 UNION SELECT n, 'd' FROM m WHERE n < 9 ORDER BY 1, 2;
SELECT v + 1, count(*) FROM t GROUP BY v + 1 HAVING count(*) > 1 ORDER BY v + 1;
SELECT v + 2, count(*) FROM t GROUP BY v + 2 HAVING count(*) > 0 ORDER BY v + 2;
SELECT v + 2, count(*) FROM t GROUP BY v + 3 HAVING count(*) > 0;
SELECT sum(v) FROM t WHERE k IN (1, 2, 3);
SELECT sum(v) FROM t WHERE k IN (2, 2, 50);
SELECT count(*) FROM dst WHERE c > '2024-01-01 10:00:01' AND b LIKE 'ab%';
SELECT count(*) FROM dst WHERE c > '2024-01-01 10:00:03' AND b LIKE '%z';
SELECT count(*) FROM dst WHERE a > 2.5 AND b >= 'a';
SELECT count(*) FROM dst WHERE a > 12 AND b >= 'b';
SELECT max(v) OVER (PARTITION BY k % 2), k FROM t ORDER BY k LIMIT 1;
SELECT max(v) OVER (PARTITION BY k % 3), k FROM t ORDER BY k LIMIT 2;

-- MERGE, and what it does not reach.
CREATE TABLE src (k int, v int) /*dist: hash(k) | hash(k) | replication | hash(k)*/;
INSERT INTO src VALUES (1, 10), (2, 20), (90, 0);
CREATE TABLE tgt (k int PRIMARY KEY, v int) /*dist: hash(k) | hash(k) | replication | hash(k)*/;
INSERT INTO tgt SELECT k, v FROM t WHERE k < 5;
MERGE INTO tgt USING src ON tgt.k = src.k WHEN MATCHED AND src.v > 10 THEN UPDATE SET v = lib.max(src.v, 15) WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (src.k, src.v + 1);
SELECT * FROM tgt ORDER BY k;
