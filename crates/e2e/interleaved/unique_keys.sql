-- One key, several sessions that want it.
CREATE TABLE name (id int PRIMARY KEY, label text) /*dist: hash(id) | replication*/;

-- @a
BEGIN;
INSERT INTO name VALUES (1, 'a');
-- @b
INSERT INTO name VALUES (1, 'b');
-- @a
COMMIT;
BEGIN;
INSERT INTO name VALUES (2, 'a');
-- @b
INSERT INTO name VALUES (2, 'b') RETURNING label;
-- @a
ROLLBACK;

-- ON CONFLICT waits too, and then does what it says.
BEGIN;
INSERT INTO name VALUES (3, 'a');
-- @b
INSERT INTO name VALUES (3, 'b') ON CONFLICT DO NOTHING;
-- @a
COMMIT;
BEGIN;
INSERT INTO name VALUES (4, 'a');
-- @b
INSERT INTO name VALUES (4, 'b') ON CONFLICT (id) DO UPDATE SET label = name.label || EXCLUDED.label RETURNING label;
-- @a
COMMIT;
BEGIN;
DELETE FROM name WHERE id = 4;
-- @b
INSERT INTO name VALUES (4, 'again');
-- @a
COMMIT;
-- @b
SELECT id, label FROM name ORDER BY id;
-- @a
BEGIN;
UPDATE name SET label = 'held' WHERE id = 3;
-- @b
COPY name FROM STDIN;
5	five
3	three
\.
-- @a
COMMIT;
-- @b
SELECT id, label FROM name ORDER BY id;
