-- LOCK TABLE beside writers that have come to the table before it and go on, whatever datanodes their next rows are on: nobody gets
-- 40P01. Who asks for the lock has it on some datanodes for a moment, and gives it back: how long it is waited for there may differ.
CREATE TABLE t (k int NOT NULL, v int NOT NULL DEFAULT 0) /*dist: hash(k) | replication | roundrobin*/;
INSERT INTO t SELECT g FROM generate_series(1, 30) g;

-- A writer of one row writes others.
-- @a
BEGIN;
INSERT INTO t VALUES (101);
-- @b
BEGIN;
LOCK TABLE t IN SHARE MODE;
-- @a
-- may differ
INSERT INTO t SELECT g FROM generate_series(102, 120) g;
-- may differ
UPDATE t SET v = 1 WHERE k < 10;
COMMIT;
-- @b
SELECT count(*), sum(v) FROM t;
COMMIT;

-- A reader writes.
-- @a
BEGIN;
SELECT count(*) FROM t WHERE k = 3;
-- @b
BEGIN;
LOCK TABLE t;
-- @a
-- may differ
SELECT count(*), sum(v) FROM t;
-- may differ
DELETE FROM t WHERE k > 100;
COMMIT;
-- @b
INSERT INTO t SELECT g FROM generate_series(101, 120) g;
COMMIT;

-- An update of one row, then of all.
-- @a
BEGIN;
UPDATE t SET v = 2 WHERE k = 7;
-- @b
BEGIN;
LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE;
-- @a
-- may differ
UPDATE t SET v = 2 WHERE k = 8;
-- may differ
UPDATE t SET v = v + 1;
COMMIT;
-- @b
SELECT sum(v) FROM t;
COMMIT;

-- A row that is locked, and is changed then.
-- @a
BEGIN;
SELECT v FROM t WHERE k = 5 FOR UPDATE;
-- @b
BEGIN;
LOCK TABLE t IN EXCLUSIVE MODE;
-- @a
-- may differ
UPDATE t SET v = 50 WHERE k = 5;
-- may differ
INSERT INTO t SELECT g FROM generate_series(200, 220) g;
COMMIT;
-- @b
SELECT count(*), sum(v) FROM t;
COMMIT;

-- The snapshot of a transaction that keeps one comes after the lock.
-- @a
BEGIN;
UPDATE t SET v = 100 WHERE k = 1;
-- @b
BEGIN ISOLATION LEVEL REPEATABLE READ;
LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE;
-- @a
COMMIT;
-- @b
SELECT sum(v) FROM t;
UPDATE t SET v = v + 1 WHERE k = 1 RETURNING v;
COMMIT;

-- Who must not wait.
-- @a
BEGIN;
INSERT INTO t VALUES (401);
-- @b
BEGIN;
-- It may be told that another datanode has done so.
-- may differ
LOCK TABLE t IN EXCLUSIVE MODE NOWAIT;
ROLLBACK;
-- @a
ROLLBACK;
