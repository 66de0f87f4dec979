-- Each node has catalogs of its own: what changes the rows of one is refused; what it means is done by a command.
-- refused
UPDATE pg_database SET datistemplate = true WHERE datname = 'nowhere';
-- refused
UPDATE pg_catalog.pg_class SET reltuples = 7 WHERE relname = 'nothing_here';
-- refused
DELETE FROM pg_trigger WHERE tgname = 'nothing_here';
-- refused
INSERT INTO pg_catalog.pg_description VALUES (0, 0, 0, 'text');
-- refused
COPY pg_description FROM STDIN;
1	2	3	text
\.
SELECT count(*) > 2 FROM pg_database AS d WHERE d.datname LIKE '%';
SELECT datname, datallowconn FROM pg_catalog.pg_database WHERE datname = 'template0';
SELECT d.datname, r.rolname FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba WHERE d.datname = current_database();
-- A table may have such a name.
CREATE TABLE pg_database_of_mine (id int PRIMARY KEY, datname name) /*dist: hash(id)*/;
INSERT INTO pg_database_of_mine SELECT 1, datname FROM pg_database WHERE datname = 'template1';
UPDATE pg_database_of_mine m SET datname = d.datname || 'x' FROM pg_database d WHERE d.datname = m.datname;
SELECT * FROM pg_database_of_mine;
DROP TABLE pg_database_of_mine;
