-- What each copy of a replicated table could make something else of: triggers, keyless tables, generated columns.
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  NEW.code := coalesce(NEW.code, 'r' || (random() * 1e9)::bigint);
  IF TG_OP = 'INSERT' THEN NEW.made := clock_timestamp(); END IF;
  RETURN NEW;
END $$;
CREATE TABLE loose (a int, code text, made timestamptz, j json, f float8, i interval, b bytea, m money) /*dist: replication | hash(a)*/;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON loose FOR EACH ROW EXECUTE FUNCTION stamp();
INSERT INTO loose (a, j, f, i, b, m) VALUES (1, '{"a": [1, "x,y"]}', 0.1::float8 + 0.2, '-1 day -02:03', '\x00ff', 12.34), (1, '{}', 'NaN', '1 mon', '', -1), (2, NULL, NULL, NULL, NULL, NULL);
INSERT INTO loose (a) SELECT 3 FROM generate_series(1, 5);
SET IntervalStyle = sql_standard;
SET DateStyle = 'German';
SET extra_float_digits = -10;
UPDATE loose SET f = f / 3, i = i - interval '1-2' WHERE a = 1;
RESET IntervalStyle;
RESET DateStyle;
RESET extra_float_digits;
SELECT a, j, f, i, b, m, code ~ '^r\d+$', made IS NOT NULL FROM loose ORDER BY a, f;
UPDATE loose SET code = 'same', made = '2024-01-01' WHERE a = 3;
UPDATE loose SET a = 4 WHERE ctid = (SELECT min(ctid) FROM loose WHERE a = 3);
DELETE FROM loose WHERE a = 3 AND random() >= 0;
SELECT a, code, made FROM loose WHERE a > 2 ORDER BY a;
COPY loose (a, code) FROM stdin WHERE a > 5;
5	left out
6	kept
7	\N
\.
SELECT a, code IS NULL, made > '2024-01-01' FROM loose WHERE a > 5 ORDER BY a;
-- The first copy refuses a row, or changes its key.
CREATE FUNCTION picky() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.v = 'skip' THEN RETURN NULL; END IF;
  IF NEW.v = 'bad' THEN RAISE EXCEPTION 'no %', NEW.v USING HINT = 'try another'; END IF;
  RAISE NOTICE 'sees %', NEW.id;
  IF NEW.v = 'far' THEN NEW.id := NEW.id + 1000; END IF;
  RETURN NEW;
END $$;
CREATE TABLE chosen (id int PRIMARY KEY, v text UNIQUE) /*dist: replication*/;
CREATE TRIGGER picky BEFORE INSERT OR UPDATE ON chosen FOR EACH ROW EXECUTE FUNCTION picky();
INSERT INTO chosen VALUES (1, 'one'), (2, 'skip'), (3, 'far');
INSERT INTO chosen VALUES (4, 'bad');
UPDATE chosen SET v = 'far' WHERE id = 1;
UPDATE chosen SET v = 'skip' WHERE id = 1;
SELECT * FROM chosen ORDER BY id;
INSERT INTO chosen SELECT g, 'n' || g FROM generate_series(10, 14) g;
UPDATE chosen SET v = 'n' || (id + 1) WHERE id = 14;
DELETE FROM chosen WHERE id = 1003 RETURNING *;
SELECT * FROM chosen ORDER BY id;
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.v LIKE 'n%' THEN RETURN NULL; END IF; RETURN OLD; END $$;
CREATE TRIGGER keep BEFORE DELETE ON chosen FOR EACH ROW EXECUTE FUNCTION keep();
DELETE FROM chosen;
SELECT * FROM chosen ORDER BY id;
-- Sequences and look-ups in triggers.
CREATE SEQUENCE tickets;
CREATE TABLE prices (item text PRIMARY KEY, price numeric) /*dist: replication*/;
INSERT INTO prices VALUES ('tea', 1.50), ('cake', 2.00);
CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  NEW.ticket := nextval('tickets');
  SELECT price INTO NEW.price FROM prices WHERE prices.item = NEW.item;
  RETURN NEW;
END $$;
CREATE TABLE sales (id int PRIMARY KEY, item text, ticket int, price numeric) /*dist: replication*/;
CREATE TRIGGER fill BEFORE INSERT ON sales FOR EACH ROW EXECUTE FUNCTION fill();
INSERT INTO sales VALUES (1, 'tea'), (2, 'cake'), (3, 'air');
INSERT INTO sales SELECT g, 'tea' FROM generate_series(4, 6) g RETURNING *;
SELECT * FROM sales ORDER BY id;
-- Generated columns, identities, partitions.
CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, w int, h int, area int GENERATED ALWAYS AS (w * h) STORED, at timestamptz) PARTITION BY RANGE (id) /*dist: replication*/;
CREATE TABLE made_low PARTITION OF made FOR VALUES FROM (1) TO (4);
CREATE TABLE made_high PARTITION OF made DEFAULT;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := now(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON made FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO made (w, h) SELECT g, g FROM generate_series(1, 6) g;
UPDATE made SET w = w + 1 WHERE id IN (2, 5);
UPDATE made_high SET h = 0 WHERE id = 6;
DELETE FROM made WHERE id = 1;
SELECT id, w, h, area, at IS NOT NULL, tableoid::regclass FROM made ORDER BY id;
CREATE FUNCTION label(int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'l' || $1 $$;
CREATE TABLE labelled (k int, l text GENERATED ALWAYS AS (label(k)) STORED) /*dist: replication | hash(k)*/;
INSERT INTO labelled VALUES (1), (2), (2);
UPDATE labelled SET k = k + 1;
SELECT * FROM labelled ORDER BY k;
-- A table that becomes replicated later, and one that ceases to be.
CREATE TABLE owner (id int PRIMARY KEY, name text, at timestamptz);
CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON owner FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO owner VALUES (1, 'a'), (2, 'b');
CREATE TABLE thing (id int PRIMARY KEY, owner_id int REFERENCES owner ON DELETE SET NULL, note text);
INSERT INTO thing VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 2, 'z');
UPDATE owner SET name = name || '2';
DELETE FROM owner WHERE id = 2;
SELECT id, name, at IS NOT NULL FROM owner ORDER BY id;
SELECT * FROM thing ORDER BY id;
-- Rows of which nothing can be said.
CREATE TABLE generated_only (a text GENERATED ALWAYS AS ('k') STORED) /*dist: replication | roundrobin*/;
INSERT INTO generated_only DEFAULT VALUES;
INSERT INTO generated_only (a) VALUES (DEFAULT);
INSERT INTO generated_only SELECT FROM generate_series(1, 3);
SELECT * FROM generated_only;
DELETE FROM generated_only;
SELECT count(*) FROM generated_only;
CREATE TABLE no_columns () /*dist: replication | roundrobin*/;
INSERT INTO no_columns DEFAULT VALUES;
INSERT INTO no_columns SELECT FROM generate_series(1, 3);
SELECT count(*) FROM no_columns;
DELETE FROM no_columns;
SELECT count(*) FROM no_columns;
