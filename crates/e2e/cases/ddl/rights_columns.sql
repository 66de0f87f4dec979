-- What a role with rights on some columns only may do: row locks, MERGE that inserts, COPY of lines that one node completes; UPDATE of the
-- distribution key with the right to UPDATE alone.
CREATE ROLE e2e_part;
CREATE ROLE e2e_mover;
DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO e2e_part', current_schema()); END $$;
CREATE TABLE t (k int PRIMARY KEY, a int, b int DEFAULT 7, secret text) /*dist: hash(k) | replication | hash(k) | hash(k)*/;
CREATE TABLE u (k int, a int, secret text) /*dist: hash(a) | roundrobin | replication | roundrobin*/;
CREATE TABLE s (k serial, a int, b int, secret text DEFAULT 'x') /*dist: hash(a) | hash(k) | replication | roundrobin*/;
INSERT INTO t SELECT i, i * 10, i % 3, 's' || i FROM generate_series(1, 20) i;
INSERT INTO u SELECT i, i % 5, 's' || i FROM generate_series(1, 20) i;
GRANT SELECT (k, a), UPDATE (a), INSERT (k, a) ON t TO e2e_part;
GRANT SELECT (k, a), UPDATE (a) ON u TO e2e_part;
GRANT INSERT (a, b), SELECT (a) ON s TO e2e_part;
GRANT USAGE ON SEQUENCE s_k_seq TO e2e_part;
SET ROLE e2e_part;
SELECT k, a FROM t ORDER BY k FOR UPDATE;
SELECT k, a FROM t ORDER BY k LIMIT 3 FOR SHARE;
SELECT a FROM t WHERE k = 3 FOR UPDATE;
-- refused: v2
SELECT t.k, u.a FROM t JOIN u USING (k) ORDER BY 1 LIMIT 4 FOR NO KEY UPDATE;
SELECT t.k, u.a FROM t JOIN u USING (k) ORDER BY 1 LIMIT 4 FOR UPDATE OF u;
-- refused: mixed | v1 | v2 | v4
SELECT k, a FROM u ORDER BY k FOR KEY SHARE SKIP LOCKED;
SELECT k, secret FROM u ORDER BY k FOR UPDATE;
SELECT k FROM u ORDER BY u FOR UPDATE;
SELECT a FROM s FOR UPDATE;
-- refused: mixed | v1 | v3 | v4
WITH q AS (SELECT k FROM t WHERE a < 50 ORDER BY k LIMIT 2 FOR UPDATE SKIP LOCKED) SELECT * FROM q;
-- refused: mixed | v1 | v3 | v4
UPDATE t SET a = a + 1 WHERE k = (SELECT k FROM t ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED);
BEGIN;
SELECT k, a FROM u ORDER BY k LIMIT 3 FOR UPDATE;
SELECT k, a FROM t ORDER BY k LIMIT 3 FOR UPDATE;
COMMIT;
-- refused
MERGE INTO t USING (SELECT k, a FROM u) v ON t.k = v.k + 10 WHEN MATCHED THEN UPDATE SET a = v.a WHEN NOT MATCHED THEN INSERT (k, a) VALUES (v.k + 10, v.a);
MERGE INTO t USING (SELECT k, a FROM u) v ON t.k = v.k + 20 WHEN NOT MATCHED THEN INSERT (k, a) VALUES (v.k + 20, v.a);
MERGE INTO t USING (SELECT k, a FROM u) v ON t.k = v.k + 20 WHEN NOT MATCHED THEN INSERT VALUES (v.k + 20, v.a);
MERGE INTO t USING (SELECT k, a FROM u) v ON t.k = v.k + 30 WHEN NOT MATCHED THEN INSERT (k, b) VALUES (v.k + 20, v.a);
SELECT count(*), sum(k), sum(a) FROM t;
COPY t (k, a) FROM STDIN;
100	1
101	2
\.
COPY t (k, a, b) FROM STDIN;
102	1	1
\.
COPY s (a, b) FROM STDIN;
1	2
3	4
\.
COPY s (a) FROM STDIN WHERE a > 1;
1
3
\.
COPY s (k, a) FROM STDIN;
1	2
\.
COPY s (b) FROM STDIN WHERE k > 1;
5
\.
RESET ROLE;
SELECT * FROM s ORDER BY 1, 2;
SELECT * FROM t ORDER BY 1;
-- Rows that move are deleted and inserted, which is no right of the role's.
CREATE TABLE m (k int PRIMARY KEY, a int, CHECK (a < 1000)) /*dist: hash(k) | replication | hash(k) | modulo(k)*/;
INSERT INTO m SELECT i, i FROM generate_series(1, 20) i;
GRANT SELECT, UPDATE ON m TO e2e_mover;
SET ROLE e2e_mover;
UPDATE m SET k = k + 100;
UPDATE m SET k = k + 100, a = a + 1 WHERE a < 5 RETURNING *;
UPDATE m SET k = 1;
UPDATE m SET k = k + 1000, a = 1000;
UPDATE m SET k = k + a FROM (SELECT 3 AS n) x WHERE a > n;
INSERT INTO m VALUES (1, 1);
DELETE FROM m;
MERGE INTO m USING u ON m.k = u.k WHEN MATCHED THEN DELETE;
RESET ROLE;
SELECT * FROM m ORDER BY k;
SELECT relacl IS NULL, (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attnum < 0 AND attacl IS NOT NULL)
FROM pg_class c WHERE relname IN ('m', 't', 'u', 's') AND relnamespace = current_schema()::regnamespace ORDER BY relname;
-- A COPY reads the columns of its WHERE.
GRANT INSERT ON s TO e2e_mover;
SET ROLE e2e_mover;
COPY s (a, b) FROM STDIN WHERE a > 1;
1	2
3	4
\.
COPY s (a, b) FROM STDIN;
1	2
\.
RESET ROLE;
