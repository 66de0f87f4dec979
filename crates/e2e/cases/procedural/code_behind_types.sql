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
-- refused
SELECT r7(no) FROM src;
SELECT r7(no, true) FROM src ORDER BY 1;
-- refused
SELECT r8(no) FROM src;
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
