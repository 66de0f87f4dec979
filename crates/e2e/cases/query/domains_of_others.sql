-- A SELECT calls no CHECK of a domain; where values of it arrive at another node, it would be called with the reader's rights. That of
-- another role is not.
CREATE ROLE e2e_domains;
CREATE FUNCTION is_small(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN $1 < 100; END $$;
CREATE DOMAIN small AS int CHECK (is_small(VALUE));
CREATE TABLE d (id int, k int, v small, a small[]) /*dist: hash(id)*/;
CREATE TABLE plain (id int, k int) /*dist: hash(id) | roundrobin*/;
CREATE TABLE r (id int, v small, a small[]) /*dist: replication*/;
CREATE TABLE own (id int, k int, v small) /*dist: hash(k)*/;
CREATE TABLE copies (id int PRIMARY KEY, k int, v small) /*dist: replication*/;
CREATE TABLE bag (id int, v small) /*dist: replication*/;
CREATE TABLE above (k int PRIMARY KEY) /*dist: hash(k)*/;
CREATE TABLE below (id int, k int REFERENCES above ON UPDATE CASCADE, v small) /*dist: hash(k)*/;
CREATE TABLE judged (id int, k int, v small) /*dist: hash(id)*/;
CREATE TABLE told (id int, k int, v small) /*dist: hash(id)*/;
CREATE SEQUENCE numbers;
INSERT INTO r SELECT g, g, ARRAY[g, 1] FROM generate_series(1, 9) g;
INSERT INTO own SELECT g, 10 - g, g FROM generate_series(1, 9) g;
INSERT INTO copies SELECT g, 10 - g, g + 1 FROM generate_series(1, 9) g;
INSERT INTO bag SELECT g, g FROM generate_series(1, 9) g;
INSERT INTO above SELECT generate_series(1, 9);
INSERT INTO below SELECT g, g, g FROM generate_series(1, 9) g;
INSERT INTO judged SELECT g, g, g FROM generate_series(1, 9) g;
INSERT INTO told SELECT g, g, g FROM generate_series(1, 9) g;
INSERT INTO d SELECT g, 10 - g, g, ARRAY[g, 1] FROM generate_series(1, 9) g;
INSERT INTO plain SELECT g, g FROM generate_series(1, 9) g;
CREATE FUNCTION more(int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM plain WHERE id > $1); END $$;
CREATE FUNCTION more_than(small) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM plain WHERE id > $1); END $$;
CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.k := NEW.k + (SELECT count(*) FROM plain);
    RETURN NEW;
END $$;
CREATE TRIGGER judge BEFORE UPDATE ON judged FOR EACH ROW EXECUTE FUNCTION judge();
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.k < 100 THEN
        RAISE NOTICE '%', (SELECT k FROM plain WHERE id = NEW.id);
    ELSE
        RAISE NOTICE '%', (SELECT k FROM plain WHERE id = NEW.v);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tell AFTER UPDATE ON told FOR EACH ROW EXECUTE FUNCTION tell();
-- The reader's own.
SELECT a.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
SELECT v, row_number() OVER (ORDER BY v) FROM d;

ALTER FUNCTION is_small(int) OWNER TO e2e_domains;
-- One PostgreSQL calls it, too, for what was not of the domain.
INSERT INTO own SELECT nextval('numbers'), id, k FROM plain;
INSERT INTO own VALUES (nextval('numbers'), 1, 5), (nextval('numbers'), 2, 6);
UPDATE own SET v = 7 FROM plain WHERE plain.k = own.k AND plain.id = 3;
SELECT more_than(5);
DO $$ DECLARE x small := 5; BEGIN INSERT INTO own SELECT x, x, count(*) FROM plain WHERE id > x; END $$;
SELECT k, v + 0 AS v FROM own ORDER BY 1, 2;

CREATE OR REPLACE FUNCTION is_small(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called'; END $$;
-- refused
SELECT a.v, b.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
-- refused
SELECT v, row_number() OVER (ORDER BY v) FROM d;
-- refused: v2
SELECT count(x) FROM d x JOIN d b ON x.k = b.id;
-- refused
SELECT a, row_number() OVER (ORDER BY id) FROM d;
-- refused
CREATE TABLE kept AS SELECT v FROM d;
-- refused
CREATE MATERIALIZED VIEW kept AS SELECT id, a FROM d;
CREATE TABLE kept AS SELECT id FROM d;
DROP TABLE kept;
-- Rows that come from a stage, from another copy, or after their key.
-- refused
INSERT INTO own SELECT nextval('numbers'), id, v FROM r;
-- refused
INSERT INTO own VALUES (nextval('numbers'), 1, (SELECT v FROM r WHERE id = 3));
-- refused
UPDATE copies SET v = r.v, k = random() * 0 FROM r WHERE r.id = copies.id;
-- refused
DELETE FROM bag WHERE random() >= 0;
-- refused
UPDATE above SET k = k + 100;
UPDATE copies SET k = random() * 0;
SELECT * FROM copies ORDER BY id;
-- Rows of RETURNING.
-- refused
WITH gone AS (DELETE FROM d RETURNING id, k, v) INSERT INTO own SELECT id, k, v FROM gone;
-- refused
WITH gone AS (DELETE FROM d RETURNING id, coalesce(v, v) AS v) INSERT INTO own (id, v) SELECT id, v FROM gone;
WITH gone AS (DELETE FROM d WHERE id > 9 RETURNING id, k, v + 0 AS v) INSERT INTO plain SELECT id, v FROM gone;
-- Values of other steps.
-- refused
INSERT INTO own SELECT more(id), k, v FROM d;
-- refused
SELECT more_than(v) FROM d WHERE id = 3;
SELECT v, a FROM (SELECT v, a FROM d FOR UPDATE) x;
SELECT more(id) FROM d ORDER BY 1;
-- Variables.
-- refused
DO $$ DECLARE x record; BEGIN SELECT id, k, v INTO x FROM d WHERE k = 3; INSERT INTO own VALUES (x.id, x.k, x.v); END $$;
-- refused
DO $$ DECLARE x d; BEGIN FOR x IN SELECT * FROM d LOOP PERFORM count(*) FROM d WHERE v = x.v; END LOOP; END $$;
-- refused
DO $$ DECLARE x small[]; BEGIN SELECT a INTO x FROM d WHERE k = 3; PERFORM count(*) FROM d WHERE a = x; END $$;
-- refused
DO $$ DECLARE c CURSOR FOR SELECT id, v FROM d WHERE k = 3; x record; BEGIN OPEN c; FETCH c INTO x; INSERT INTO own VALUES (x.id, x.id, x.v); END $$;
DO $$ DECLARE c CURSOR FOR SELECT id, k FROM d WHERE k = 3; x record; BEGIN OPEN c; FETCH c INTO x; PERFORM count(*) FROM d WHERE id = x.id; END $$;
DO $$ DECLARE x record; BEGIN SELECT id, k INTO x FROM d WHERE k = 3; PERFORM count(*) FROM d WHERE id = x.id; END $$;
DO $$ DECLARE x int; BEGIN SELECT v INTO x FROM d WHERE k = 3; INSERT INTO plain SELECT 100, count(*) FROM d WHERE id = x; END $$;
-- Rows of triggers.
-- refused
UPDATE judged SET k = k + 1;
UPDATE told SET k = k + 1 WHERE id = 3;
-- refused
UPDATE told SET k = k + 100 WHERE id = 3;
-- Where they stay, and where others go.
SELECT v FROM d WHERE id = 3;
SELECT p.k, p.id FROM plain p JOIN plain q ON p.k = q.k + 1 ORDER BY 1;
SELECT a.id FROM d a JOIN d b ON a.k = b.id ORDER BY 1;

CREATE OR REPLACE FUNCTION is_small(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN $1 < 100; END $$;
ALTER FUNCTION is_small(int) OWNER TO CURRENT_USER;
INSERT INTO own SELECT nextval('numbers'), id, v FROM r;
UPDATE above SET k = k + 100;
UPDATE judged SET k = k + 1 WHERE id < 4;
WITH gone AS (DELETE FROM d WHERE id = 9 RETURNING id, k, v) INSERT INTO own SELECT id, k, v FROM gone;
DO $$ DECLARE x record; BEGIN SELECT id, k, v INTO x FROM d WHERE k = 3; INSERT INTO own VALUES (x.id, x.k, x.v); END $$;
SELECT k, v FROM own ORDER BY 1, 2;
SELECT * FROM below ORDER BY id;
SELECT * FROM judged ORDER BY id;
SELECT a.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;

-- One that does no more than look.
CREATE DOMAIN past AS date CHECK (VALUE < now());
CREATE TABLE h (id int, k int, v past) /*dist: hash(id)*/;
INSERT INTO h SELECT g, 10 - g, date '2001-01-01' + g FROM generate_series(1, 9) g;
ALTER DOMAIN past OWNER TO e2e_domains;
SELECT a.v FROM h a JOIN h b ON a.k = b.id ORDER BY 1;

DROP FUNCTION more_than(small);
DROP TABLE d, h, r, own, copies, bag, above, below, judged, told;
DROP DOMAIN small, past;
DROP ROLE e2e_domains;
