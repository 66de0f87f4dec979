-- SERIALIZABLE transactions over several datanodes, alone in the cluster.
CREATE TABLE s (id int PRIMARY KEY, g int, v numeric);
CREATE TABLE u (id int PRIMARY KEY, s_id int, t text);
CREATE TABLE r (g int PRIMARY KEY, name text) /*dist: replication*/;
INSERT INTO s SELECT i, i % 5, i * 1.5 FROM generate_series(1, 40) i;
INSERT INTO u SELECT i, 41 - i, 'u' || i FROM generate_series(1, 40) i;
INSERT INTO r SELECT i, 'r' || i FROM generate_series(0, 4) i;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SHOW transaction_isolation;
SELECT g, count(*), sum(v) FROM s GROUP BY g ORDER BY g;
SELECT r.name, count(*) FROM s JOIN u ON u.s_id = s.id JOIN r USING (g) GROUP BY 1 ORDER BY 1;
UPDATE s SET v = v + 1 WHERE id = 3;
UPDATE s SET v = v + (SELECT count(*) FROM u WHERE u.s_id > s.id) WHERE g = 2;
INSERT INTO s SELECT id + 100, 1, 0 FROM u WHERE s_id < 4;
SAVEPOINT a;
DELETE FROM s WHERE id IN (SELECT s_id FROM u WHERE t LIKE 'u1%');
SELECT count(*), sum(v) FROM s;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM s;
UPDATE r SET name = name || '!' WHERE g < 2;
SELECT name FROM r ORDER BY 1;
DECLARE c SCROLL CURSOR FOR SELECT id FROM s ORDER BY id;
FETCH 2 FROM c;
FETCH LAST FROM c;
COPY (SELECT id, v FROM s WHERE g = 1 ORDER BY id LIMIT 3) TO STDOUT;
MERGE INTO s USING u ON s.id = u.s_id AND u.id < 3 WHEN MATCHED THEN UPDATE SET v = -1;
COMMIT AND CHAIN;
SHOW transaction_isolation;
SELECT count(*), sum(v) FROM s;
ROLLBACK;
-- One that begins on a datanode, and an error in the middle.
BEGIN;
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
SELECT v FROM s WHERE id = 7;
UPDATE s SET v = v / 0 WHERE id = 7;
SELECT 1;
ROLLBACK;
BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT count(*) FROM s JOIN u ON s.v > u.id;
SELECT name FROM r WHERE g = 1;
UPDATE s SET v = 0;
ROLLBACK;
BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT sum(v) FROM s;
COMMIT;
-- Tables before the first query, and made in between.
BEGIN ISOLATION LEVEL SERIALIZABLE;
LOCK TABLE s IN SHARE MODE;
SELECT count(*) FROM s, u WHERE s.id = u.s_id;
CREATE TEMP TABLE few AS SELECT id FROM s WHERE g = 3;
SELECT count(*) FROM few JOIN u ON u.s_id = few.id;
DROP TABLE few;
COMMIT;
-- Statements alone.
SET default_transaction_isolation = serializable;
SELECT count(*), sum(v) FROM s;
UPDATE s SET v = v + 1;
INSERT INTO s VALUES (201, 1, 1), (202, 2, 2), (203, 3, 3) RETURNING id;
DELETE FROM s USING u WHERE u.s_id = s.id AND u.id = 5;
COPY s FROM STDIN;
301	1	1
302	2	2
303	3	3
\.
COPY (SELECT count(*) FROM s) TO STDOUT;
PREPARE p AS SELECT count(*) FROM s WHERE g = $1;
EXECUTE p(1);
CREATE TABLE made AS SELECT g, sum(v) FROM s GROUP BY g;
SELECT count(*) FROM made;
SELECT 1; SELECT count(*) FROM s; SELECT count(*) FROM u;
INSERT INTO s VALUES (301, 0, 0);
VACUUM s;
DO $$ BEGIN UPDATE s SET v = 0; INSERT INTO u SELECT id, 0, '' FROM s WHERE id > 100; END $$;
SELECT count(*), sum(v) FROM s;
RESET default_transaction_isolation;
-- A role without rights of its own on our table.
CREATE ROLE serial_reader;
GRANT SELECT ON s, u TO serial_reader;
SET ROLE serial_reader;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM s JOIN u ON s.id = u.s_id;
SELECT id FROM s WHERE id = 5;
COMMIT;
RESET ROLE;
DROP TABLE s, u, r, made;
DROP ROLE serial_reader;
