-- Functions that read tables in ROWS FROM and WITH ORDINALITY, and calls of such functions as arguments of others.
CREATE TABLE t (k int PRIMARY KEY, v int) /*dist: hash(k) | replication */;
CREATE TABLE log (a int) /*dist: roundrobin | replication*/;
INSERT INTO t SELECT g, g % 4 FROM generate_series(1, 8) g;
CREATE FUNCTION r1(x int) RETURNS SETOF int LANGUAGE plpgsql AS $$ DECLARE q record; BEGIN FOR q IN SELECT k FROM t WHERE v = x ORDER BY k LOOP RETURN NEXT q.k; END LOOP; END $$;
CREATE FUNCTION r2(x int) RETURNS TABLE (a int, b text) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT k, 'b' || v FROM t WHERE v = x ORDER BY k; END $$;
CREATE FUNCTION r3(x int) RETURNS SETOF int LANGUAGE sql STABLE AS $$ SELECT k FROM t WHERE v = x ORDER BY k $$;
CREATE FUNCTION r4(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (x); RETURN x; END $$;
CREATE FUNCTION r5(x int) RETURNS TABLE (a int, b int) LANGUAGE sql STABLE AS $$ SELECT k, v FROM t WHERE v = x ORDER BY k $$;
CREATE FUNCTION r6(x int) RETURNS SETOF t LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT * FROM t WHERE v = x ORDER BY k; END $$;
SELECT * FROM r1(1) WITH ORDINALITY;
SELECT * FROM r1(1) WITH ORDINALITY AS o (x, n);
SELECT * FROM r2(1) WITH ORDINALITY;
SELECT * FROM r2(1) WITH ORDINALITY AS o (x, y, n);
SELECT * FROM r3(1) WITH ORDINALITY;
SELECT * FROM r3(1) WITH ORDINALITY AS o (x, n);
SELECT * FROM r4(1) WITH ORDINALITY;
SELECT * FROM r5(1) WITH ORDINALITY;
SELECT * FROM r6(1) WITH ORDINALITY;
SELECT * FROM ROWS FROM (r1(1), r1(2));
SELECT * FROM ROWS FROM (r1(1), r2(2)) AS x (a, b, c);
SELECT * FROM ROWS FROM (r1(1), generate_series(1, 4)) AS x (a, b);
SELECT * FROM ROWS FROM (r1(1), generate_series(1, 4)) WITH ORDINALITY AS x (a, b, n);
SELECT * FROM ROWS FROM (r3(1), r5(2)) WITH ORDINALITY AS x (a, b, c, n);
SELECT * FROM ROWS FROM (r1(1)) AS x;
SELECT * FROM ROWS FROM (r4(1), r4(2)) AS x;
SELECT r1(r4(1));
-- refused: mixed | v1
SELECT r1(r1(1));
-- refused: mixed | v1
SELECT r4(r1(1));
SELECT * FROM r1(r4(2));
SELECT * FROM r2(r4(2));
-- refused: mixed | v1
SELECT r3(r3(1));
SELECT r4(r4(3));
SELECT * FROM r1((SELECT min(v) FROM t));
SELECT t.k, o.* FROM t, r1(t.v) WITH ORDINALITY AS o (x, n) WHERE t.k < 3 ORDER BY 1, 3;
-- refused: mixed | v1
SELECT t.k, o.* FROM t, ROWS FROM (r1(t.v), generate_series(1, 3)) AS o (x, n) WHERE t.k < 3 ORDER BY 1, 3;
-- refused: mixed | v1
SELECT t.k, o.* FROM t, ROWS FROM (r1(t.v), r2(t.v)) AS o (x, y, z) WHERE t.k < 3 ORDER BY 1, 2;
-- refused: mixed | v1
SELECT t.k, o.* FROM t, ROWS FROM (r1(1), r2(t.v)) AS o (x, y, z) WHERE t.k < 3 ORDER BY 1, 2;
-- refused: mixed | v1
SELECT a, t.k, b FROM r1(1) a, t, r1(t.v) b WHERE t.k < 3 ORDER BY 1, 2, 3;
-- refused: mixed | v1
SELECT * FROM r1(1) a, r1(a.a) b;
SELECT a, d = current_date AS is_today FROM r1(1) a, current_date d;
SELECT count(*) FROM log;
SELECT r4(7), r4((SELECT count(*)::int FROM log));
SELECT count(*) FROM log;
CREATE FUNCTION lim() RETURNS int LANGUAGE sql STABLE AS $$ SELECT count(*)::int FROM t $$;
CREATE FUNCTION lim2() RETURNS int LANGUAGE plpgsql STABLE AS $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM t; IF n > 0 THEN RETURN n; END IF; RETURN 0; END $$;
-- refused: mixed | v1
SELECT lim2() FROM t, r1(t.v) WHERE t.k < 3;
CREATE VIEW w AS SELECT * FROM t WHERE k <= lim();
CREATE VIEW w2 AS SELECT * FROM t WHERE k <= lim2();
CREATE VIEW w3 AS SELECT k, v, lim2() AS n FROM t;
UPDATE w SET v = v + 10 WHERE k = 1;
-- refused: mixed | v1
UPDATE w2 SET v = v + 10 WHERE k = 1;
UPDATE w3 SET v = v + 10 WHERE k = 1;
-- refused: mixed | v1
UPDATE w3 SET v = n + 10 WHERE k = 1;
DELETE FROM w WHERE k = 1;
-- refused: mixed | v1
DELETE FROM w2 WHERE k = 2;
DELETE FROM w3 WHERE k = 3;
INSERT INTO w VALUES (20, 20);
INSERT INTO w2 VALUES (21, 20);
INSERT INTO w3 VALUES (22, 20);
SELECT * FROM t ORDER BY k;
