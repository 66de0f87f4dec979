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
-- Views whose WITH items have the name of the view itself, or of a table.
CREATE TABLE people (id int PRIMARY KEY, boss int) /*dist: hash(id) | replication | hash(id)*/;
INSERT INTO people VALUES (1, NULL), (2, 1), (3, 2), (4, 2);
CREATE RECURSIVE VIEW chain (id, lvl) AS SELECT id, 0 FROM people WHERE boss IS NULL
  UNION ALL SELECT s.id, lvl + 1 FROM people s JOIN chain c ON s.boss = c.id;
SELECT * FROM chain ORDER BY id;
SELECT c.id, s.boss FROM chain c JOIN people s ON s.id = c.lvl ORDER BY 1;
CREATE VIEW twice AS WITH twice AS (SELECT id FROM people) SELECT a.id, b.id AS other FROM twice a, twice b;
SELECT * FROM twice ORDER BY 1, 2;
SELECT count(*) FROM twice t JOIN people s USING (id);
CREATE VIEW over_both AS SELECT c.lvl, t.other FROM chain c JOIN twice t ON t.id = c.id;
SELECT lvl, count(*) FROM over_both GROUP BY lvl ORDER BY lvl;
CREATE VIEW hides AS WITH people AS (SELECT 7 AS id) SELECT s.id, p.boss FROM people s, public.people p;
SELECT * FROM hides ORDER BY 2;
CREATE RECURSIVE VIEW counted (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n < 4;
SELECT * FROM counted, people WHERE n = id ORDER BY n;
CREATE MATERIALIZED VIEW made_twice AS WITH made_twice AS (SELECT id FROM people) SELECT a.id, b.id AS other FROM made_twice a, made_twice b;
SELECT count(*) FROM made_twice;
REFRESH MATERIALIZED VIEW made_twice;
SELECT count(*) FROM made_twice;
CREATE FUNCTION hides_it() RETURNS bigint LANGUAGE sql STABLE AS $$ WITH people AS (SELECT 1 UNION SELECT 2) SELECT count(*) FROM people $$;
SELECT hides_it();
SELECT id, hides_it() FROM people ORDER BY id;
INSERT INTO chain VALUES (5, 1);
UPDATE twice SET id = 1;
CREATE FUNCTION chain_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO people VALUES (NEW.id, NEW.lvl); RETURN NEW; END $$;
CREATE TRIGGER chain_added INSTEAD OF INSERT ON chain FOR EACH ROW EXECUTE FUNCTION chain_added();
INSERT INTO chain VALUES (5, 1);
SELECT * FROM chain ORDER BY id;
DROP MATERIALIZED VIEW made_twice;
DROP VIEW over_both, hides, counted, chain, twice;
DROP FUNCTION chain_added(), hides_it();
DROP TABLE people;
-- A temporary view with a WITH item of the name of another.
CREATE TABLE lot (id int) /*dist: hash(id)*/;
INSERT INTO lot SELECT generate_series(1, 20);
CREATE TEMP VIEW of_lot AS SELECT id FROM lot;
CREATE TEMP VIEW hides_of_lot AS SELECT count(*) FROM (WITH of_lot AS (SELECT 1 AS b) SELECT b FROM of_lot) s, (SELECT * FROM lot) l;
SELECT * FROM hides_of_lot;
DROP VIEW hides_of_lot, of_lot;
DROP TABLE lot;
-- The operator of USING has no place in the text of a view.
CREATE TABLE ou (id int PRIMARY KEY, w int) /*dist: hash(id) | replication*/;
INSERT INTO ou VALUES (5, 1), (70, 2);
CREATE FUNCTION e3.near(bigint, bigint) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT abs($1 - $2) < 2';
CREATE OPERATOR e3.= (FUNCTION = e3.near, LEFTARG = bigint, RIGHTARG = bigint);
CREATE TABLE ba (id bigint, v int) /*dist: hash(id) | replication*/;
CREATE TABLE bb (id bigint, w int) /*dist: hash(id) | replication*/;
INSERT INTO ba SELECT i, i FROM generate_series(1, 6) i;
INSERT INTO bb SELECT i, i FROM generate_series(1, 6) i;
SET search_path = e3, pg_catalog, public;
CREATE VIEW public.vn AS SELECT id, v, w FROM public.ba JOIN public.bb USING (id);
CREATE VIEW public.vw AS SELECT ba.id, v, w FROM public.ba JOIN public.bb ON ba.id = bb.id;
CREATE TEMP VIEW tvn AS SELECT id, v, w FROM public.ba JOIN public.bb USING (id);
CREATE MATERIALIZED VIEW public.mvn AS SELECT count(*) FROM public.ba JOIN public.bb USING (id);
CREATE TABLE public.na (n text, v int) /*dist: hash(n) | replication*/;
CREATE TABLE public.nb (n text, w int) /*dist: hash(w) | replication*/;
INSERT INTO public.na VALUES ('a', 1), ('b', 2);
INSERT INTO public.nb VALUES ('a', 1), ('b', 2), ('b', 3);
CREATE TEMP VIEW tn AS SELECT n, v, w FROM public.na JOIN public.nb USING (n);
SELECT count(*) FROM tn;
SELECT count(*) FROM public.ba JOIN public.bb USING (id);
-- refused
SELECT count(*) FROM public.vn;
-- refused
SELECT count(*) FROM tvn;
RESET search_path;
-- refused
SELECT count(*) FROM vn;
-- refused
SELECT count(*) FROM vn JOIN ou ON vn.id OPERATOR(pg_catalog.=) ou.id;
SELECT count(*) FROM vw;
-- refused
SELECT count(*) FROM tvn;
SELECT * FROM mvn;
-- refused: v1 | v3 | mixed
REFRESH MATERIALIZED VIEW mvn;
SELECT * FROM mvn;
SELECT count(*) FROM ba JOIN bb USING (id);
DROP MATERIALIZED VIEW mvn;
DROP VIEW vn, vw, tvn, tn;
DROP TABLE ou, ba, bb, na, nb;
RESET search_path;
DROP SCHEMA e3 CASCADE;
