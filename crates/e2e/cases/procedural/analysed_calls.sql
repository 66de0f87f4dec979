-- Functions, casts and domains that read tables: which one is called, with what, and how often.
CREATE TABLE t (k int, v int) /*dist: hash(k) | modulo(v) | replication | roundrobin*/;
CREATE TABLE o (id int, x int, c char(4)) /*dist: hash(id) | hash(x) | roundrobin | replication*/;
CREATE TABLE s (n int) /*dist: hash(n) | roundrobin | replication | hash(n)*/;
INSERT INTO t SELECT g, g % 4 FROM generate_series(1, 9) g;
INSERT INTO o SELECT g, g % 3, 'c' || g FROM generate_series(1, 6) g;

-- A parameter has no length, a result neither.
CREATE FUNCTION of_code(wanted char(2)) RETURNS char(3) LANGUAGE sql STABLE AS 'SELECT c FROM o WHERE c = wanted';
SELECT of_code('c3'), length(of_code('c5')), of_code('c33');
SELECT id FROM o WHERE of_code(c) = 'c2';
CREATE FUNCTION rounded(a numeric) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE r numeric(5,1); BEGIN SELECT sum(k) / a INTO r FROM t; RETURN r; END $$;
SELECT rounded(7), rounded(k) FROM t WHERE k < 4 ORDER BY k;
SELECT rounded(7.0);

-- A WITH item of the caller's is not the function's table.
CREATE FUNCTION how_many() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
CREATE FUNCTION least_of(a int) RETURNS int LANGUAGE sql STABLE AS 'SELECT min(k) FROM t WHERE v = a';
WITH t AS (SELECT 1 AS k) SELECT how_many(), count(*) FROM t;
WITH t AS (SELECT g AS k, 0 AS v FROM generate_series(1, 2) g) SELECT how_many(), least_of(v) FROM t;

-- Aggregates and window functions as arguments.
SELECT least_of(min(v)), least_of(max(v)) FROM t;
SELECT v, least_of(max(v)::int) FROM t GROUP BY v ORDER BY v;
SELECT k, least_of((row_number() OVER (ORDER BY k) % 4)::int) FROM t ORDER BY k;

-- Overloads.
CREATE FUNCTION pick(a int) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'int ' || count(*) FROM t WHERE k > a $$;
CREATE FUNCTION pick(a text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'text ' || a $$;
CREATE FUNCTION pick(a numeric) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'numeric ' || sum(n) || a FROM s $$;
INSERT INTO s VALUES (1), (2);
SELECT pick('a'), pick(3), pick(3.5);
SELECT pick('a'::text) FROM t WHERE k = 1;
SELECT pick(id) FROM o ORDER BY id LIMIT 2;

-- Grouped and sorted by what such a function gives.
SELECT least_of(v), count(*) FROM t GROUP BY least_of(v) ORDER BY 1;
SELECT DISTINCT least_of(v) FROM t ORDER BY least_of(v);
SELECT v FROM t WHERE v < 2 GROUP BY v, least_of(v) ORDER BY least_of(v) DESC;

-- Functions that write, beside a sub-select.
CREATE FUNCTION ins(a int) RETURNS int LANGUAGE sql AS 'INSERT INTO s VALUES (a) RETURNING n';
SELECT ins(100);
SELECT count(*), sum(n) FROM s;
SELECT ins(101), (SELECT count(*) FROM t);
SELECT count(*), sum(n) FROM s;
SELECT ins(102), (SELECT count(*) FROM s);
SELECT ins(103) + (SELECT count(*) FROM s);
SELECT (SELECT max(n) FROM s), ins(104), ins(105);
INSERT INTO o SELECT ins(106), (SELECT count(*) FROM s);
INSERT INTO o VALUES (ins(107), (SELECT count(*) FROM s));
SELECT * FROM o WHERE id > 100 ORDER BY id;
DELETE FROM o WHERE id > 100;

-- A search path that comes of another function, or of set_config().
CREATE SCHEMA an_path;
CREATE TABLE an_path.t (k int) /*dist: hash(k) | roundrobin | hash(k) | roundrobin*/;
INSERT INTO an_path.t SELECT generate_series(1, 30);
CREATE FUNCTION an_path.under() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
CREATE FUNCTION over() RETURNS bigint LANGUAGE plpgsql STABLE SET search_path = an_path AS 'BEGIN RETURN under(); END';
CREATE FUNCTION by_config() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('search_path', 'an_path', true); RETURN (SELECT count(*) FROM t); END $$;
SELECT over();
SELECT an_path.under();
SELECT by_config();
SELECT count(*) FROM t;
BEGIN;
SELECT by_config();
SELECT count(*) FROM t;
ROLLBACK;
DROP SCHEMA an_path CASCADE;

-- A WITH item that changes what is read beside it.
-- refused
WITH i AS (SELECT ins(110)) SELECT * FROM i, (SELECT count(*) FROM s) q;
-- refused
SELECT * FROM ins(111), s;
WITH i AS (SELECT ins(112) AS n) SELECT i.n, count(*) FROM i, t GROUP BY 1;
SELECT count(*) FROM s;

-- Arguments of EXECUTE that read tables.
PREPARE of_count(bigint, int) AS SELECT $1, k FROM t WHERE k = $2;
EXECUTE of_count(how_many(), least_of(2));
EXECUTE of_count(how_many() - 1, 3);
DEALLOCATE of_count;

-- Casts and domains.
CREATE TYPE pair AS (a int, b int);
CREATE FUNCTION as_pair(text) RETURNS pair LANGUAGE sql STABLE AS 'SELECT row(min(k), max(k))::pair FROM t WHERE v = length($1)';
CREATE CAST (text AS pair) WITH FUNCTION as_pair(text);
-- refused: mixed | v1 | v2 | v4
SELECT ('xx'::text)::pair;
-- refused: mixed | v1 | v2 | v4
SELECT (c::text)::pair FROM o WHERE id = 1;
CREATE FUNCTION is_known(a int) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT EXISTS (SELECT 1 FROM t WHERE k = a)';
CREATE DOMAIN known_k AS int CHECK (is_known(value));
-- refused: mixed | v1 | v2 | v4
SELECT 3::known_k;
-- refused: mixed | v1 | v2 | v4
SELECT 300::known_k;
-- refused: mixed | v1 | v2 | v4
SELECT id::known_k FROM o ORDER BY id;
-- refused: mixed | v1 | v2 | v4
SELECT (v + 100)::known_k FROM t WHERE k = 1;
