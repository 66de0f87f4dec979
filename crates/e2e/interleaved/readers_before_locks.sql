-- A block that has read a table reads it again while another session waits for all of it.
-- @a
CREATE TABLE read_twice (id int PRIMARY KEY, v int) /*dist: hash(id) | replication*/;
CREATE DOMAIN small AS int CHECK (VALUE < 1000);
CREATE TABLE read_words (id int PRIMARY KEY, w text COLLATE "C", s small, n numeric(5, 1)) /*dist: hash(id)*/;
INSERT INTO read_twice SELECT g, g % 4 FROM generate_series(1, 40) g;
INSERT INTO read_words SELECT g, chr(64 + g), g, g FROM generate_series(1, 8) g;
BEGIN;
SELECT count(*) FROM read_twice;
SELECT v, count(*) FROM read_twice GROUP BY v ORDER BY v;
SELECT max(w), sum(n), max(s) FROM read_words;
-- @b
BEGIN;
LOCK TABLE read_twice, read_words;
-- @a
SELECT count(*) FROM read_twice;
SELECT v, count(*) FROM read_twice GROUP BY v ORDER BY v;
SELECT max(w), sum(n), max(s) FROM read_words;
SELECT w, avg(n) FROM read_words GROUP BY w ORDER BY w;
SELECT DISTINCT w, s, n FROM read_words ORDER BY 1;
COMMIT;
-- @b
INSERT INTO read_twice VALUES (100, 1);
COMMIT;
-- @a
BEGIN;
SELECT v, count(*) FROM read_twice GROUP BY v ORDER BY v;
-- @b
TRUNCATE read_twice;
-- @a
SELECT v, count(*) FROM read_twice GROUP BY v ORDER BY v;
COMMIT;
-- @b
SELECT count(*) FROM read_twice;
-- @a
DROP TABLE read_twice, read_words;
DROP DOMAIN small;
