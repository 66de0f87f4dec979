-- A SELECT calls no CHECK of a domain; where values of it arrive at another node, it would be called with the reader's rights. That of
-- another role is not.
CREATE ROLE e2e_domains;
CREATE FUNCTION is_small(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN $1 < 100; END $$;
CREATE DOMAIN small AS int CHECK (is_small(VALUE));
CREATE TABLE d (id int, k int, v small, a small[]) /*dist: hash(id)*/;
CREATE TABLE plain (id int, k int) /*dist: hash(id) | roundrobin*/;
INSERT INTO d SELECT g, 10 - g, g, ARRAY[g, 1] FROM generate_series(1, 9) g;
INSERT INTO plain SELECT g, g FROM generate_series(1, 9) g;
-- The reader's own.
SELECT a.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
SELECT v, row_number() OVER (ORDER BY v) FROM d;

ALTER FUNCTION is_small(int) OWNER TO e2e_domains;
CREATE OR REPLACE FUNCTION is_small(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called'; END $$;
-- refused
SELECT a.v, b.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
-- refused
SELECT v, row_number() OVER (ORDER BY v) FROM d;
-- refused
SELECT count(x) FROM d x JOIN d b ON x.k = b.id;
-- refused
SELECT a, row_number() OVER (ORDER BY id) FROM d;
-- refused
CREATE TABLE kept AS SELECT v FROM d;
-- refused
CREATE MATERIALIZED VIEW kept AS SELECT id, a FROM d;
CREATE TABLE kept AS SELECT id FROM d;
DROP TABLE kept;
-- Where they stay, and where others go.
SELECT v FROM d WHERE id = 3;
SELECT p.k, p.id FROM plain p JOIN plain q ON p.k = q.k + 1 ORDER BY 1;
SELECT a.id FROM d a JOIN d b ON a.k = b.id ORDER BY 1;

CREATE OR REPLACE FUNCTION is_small(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN $1 < 100; END $$;
ALTER FUNCTION is_small(int) OWNER TO CURRENT_USER;
SELECT a.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;

-- One that does no more than look.
CREATE DOMAIN past AS date CHECK (VALUE < now());
CREATE TABLE h (id int, k int, v past) /*dist: hash(id)*/;
INSERT INTO h SELECT g, 10 - g, date '2001-01-01' + g FROM generate_series(1, 9) g;
ALTER DOMAIN past OWNER TO e2e_domains;
SELECT a.v FROM h a JOIN h b ON a.k = b.id ORDER BY 1;

DROP TABLE d, h;
DROP DOMAIN small, past;
DROP ROLE e2e_domains;
