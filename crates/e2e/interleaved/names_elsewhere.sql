-- What becomes of tables of the same name in schemas that no name in a session leads to is nothing to its statements.
CREATE SCHEMA e2e_here;
CREATE SCHEMA e2e_there;
CREATE TABLE e2e_here.book (id int PRIMARY KEY, title text) /*dist: hash(id)*/;
INSERT INTO e2e_here.book SELECT g, 't' || g FROM generate_series(1, 6) g;
CREATE TABLE e2e_there.book (id int, pages int) /*dist: hash(id)*/;
CREATE TABLE e2e_there.shelf (id int) /*dist: replication*/;
CREATE TABLE e2e_there.page (id int) /*dist: hash(id)*/;
CREATE VIEW e2e_here.titles AS SELECT title FROM e2e_here.book;
CREATE TABLE e2e_here.small (id int) /*dist: replication*/;
CREATE TABLE e2e_there.small (id int) /*dist: replication*/;
INSERT INTO e2e_here.small VALUES (1), (2);

-- A block that keeps its snapshot.
-- @a
SET search_path = e2e_here;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM book;
-- @b
DROP TABLE e2e_there.book, e2e_there.small;
-- @a
SELECT title FROM book WHERE id = 2;
SELECT count(*) FROM book;
SELECT count(*) FROM titles;
SELECT count(*) FROM e2e_here.book;
INSERT INTO book VALUES (7, 't7');
COMMIT;

-- One that waits.
-- @b
CREATE TABLE e2e_there.book (id int) /*dist: replication*/;
BEGIN;
LOCK TABLE e2e_here.book;
-- @a
BEGIN;
UPDATE book SET title = 'new' WHERE id = 3;
-- @b
DROP TABLE e2e_there.book;
COMMIT;
-- @a
UPDATE book SET title = 'newer' WHERE id > 3;
COMMIT;
SELECT id, title FROM book ORDER BY id;

-- Where the name did lead there, it is another matter, whichever schema comes first.
CREATE TABLE e2e_there.book (id int) /*dist: hash(id)*/;
SET search_path = e2e_here, e2e_there;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM book;
SELECT count(*) FROM page;
-- @b
DROP TABLE e2e_there.book;
-- @a
SELECT count(*) FROM book;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM book;
-- @b
DROP TABLE e2e_there.shelf;
-- @a
-- PostgreSQL does not find it any more. The block's catalog has it.
-- differs
SELECT count(*) FROM shelf;
ROLLBACK;
-- @b
DROP VIEW e2e_here.titles;
DROP TABLE e2e_here.book, e2e_here.small, e2e_there.page;
