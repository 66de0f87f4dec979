-- Tables and views that somebody has locked do not keep others from learning of schema changes.
CREATE TABLE u (a int, b int) /*dist: hash(a) | replication*/;
INSERT INTO u SELECT g, g % 6 FROM generate_series(1, 20) g;
CREATE VIEW v AS SELECT * FROM u;
CREATE MATERIALIZED VIEW mv AS SELECT b, count(*) FROM u GROUP BY b;
-- @b
SELECT count(*) FROM v;
-- @a
SELECT count(*) FROM v;
BEGIN;
TRUNCATE u;
-- @b
CREATE TABLE x (a int);
-- @a
INSERT INTO u VALUES (1, 1);
-- @b
SELECT count(*) FROM x;
-- @a
SELECT count(*) FROM v;
COMMIT;
BEGIN;
REFRESH MATERIALIZED VIEW mv;
-- @b
DROP TABLE x;
CREATE TABLE y (a int);
SELECT count(*) FROM y;
-- @a
SELECT count(*) FROM u;
COMMIT;
BEGIN;
DROP VIEW v;
-- @b
BEGIN;
CREATE TABLE z (a int);
SELECT count(*) FROM z;
-- @a
COMMIT;
-- @b
COMMIT;
SELECT count(*) FROM z;
-- @a
CREATE VIEW v AS SELECT a, b AS c FROM u;
-- @b
SELECT c FROM v;
-- @a
ALTER TABLE u RENAME COLUMN b TO d;
BEGIN;
LOCK TABLE u IN ACCESS EXCLUSIVE MODE;
SELECT d FROM u;
COMMIT;
-- @b
SELECT c FROM v;
