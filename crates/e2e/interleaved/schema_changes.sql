-- Schema changes and whole locked tables beside sessions that read and write.
CREATE TABLE book (id int PRIMARY KEY, title text) /*dist: hash(id) | replication*/;
INSERT INTO book SELECT g, 't' || g FROM generate_series(1, 6) g;

-- A schema change waits for those who have read the table, and who comes later waits for it.
-- @a
BEGIN;
SELECT count(*) FROM book;
-- @b
ALTER TABLE book ADD COLUMN pages int DEFAULT 1;
-- @c
SELECT * FROM book WHERE id = 1;
-- @a
COMMIT;
-- @c
SELECT * FROM book WHERE id = 2;

-- Within a transaction nobody sees it before its end.
-- @a
BEGIN;
CREATE TABLE shelf (id int) /*dist: hash(id)*/;
-- @b
SELECT * FROM shelf;
-- @a
COMMIT;
-- @b
SELECT * FROM shelf;

-- TRUNCATE waits for writers.
-- @a
BEGIN;
INSERT INTO shelf VALUES (1), (2);
-- @b
TRUNCATE shelf;
-- @a
COMMIT;
SELECT count(*) FROM shelf;

-- Table locks.
BEGIN;
LOCK TABLE book IN SHARE MODE;
-- @b
SELECT count(*) FROM book;
LOCK TABLE book IN SHARE MODE;
BEGIN;
LOCK TABLE book IN ROW EXCLUSIVE MODE NOWAIT;
ROLLBACK;
UPDATE book SET title = 'new' WHERE id = 1;
-- @a
COMMIT;
-- @b
SELECT title FROM book WHERE id = 1;
-- @a
BEGIN;
LOCK TABLE book IN ACCESS EXCLUSIVE MODE;
-- @b
SELECT count(*) FROM book;
-- @a
INSERT INTO book VALUES (7, 't7', 7);
COMMIT;

-- An index is made beside readers, not beside writers.
BEGIN;
INSERT INTO book VALUES (8, 't8', 8);
-- @b
CREATE INDEX book_title ON book (title);
-- @c
SELECT count(*) FROM book;
-- @a
COMMIT;

-- A table that goes.
BEGIN;
SELECT id FROM shelf WHERE id = 1;
-- @b
DROP TABLE shelf;
-- @a
ROLLBACK;
SELECT * FROM shelf;

-- Two who make a table of one name.
BEGIN;
CREATE TABLE twice (a int);
-- @b
CREATE TABLE twice (b text);
-- @a
ROLLBACK;
-- @b
SELECT * FROM twice;
