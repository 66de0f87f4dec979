-- Names that our own texts use stand for PostgreSQL's own, whatever the session has under them.
CREATE TABLE r (id int PRIMARY KEY, v int) /*dist: replication*/;
INSERT INTO r VALUES (1, 1), (2, 2);
CREATE TABLE h (id int PRIMARY KEY, v int) /*dist: hash(id)*/;
CREATE TEMP TABLE pg_class AS SELECT oid, relname, relnamespace FROM pg_catalog.pg_class LIMIT 0;
CREATE TEMP TABLE pg_proc AS SELECT * FROM pg_catalog.pg_proc LIMIT 0;
CREATE TEMP TABLE pg_depend (dummy int);
CREATE FUNCTION writes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO h VALUES (new.a, 1); DELETE FROM r; RETURN new; END $$;
CREATE TEMP TABLE s (a int);
CREATE TRIGGER t BEFORE INSERT ON s FOR EACH ROW EXECUTE FUNCTION writes();
-- refused
INSERT INTO s SELECT i FROM generate_series(1, 9) i;
SELECT count(*), count(DISTINCT id) FROM h;
SELECT count(*) FROM r;
DROP TABLE pg_temp.pg_class, pg_temp.pg_proc, pg_temp.pg_depend, s;
CREATE SCHEMA e3;
CREATE FUNCTION e3.eq(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called'; END $$;
CREATE OPERATOR e3.= (FUNCTION = e3.eq, LEFTARG = int, RIGHTARG = int);
CREATE TABLE oa (id int PRIMARY KEY, v int) /*dist: hash(id) | replication*/;
CREATE TABLE oc (id int, v int) /*dist: roundrobin | hash(v)*/;
INSERT INTO oa SELECT i, i FROM generate_series(1, 9) i;
INSERT INTO oc SELECT * FROM oa;
SET search_path = e3, pg_catalog, public;
UPDATE oa SET v = oc.v + 1 FROM oc WHERE oc.id OPERATOR(pg_catalog.=) oa.v;
DELETE FROM oa USING oc WHERE oc.id OPERATOR(pg_catalog.=) oa.v AND oc.v > 7;
UPDATE oa SET id = id + 100 WHERE v < 4;
RESET search_path;
SELECT * FROM oa ORDER BY id;
