-- Functions of users that bodies call without a word of it: behind domains, rows of such, casts and defaults of parameters.
CREATE TABLE src (no int) /*dist: hash(no) | roundrobin*/;
CREATE TABLE h (id int, t text) /*dist: hash(id)*/;
INSERT INTO src VALUES (1), (2), (3);
CREATE FUNCTION own(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN INSERT INTO h VALUES (i, 'own'); RETURN true; END $$;
CREATE DOMAIN e AS int CHECK (own(VALUE));
CREATE TYPE ce AS (a e);
CREATE FUNCTION r1(i int) RETURNS e LANGUAGE plpgsql AS $$ BEGIN RETURN i; END $$;
CREATE FUNCTION r2(i int) RETURNS e LANGUAGE sql AS $$ SELECT i $$;
CREATE FUNCTION r3(i int) RETURNS TABLE (o e) LANGUAGE plpgsql AS $$ BEGIN o := i; RETURN NEXT; END $$;
CREATE FUNCTION r4(i int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE v e; BEGIN v := i; RETURN i; END $$;
CREATE FUNCTION r5(i int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE v ce; BEGIN v.a := i; RETURN i; END $$;
CREATE FUNCTION r6(i int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN to_json(i::e); END $$;
CREATE FUNCTION r7(i int, j bool DEFAULT own(77)) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN i; END $$;
CREATE FUNCTION r8(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN r7(i); END $$;
CREATE VIEW v AS SELECT no::e::int AS x FROM src;
-- refused
SELECT r1(no) FROM src;
-- refused
SELECT r2(no) FROM src;
-- refused
SELECT r3(no) FROM src;
-- refused
SELECT r4(no) FROM src;
-- refused
SELECT r5(no) FROM src;
-- refused
SELECT r6(no) FROM src;
-- refused
SELECT r4(12);
-- refused
SELECT x FROM v;
-- refused
SELECT no, json_populate_record(NULL::ce, '{"a": 5}') FROM src;
SELECT count(*) FROM h WHERE t = 'own';
SELECT r7(no) FROM src ORDER BY 1;
SELECT r7(no, true) FROM src ORDER BY 1;
SELECT r8(no) FROM src ORDER BY 1;
SELECT count(*) FROM h WHERE t = 'own';

-- What is given to a domain is judged, whether the body looks at it or not, and so is what comes back.
CREATE TABLE t (k int PRIMARY KEY) /*dist: hash(k)*/;
INSERT INTO t SELECT generate_series(1, 5);
CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE FUNCTION unused(i pos) RETURNS int LANGUAGE plpgsql AS $$ DECLARE c int; BEGIN SELECT count(*) INTO c FROM t; RETURN c; END $$;
CREATE FUNCTION negative() RETURNS pos LANGUAGE plpgsql AS $$ DECLARE c int; BEGIN SELECT count(*) INTO c FROM t; RETURN -c; END $$;
SELECT unused(1);
SELECT unused(-1);
SELECT unused(-no) FROM src;
SELECT negative();

-- An operator of a schema that is in nobody's search path, of whatever it calls.
CREATE SCHEMA elsewhere;
CREATE TYPE elsewhere.ct AS (a int);
CREATE FUNCTION elsewhere.w(elsewhere.ct, elsewhere.ct) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN INSERT INTO h VALUES (0, 'w'); RETURN true; END $$;
CREATE OPERATOR elsewhere.= (LEFTARG = elsewhere.ct, RIGHTARG = elsewhere.ct, FUNCTION = elsewhere.w);
CREATE FUNCTION elsewhere.lower(elsewhere.ct) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO h VALUES (0, 'lower'); RETURN ''; END $$;
CREATE FUNCTION plain(i int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN IF i = 1 THEN RETURN lower('ONE'); END IF; RETURN lower('MORE'); END $$;
SELECT 1 = 2;
SELECT no FROM src WHERE no = 2;
SELECT a.no FROM src a JOIN src b ON a.no = b.no ORDER BY 1;
SELECT no FROM src WHERE no IN (1, 3) ORDER BY 1;
UPDATE h SET t = 'y' WHERE id = 1;
SELECT no, plain(no) FROM src ORDER BY 1;
DROP OPERATOR elsewhere.= (elsewhere.ct, elsewhere.ct);
DROP FUNCTION elsewhere.lower(elsewhere.ct);

-- A cast of what a table's column holds, and one of whatever comes.
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE FUNCTION told(mood) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
CREATE CAST (mood AS text) WITH FUNCTION told(mood);
CREATE TABLE moods (k int, m mood) /*dist: replication*/;
INSERT INTO moods VALUES (1, 'ok');
CREATE FUNCTION cast_of_column(int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN SELECT m::text INTO r FROM moods; RETURN r; END $$;
CREATE FUNCTION cast_of_any(anyelement) RETURNS text LANGUAGE sql AS $$ SELECT $1::text $$;
-- refused
SELECT no, cast_of_column(no) FROM src ORDER BY 1;
-- refused
SELECT no, cast_of_any(m) FROM src, moods ORDER BY 1;
DROP CAST (mood AS text);

-- Sets: apart if each is all of its output column and nothing else is a set.
CREATE SEQUENCE calls;
CREATE FUNCTION f(i int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO h VALUES (i, 'f'); RETURN QUERY SELECT nextval('calls'); END $$;
SELECT f(1), f(1);
SELECT f(1) + 1, f(1) + 2;
-- refused
SELECT f(1), f(1), f(1) + 1;
-- refused
SELECT f(1), f(1), generate_series(1, 2) + 1;
-- refused
SELECT f(1), f(1) ORDER BY 1;

-- An operator = that nobody writes.
CREATE TYPE colour AS ENUM ('red', 'blue');
CREATE FUNCTION alike(colour, colour) RETURNS bool LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT count(*) FROM t) = 5; END $$;
CREATE OPERATOR = (LEFTARG = colour, RIGHTARG = colour, FUNCTION = alike);
CREATE TABLE coloured (k int, c colour) /*dist: hash(k)*/;
INSERT INTO coloured VALUES (1, 'red'), (2, 'blue');
CREATE FUNCTION case_of(colour) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN CASE $1 WHEN 'red' THEN 1 ELSE 2 END; END $$;
-- refused
SELECT count(*) FROM coloured WHERE CASE c WHEN 'red'::colour THEN true END;
-- refused
SELECT count(*) FROM coloured WHERE NULLIF(c, 'red'::colour) IS NULL;
-- refused
SELECT count(*) FROM coloured WHERE c IS NOT DISTINCT FROM 'red'::colour;
-- refused
SELECT count(*) FROM coloured a JOIN coloured b USING (c);
SELECT count(*) FROM coloured WHERE CASE k WHEN 1 THEN true END;
DROP OPERATOR = (colour, colour);
