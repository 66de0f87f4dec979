-- Sub-selects and rows in RETURNING.
CREATE TABLE t (k int PRIMARY KEY, v int, w text) /*dist: hash(k) | replication | hash(k) | modulo(k)*/;
CREATE TABLE u (id int, k int, n numeric(8, 2)) /*dist: hash(id) | hash(id) | replication | roundrobin*/;
INSERT INTO t SELECT i, i * 10, 'w' || i FROM generate_series(1, 5) AS i;
INSERT INTO u SELECT i, i % 5, i / 3.0 FROM generate_series(1, 12) AS i;
-- Of nothing but themselves.
INSERT INTO t VALUES (6, 60, 'w6') RETURNING k, (SELECT count(*) FROM t), (SELECT max(n) FROM u);
INSERT INTO t VALUES (7, 70, 'w7'), (8, 80, 'w8') RETURNING (SELECT count(*) FROM t) AS before, ROW(k, w);
UPDATE t SET v = v + 1 RETURNING k, v, (SELECT sum(v) FROM t) AS before, EXISTS (SELECT 1 FROM u WHERE n > 3);
DELETE FROM t WHERE k > 6 RETURNING k, (SELECT min(v) FROM t), k IN (SELECT id FROM u);
-- Of the row.
INSERT INTO t VALUES (7, 70, 'w7') RETURNING *, (SELECT count(*) FROM u WHERE u.k = t.k), (SELECT sum(n) FROM u WHERE u.id < v);
INSERT INTO t SELECT 10 + k, 2 * v FROM t WHERE k < 3 RETURNING k, (SELECT string_agg(id::text, ',' ORDER BY id) FROM u WHERE u.id < t.k);
UPDATE t SET v = 0 WHERE k < 4 RETURNING k, (SELECT max(n) FROM u WHERE u.k = t.k) AS best, ROW(v, w);
UPDATE t AS x SET v = x.v + u.id FROM u WHERE u.id = x.k AND x.k < 4 RETURNING x.k, u.n, (SELECT count(*) FROM u AS o WHERE o.k = x.k AND o.n > u.n);
DELETE FROM t WHERE k > 10 RETURNING w IS NULL, ARRAY(SELECT id FROM u WHERE u.k = t.k - 10 ORDER BY id), upper(w);
UPDATE u SET n = 100 WHERE id = 3 RETURNING id, (SELECT w FROM t WHERE t.k = u.k), CASE WHEN EXISTS (SELECT FROM t WHERE t.k = u.id) THEN 'known' END;
-- What the statement itself has changed.
-- refused: mixed | v1 | v3 | v4
UPDATE t SET v = 1 WHERE k = 2 RETURNING (SELECT sum(x.v) FROM t AS x WHERE x.k <= t.k);
-- refused: mixed | v1 | v3 | v4
DELETE FROM t WHERE k = 3 RETURNING (SELECT count(*) FROM t AS x WHERE x.k >= t.k);
SELECT * FROM t ORDER BY k;
-- Elsewhere.
-- refused: v2
WITH d AS (UPDATE t SET v = v + 1 WHERE k = 4 RETURNING k, ROW(k, v) AS r) SELECT * FROM d;
-- params: 5
UPDATE t SET v = $1 WHERE k = $1 RETURNING v + $1 AS s, (SELECT count(*) FROM u WHERE u.k < t.k AND u.id > $1);
DO $$ DECLARE a int; b bigint; BEGIN UPDATE t SET v = 9 WHERE k = 5 RETURNING v, (SELECT count(*) FROM u WHERE u.k = t.k) INTO a, b; RAISE NOTICE '% %', a, b; END $$;
