-- Statements that differ from earlier ones in their constants only: they are planned by their shape, and in debug builds the
-- planner is asked as well.
CREATE TABLE t (k int, v text, n int, UNIQUE (k, n)) /*dist: hash(k) | hash(k) | replication | modulo(k)*/;
CREATE TABLE s (n int, k int, v text) /*dist: hash(k) | hash(n) | hash(k) | modulo(k)*/;
INSERT INTO s VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd'), (5, 5, 'e'), (1, 6, 'f'), (2, 7, 'g'), (3, 8, 'it''s');
INSERT INTO t (n, k, v) SELECT n + 10, k, v FROM s WHERE k = 1;
INSERT INTO t (n, k, v) SELECT n + 20, k, v FROM s WHERE k = 2;
INSERT INTO t (n, k, v) SELECT n + 30, k, v FROM s WHERE k = 7;
INSERT INTO t (n, k, v) SELECT n + 30, k, v FROM s WHERE k = 700;
INSERT INTO t (n, k, v) SELECT n + 30, k, v FROM s WHERE k = 7;
INSERT INTO t (n, k, v) SELECT n + 30, k, v FROM s WHERE k = 2147483648;
INSERT INTO t (n, k, v) SELECT n + 30, k, v FROM s WHERE k = 'x';
INSERT INTO t SELECT k, v, 100 FROM s x WHERE n = 1;
INSERT INTO t SELECT k, v, 101 FROM s x WHERE n = 2 RETURNING k > 0;
INSERT INTO t SELECT k, v, 102 FROM s x WHERE n = 99;
INSERT INTO t SELECT k, v, 100 FROM s x WHERE n = 5;
INSERT INTO t SELECT k, v, 100 FROM s x WHERE n = 5;
INSERT INTO t SELECT 5, v, 103 FROM s WHERE k = 5;
INSERT INTO t SELECT 6, v, 104 FROM s WHERE k = 5;
INSERT INTO t SELECT n, v, 105 FROM s WHERE k = 3;
INSERT INTO t SELECT n, v, 106 FROM s WHERE k = 4;
INSERT INTO t SELECT k, v, count(*) + 200 FROM s GROUP BY 1, 2 HAVING count(*) > 0;
INSERT INTO t SELECT k, v, 300 FROM s ORDER BY 1 LIMIT 2;
INSERT INTO t SELECT k, v, 301 FROM s ORDER BY 2 LIMIT 3;
SELECT * FROM t ORDER BY k, n;
UPDATE t SET v = v || '1' WHERE n = 100;
UPDATE t SET v = v || '2' WHERE n = 101;
UPDATE t SET v = v || '3' WHERE n = -1;
DELETE FROM t WHERE n = 301;
DELETE FROM t WHERE n = 300;
SELECT count(*) FROM t;
SELECT k + 1 FROM t WHERE n = 101 AND v > 'c';
SELECT k + 2 FROM t WHERE n = 11 AND v >= 'a';
SELECT k + 2 FROM t WHERE n = 12 AND v > 'x';
SELECT k + 2 FROM t WHERE n = 11 AND v > 1;
BEGIN;
INSERT INTO t SELECT k, v, 400 FROM s WHERE n = 3;
INSERT INTO t SELECT k, v, 401 FROM s WHERE n = 2;
UPDATE t SET v = 'block' WHERE n = 401;
SELECT v FROM t WHERE n = 401;
INSERT INTO t VALUES (1, 'many', 500), (2, 'many', 500), (3, 'many', 500), (4, 'many', 500);
INSERT INTO t VALUES (1, 'many', 501), (2, 'many', 501), (3, 'many', 501), (4, 'many', 501);
COMMIT;
INSERT INTO t VALUES (1, 'alone', 502), (2, 'alone', 502), (3, 'alone', 502), (4, 'alone', 502);
INSERT INTO t VALUES (5, 'alone', 502), (6, 'alone', 502), (4, 'twice', 502), (7, 'alone', 502);
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO t SELECT k, v, 600 FROM s WHERE n = 3;
INSERT INTO t SELECT k, v, 600 FROM s WHERE n = 4;
INSERT INTO t VALUES (1, 'repeatable', 601), (2, 'repeatable', 601), (3, 'repeatable', 601);
COMMIT;
-- params: 1
INSERT INTO t SELECT k, v, 700 FROM s WHERE k = $1;
-- params: 2
INSERT INTO t SELECT k, v, 700 FROM s WHERE k = $1;
-- params: 3
INSERT INTO t SELECT k, v, 701 FROM s WHERE n = $1;
-- params: 1
INSERT INTO t SELECT k, v, 701 FROM s WHERE n = $1;
SELECT * FROM t WHERE n >= 400 ORDER BY n, k;
CREATE TABLE u (LIKE s) /*dist: hash(k) | hash(k) | replication | modulo(k)*/;
INSERT INTO u SELECT * FROM s WHERE v = 'a';
INSERT INTO u SELECT * FROM s WHERE v = 'it''s';
INSERT INTO u SELECT s.* FROM s WHERE v = 'b';
INSERT INTO u (n, k) SELECT n, k FROM s WHERE v = 'c';
INSERT INTO u (k, n) SELECT n, k FROM s WHERE v = 'c';
INSERT INTO u (k, n) SELECT n, k FROM s WHERE v = 'd';
SELECT * FROM u ORDER BY k, n, v;
