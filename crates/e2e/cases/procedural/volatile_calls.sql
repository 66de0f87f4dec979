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
