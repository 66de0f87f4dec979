-- What stands in a function's body means what it means to PostgreSQL there, whatever stands round the call.
CREATE TABLE t (k int, v int) /*dist: hash(k) | modulo(v) | replication | roundrobin*/;
INSERT INTO t SELECT g, g % 4 FROM generate_series(1, 9) g;
CREATE SCHEMA util;
CREATE TABLE util.t (k int, v int, w text) /*dist: hash(k) | roundrobin | hash(v) | replication*/;
INSERT INTO util.t SELECT g, g, 'w' || g FROM generate_series(1, 4) g;

-- Functions of other schemas that are called as PostgreSQL's own.
CREATE FUNCTION util.max(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT greatest($1, $2)';
CREATE FUNCTION util.count(text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT length($1)';
CREATE FUNCTION util.upper(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'not ' || $1 $$;
CREATE FUNCTION top() RETURNS int LANGUAGE sql STABLE AS 'SELECT max(v) FROM t';
CREATE FUNCTION rows_of() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
CREATE FUNCTION rows_with(a int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(v) FROM t WHERE k > a AND util.max(k, a) = k';
SELECT top(), rows_of(), rows_with(4);
SELECT k FROM t WHERE v = top() ORDER BY k;
SELECT v, rows_with(v) FROM t GROUP BY v ORDER BY v;

-- Every way to name a parameter, and columns that are called like one.
CREATE FUNCTION by_number(int, int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t WHERE k BETWEEN $1 AND $2';
CREATE FUNCTION by_name(low int, high int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t WHERE k BETWEEN low AND by_name.high';
CREATE FUNCTION by_both(low int, int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t WHERE k > low AND k < $2 AND k > $1';
CREATE FUNCTION hidden(v int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t WHERE v = 1 AND hidden.v = 1';
CREATE FUNCTION aliased(v int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t aliased WHERE aliased.v = 1';
SELECT by_number(2, 5), by_name(2, 5), by_both(2, 5), hidden(1), hidden(2), aliased(7);
SELECT k, by_name(low => v, high => k), by_both(v, k) FROM t WHERE k < 4 ORDER BY k;
CREATE FUNCTION in_pl(v int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM t WHERE t.v = in_pl.v); END';
CREATE FUNCTION unclear(v int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM t WHERE k = v); END';
SELECT in_pl(1), in_pl(9);
SELECT unclear(1);

-- Stars, joins, WITH, DISTINCT ON and ORDER BY in a body.
CREATE FUNCTION all_of(a int) RETURNS SETOF t LANGUAGE sql STABLE AS 'SELECT * FROM t WHERE v = a';
CREATE FUNCTION pairs() RETURNS TABLE (k int, w text) LANGUAGE sql STABLE AS 'SELECT t.k, u.w FROM t JOIN util.t u USING (k)';
CREATE FUNCTION firsts() RETURNS TABLE (k int, v int) LANGUAGE sql STABLE AS 'SELECT DISTINCT ON (v) * FROM t ORDER BY v, k DESC';
CREATE FUNCTION public_t() RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT k FROM t';
CREATE FUNCTION deep(a int) RETURNS bigint LANGUAGE sql STABLE AS
  'WITH t AS (SELECT k FROM public_t() AS k), x AS (SELECT k FROM t WHERE k > a) SELECT count(*) FROM x';
SELECT * FROM all_of(1) ORDER BY k;
SELECT a.k, b.w FROM all_of(2) a LEFT JOIN pairs() b ON b.k = a.k ORDER BY 1;
SELECT * FROM firsts() ORDER BY 2;
SELECT deep(4);
WITH t AS (SELECT 100 AS k, 1 AS v), x AS (SELECT 5 AS k) SELECT x.k, rows_of(), top(), by_number(1, t.k) FROM t, x;
SELECT count(*) FROM all_of(1) a, all_of(2) b;

-- The caller's search path decides, unless the function has its own.
CREATE FUNCTION util.here() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
CREATE FUNCTION util.loud(text) RETURNS text LANGUAGE sql STABLE AS 'SELECT upper($1) || count(*)::text FROM t';
SELECT util.here(), util.loud('a');
BEGIN;
SET LOCAL search_path = util, public, pg_catalog;
SELECT util.here(), util.loud('a'), loud('b');
SELECT k, here() FROM t ORDER BY k LIMIT 2;
COMMIT;
SELECT util.here(), util.loud('a');

-- Arguments and results take the types that are declared.
CREATE FUNCTION typed(a numeric(5,1), b varchar(2), c timestamp(0)) RETURNS text LANGUAGE sql STABLE AS
  'SELECT a || b || c || count(*)::text FROM t';
SELECT typed(1.26, 'long', '2024-01-01 10:00:00.6');
SELECT typed(k + 0.26, 'long' || k, '2024-01-01 10:00:00.6') FROM t WHERE k = 3;
CREATE FUNCTION as_text() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'x'::char(3) FROM t WHERE k = 1 $$;
SELECT as_text() || '|';
CREATE FUNCTION with_default(a int DEFAULT 2, b int DEFAULT util.max(1, 3)) RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT count(*) FROM t WHERE k IN (a, b)';
SELECT with_default(), with_default(3), with_default(b => 9);
CREATE FUNCTION atomic(a int) RETURNS bigint LANGUAGE sql STABLE BEGIN ATOMIC SELECT count(*) FROM t WHERE v = a; END;
CREATE FUNCTION returned(a int) RETURNS bigint LANGUAGE sql STABLE RETURN (SELECT count(*) FROM t WHERE v = a) + 1;
SELECT atomic(1), returned(1), atomic(v), returned(v) FROM t WHERE k = 2;

-- Changes of rows that call them.
CREATE TABLE notes (id int, n bigint) /*dist: hash(id) | replication | roundrobin | hash(n)*/;
INSERT INTO notes SELECT k, rows_with(k) FROM t;
UPDATE notes SET n = n + top() WHERE id > 5 AND n < by_number(1, 100);
DELETE FROM notes WHERE id = top();
SELECT * FROM notes ORDER BY id;
