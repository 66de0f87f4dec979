-- Rows of a replicated table that are locked, and changed then, beside other row locks and changes: they queue up, and nobody gets
-- 40P01.
CREATE TABLE r (k int PRIMARY KEY, v int NOT NULL) /*dist: replication*/;
CREATE TABLE h (k int PRIMARY KEY, r int NOT NULL) /*dist: hash(k)*/;
INSERT INTO r SELECT g, 0 FROM generate_series(1, 9) g;
INSERT INTO h SELECT g, g % 9 + 1 FROM generate_series(1, 30) g;
CREATE VIEW low AS SELECT k, v FROM r WHERE k < 5;
CREATE FUNCTION locked(key int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT v FROM r WHERE k = key FOR UPDATE);
END
$$;
CREATE FUNCTION locked_for_others(key int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN (SELECT v FROM r WHERE k = key FOR UPDATE);
END
$$;
CREATE FUNCTION locked_if(key int, wanted bool) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF wanted THEN
        PERFORM FROM r WHERE k = key FOR UPDATE;
    END IF;
    RETURN wanted;
END
$$;

-- Two that lock a row and change it.
-- @a
BEGIN;
SELECT k, v FROM r WHERE k = 1 FOR UPDATE;
-- @b
BEGIN;
SELECT k, v FROM r WHERE k = 1 FOR UPDATE;
-- @a
UPDATE r SET v = v + 1 WHERE k = 1;
COMMIT;
-- @b
UPDATE r SET v = v + 1 WHERE k = 1 RETURNING v;
COMMIT;

-- Beside a statement that stands alone, in both orders.
-- @a
BEGIN;
SELECT v FROM r WHERE k = 2 FOR NO KEY UPDATE;
-- @b
UPDATE r SET v = v + 10 WHERE k = 2;
-- @a
UPDATE r SET v = v + 1 WHERE k = 2;
COMMIT;
-- @b
SELECT v FROM r WHERE k = 2;
BEGIN;
UPDATE r SET v = v + 10 WHERE k = 2;
-- @a
BEGIN;
SELECT v FROM r WHERE k = 2 FOR UPDATE;
-- @b
COMMIT;
-- @a
DELETE FROM r WHERE k = 2;
COMMIT;

-- With rows of another table.
BEGIN;
SELECT h.k, r.v FROM h JOIN r ON h.r = r.k WHERE r.k = 3 ORDER BY h.k FOR UPDATE OF r;
-- @b
BEGIN;
SELECT v FROM (SELECT k, v FROM r WHERE k = 3) part FOR UPDATE;
-- @a
UPDATE r SET v = 33 WHERE k = 3;
COMMIT;
-- @b
UPDATE r SET v = v + 1 WHERE k = 3 RETURNING v;
COMMIT;

-- In WITH, and by way of a view.
-- @a
BEGIN;
WITH mine AS (SELECT k, v FROM r WHERE k = 4 FOR UPDATE) SELECT k, v FROM mine;
-- @b
BEGIN;
SELECT k, v FROM low WHERE k = 4 FOR UPDATE;
-- @a
UPDATE r SET v = 44 WHERE k = 4;
COMMIT;
-- @b
DELETE FROM r WHERE k = 4;
COMMIT;

-- In a statement that changes another table.
-- @a
BEGIN;
UPDATE h SET r = (SELECT k FROM r WHERE k = 5 FOR UPDATE) WHERE k = 1;
-- @b
BEGIN;
INSERT INTO h SELECT 100, k FROM r WHERE k = 5 FOR UPDATE;
-- @a
UPDATE r SET v = 55 WHERE k = 5;
COMMIT;
-- @b
UPDATE r SET v = v + 1 WHERE k = 5 RETURNING v;
COMMIT;

-- A function that a datanode runs, and a block that the coordinator does.
-- @a
BEGIN;
SELECT locked(6);
-- @b
DO $$
BEGIN
    PERFORM FROM r WHERE k = 6 FOR UPDATE;
    UPDATE r SET v = v + 6 WHERE k = 6;
END
$$;
-- @a
UPDATE r SET v = 60 WHERE k = 6;
COMMIT;
-- @b
SELECT v FROM r WHERE k = 6;

-- Who must not wait is told at once, or passes over the row, and goes on with another one.
-- @a
BEGIN;
SELECT k FROM r WHERE k = 7 FOR UPDATE;
-- @b
BEGIN;
SELECT k FROM r WHERE k >= 7 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED;
SELECT k FROM r WHERE k = 9 FOR UPDATE NOWAIT;
SELECT k FROM r WHERE k = 9 FOR SHARE;
-- @a
UPDATE r SET v = 7 WHERE k = 7;
COMMIT;
-- @b
UPDATE r SET v = 8 WHERE k = 8;
COMMIT;
BEGIN;
SELECT k FROM r WHERE k = 7 FOR UPDATE NOWAIT;
-- @a
SELECT k FROM r WHERE k = 7 FOR UPDATE NOWAIT;
SELECT k FROM r WHERE k = 7 FOR SHARE NOWAIT;
SELECT k FROM r WHERE k = 7 FOR KEY SHARE NOWAIT;
-- @b
COMMIT;

-- Locks of different rows do not meet on one server. Here the second waits for the first one's end (docs/consistency.md).
-- @a
BEGIN;
SELECT k FROM r WHERE k = 8 FOR UPDATE;
-- @b
BEGIN;
-- differs
SELECT k FROM r WHERE k = 9 FOR UPDATE;
-- @a
UPDATE r SET v = 80 WHERE k = 8;
COMMIT;
-- @b
UPDATE r SET v = 90 WHERE k = 9;
COMMIT;
SELECT k, v FROM r ORDER BY k;

-- A cursor.
BEGIN;
DECLARE c CURSOR FOR SELECT k, v FROM r WHERE k >= 8 ORDER BY k FOR UPDATE;
FETCH 1 FROM c;
-- @a
BEGIN;
SELECT v FROM r WHERE k = 8 FOR UPDATE;
-- @b
UPDATE r SET v = 81 WHERE CURRENT OF c;
COMMIT;
-- @a
UPDATE r SET v = v + 1 WHERE k = 8 RETURNING v;
COMMIT;

-- Two that have brought rows before.
-- @a
BEGIN;
INSERT INTO r VALUES (21, 0);
-- @b
BEGIN;
INSERT INTO r VALUES (22, 0);
-- @a
SELECT k, v FROM r WHERE k = 21 FOR UPDATE;
-- @b
SELECT k, v FROM r WHERE k = 22 FOR UPDATE;
COMMIT;
-- @a
UPDATE r SET v = 1 WHERE k = 21;
COMMIT;

-- Who has rights on some columns only, and who has none to lock rows.
CREATE ROLE e2e_locker;
CREATE ROLE e2e_looker;
CREATE ROLE e2e_stranger;
DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO e2e_locker, e2e_looker, e2e_stranger', current_schema()); END $$;
GRANT SELECT, UPDATE (v) ON r TO e2e_locker;
GRANT SELECT ON r TO e2e_looker;
BEGIN;
SELECT v FROM r WHERE k = 1 FOR UPDATE;
-- @b
SET ROLE e2e_locker;
BEGIN;
SELECT v FROM r WHERE k = 1 FOR NO KEY UPDATE;
-- @a
UPDATE r SET v = 100 WHERE k = 1;
COMMIT;
-- @b
UPDATE r SET v = v + 1 WHERE k = 1 RETURNING v;
COMMIT;
SET ROLE e2e_looker;
BEGIN;
SELECT v FROM r WHERE k = 1 FOR UPDATE;
ROLLBACK;
BEGIN READ ONLY;
SELECT v FROM r WHERE k = 1 FOR UPDATE;
ROLLBACK;
RESET ROLE;

-- A function that locks rows with its owner's rights, and one that does not come to it, for one who has no rights on the table.
SET ROLE e2e_stranger;
BEGIN;
SELECT locked_for_others(1);
SELECT locked_if(1, false);
SELECT locked_for_others(3);
COMMIT;
BEGIN;
SELECT locked_if(1, true);
ROLLBACK;
RESET ROLE;
-- @a
REVOKE ALL ON r FROM e2e_locker, e2e_looker;
DO $$ BEGIN EXECUTE format('REVOKE ALL ON SCHEMA %I FROM e2e_locker, e2e_looker, e2e_stranger', current_schema()); END $$;
DROP ROLE e2e_locker, e2e_looker, e2e_stranger;
