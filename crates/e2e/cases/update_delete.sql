-- UPDATE and DELETE, with FROM, USING, sub-selects and RETURNING.
CREATE TABLE t (k int, grp int, v text, n numeric(12,3)) /*dist: hash(k) | hash(grp) | replication | roundrobin*/;
CREATE TABLE other (k int, w text, m int) /*dist: hash(k) | hash(m) | replication | roundrobin*/;
INSERT INTO t SELECT g, g % 5, 'v' || g, g * 1.5 FROM generate_series(1, 40) g;
INSERT INTO other SELECT g, 'w' || g, g * 10 FROM generate_series(5, 45, 5) g;
UPDATE t SET v = 'changed' WHERE k = 7;
SELECT * FROM t WHERE k = 7;
UPDATE t SET n = n + 1;
SELECT sum(n) FROM t;
UPDATE t SET n = n * 2, v = v || '!' WHERE k % 10 = 3 RETURNING k, v, n;
UPDATE t SET v = NULL WHERE k = 1000;
UPDATE t AS x SET v = 'alias' WHERE x.k IN (1, 2) RETURNING x.k, x.v AS renamed;
UPDATE t SET (v, n) = ('both', 0) WHERE k = 4 RETURNING *;
UPDATE t SET v = 'in list' WHERE k IN (11, 12, 13);
UPDATE t SET v = 'between' WHERE k BETWEEN 20 AND 22 AND v <> 'x';
SELECT v, count(*) FROM t WHERE v IN ('in list', 'between', 'alias') GROUP BY v ORDER BY v;
UPDATE t SET nope = 1;
UPDATE t SET v = 1/0 WHERE k = 1;
UPDATE t SET n = 'abc';
UPDATE nope SET a = 1;
-- refused: v3
UPDATE t SET v = o.w FROM other o WHERE o.k = t.k;
SELECT k, v FROM t WHERE k % 5 = 0 ORDER BY k;
-- refused: mixed | v2 | v3 | v4
UPDATE t SET v = o.w || '/' || o.m FROM other o WHERE o.k = t.k AND o.m > 200 RETURNING t.k, t.v, o.m;
UPDATE t SET n = (SELECT max(m) FROM other) WHERE k = 9;
SELECT n FROM t WHERE k = 9;
UPDATE t SET n = 0 WHERE k IN (SELECT k FROM other WHERE m >= 300);
SELECT k FROM t WHERE n = 0 ORDER BY k;
UPDATE t SET n = n + 1 WHERE EXISTS (SELECT 1 FROM other o WHERE o.k = t.k AND o.m < 200);
SELECT k, n FROM t WHERE k <= 20 AND k % 5 = 0 ORDER BY k;
-- params: param | 15
UPDATE t SET v = $1 WHERE k = $2 RETURNING k, v;
-- params: 3
UPDATE t SET n = n - $1 WHERE grp = 2;
SELECT sum(n) FROM t WHERE grp = 2;
-- refused: v3
WITH big AS (SELECT k FROM other WHERE m > 300) UPDATE t SET v = 'cte' FROM big WHERE big.k = t.k;
SELECT k FROM t WHERE v = 'cte' ORDER BY k;
DELETE FROM t WHERE k = 40;
DELETE FROM t WHERE k = 40;
DELETE FROM t WHERE k IN (38, 39) RETURNING k, grp, v;
DELETE FROM t WHERE n > 1000000;
DELETE FROM t USING other o WHERE o.k = t.k AND o.m = 50;
SELECT count(*) FROM t;
DELETE FROM t WHERE k IN (SELECT k FROM other WHERE m = 100) RETURNING k;
DELETE FROM t AS x WHERE NOT EXISTS (SELECT 1 FROM other o WHERE o.m > x.k) RETURNING k;
SELECT count(*), sum(k) FROM t;
DELETE FROM t WHERE nope = 1;
DELETE FROM t WHERE k / 0 = 1;
-- params: 33
DELETE FROM t WHERE k = $1;
DELETE FROM ONLY t WHERE k = 32;
WITH gone AS (SELECT k FROM t WHERE k > 30) DELETE FROM t WHERE k IN (SELECT k FROM gone);
SELECT count(*), max(k) FROM t;
DELETE FROM t;
SELECT count(*) FROM t;
DELETE FROM t RETURNING *;
