-- Changes that need rows of other nodes, and rows that move: NULLs, duplicates, empty tables.
CREATE TABLE t (k int, grp int, v varchar(12), n numeric(12,2) DEFAULT 7) /*dist: hash(k) | modulo(grp) | replication | roundrobin*/;
CREATE TABLE s (id int, k int, w text, m int) /*dist: hash(id) | hash(k) | roundrobin | replication*/;
CREATE TABLE nothing (k int, w text) /*dist: hash(k) | roundrobin | hash(k) | roundrobin*/;
INSERT INTO t SELECT g, g % 4, 'v' || g, g * 1.5 FROM generate_series(1, 24) g;
INSERT INTO t VALUES (NULL, NULL, 'no key', NULL), (NULL, 3, NULL, 1), (5, 1, 'again', 2);
INSERT INTO s SELECT g + 100, g, 'w' || g, g * 10 FROM generate_series(3, 30, 3) g;
INSERT INTO s VALUES (200, NULL, 'null', NULL), (201, 6, 'w6', 60), (202, 9, NULL, NULL);
-- A row may move.
UPDATE t SET k = k + 100 WHERE k % 5 = 0;
SELECT * FROM t ORDER BY k, v;
SELECT v FROM t WHERE k = 105 ORDER BY v;
SELECT v FROM t WHERE k = 5;
UPDATE t SET k = 1000 + k, grp = grp + 1 WHERE grp = 2 RETURNING *;
UPDATE t SET grp = 1, v = v || '+' WHERE k IS NULL RETURNING k, grp AS g, upper(v);
UPDATE t SET k = NULL WHERE k = 1;
UPDATE t SET k = 1, v = DEFAULT WHERE k IS NULL AND v = 'v1' RETURNING t.k, v, n;
UPDATE t SET k = 1, grp = 2 WHERE k = 100000 RETURNING *;
UPDATE t SET (k, v) = (k * 2, 'pair') WHERE k IN (3, 4) RETURNING k, v;
UPDATE t SET k = 1 / 0;
UPDATE t SET k = 'x';
UPDATE t SET k = 1, nope = 2;
UPDATE t SET k = 2147483647 + k;
UPDATE t SET k = 7, v = 'far too long for it';
-- params: 500 | 7 | seven
UPDATE t SET k = $1, v = $3 WHERE k = $2 RETURNING k, v;
SELECT count(*), count(k), sum(k), sum(grp) FROM t;
-- refused: v3
UPDATE t SET v = s.w, n = s.m FROM s WHERE s.k = t.k;
SELECT * FROM t ORDER BY k, v;
-- refused: v3
UPDATE t SET k = s.id FROM s WHERE s.k = t.k AND s.m > 100 RETURNING t.k, v;
-- refused: v3
UPDATE t AS x SET n = x.n + (SELECT count(*) FROM s WHERE s.m < x.k) WHERE EXISTS (SELECT 1 FROM s WHERE s.id = x.k);
-- refused: v3
UPDATE t SET n = (SELECT max(m) FROM s WHERE s.k = t.k) WHERE k < 30 RETURNING k, n;
-- refused: v3
UPDATE t SET v = 'gone' WHERE k NOT IN (SELECT k FROM nothing WHERE w > 'a') AND grp = 0;
-- refused: v3
UPDATE t SET v = n.w FROM nothing n WHERE n.k = t.k;
-- refused: v3
UPDATE t SET v = b.v FROM t b WHERE b.k = t.k + 1 AND t.grp = 3;
SELECT * FROM t ORDER BY k, v, n;
-- params: 110
-- refused: v3
UPDATE t SET v = 'p' || $1 FROM s WHERE s.k = t.k AND s.id < $1;
SELECT v, count(*) FROM t GROUP BY v ORDER BY v;
WITH some AS (SELECT k FROM s WHERE m > 150) UPDATE t SET v = 'with' FROM some WHERE some.k = t.k RETURNING t.*;
-- refused: v3
DELETE FROM t USING s WHERE s.k = t.k AND s.w IS NULL RETURNING t.k, v;
-- refused: v3
DELETE FROM t WHERE k IN (SELECT id FROM s WHERE m > 200) RETURNING *;
-- refused: v3
DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k <= t.k);
-- refused: v3
DELETE FROM t USING nothing WHERE nothing.k = t.k;
SELECT count(*), count(k), sum(k), sum(n) FROM t;
-- refused: v3
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.w IS NULL THEN DELETE WHEN MATCHED AND t.grp = 0 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET v = s.w, n = DEFAULT WHEN NOT MATCHED AND s.k IS NULL THEN DO NOTHING WHEN NOT MATCHED AND s.m < 250 THEN INSERT (k, grp, v) VALUES (s.k, s.m % 4, s.w) WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, 'new', DEFAULT);
DELETE FROM s WHERE id = 201;
-- refused: v3
MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.w IS NULL THEN DELETE WHEN MATCHED AND t.grp = 0 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET v = s.w, n = DEFAULT WHEN NOT MATCHED AND s.k IS NULL THEN DO NOTHING WHEN NOT MATCHED AND s.m < 250 THEN INSERT (k, grp, v) VALUES (s.k, s.m % 4, s.w) WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, 'new', DEFAULT);
SELECT * FROM t ORDER BY k, v, n;
MERGE INTO t USING (VALUES (1, 'one'), (7777, 'more')) AS x (k, w) ON t.k = x.k WHEN MATCHED THEN UPDATE SET v = x.w WHEN NOT MATCHED THEN INSERT (k, v) VALUES (x.k, x.w);
-- refused: v3
MERGE INTO t USING nothing x ON t.k = x.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (x.k, x.w);
-- refused: v3
MERGE INTO t AS a USING (SELECT k, max(w) AS w FROM s GROUP BY k) AS b ON a.k = b.k + 1 WHEN MATCHED THEN UPDATE SET k = a.k + 5000, v = b.w WHEN NOT MATCHED THEN INSERT VALUES (b.k, 1, left(b.w, 3), 0);
SELECT * FROM t ORDER BY k, v, n;
SELECT v FROM t WHERE k = 7777;
-- In a block, with its own changes in sight.
BEGIN;
INSERT INTO t VALUES (9000, 1, 'mine', 0), (9001, 2, 'mine too', 0);
UPDATE t SET k = k + 1, grp = 0 WHERE k >= 9000 RETURNING k, v;
-- refused: v3
DELETE FROM t USING s WHERE s.id + 8900 = t.k;
SAVEPOINT a;
UPDATE t SET k = 0 WHERE k IS NOT NULL;
ROLLBACK TO a;
UPDATE t SET n = (SELECT count(*) FROM s) WHERE k > 9000;
SELECT * FROM t WHERE k >= 9000 ORDER BY k;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE t SET k = k - 1 WHERE k > 9000 RETURNING k;
-- refused: v3
UPDATE t SET v = s.w FROM s WHERE s.k = t.grp;
ROLLBACK;
SELECT count(*), sum(k), max(n) FROM t;
-- Constraints, generated and identity columns.
CREATE TABLE u (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED, c int GENERATED BY DEFAULT AS IDENTITY, d text CHECK (d <> 'bad')) /*dist: hash(a) | modulo(a) | replication | hash(a)*/;
INSERT INTO u (a, d) SELECT g, 'd' || g FROM generate_series(10, 100, 10) g;
UPDATE u SET a = a + 1 RETURNING *;
UPDATE u SET a = 11 WHERE a = 21;
UPDATE u SET a = 12, d = 'bad' WHERE a = 11;
UPDATE u SET a = NULL WHERE a = 11;
SELECT * FROM u ORDER BY a;
CREATE TABLE child (a int REFERENCES u ON UPDATE CASCADE, x int) /*dist: hash(a) | modulo(a) | replication | hash(a)*/;
INSERT INTO child VALUES (31, 1), (41, 1);
-- A row that others refer to stays where it is.
-- refused: mixed | v1 | v2 | v4
UPDATE u SET a = 32 WHERE a = 31;
UPDATE child SET a = 51 WHERE a = 41 RETURNING *;
UPDATE child SET a = 42 WHERE a = 51;
SELECT * FROM child ORDER BY a;
-- refused: v3
UPDATE t SET (v, n) = (SELECT s.w, s.m + t.k FROM s WHERE s.k = t.k AND s.id < 150) WHERE k < 40 RETURNING k, v, n;
-- refused: v3
UPDATE t SET (n, v) = (SELECT max(m) AS a, 'most' AS b FROM s ORDER BY b) WHERE grp = 1;
SELECT * FROM t ORDER BY k, v, n;
