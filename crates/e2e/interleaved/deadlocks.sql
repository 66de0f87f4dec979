-- Circles of waits: one gives way, the other goes on. The session that waited first is also the one that began last, so that it is
-- the one that gives way on every server: PostgreSQL takes who looks first, and that is who has waited longest.
CREATE TABLE pair (id int PRIMARY KEY, v text) /*dist: hash(id) | replication*/;
INSERT INTO pair SELECT g, '' FROM generate_series(1, 8) g;

-- @a
BEGIN;
UPDATE pair SET v = 'a' WHERE id = 1;
-- @b
BEGIN;
UPDATE pair SET v = 'b' WHERE id = 2;
UPDATE pair SET v = 'b' WHERE id = 1;
-- @a
-- deadlock
UPDATE pair SET v = 'a' WHERE id = 2;
COMMIT;
-- @b
SELECT 1;
COMMIT;
SELECT id, v FROM pair WHERE v <> '' ORDER BY id;
