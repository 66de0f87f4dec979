-- CREATE, ALTER and DROP TABLE.
CREATE TABLE t (a int, b text DEFAULT 'x', c numeric(10,2) NOT NULL DEFAULT 1.5) /*dist: hash(a) | replication | roundrobin | modulo(a)*/;
CREATE TABLE t (a int);
CREATE TABLE IF NOT EXISTS t (a int) /*dist: hash(a) | replication | roundrobin | modulo(a)*/;
INSERT INTO t (a) VALUES (1), (2), (3);
-- Rows on every node, however they are placed: each of them refuses what they violate.
COPY t (a) FROM STDIN;
-1
-2
-3
-4
\.
INSERT INTO t VALUES (4, 'y', 2);
SELECT * FROM t ORDER BY a;
ALTER TABLE t ADD COLUMN d date;
ALTER TABLE t ADD COLUMN IF NOT EXISTS d date;
ALTER TABLE t ADD COLUMN e int NOT NULL DEFAULT 7;
ALTER TABLE t ADD COLUMN d int;
SELECT * FROM t ORDER BY a;
UPDATE t SET d = DATE '2020-02-29' WHERE a = 2;
ALTER TABLE t RENAME COLUMN d TO day;
SELECT a, day FROM t ORDER BY a;
SELECT d FROM t;
ALTER TABLE t ALTER COLUMN e TYPE bigint;
ALTER TABLE t ALTER COLUMN e SET DEFAULT 8;
ALTER TABLE t ALTER COLUMN e DROP NOT NULL;
INSERT INTO t (a, e) VALUES (5, DEFAULT), (6, NULL);
COPY t (a, e) FROM STDIN;
16	\N
17	\N
18	\N
19	\N
\.
SELECT a, e FROM t ORDER BY a;
ALTER TABLE t ALTER COLUMN e SET NOT NULL;
UPDATE t SET e = 0 WHERE e IS NULL;
ALTER TABLE t ALTER COLUMN e SET NOT NULL;
INSERT INTO t (a, e) VALUES (7, NULL);
ALTER TABLE t ADD CONSTRAINT positive CHECK (e >= 0);
INSERT INTO t (a, e) VALUES (7, -1);
ALTER TABLE t ADD CONSTRAINT too_late CHECK (a > 3);
ALTER TABLE t DROP CONSTRAINT positive;
ALTER TABLE t DROP CONSTRAINT positive;
ALTER TABLE t DROP CONSTRAINT IF EXISTS positive;
INSERT INTO t (a, e) VALUES (7, -1);
ALTER TABLE t DROP COLUMN b;
ALTER TABLE t DROP COLUMN nope;
ALTER TABLE t DROP COLUMN IF EXISTS nope;
SELECT * FROM t ORDER BY a;
ALTER TABLE t RENAME TO u;
SELECT count(*) FROM u;
SELECT count(*) FROM t;
ALTER TABLE nope ADD COLUMN x int;
ALTER TABLE IF EXISTS nope ADD COLUMN x int;
COMMENT ON TABLE u IS 'a table';
COMMENT ON COLUMN u.a IS 'the key';
SELECT obj_description('u'::regclass, 'pg_class'), col_description('u'::regclass, 1);
TRUNCATE u;
SELECT count(*) FROM u;
TRUNCATE TABLE nope;
DROP TABLE u;
DROP TABLE u;
DROP TABLE IF EXISTS u;
CREATE UNLOGGED TABLE l (a int, b text) /*dist: hash(a) | replication | roundrobin | modulo(a)*/;
INSERT INTO l SELECT g, 'row ' || g FROM generate_series(1, 50) g;
SELECT count(*), min(b), max(a) FROM l;
SELECT relpersistence FROM pg_class WHERE oid = 'l'::regclass;
CREATE TABLE ctas /*dist: hash(a) | replication | roundrobin | modulo(a)*/ AS SELECT a, b, a * 2 AS twice FROM l WHERE a <= 5;
SELECT * FROM ctas ORDER BY a;
CREATE TABLE empty_ctas /*dist: hash(a) | replication | roundrobin | modulo(a)*/ AS SELECT a FROM l WITH NO DATA;
SELECT count(*) FROM empty_ctas;
CREATE TABLE copy_of (LIKE l INCLUDING ALL) /*dist: hash(a) | replication | roundrobin | modulo(a)*/;
INSERT INTO copy_of SELECT * FROM l;
SELECT count(*), sum(a) FROM copy_of;
DROP TABLE l, ctas, empty_ctas, copy_of;
CREATE TABLE bad (a int, a text);
CREATE TABLE bad (a nosuchtype);
CREATE TABLE bad (a int DEFAULT 'x');
CREATE TABLE bad (a int CHECK (b > 0));
CREATE TABLE nosuchschema.bad (a int);
CREATE TABLE wide (k int, "Mixed Case" text, "select" int, "a""b" int, ünïcode text) /*dist: hash(k) | replication | roundrobin | modulo(k)*/;
INSERT INTO wide VALUES (1, 'v', 2, 3, 'ö'), (2, NULL, NULL, NULL, NULL);
SELECT "Mixed Case", "select", "a""b", ünïcode FROM wide ORDER BY k;
SELECT mixed_case FROM wide;
UPDATE wide SET "select" = "select" + 1 WHERE "Mixed Case" = 'v' RETURNING "select", "a""b";
DROP TABLE wide;
CREATE TABLE "Weird Table" (k int PRIMARY KEY) /*dist: hash(k) | replication*/;
INSERT INTO "Weird Table" VALUES (1), (2);
SELECT * FROM "Weird Table" ORDER BY 1;
SELECT * FROM Weird_Table;
DROP TABLE "Weird Table";
-- The cluster's own schema takes no tables of users.
-- refused
CREATE TABLE loxo.mine (a int);
-- refused
CREATE VIEW loxo.mine AS SELECT 1 AS a;
-- refused
CREATE TABLE loxo.mine AS SELECT 1 AS a;
-- refused
CREATE FUNCTION loxo.mine() RETURNS int LANGUAGE sql AS 'SELECT 1';
-- refused
CREATE TYPE loxo.mine AS ENUM ('a');
-- refused
CREATE SEQUENCE loxo.mine;
CREATE TABLE not_mine (a int);
-- refused
ALTER TABLE not_mine SET SCHEMA loxo;
DROP TABLE not_mine;
