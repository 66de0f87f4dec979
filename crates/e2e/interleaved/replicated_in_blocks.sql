-- Whoever changes a replicated table in a block waits for another who does, by the names that his search path finds.
CREATE TABLE r (k int PRIMARY KEY, v int) /*dist: replication | hash(k)*/;
INSERT INTO r SELECT g, 0 FROM generate_series(1, 6) g;

-- @a
BEGIN;
UPDATE r SET v = 1 WHERE k = 1;
-- @b
BEGIN;
DELETE FROM r WHERE k = 1;
-- @a
COMMIT;
-- @b
COMMIT;
SELECT k, v FROM r ORDER BY k;
-- @a
BEGIN;
LOCK TABLE r;
-- @b
BEGIN;
UPDATE r SET v = v + 1 WHERE k < 4;
-- @a
COMMIT;
-- @b
COMMIT;
SELECT k, v FROM r ORDER BY k;
