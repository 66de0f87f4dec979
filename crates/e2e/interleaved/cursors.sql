-- Cursors keep the picture of their start, whatever others do meanwhile.
CREATE TABLE page (id int PRIMARY KEY, text text) /*dist: hash(id) | replication*/;
INSERT INTO page SELECT g, 'v1' FROM generate_series(1, 5) g;

-- @a
BEGIN;
DECLARE c CURSOR FOR SELECT id, text FROM page ORDER BY id;
FETCH 1 FROM c;
-- @b
UPDATE page SET text = 'v2';
DELETE FROM page WHERE id = 4;
-- @a
FETCH 2 FROM c;
SELECT count(*), min(text) FROM page;
FETCH ALL FROM c;
COMMIT;

-- A cursor that locks what it shows.
BEGIN;
DECLARE c CURSOR FOR SELECT id, text FROM page WHERE id = 2 FOR UPDATE;
FETCH 1 FROM c;
-- @b
UPDATE page SET text = text || '+' WHERE id = 2 RETURNING text;
-- @a
UPDATE page SET text = 'by cursor' WHERE CURRENT OF c;
COMMIT;

-- One that outlives its transaction.
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id, text FROM page ORDER BY id;
COMMIT;
-- @b
DELETE FROM page;
-- @a
FETCH ALL FROM h;
CLOSE h;
SELECT count(*) FROM page;
