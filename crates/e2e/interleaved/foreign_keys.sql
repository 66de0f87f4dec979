-- Parents that go, change or come while children come.
CREATE TABLE parent (id int PRIMARY KEY, note text) /*dist: hash(id) | replication | replication*/;
CREATE TABLE child (parent_id int REFERENCES parent, n int) /*dist: hash(parent_id) | hash(n) | replication*/;
INSERT INTO parent SELECT g, 'p' FROM generate_series(1, 9) g;

-- A parent that is being deleted.
-- @a
BEGIN;
DELETE FROM parent WHERE id = 1;
-- @b
INSERT INTO child VALUES (1, 1);
-- @a
COMMIT;
BEGIN;
DELETE FROM parent WHERE id = 2;
-- @b
INSERT INTO child VALUES (2, 2);
-- @a
ROLLBACK;

-- A child that is not committed holds its parent.
-- @a
BEGIN;
INSERT INTO child VALUES (3, 3);
-- @b
DELETE FROM parent WHERE id = 3;
-- @a
COMMIT;
BEGIN;
INSERT INTO child VALUES (4, 4);
-- @b
DELETE FROM parent WHERE id = 4;
-- @a
ROLLBACK;

-- A change beside the key holds nobody up.
BEGIN;
UPDATE parent SET note = 'changed' WHERE id = 5;
-- @b
INSERT INTO child VALUES (5, 5);
-- @a
COMMIT;

-- A locked parent.
BEGIN;
SELECT id FROM parent WHERE id = 6 FOR UPDATE;
-- @b
INSERT INTO child VALUES (6, 6);
-- @a
COMMIT;

-- A parent that is not committed yet.
BEGIN;
INSERT INTO parent VALUES (10, 'new');
-- @b
INSERT INTO child VALUES (10, 10);
-- @a
COMMIT;
-- @b
INSERT INTO child VALUES (10, 10);
SELECT parent_id, n FROM child ORDER BY parent_id, n;
SELECT id, note FROM parent ORDER BY id;
