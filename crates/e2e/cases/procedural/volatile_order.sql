-- VOLATILE functions that change rows beside sub-selects, views and RETURNING with such that read them: in PostgreSQL's order.
CREATE TABLE t (k int, v int) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE o (x int) /*dist: hash(x)*/;
CREATE TABLE u (id int PRIMARY KEY, a int, b bigint) /*dist: hash(id)*/;
INSERT INTO t VALUES (1, 701), (2, 702), (3, 703);
INSERT INTO o VALUES (1), (2), (3), (4);
INSERT INTO u VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0);
CREATE FUNCTION ins(a int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (a); RETURN a; END $$;
CREATE FUNCTION bump(a int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN UPDATE t SET v = v + 100 WHERE k = a RETURNING v INTO r; RETURN r; END $$;
CREATE FUNCTION cnt() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM t $$;
CREATE FUNCTION before() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT count(*) FROM t $$;
CREATE VIEW v AS SELECT cnt() AS c;
CREATE VIEW vs AS SELECT before() AS c;
CREATE VIEW vo AS SELECT x, cnt() AS c FROM o WHERE x < 3;
CREATE VIEW vi AS SELECT ins(100) AS i;
CREATE FUNCTION inv() RETURNS bigint LANGUAGE sql AS $$ SELECT i FROM vi $$;

SELECT ins(5), (SELECT c FROM v);
SELECT (SELECT c FROM v), ins(6), (SELECT c FROM v);
SELECT ins(7), (SELECT cnt()), (SELECT count(*) FROM t);
SELECT ins(7), (SELECT before()), (SELECT cnt()), before();
SELECT ins(7), (SELECT c FROM v), (SELECT c FROM vs);
-- What the STABLE one reads is as it was before the statement, what the other reads is not.
-- refused
SELECT ins(7), (SELECT c + before() FROM v);
SELECT (SELECT i FROM vi), before();
SELECT ins(8), (SELECT sum(c) FROM vo);
SELECT ins(9), (SELECT c FROM v) FROM o WHERE x = 1;
SELECT (SELECT i FROM vi), cnt();
SELECT i, cnt() FROM vi;
SELECT inv(), cnt();
SELECT (SELECT cnt()), i FROM (SELECT ins(10) AS i) q;
WITH w AS (SELECT ins(11) AS i) SELECT i, cnt() FROM w;
WITH w AS (SELECT ins(x + 20) AS i FROM o) SELECT i FROM w WHERE i > 22;
-- PostgreSQL makes those rows that are asked for.
-- refused
WITH w AS (SELECT ins(x) AS i FROM o) SELECT i FROM w LIMIT 1;
-- refused
SELECT ins(x) FROM o UNION ALL SELECT ins(x) FROM o LIMIT 1;
SELECT count(*) FROM t;
-- PostgreSQL makes one row of the view after the other.
-- refused
SELECT ins(x), c FROM vo;
-- refused
SELECT x, cnt() FROM o GROUP BY x HAVING ins(x) > 0;
-- refused
SELECT 4 IN (SELECT cnt()), ins(5), 4 IN (SELECT cnt());
SELECT count(*) FROM t;

UPDATE u SET a = ins(12), b = (SELECT c FROM v);
SELECT * FROM u ORDER BY id;
UPDATE u SET a = 0 RETURNING ins(13), (SELECT cnt() FROM o LIMIT 1);
INSERT INTO u VALUES (4, ins(14), (SELECT c FROM v));
SELECT * FROM u ORDER BY id;
INSERT INTO t VALUES (15) RETURNING (SELECT cnt());
-- Of each row PostgreSQL makes the calls of RETURNING before those of the next.
-- refused
UPDATE u SET a = ins(id) RETURNING cnt();
-- refused
INSERT INTO u SELECT 10 + ins(x), 0, 0 FROM o RETURNING cnt();
SELECT count(*) FROM t;

SELECT bump(1) UNION ALL SELECT v FROM t WHERE k = 1;
SELECT v FROM t WHERE k = 1 UNION ALL SELECT bump(1) UNION ALL SELECT v FROM t WHERE k = 1;
SELECT count(*), sum(k), sum(v) FROM t;
-- A STABLE function called for rows that a writer lets through would see what that has changed.
CREATE FUNCTION stp() RETURNS bigint LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
-- refused
SELECT stp() FROM o WHERE ins(x) > 0;
-- refused
SELECT CASE WHEN ins(14) > 0 THEN stp() END FROM o;
SELECT x FROM o WHERE stp() > 0 AND ins(x) > 0;
-- refused
UPDATE u SET b = stp() WHERE ins(id) > 0;
-- refused
INSERT INTO u SELECT x + 100, x, stp() FROM o WHERE ins(x) > 0;
-- refused
SELECT sum(stp()) FROM o WHERE ins(x) > 0;
SELECT count(*) FROM t;
-- A STABLE function sees none of what a VOLATILE one beside it changes.
SELECT ins(901), before();
SELECT before(), ins(902), before();
INSERT INTO o VALUES (ins(903) + before());
INSERT INTO o SELECT ins(904) + before();
SELECT * FROM (SELECT ins(905) AS a, before() AS b) q;
SELECT ins(906), (SELECT before());
SELECT ins(907) WHERE before() < 10000;
SELECT x FROM o ORDER BY x;
DELETE FROM t WHERE k > 900;
