-- A queue of jobs that several workers empty.
CREATE TABLE job (id int PRIMARY KEY, state text NOT NULL DEFAULT 'new', worker text) /*dist: hash(id) | replication*/;
INSERT INTO job (id) SELECT generate_series(1, 9);

-- @a
BEGIN;
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED;
-- @b
BEGIN;
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED;
-- @c
SELECT id FROM job WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED;
-- @a
UPDATE job SET state = 'done', worker = 'a' WHERE id IN (1, 2);
-- @c
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE NOWAIT;
-- @a
COMMIT;
-- @c
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE NOWAIT;
-- @b
ROLLBACK;
-- @c
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- Taken and noted in one statement.
-- @a
BEGIN;
UPDATE job SET state = 'taken', worker = 'a' WHERE id = (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id;
-- @b
BEGIN;
UPDATE job SET state = 'taken', worker = 'b' WHERE id = (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id;
-- @c
DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING id;
-- @a
COMMIT;
-- @b
ROLLBACK;
-- @c
SELECT id, state, worker FROM job ORDER BY id;
