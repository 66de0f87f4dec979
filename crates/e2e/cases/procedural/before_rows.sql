-- Triggers BEFORE … FOR EACH ROW whose functions read and write tables: the coordinator runs them.
CREATE TABLE items (id int PRIMARY KEY, kind text, price numeric(8,2), note varchar(12) DEFAULT 'none', at int) /*dist: hash(id) | replication*/;
CREATE TABLE kinds (kind text PRIMARY KEY, price numeric(8,2), used int DEFAULT 0) /*dist: hash(kind)*/;
CREATE TABLE audit (n serial, op text, id int, was text, now_is text) /*dist: roundrobin | hash(id)*/;
INSERT INTO kinds (kind, price) VALUES ('a', 1), ('b', 2.5), ('c', 30);
-- A lookup of defaults.
CREATE FUNCTION looked_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.price IS NULL THEN
    SELECT price INTO NEW.price FROM kinds WHERE kind = NEW.kind;
  END IF;
  RAISE NOTICE '% % % %', TG_NAME, TG_WHEN, TG_OP, NEW;
  RETURN NEW;
END $$;
CREATE TRIGGER looked_up BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION looked_up();
INSERT INTO items (id, kind) VALUES (1, 'a');
INSERT INTO items (id, kind, price) VALUES (2, 'a', 7), (3, 'b', NULL), (4, 'x', NULL) RETURNING *, price * 2 AS twice;
INSERT INTO items SELECT g, 'c' FROM generate_series(5, 7) g;
INSERT INTO items DEFAULT VALUES;
INSERT INTO items VALUES (8, 'b', DEFAULT, DEFAULT, 3) RETURNING id;
-- params: 9|c
INSERT INTO items (id, kind) VALUES ($1, $2) RETURNING id, price;
-- params: 10
INSERT INTO items (id, kind, at) SELECT id + $1::int, kind, at FROM items WHERE id < 3 ORDER BY id;
INSERT INTO items (id, kind, note) VALUES (20, 'a', 'this is too long');
INSERT INTO items (id, kind) VALUES (21, 'a'), (1, 'b');
INSERT INTO items (id, nobody) VALUES (22, 'a');
SELECT * FROM items ORDER BY id;
-- A counter, and a trigger that only computes: both in the order of their names.
CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    UPDATE kinds SET used = used - 1 WHERE kind = OLD.kind;
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  UPDATE kinds SET used = used + 1 WHERE kind = NEW.kind RETURNING used INTO NEW.at;
  RETURN NEW;
END $$;
CREATE TRIGGER counted BEFORE INSERT OR UPDATE OF kind OR DELETE ON items FOR EACH ROW EXECUTE FUNCTION counted();
CREATE FUNCTION computed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.note := left(coalesce(NEW.note, '') || '+' || TG_ARGV[0] || coalesce(NEW.at::text, ''), 12);
  RETURN NEW;
END $$;
CREATE TRIGGER an_early BEFORE INSERT OR UPDATE ON items FOR EACH ROW EXECUTE FUNCTION computed('e');
CREATE TRIGGER the_late BEFORE INSERT OR UPDATE ON items FOR EACH ROW WHEN (NEW.kind <> 'c') EXECUTE FUNCTION computed('l');
INSERT INTO items (id, kind) VALUES (30, 'a'), (31, 'a'), (32, 'c') RETURNING id, note, at;
UPDATE items SET price = price + 1 WHERE id < 4 RETURNING id, price, note, at;
UPDATE items SET kind = 'b', note = 'moved' WHERE id = 30;
UPDATE items SET (kind, price) = ('c', 99) WHERE id IN (31, 32) RETURNING *;
-- params: 7
DELETE FROM items WHERE id = $1;
DELETE FROM items WHERE kind = 'a' AND id > 5 RETURNING id, kind;
DELETE FROM items WHERE id = 1000 RETURNING id;
SELECT * FROM kinds ORDER BY kind;
SELECT * FROM items ORDER BY id;
-- As the catalog has them.
SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'items'::regclass ORDER BY tgname;
SELECT trigger_name, event_manipulation, action_timing FROM information_schema.triggers WHERE event_object_table = 'items' ORDER BY 1, 2;
ALTER TABLE items DISABLE TRIGGER counted;
DELETE FROM items WHERE id = 32;
SELECT used FROM kinds WHERE kind = 'c';
ALTER TABLE items ENABLE TRIGGER counted;
ALTER TRIGGER looked_up ON items RENAME TO "Looked up";
INSERT INTO items (id, kind) VALUES (33, 'c');
DROP TRIGGER "Looked up" ON items;
DROP TRIGGER an_early ON items;
DROP TRIGGER the_late ON items;
-- Rows that are skipped, and triggers AFTER and of the statement beside them.
CREATE FUNCTION guarded() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE known bool;
BEGIN
  SELECT true INTO known FROM kinds WHERE kind = coalesce(NEW.kind, OLD.kind);
  IF known IS NULL THEN
    INSERT INTO audit (op, id, was) VALUES ('skipped ' || TG_OP, coalesce(NEW.id, OLD.id), OLD::text);
    RETURN NULL;
  END IF;
  RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER a_guard BEFORE INSERT OR UPDATE OR DELETE ON items FOR EACH ROW EXECUTE FUNCTION guarded();
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit (op, id, was, now_is) VALUES (TG_WHEN || ' ' || TG_OP || ' ' || TG_LEVEL, coalesce(NEW.id, OLD.id), OLD::text, NEW::text);
  RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON items FOR EACH ROW EXECUTE FUNCTION noted();
CREATE TRIGGER once_before BEFORE INSERT OR UPDATE ON items FOR EACH STATEMENT EXECUTE FUNCTION noted();
CREATE TRIGGER once_after AFTER INSERT OR DELETE ON items FOR EACH STATEMENT EXECUTE FUNCTION noted();
INSERT INTO items (id, kind) VALUES (40, 'a'), (41, 'nope'), (42, 'b');
INSERT INTO items (id, kind) VALUES (43, 'nope') RETURNING id;
UPDATE items SET kind = 'nope' WHERE id = 40;
UPDATE items SET kind = 'c' WHERE id IN (40, 42);
DELETE FROM items WHERE id IN (4, 40);
SELECT op, id, was, now_is FROM audit ORDER BY n;
SELECT id, kind, at FROM items WHERE id >= 40 ORDER BY id;
SELECT * FROM kinds ORDER BY kind;
DELETE FROM audit;
-- Blocks, savepoints, errors.
BEGIN;
INSERT INTO items (id, kind) VALUES (50, 'a');
SAVEPOINT s;
INSERT INTO items (id, kind) VALUES (51, 'a'), (50, 'b');
ROLLBACK TO s;
INSERT INTO items (id, kind) VALUES (52, 'b');
SELECT kind, used FROM kinds ORDER BY kind;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE items SET kind = 'b' WHERE id = 50;
ROLLBACK;
BEGIN READ ONLY;
INSERT INTO items (id, kind) VALUES (53, 'a');
ROLLBACK;
SELECT op, id FROM audit ORDER BY n;
SELECT kind, used FROM kinds ORDER BY kind;
-- ON CONFLICT, FROM and USING, WITH, routines.
DROP TRIGGER once_before ON items;
DROP TRIGGER once_after ON items;
DROP TRIGGER a_guard ON items;
DROP TRIGGER noted ON items;
DROP TRIGGER counted ON items;
CREATE TRIGGER looked_up BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION looked_up();
INSERT INTO items (id, kind) VALUES (1, 'b'), (60, 'b') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO items AS i (id, kind) VALUES (60, 'c'), (61, 'c') ON CONFLICT (id) DO UPDATE SET price = EXCLUDED.price + i.price, at = 1 RETURNING i.id, i.price;
-- params: 5
INSERT INTO items (id, kind) VALUES (60, 'a') ON CONFLICT (id) DO UPDATE SET at = items.at + $1 WHERE items.at > 0 RETURNING *;
DROP TRIGGER looked_up ON items;
CREATE TRIGGER counted BEFORE UPDATE OR DELETE ON items FOR EACH ROW WHEN (OLD.kind IS NOT NULL) EXECUTE FUNCTION counted();
UPDATE items SET price = k.price FROM kinds k WHERE k.kind = items.kind AND items.id < 4 RETURNING items.id, items.price;
WITH few AS (SELECT 'b' AS kind) UPDATE items SET note = few.kind FROM few WHERE items.kind = few.kind AND items.id IN (SELECT id FROM items WHERE id < 50);
DELETE FROM items USING kinds k WHERE k.kind = items.kind AND k.used > 1 AND items.id > 50;
DO $$ BEGIN FOR i IN 1..3 LOOP UPDATE items SET price = i WHERE id = i; END LOOP; END $$;
SELECT * FROM items ORDER BY id;
SELECT * FROM kinds ORDER BY kind;
-- BEFORE UPDATE fires for the row that an INSERT meets.
CREATE TRIGGER looked_up BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION looked_up();
CREATE TRIGGER met BEFORE UPDATE OF price ON items FOR EACH ROW EXECUTE FUNCTION looked_up();
INSERT INTO items (id, kind) VALUES (1, 'b'), (70, 'c') ON CONFLICT (id) DO UPDATE SET price = EXCLUDED.price + items.price RETURNING *;
-- params: 100
INSERT INTO items AS i (id, kind) SELECT g, 'a' FROM generate_series(70, 72) g ON CONFLICT (id) DO UPDATE SET price = $1, kind = DEFAULT WHERE i.kind = 'c' RETURNING i.id, i.price;
INSERT INTO items (id, kind) VALUES (73, 'b'), (73, 'c') ON CONFLICT ON CONSTRAINT items_pkey DO UPDATE SET price = 3;
INSERT INTO items (id, kind) VALUES (1, 'b'), (1, 'c') ON CONFLICT (id) DO UPDATE SET price = 3;
INSERT INTO items (id, kind) VALUES (1, 'c') ON CONFLICT (id) DO UPDATE SET note = EXCLUDED.kind;
SELECT * FROM items ORDER BY id;
SELECT * FROM kinds ORDER BY kind;
-- A function that looks at the table itself sees the rows before.
CREATE TABLE lines (doc int, line int, txt text, top bool DEFAULT false, PRIMARY KEY (doc, line)) /*dist: hash(doc) | replication | hash(doc, line)*/;
CREATE FUNCTION numbered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT coalesce(max(line), 0) + 1 INTO NEW.line FROM lines WHERE doc = NEW.doc;
  RETURN NEW;
END $$;
CREATE TRIGGER numbered BEFORE INSERT ON lines FOR EACH ROW EXECUTE FUNCTION numbered();
INSERT INTO lines (doc, txt) VALUES (1, 'a'), (1, 'b'), (2, 'c'), (1, 'd') RETURNING *;
INSERT INTO lines (doc, txt) SELECT doc, txt || '!' FROM lines ORDER BY doc, line;
SELECT * FROM lines ORDER BY doc, line;
INSERT INTO lines (doc, txt) VALUES (5, 'p'), (5, 'q') ON CONFLICT (doc, line) DO UPDATE SET txt = EXCLUDED.txt RETURNING line;
CREATE FUNCTION always_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.line := 1; RETURN NEW; END $$;
CREATE TRIGGER zz_first BEFORE INSERT ON lines FOR EACH ROW EXECUTE FUNCTION always_first();
INSERT INTO lines (doc, txt) VALUES (5, 'r') ON CONFLICT (doc, line) DO UPDATE SET txt = lines.txt || EXCLUDED.txt RETURNING *;
INSERT INTO lines (doc, txt) VALUES (5, 's'), (5, 't') ON CONFLICT (doc, line) DO UPDATE SET txt = EXCLUDED.txt;
INSERT INTO lines (doc, txt) VALUES (5, 'u'), (6, 'v') ON CONFLICT DO NOTHING RETURNING *;
DROP TRIGGER zz_first ON lines;
-- refused
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) DELETE FROM items WHERE id = 5;
-- And may change other rows of it, but not one that is to be changed.
CREATE FUNCTION one_top() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.top THEN
    UPDATE lines SET top = false WHERE doc = NEW.doc AND top AND line <> NEW.line;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER one_top BEFORE INSERT OR UPDATE OF top ON lines FOR EACH ROW EXECUTE FUNCTION one_top();
UPDATE lines SET top = true WHERE doc = 1 AND line = 1;
UPDATE lines SET top = true WHERE doc = 1 AND line = 2;
INSERT INTO lines (doc, txt, top) VALUES (1, 'x', true), (1, 'y', true);
SELECT * FROM lines ORDER BY doc, line;
UPDATE lines SET top = true WHERE doc = 1;
SELECT * FROM lines ORDER BY doc, line;
-- Keys that a trigger sets.
CREATE TABLE codes (code text PRIMARY KEY, seq bigint GENERATED ALWAYS AS IDENTITY, len int GENERATED ALWAYS AS (length(code)) STORED, kind text) /*dist: hash(code) | replication*/;
CREATE FUNCTION coded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.code := lower(NEW.code) || (SELECT count(*) FROM kinds) || coalesce(NEW.len::text, '?');
  RETURN NEW;
END $$;
CREATE TRIGGER coded BEFORE INSERT ON codes FOR EACH ROW EXECUTE FUNCTION coded();
INSERT INTO codes (code) VALUES ('ABC'), ('X') RETURNING *;
INSERT INTO codes (code, seq) VALUES ('Y', 4);
INSERT INTO codes (code, seq) OVERRIDING SYSTEM VALUE VALUES ('Y', 40);
SELECT * FROM codes WHERE code = 'abc3?';
SELECT count(*) FROM codes WHERE code IN ('x3?', 'y3?');
-- An UPDATE that moves the row, by the statement or by the trigger.
CREATE TABLE moved (id int PRIMARY KEY, kind text) /*dist: hash(id) | replication*/;
CREATE FUNCTION moves() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id + (SELECT count(*) FROM kinds WHERE kind = NEW.kind) * 100; RETURN NEW; END $$;
CREATE TRIGGER moves BEFORE UPDATE ON moved FOR EACH ROW EXECUTE FUNCTION moves();
INSERT INTO moved SELECT g, 'none' FROM generate_series(1, 9) g;
UPDATE moved SET kind = 'a' WHERE id < 4 RETURNING *;
UPDATE moved SET id = id + 10, kind = 'b' WHERE id IN (5, 6, 7);
UPDATE moved SET id = id WHERE id = 8 RETURNING *;
SELECT * FROM moved ORDER BY id;
SELECT kind FROM moved WHERE id = 102;
SELECT kind FROM moved WHERE id = 116;
-- params: none|2|many
UPDATE moved SET kind = $1 WHERE id = $2 RETURNING id, $3::text AS said;
-- params: 5|few
DELETE FROM moved WHERE id < $1 RETURNING $2::text || id AS said;
-- A tree.
CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree, depth int) /*dist: replication*/;
CREATE FUNCTION deep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SELECT depth + 1 INTO NEW.depth FROM tree WHERE id = NEW.parent; PERFORM FROM kinds; RETURN NEW; END $$;
CREATE TRIGGER deep BEFORE INSERT ON tree FOR EACH ROW EXECUTE FUNCTION deep();
INSERT INTO tree VALUES (1, NULL);
INSERT INTO tree VALUES (2, 1), (3, 2), (4, 3) RETURNING *;
INSERT INTO tree VALUES (9, 8);
-- refused
INSERT INTO tree VALUES (5, 6), (6, 1);
SELECT * FROM tree ORDER BY id;
-- A trigger of PostgreSQL's own beside it comes last.
CREATE TABLE texts (id int PRIMARY KEY, kind text, body text, words tsvector) /*dist: hash(id) | replication*/;
CREATE FUNCTION described() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.body := (SELECT 'kind ' || kind FROM kinds WHERE kind = NEW.kind); RETURN NEW; END $$;
CREATE TRIGGER described BEFORE INSERT OR UPDATE ON texts FOR EACH ROW EXECUTE FUNCTION described();
CREATE TRIGGER words BEFORE INSERT OR UPDATE ON texts FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger('words', 'pg_catalog.simple', 'body');
INSERT INTO texts (id, kind) VALUES (1, 'b'), (2, 'c') RETURNING *;
UPDATE texts SET kind = 'b', body = '' WHERE id = 1;
UPDATE texts SET body = 'own' WHERE id = 2;
-- refused
UPDATE texts SET kind = 'a' WHERE id = 1;
CREATE TRIGGER a_words BEFORE INSERT ON texts FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger('words', 'pg_catalog.simple', 'body');
-- refused
INSERT INTO texts (id, kind) VALUES (3, 'b');
SELECT * FROM texts ORDER BY id;
-- COPY.
COPY codes (code, kind) FROM stdin;
C	copied
D	copied
\.
COPY codes FROM stdin (FORMAT csv, HEADER);
code,seq,kind
E,70,"a ""b"""
F,71,
\.
COPY codes (code, len) FROM stdin;
G	5
\.
COPY codes (code) FROM stdin WHERE code <> 'H';
H
I
\.
COPY codes (code, seq) FROM stdin;
J	5
K	x
\.
SELECT code, len, kind FROM codes WHERE kind IS NOT NULL OR code ~ '^[e-k]' ORDER BY code;
BEGIN;
COPY codes (code) FROM stdin;
L
\.
SELECT count(*) FROM codes WHERE code = 'l3?';
ROLLBACK;
COPY lines (doc, txt) FROM stdin;
3	one
3	two
\.
SELECT line, txt FROM lines WHERE doc = 3 ORDER BY line;
-- Roads that are not taken.
-- refused
MERGE INTO codes USING (VALUES ('m')) v(c) ON codes.code = v.c WHEN NOT MATCHED THEN INSERT (code) VALUES (v.c);
-- refused
WITH w AS (INSERT INTO codes (code) VALUES ('w') RETURNING code) SELECT * FROM w;
CREATE VIEW coded_view AS SELECT code, kind FROM codes;
-- refused
INSERT INTO coded_view VALUES ('v');
SELECT count(*) FROM codes;
CREATE TABLE heap (a int, b text) /*dist: hash(a) | roundrobin*/;
CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (op) VALUES (TG_OP || ' told'); RETURN coalesce(NEW, OLD); END $$;
CREATE TRIGGER told BEFORE INSERT OR UPDATE OR DELETE ON heap FOR EACH ROW EXECUTE FUNCTION told();
INSERT INTO heap VALUES (1, 'x'), (2, 'y');
UPDATE heap SET b = 'z' WHERE a = 2 RETURNING *;
INSERT INTO heap VALUES (1, 'x'), (NULL, NULL), (NULL, NULL), (3, 'y');
UPDATE heap SET b = b || '!' RETURNING *;
DELETE FROM heap WHERE a = 1 OR b IS NULL;
-- refused
DELETE FROM heap USING kinds WHERE b = kind;
CREATE TRIGGER numbers BEFORE UPDATE ON heap FOR EACH ROW EXECUTE FUNCTION numbers();
CREATE FUNCTION numbers() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (op) VALUES ('n') RETURNING n INTO NEW.a; RETURN NEW; END $$;
INSERT INTO heap VALUES (7, 'x'), (7, 'x');
SELECT * FROM heap ORDER BY a, b;
CREATE TRIGGER numbers BEFORE UPDATE OF a ON heap FOR EACH ROW EXECUTE FUNCTION numbers();
UPDATE heap SET a = 3 WHERE a = 2;
-- refused
UPDATE heap SET a = 3 WHERE a = 7;
SELECT count(*), count(DISTINCT a) FROM heap;
-- What a foreign key changes.
CREATE TABLE owners (id int PRIMARY KEY) /*dist: hash(id)*/;
CREATE TABLE owned (id int REFERENCES owners ON DELETE CASCADE, n int, PRIMARY KEY (id, n)) /*dist: hash(id)*/;
CREATE TRIGGER told BEFORE DELETE ON owned FOR EACH ROW WHEN (OLD.n > 1) EXECUTE FUNCTION told();
INSERT INTO owners VALUES (1), (2), (3);
INSERT INTO owned VALUES (1, 1), (2, 2), (2, 1), (3, 3);
DELETE FROM owners WHERE id = 1;
-- refused
DELETE FROM owners WHERE id = 2;
DELETE FROM owned WHERE id = 2;
DELETE FROM owners WHERE id = 2;
SELECT * FROM owners ORDER BY id;
SELECT op, count(*) FROM audit GROUP BY op ORDER BY op;
-- Rows that are deleted draw no defaults.
CREATE DOMAIN must AS int NOT NULL CHECK (VALUE > 0);
CREATE TABLE drawn (id serial PRIMARY KEY, n must) /*dist: hash(id) | replication*/;
CREATE TRIGGER told BEFORE DELETE ON drawn FOR EACH ROW EXECUTE FUNCTION told();
INSERT INTO drawn (n) VALUES (1), (2), (3);
DELETE FROM drawn WHERE n < 3 RETURNING id, n;
INSERT INTO drawn (n) VALUES (4) RETURNING id;
DROP TABLE items, lines, codes, heap, owned, moved, tree, texts CASCADE;
-- Generated columns, and defaults of nothing, of types that are no text.
CREATE TABLE quotas (id int PRIMARY KEY, quota int) /*dist: hash(id)*/;
INSERT INTO quotas VALUES (1, 1), (2, 2);
CREATE TABLE limited (id int PRIMARY KEY, k int, s text, n numeric, at timestamptz, g int GENERATED ALWAYS AS (k * 2) STORED, h date GENERATED ALWAYS AS (date '2026-01-01' + k) STORED) /*dist: hash(id) | replication*/;
CREATE FUNCTION quota() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE q int; BEGIN SELECT quota INTO q FROM quotas WHERE id = new.k; new.s := coalesce(new.s, '') || coalesce(q, 0); RETURN new; END $$;
CREATE TRIGGER c BEFORE INSERT OR UPDATE ON limited FOR EACH ROW EXECUTE FUNCTION quota();
INSERT INTO limited (id, k, s) VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 1, 'c');
UPDATE limited SET s = 'x' WHERE k = 1;
UPDATE limited SET n = DEFAULT, at = DEFAULT, k = DEFAULT WHERE id > 1;
UPDATE limited SET k = 2, g = DEFAULT;
INSERT INTO limited (id, k) VALUES (1, 7), (9, 9) ON CONFLICT (id) DO UPDATE SET k = excluded.k;
SELECT * FROM limited ORDER BY id;
DROP TABLE limited;
DROP FUNCTION quota();
DROP TABLE quotas;
-- An upsert that meets a row which a policy hides.
CREATE ROLE e2e_tenant;
CREATE TABLE quotas (id int PRIMARY KEY, quota int) /*dist: hash(id)*/;
CREATE TABLE tenants (id int PRIMARY KEY, tenant int, n int) /*dist: hash(id) | replication*/;
INSERT INTO quotas VALUES (1, 5), (2, 6);
INSERT INTO tenants VALUES (1, 1, 1), (2, 2, 2);
CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM quota FROM quotas WHERE id = new.tenant; RETURN new; END $$;
CREATE FUNCTION ups() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.n := new.n + 1; RETURN new; END $$;
CREATE TRIGGER q BEFORE INSERT ON tenants FOR EACH ROW EXECUTE FUNCTION looks();
CREATE TRIGGER u BEFORE UPDATE ON tenants FOR EACH ROW EXECUTE FUNCTION ups();
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON tenants USING (tenant = current_setting('app.tenant')::int);
GRANT ALL ON tenants, quotas TO e2e_tenant;
SET ROLE e2e_tenant;
SET app.tenant = 2;
INSERT INTO tenants VALUES (1, 2, 5) ON CONFLICT (id) DO UPDATE SET n = 7;
INSERT INTO tenants VALUES (1, 2, 5) ON CONFLICT (id) DO UPDATE SET n = 7 WHERE tenants.n > 0;
INSERT INTO tenants VALUES (2, 2, 5) ON CONFLICT (id) DO UPDATE SET n = 7 WHERE tenants.n > 0;
INSERT INTO tenants VALUES (2, 2, 5) ON CONFLICT (id) DO UPDATE SET n = 70 WHERE tenants.n < 0;
INSERT INTO tenants VALUES (2, 2, 5), (3, 2, 1) ON CONFLICT (id) DO UPDATE SET n = 10;
RESET ROLE;
SELECT * FROM tenants ORDER BY id;
DROP TABLE tenants;
DROP TABLE quotas;
DROP FUNCTION looks();
DROP FUNCTION ups();
DROP ROLE e2e_tenant;
