-- Circles of waits: one gives way, the other goes on. The session that waited first is also the one that began last, so that it is
-- the one that gives way on every server: PostgreSQL takes who looks first, and that is who has waited longest. (Writers of a replicated table queue up
-- and never come to it.)
CREATE TABLE pair (id int PRIMARY KEY, v text) /*dist: hash(id)*/;
INSERT INTO pair SELECT g, '' FROM generate_series(1, 8) g;

-- @a
-- It looks later than the other, however late it comes to wait.
SET deadlock_timeout = '1min';
BEGIN;
UPDATE pair SET v = 'a' WHERE id = 1;
-- @b
SET deadlock_timeout = '5s';
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
