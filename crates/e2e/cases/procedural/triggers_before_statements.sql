-- Triggers BEFORE … FOR EACH STATEMENT that change rows: their statement does not see it, in PostgreSQL by its snapshot.
CREATE TABLE acc (id int PRIMARY KEY, n int) /*dist: hash(id) | replication | hash(id)*/;
CREATE TABLE st (id int PRIMARY KEY, total int DEFAULT 0) /*dist: hash(id) | replication*/;
CREATE TABLE parts (id int, n int) PARTITION BY RANGE (id) /*dist: hash(id)*/;
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
INSERT INTO acc SELECT i, 10 FROM generate_series(1, 4) i;
INSERT INTO st VALUES (1, 0);
INSERT INTO parts VALUES (1, 1), (11, 11);
CREATE FUNCTION adds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO acc VALUES (100, 5); RETURN NULL; END $$;
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE st SET total = total + 1; RETURN NULL; END $$;
CREATE FUNCTION clears() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM acc WHERE id > 100; RETURN NULL; END $$;
CREATE FUNCTION fills() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'INSERT INTO parts VALUES (12, 1)'; RETURN NULL; END $$;
CREATE FUNCTION finds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE st SET total = total + 1 WHERE id = (SELECT count(*) FROM acc WHERE id < 0); RETURN NULL; END $$;
CREATE TRIGGER z BEFORE UPDATE ON acc FOR EACH STATEMENT EXECUTE FUNCTION adds();
-- refused
UPDATE acc SET n = n + 1;
SELECT * FROM acc ORDER BY id;
DELETE FROM acc WHERE id = 100;
-- refused
UPDATE acc SET n = n + 1 WHERE id = 3 RETURNING n;
DELETE FROM acc WHERE id = 100;
DROP TRIGGER z ON acc;
-- What only others read.
CREATE TRIGGER z BEFORE INSERT OR UPDATE OR DELETE ON acc FOR EACH STATEMENT EXECUTE FUNCTION counts();
UPDATE acc SET n = n + 1;
-- refused
INSERT INTO acc VALUES (201, (SELECT total FROM st));
-- refused
INSERT INTO acc SELECT 202, total FROM st;
-- refused
INSERT INTO acc SELECT 204, total FROM st ON CONFLICT DO NOTHING;
-- refused
UPDATE acc SET n = st.total FROM st WHERE acc.id = 2;
INSERT INTO acc VALUES (203, 1);
DELETE FROM acc WHERE id = 203;
-- refused
WITH x AS (SELECT total FROM st) DELETE FROM acc USING x WHERE acc.id = x.total + 1000;
SELECT * FROM st;
SELECT * FROM acc ORDER BY id;
-- refused: v1 | v3
CREATE POLICY p ON acc USING ((SELECT sum(total) FROM st) >= 0);
INSERT INTO acc VALUES (205, 1);
DROP POLICY p ON acc;
DROP TRIGGER z ON acc;
-- A temporary table, and a temporary view.
CREATE TEMP TABLE noted (k int);
INSERT INTO noted VALUES (3);
CREATE TEMP VIEW totals AS SELECT total FROM st;
CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE noted SET k = k + 1; UPDATE st SET total = total + 1; RETURN NULL; END $$;
CREATE TRIGGER z BEFORE INSERT OR UPDATE OR DELETE ON acc FOR EACH STATEMENT EXECUTE FUNCTION notes();
-- refused
UPDATE acc SET n = k FROM noted WHERE id = 1;
-- refused
UPDATE acc SET n = total FROM totals WHERE id = 1;
SELECT n FROM acc WHERE id = 1;
INSERT INTO acc VALUES (206, 1);
SELECT k FROM noted;
DROP VIEW totals;
DROP TABLE noted;
DROP TRIGGER z ON acc;
-- An INSERT looks at no row of its table.
CREATE TRIGGER z BEFORE INSERT ON acc FOR EACH STATEMENT EXECUTE FUNCTION clears();
INSERT INTO acc VALUES (301, 1);
INSERT INTO acc VALUES (301, 2) ON CONFLICT DO NOTHING;
INSERT INTO acc SELECT 302, count(*) FROM st;
-- refused
INSERT INTO acc VALUES (302, 3) ON CONFLICT (id) DO UPDATE SET n = 0;
-- refused
INSERT INTO acc VALUES (1, 3) ON CONFLICT (id) DO UPDATE SET n = 0;
SELECT id FROM acc ORDER BY id;
DROP TRIGGER z ON acc;
-- Nothing is changed.
CREATE TRIGGER z BEFORE UPDATE ON acc FOR EACH STATEMENT EXECUTE FUNCTION finds();
UPDATE acc SET n = (SELECT total FROM st) WHERE id = 4;
SELECT n FROM acc WHERE id = 4;
DROP TRIGGER z ON acc;
-- Partitions, by EXECUTE.
CREATE TRIGGER z BEFORE DELETE ON parts FOR EACH STATEMENT EXECUTE FUNCTION fills();
-- refused
DELETE FROM parts WHERE n = 1;
SELECT * FROM parts ORDER BY id;
