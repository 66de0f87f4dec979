-- What is too long for a type is an error where PostgreSQL assigns, and is cut where it casts: domains of arguments, elements of arrays.
CREATE TABLE t (id int PRIMARY KEY, v text) /*dist: hash(id) | replication | modulo(id)*/;
INSERT INTO t VALUES (1, 'abc'), (2, 'abcd'), (3, 'ab   ');
CREATE DOMAIN vc AS varchar(3);
CREATE DOMAIN vcc AS vc CHECK (VALUE <> 'no');
CREATE DOMAIN b3 AS bit(3);
CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE TABLE stored (id int, a vc, l varchar(3)[], p pos, c char(2)[]) /*dist: hash(id) | roundrobin | replication*/;
CREATE FUNCTION d(a vc) RETURNS text LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM t WHERE v = a; RETURN a || n; END $$;
CREATE FUNCTION dd(a vcc DEFAULT 'long') RETURNS text LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM t WHERE v = a; RETURN a || n; END $$;
CREATE FUNCTION ds(a vc) RETURNS text LANGUAGE sql STABLE AS $$ SELECT a || count(*) FROM t WHERE v = a $$;
CREATE FUNCTION db(a b3) RETURNS text LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM t; RETURN a::text || n; END $$;
CREATE FUNCTION dp(a pos) RETURNS text LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM t; RETURN a || '.' || n; END $$;
CREATE PROCEDURE put(a vc) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO stored (id, a) SELECT max(id), a FROM t; END $$;
SELECT ds('abc');
SELECT d('abc'), dd('abc'), db('101'), dp(5);
SELECT d('abcd');
SELECT d('abcd'::vc);
SELECT ds('abcde'::vc);
SELECT id, d(v::vc) FROM t ORDER BY id;
CREATE VIEW cut AS SELECT d('abcd'::vc) AS a;
SELECT * FROM cut;
SELECT ds('abcd');
SELECT d('abcd'::text);
SELECT d('ab   ');
SELECT dd();
SELECT dd('no');
SELECT db('10101');
SELECT dp(0);
SELECT id, d(v) FROM t ORDER BY id;
SELECT id, d(v) FROM t WHERE id <> 2 ORDER BY id;
SELECT * FROM d('abcd');
CALL put('abcd');
CALL put('abc');
DO $$ BEGIN PERFORM d('abcd'); END $$;
DO $$ DECLARE q varchar(3)[]; BEGIN SELECT array_agg(v ORDER BY id) INTO q FROM t WHERE id = 2; INSERT INTO stored (id, l) VALUES (1, q); END $$;
DO $$ DECLARE q varchar(3)[]; BEGIN SELECT array_agg(v ORDER BY id) INTO q FROM t WHERE id <> 2; INSERT INTO stored (id, l) VALUES (2, q); END $$;
DO $$ DECLARE q char(2)[]; x text := 'abc'; BEGIN PERFORM count(*) FROM t; q := ARRAY[x]; RAISE NOTICE '%', q; END $$;
DO $$ DECLARE q char(2)[]; BEGIN PERFORM count(*) FROM t; q := ARRAY[['a', 'b'], ['c ', 'd   ']]; RAISE NOTICE '% %', q, array_dims(q); q := NULL; RAISE NOTICE '%', q; q := '{}'; RAISE NOTICE '%', q; END $$;
DO $$ DECLARE r stored; BEGIN SELECT id, v, ARRAY[v] INTO r.id, r.a, r.l FROM t WHERE id = 2; END $$;
DO $$ DECLARE r stored; BEGIN SELECT id, v, ARRAY[v] INTO r.id, r.a, r.l FROM t WHERE id = 1; INSERT INTO stored VALUES (r.*); END $$;
SELECT * FROM stored ORDER BY id, a;

-- Columns of domains in RETURN QUERY.
INSERT INTO stored (id, p, a) VALUES (10, 5, 'x'), (11, 7, NULL);
CREATE FUNCTION rows_of() RETURNS SETOF stored LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT * FROM stored WHERE id > 9 ORDER BY id; PERFORM count(*) FROM t; END $$;
CREATE FUNCTION table_of() RETURNS TABLE (i int, q pos, r vc) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT id, p, a FROM stored WHERE id > 9 ORDER BY id; RETURN QUERY EXECUTE 'SELECT id, p, a FROM stored WHERE id = 11'; PERFORM count(*) FROM t; END $$;
CREATE FUNCTION set_of() RETURNS SETOF pos LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT p FROM stored WHERE id > 9 ORDER BY id; PERFORM count(*) FROM t; END $$;
SELECT * FROM rows_of();
SELECT * FROM table_of();
SELECT set_of();
SELECT i, q + 1 FROM table_of() ORDER BY 1, 2;

-- Several functions in FROM, of composite and array columns.
CREATE FUNCTION g1(x int, OUT b int, OUT d t) LANGUAGE plpgsql AS $$ BEGIN b := x; SELECT * INTO d FROM t WHERE id = x; END $$;
SELECT * FROM g1(2);
-- refused: mixed | v1 | v3
SELECT * FROM ROWS FROM (g1(2), generate_series(1, 2)) AS z (a, b, c);
SELECT k.* FROM (SELECT id, row_number() OVER "select" AS n, rank() OVER "W w" AS r FROM t WINDOW "select" AS (ORDER BY id), "W w" AS ("select")) k ORDER BY 1;
SELECT row_number() OVER "W", row_number() OVER w FROM t WINDOW "W" AS (PARTITION BY v ORDER BY id), w AS (ORDER BY id DESC) ORDER BY 2;
