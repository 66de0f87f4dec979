-- What a function is, PostgreSQL's catalog says: whose it is, whether it is an aggregate, what it depends on.
CREATE TABLE t (k int, v int, f float8, d date, ts timestamptz, x text, b bytea)
  /*dist: hash(k) | roundrobin | replication | modulo(v)*/;
INSERT INTO t SELECT i, i * 10, i * 0.25, date '2020-01-01' + i, '2020-01-01 00:00+0'::timestamptz + i * interval '1 day',
  'x' || i, convert_to('x' || i, 'UTF8') FROM generate_series(1, 90) i;

-- Views bring functions into a statement that does not name them.
CREATE SCHEMA kf_util;
CREATE FUNCTION kf_util.step(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT greatest($1, $2)';
CREATE AGGREGATE kf_util.highest(int) (SFUNC = kf_util.step, STYPE = int);
CREATE FUNCTION kf_util.twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE FUNCTION kf_util.twice(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1 || $1';
CREATE VIEW kf_highest AS SELECT kf_util.highest(v) AS m FROM t;
CREATE VIEW kf_filtered AS SELECT kf_util.highest(k) FILTER (WHERE v > 10) AS m, count(*) AS n FROM t;
CREATE VIEW kf_nested AS SELECT m + 1 AS m FROM kf_highest;
CREATE VIEW kf_twice AS SELECT k, kf_util.twice(v) AS w FROM t;
SELECT * FROM kf_highest;
SELECT m + 1 FROM kf_highest, generate_series(1, 2);
SELECT * FROM kf_filtered;
SELECT * FROM kf_nested;
SELECT a.m, b.m FROM kf_filtered a, kf_nested b;
SELECT kf_util.highest(k), (SELECT m FROM kf_highest) FROM t;
SELECT sum(w) FROM kf_twice;
SELECT kf_util.twice(k), w FROM kf_twice WHERE k < 4 ORDER BY k;
CREATE TABLE kf_made (m int) /*dist: hash(m) | replication | roundrobin | replication*/;
INSERT INTO kf_made SELECT m FROM kf_highest;
SELECT * FROM kf_made;

-- Overloads of one name: of floating point, of exact numbers, of intervals and money.
SELECT sum(v), sum(k), avg(v), count(v), min(d), max(ts), bool_and(k > 0), bit_or(k), bit_and(v), regr_count(k, v) FROM t;
SELECT sum((k || ' days')::interval), avg((k || ' days')::interval), sum(v::money) FROM t;
SELECT sum(f), avg(f), max(f), sum(length(x)), sum(length(lseg(point(0, 0), point(k, 0)))) FROM t;
SELECT k % 3, sum(v), avg(v::numeric), sum(round(v / 4.0, 1)), sum(abs(k)), max(mod(k, 7)) FROM t GROUP BY 1 ORDER BY 1;
SELECT v % 4, any_one FROM (SELECT v, min(x) OVER (PARTITION BY v % 4) AS any_one FROM t) s WHERE v < 50 ORDER BY v;
SELECT sum(length(x)) OVER (ORDER BY k) FROM t WHERE k < 4 ORDER BY k;
SELECT array_to_string(array_agg(k ORDER BY k), ',') FROM t WHERE k < 5;

-- What reads settings may run on every node, what reads a catalog or a session may not.
UPDATE t SET x = to_char(k, '999') WHERE k < 10;
UPDATE t SET x = to_char(ts, 'YYYY-MM') || convert_from(b, 'UTF8') WHERE k >= 10;
UPDATE t SET d = d + date_part('day', age(ts, '2019-01-01+0'))::int;
UPDATE t SET x = quote_literal(x) || format('%s', k) || concat(k, x) WHERE k % 2 = 0;
UPDATE t SET x = (json_build_object('a', k))::text WHERE k = 2;
UPDATE t SET x = timezone('UTC', ts)::text WHERE k = 3;
SELECT min(d), max(d), max(x), min(x) FROM t;
SELECT count(*) FROM t WHERE age(ts) > interval '1 day' AND pg_typeof(k) = 'integer'::regtype;
SELECT k, to_tsvector('simple', x) FROM t WHERE k IN (4, 50) ORDER BY 1;
SELECT to_number(x, '9999') FROM t WHERE k = 5;
SELECT k FROM t WHERE has_table_privilege('pg_class', 'select') AND k < 4 ORDER BY k;
SELECT pg_sleep_for('1 ms') FROM t WHERE k < 3;
SELECT obj_description('pg_class'::regclass), count(*) FROM t;
SELECT count(*) FROM (SELECT DISTINCT pg_postmaster_start_time(), version() FROM t) s;
SELECT count(DISTINCT n) FROM (SELECT current_setting('port') || current_setting('Data_Directory') AS n FROM t) s;
SELECT count(DISTINCT U&"n\006fw"()) FROM t;
SELECT count(*) FROM (SELECT DISTINCT U&"n\006fw"() FROM t) s;
SELECT ts_rewrite('a & b'::tsquery, 'a'::tsquery, 'c'::tsquery) FROM t WHERE k = 1;
-- refused
SELECT ts_rewrite('a & b'::tsquery, 'SELECT ''a''::tsquery, ''c''::tsquery');
-- refused
SELECT query_to_xml('select 1', true, true, '') IS NOT NULL;

-- A function that reads the clock, or a view, does so once for all rows.
CREATE VIEW kf_now AS SELECT k, now() AS n, current_timestamp AS c FROM t;
CREATE VIEW kf_now_above AS SELECT n, count(*) AS rows FROM kf_now GROUP BY n;
CREATE FUNCTION kf_util.moment() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT now()';
CREATE FUNCTION kf_util.moment_too() RETURNS timestamptz LANGUAGE plpgsql STABLE AS 'BEGIN RETURN current_timestamp; END';
SELECT count(DISTINCT n), count(DISTINCT c), min(n) = max(c) FROM kf_now;
SELECT count(*) FROM kf_now_above;
SELECT count(*) FROM (SELECT n FROM kf_now GROUP BY n) s;
SELECT count(DISTINCT n) FROM (SELECT kf_util.moment() AS n FROM t) s;
SELECT min(kf_util.moment()) = max(kf_util.moment()), min(kf_util.moment_too()) = max(kf_util.moment_too()) FROM t;
SELECT count(*) FROM (SELECT kf_util.moment_too(), count(*) FROM t GROUP BY 1) s;
SELECT min(statement_timestamp()) = max(statement_timestamp()) FROM t;
BEGIN;
SELECT count(DISTINCT n), min(n) = now() FROM kf_now;
CREATE TEMP VIEW kf_mine AS SELECT now() AS n FROM t;
SELECT count(DISTINCT n), min(n) = now() FROM kf_mine;
COMMIT;

-- A collation of the user's may be called as one of PostgreSQL's, and a schema as a setting of the transaction.
CREATE COLLATION kf_util."C" (provider = icu, locale = 'en-US');
CREATE TABLE kf_words (w text) /*dist: hash(w) | roundrobin | replication | roundrobin*/;
INSERT INTO kf_words VALUES ('B'), ('a'), ('C'), ('b'), ('A'), ('c');
-- ordered
SELECT w FROM kf_words ORDER BY w COLLATE kf_util."C";
-- ordered
SELECT w FROM kf_words ORDER BY w COLLATE "C";
CREATE SCHEMA transaction_kf;
CREATE TABLE transaction_kf.t (k int) /*dist: hash(k) | roundrobin | replication | roundrobin*/;
INSERT INTO transaction_kf.t VALUES (1);
BEGIN;
SET LOCAL search_path = transaction_kf;
SELECT count(*) FROM t;
SELECT k + 0, count(*) FROM t GROUP BY k + 0;
UPDATE t SET k = k + 1 WHERE k > 0;
SELECT max(k), sum(k) FROM t;
COMMIT;
DROP SCHEMA transaction_kf CASCADE;
DROP SCHEMA kf_util CASCADE;
