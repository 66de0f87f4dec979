-- What each isolation level shows of the others, and whom it refuses.
CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL) /*dist: hash(id) | replication*/;
INSERT INTO stock SELECT g, 10 FROM generate_series(1, 6) g;

-- READ COMMITTED sees what was committed, statement by statement; REPEATABLE READ does not.
-- @a
BEGIN;
SELECT sum(n) FROM stock;
-- @c
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(n) FROM stock;
-- @b
BEGIN;
UPDATE stock SET n = n + 1;
-- @a
SELECT sum(n) FROM stock;
-- @b
COMMIT;
-- @a
SELECT sum(n) FROM stock;
COMMIT;
-- @c
SELECT sum(n) FROM stock;
SELECT n FROM stock WHERE id = 3;
UPDATE stock SET n = 0 WHERE id = 3;
SELECT 1;
ROLLBACK;
SELECT sum(n) FROM stock;

-- Two that change one row in REPEATABLE READ: the second waits, then is refused, or goes on after a rollback.
-- @a
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE stock SET n = 20 WHERE id = 1;
-- @b
BEGIN ISOLATION LEVEL REPEATABLE READ;
-- Writers of a replicated table queue up (docs/consistency.md), here before the snapshot of the first statement is taken; but after
-- it if the statement had to be analysed in the block, and then it fails as on one server.
-- may differ: v2
UPDATE stock SET n = n + 1 WHERE id = 1;
-- @a
COMMIT;
-- @b
ROLLBACK;
-- @a
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE stock SET n = 30 WHERE id = 1;
-- @b
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE stock SET n = n + 1 WHERE id = 1 RETURNING n;
-- @a
ROLLBACK;
-- @b
COMMIT;

-- A lock in REPEATABLE READ on what another has changed.
-- @a
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM stock;
-- @b
UPDATE stock SET n = 5 WHERE id = 2;
-- @a
SELECT n FROM stock WHERE id = 4 FOR UPDATE;
SELECT n FROM stock WHERE id = 2 FOR UPDATE;
ROLLBACK;

-- A read only block keeps its picture while rows come and go.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT count(*), sum(n) FROM stock;
-- @b
INSERT INTO stock VALUES (7, 70), (8, 80);
DELETE FROM stock WHERE id = 6;
-- @a
SELECT count(*), sum(n) FROM stock;
INSERT INTO stock VALUES (9, 9);
COMMIT;
SELECT count(*), sum(n) FROM stock;

-- Write skew: both would be right alone.
-- @a
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(n) FROM stock WHERE id IN (4, 5);
-- @b
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(n) FROM stock WHERE id IN (4, 5);
-- @a
UPDATE stock SET n = n - 15 WHERE id = 4;
-- @b
-- Writers of a replicated table queue up.
-- differs: v2
UPDATE stock SET n = n - 15 WHERE id = 5;
-- @a
COMMIT;
-- @b
COMMIT;
SELECT sum(n) FROM stock WHERE id IN (4, 5);
