-- Users' tables with the names of PostgreSQL's catalogs, that a bare name means by the search path, or since they are temporary.
CREATE SCHEMA front;
CREATE TABLE front.pg_class (relname text, b int) /*dist: hash(b) | replication | roundrobin*/;
CREATE TABLE front.pg_database (datname text, b int) /*dist: hash(b) | replication | roundrobin*/;
CREATE TABLE front.pg_stat_activity (state text, b int) /*dist: hash(b) | replication | roundrobin*/;
CREATE TABLE front.pg_trigger (tgname text, b int) /*dist: hash(b) | replication | roundrobin*/;
INSERT INTO front.pg_class VALUES ('mine', 1), ('yours', 2), ('pg_type', 3);
INSERT INTO front.pg_database VALUES ('mine', 1), ('yours', 2);
INSERT INTO front.pg_stat_activity VALUES ('mine', 1), ('yours', 2);
INSERT INTO front.pg_trigger VALUES ('mine', 1), ('yours', 2);
-- pg_catalog comes first where nobody names it.
SET search_path = front, public;
SELECT count(*) FROM pg_class WHERE relname IN ('mine', 'pg_type');
SELECT count(*) FROM pg_database WHERE datname = 'mine';
SELECT count(*) FROM pg_stat_activity WHERE state = 'mine';
SET search_path = front, pg_catalog, public;
SELECT * FROM pg_class ORDER BY b;
SELECT relname FROM pg_class WHERE b = 1;
SELECT datname, b FROM pg_database ORDER BY b;
SELECT state, b FROM pg_stat_activity ORDER BY b;
SELECT t.tgname, d.datname FROM pg_trigger t JOIN pg_database d USING (b) ORDER BY b;
SELECT c.relname, p.relkind FROM pg_class c JOIN pg_catalog.pg_class p ON p.relname = c.relname;
WITH pg_class AS (SELECT 5 AS b) SELECT b FROM pg_class;
-- params: 2
SELECT relname FROM pg_class WHERE b = $1;
COPY (SELECT * FROM pg_database ORDER BY b) TO STDOUT;
BEGIN;
DECLARE c CURSOR FOR SELECT datname FROM pg_database ORDER BY b;
FETCH ALL FROM c;
COMMIT;
SET search_path = pg_catalog, front;
SELECT count(*) FROM pg_class WHERE relname IN ('mine', 'pg_type');
SELECT count(*) FROM pg_database WHERE datname = 'mine';
RESET search_path;
-- What is temporary comes before all.
CREATE TEMP TABLE pg_type (typname text, b int);
INSERT INTO pg_temp.pg_type VALUES ('mine', 1), ('int4', 2);
SELECT * FROM pg_type ORDER BY b;
SELECT t.typname, p.typlen FROM pg_type t JOIN pg_catalog.pg_type p ON p.typname = t.typname;
SELECT count(*) FROM pg_namespace WHERE nspname = 'front';
SET search_path = public, pg_catalog, pg_temp;
SELECT count(*) FROM pg_type WHERE typname IN ('mine', 'int4');
RESET search_path;
DROP TABLE pg_temp.pg_type;
SELECT count(*) FROM pg_type WHERE typname IN ('mine', 'int4');
-- Inside a block.
BEGIN;
CREATE TABLE front.pg_namespace (nspname text, b int) /*dist: hash(b) | replication | roundrobin*/;
INSERT INTO front.pg_namespace VALUES ('mine', 1);
SET LOCAL search_path = front, pg_catalog;
SELECT nspname, b FROM pg_namespace;
ROLLBACK;
SELECT count(*) FROM pg_namespace WHERE nspname = 'mine';
