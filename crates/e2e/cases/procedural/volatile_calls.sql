-- VOLATILE functions of one query: called for each row, and each call sees what others in the statement have done.
CREATE TABLE t (k int) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE o (x int) /*dist: hash(x)*/;
INSERT INTO t VALUES (1), (2), (3);
INSERT INTO o VALUES (1), (2), (3), (4);
CREATE SEQUENCE s;
CREATE FUNCTION drawn() RETURNS bigint LANGUAGE sql AS $$ SELECT nextval('s') + 0 * count(*) FROM t $$;
CREATE FUNCTION drawn_too(a int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT nextval('s') + 0 * count(*) FROM t WHERE k < a); END $$;
SELECT count(DISTINCT f), count(*) FROM (SELECT x, drawn() AS f FROM o) d;
SELECT count(*) FROM o GROUP BY drawn();
SELECT count(DISTINCT f) FROM (SELECT drawn_too(3) AS f FROM o) d;
CREATE TABLE kept AS SELECT x, drawn() AS f FROM o;
SELECT count(DISTINCT f) FROM kept;
SELECT count(DISTINCT f), count(*) FROM (SELECT x, drawn() AS f FROM generate_series(1, 3) x) d;

CREATE FUNCTION ins(a int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (a); RETURN a; END $$;
CREATE FUNCTION cnt() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM t $$;
SELECT ins(4), cnt();
SELECT ins(6), k, cnt() FROM t WHERE k = 1;
DO $$ DECLARE r bigint; BEGIN r := ins(14) + cnt(); RAISE NOTICE '%', r; END $$;
SELECT cnt(), ins(7), cnt();
SELECT count(*) FROM t;

-- A setting whose name is not a constant.
CREATE FUNCTION sets(n text, v text) RETURNS text LANGUAGE sql AS $$ SELECT set_config(n, v, false) $$;
SET e2e.own = '1';
SELECT sets('e2e.own', '2');
SELECT current_setting('e2e.own'), count(*) FROM t GROUP BY 1;
SELECT sets('e2e.' || 'other', '3');
SELECT current_setting('e2e.other', true), count(*) FROM t GROUP BY 1;
RESET e2e.own;

-- The same in other places.
DROP TABLE t CASCADE;
DROP FUNCTION drawn;
CREATE TABLE t (k int, v int) /*dist: hash(k) | replication | roundrobin*/;
INSERT INTO t VALUES (1, 701), (2, 702), (3, 703);
CREATE FUNCTION drawn() RETURNS bigint LANGUAGE sql AS $$ SELECT nextval('s') + 0 * count(*) FROM t $$;
SELECT count(DISTINCT a) FROM (SELECT f AS a FROM o, LATERAL (SELECT drawn() AS f) l) z;
SELECT count(*) FROM o WHERE drawn() > 0;
SELECT drawn() > 0 FROM o ORDER BY drawn() LIMIT 2;
CREATE VIEW vd AS SELECT x, drawn() AS f FROM o;
SELECT count(DISTINCT f) FROM vd;
WITH w AS (SELECT x, drawn() AS f FROM o) SELECT count(DISTINCT f) FROM w;
DO $$ DECLARE r record; n int := 0; l bigint := 0; BEGIN FOR r IN SELECT x, drawn() AS f FROM o LOOP IF r.f > l THEN n := n + 1; END IF; l := r.f; END LOOP; RAISE NOTICE '%', n; END $$;
CREATE TABLE k2 AS SELECT drawn() AS f FROM o;
SELECT count(DISTINCT f) FROM k2;
CREATE MATERIALIZED VIEW mv AS SELECT drawn() AS f FROM o;
SELECT count(DISTINCT f) FROM mv;
CREATE FUNCTION bump(a int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN UPDATE t SET v = v + 100 WHERE k = a RETURNING v INTO r; RETURN r; END $$;
CREATE FUNCTION got(a int) RETURNS int LANGUAGE sql AS $$ SELECT v FROM t WHERE k = a $$;
SELECT k, bump(k), got(k) FROM t ORDER BY k;
SELECT got(1) + bump(1) + got(1);
SELECT ARRAY[got(1), bump(1), got(1)];
SELECT format('%s %s %s', got(1), bump(1), got(1));
SELECT got(1) UNION ALL SELECT bump(1) UNION ALL SELECT got(1);
WITH x AS (SELECT bump(2)) SELECT *, got(2) FROM x;
SELECT got(2) WHERE bump(2) > 0;
CREATE FUNCTION del(a int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE k = a; RETURN a; END $$;
CREATE FUNCTION c2(x int) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM t WHERE k > x $$;
CREATE FUNCTION stable_c() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT count(*) FROM t $$;
SELECT stable_c(), x FROM o ORDER BY x;
SELECT c2(0), x FROM o ORDER BY x;
SELECT got(x), x FROM o ORDER BY x;
SELECT count(*) FROM o WHERE got(x) > 0;
PREPARE p AS SELECT got(1), bump(1), got(1);
EXECUTE p;
EXECUTE p;
SELECT k, v FROM t ORDER BY k;
