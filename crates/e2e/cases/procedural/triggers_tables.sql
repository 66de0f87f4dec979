-- Triggers whose functions read and write tables: the coordinator runs them.
CREATE TABLE acc (id int PRIMARY KEY, owner text, amount numeric(10,2)) /*dist: hash(id) | replication*/;
CREATE TABLE audit (op text, id int, was jsonb, now_is jsonb) /*dist: roundrobin | hash(id)*/;
CREATE TABLE totals (owner text PRIMARY KEY, n int, amount numeric) /*dist: hash(owner) | replication*/;
CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    INSERT INTO audit (op, id, was) VALUES (TG_OP, OLD.id, to_jsonb(OLD));
    RETURN OLD;
  END IF;
  INSERT INTO audit (op, id, was, now_is) VALUES (TG_OP, NEW.id, to_jsonb(OLD), row_to_json(NEW)::jsonb);
  RETURN NEW;
END $$;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON acc FOR EACH ROW EXECUTE FUNCTION audited();
INSERT INTO acc VALUES (1, 'ann', 10);
INSERT INTO acc VALUES (2, 'ann', 20), (3, 'bob', 30), (4, 'bob', NULL), (5, 'it''s "q" \ , (x)', 5);
SELECT op, id, was, now_is FROM audit ORDER BY id, op, was::text, now_is::text;
UPDATE acc SET amount = amount + 1 WHERE owner = 'ann';
UPDATE acc SET owner = NULL WHERE id = 4;
DELETE FROM acc WHERE id = 5;
UPDATE acc SET amount = 0 WHERE id = 77;
SELECT op, id, was, now_is FROM audit ORDER BY id, op, was::text, now_is::text;
SELECT * FROM acc ORDER BY id;
-- params: 6|carl|7.5
INSERT INTO acc VALUES ($1, $2, $3);
-- params: 6
UPDATE acc SET amount = amount * 2 WHERE id = $1;
-- params: 6
DELETE FROM acc WHERE id = $1 RETURNING *;
SELECT op, id, was, now_is FROM audit WHERE id = 6 ORDER BY op, was::text;
-- A counter in another table.
CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    UPDATE totals SET n = n - 1, amount = amount - coalesce(OLD.amount, 0) WHERE owner = OLD.owner;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO totals VALUES (NEW.owner, 1, coalesce(NEW.amount, 0))
      ON CONFLICT (owner) DO UPDATE SET n = totals.n + 1, amount = totals.amount + EXCLUDED.amount;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER counted AFTER INSERT OR DELETE OR UPDATE OF owner, amount ON acc FOR EACH ROW EXECUTE FUNCTION counted();
INSERT INTO acc SELECT g, 'o' || g % 3, g FROM generate_series(10, 16) g;
SELECT * FROM totals ORDER BY owner;
UPDATE acc SET owner = 'o2' WHERE owner = 'o1';
DELETE FROM acc WHERE id BETWEEN 12 AND 14;
SELECT * FROM totals ORDER BY owner;
SELECT op, count(*), sum(id) FROM audit GROUP BY op ORDER BY op;
-- Both in the order of their names, and what stands in the catalog.
SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'acc'::regclass ORDER BY tgname;
ALTER TABLE acc DISABLE TRIGGER counted;
SELECT tgname, tgenabled FROM pg_catalog.pg_trigger WHERE tgrelid = 'acc'::regclass ORDER BY tgname;
INSERT INTO acc VALUES (40, 'o0', 1);
SELECT * FROM totals WHERE owner = 'o0';
ALTER TABLE acc DISABLE TRIGGER ALL;
INSERT INTO acc VALUES (41, 'o0', 1);
SELECT count(*) FROM audit WHERE id = 41;
ALTER TABLE acc ENABLE TRIGGER USER;
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'acc'::regclass ORDER BY tgname;
INSERT INTO acc VALUES (42, 'o0', 1);
SELECT * FROM totals WHERE owner = 'o0';
SELECT op, now_is FROM audit WHERE id IN (41, 42);
ALTER TRIGGER counted ON acc RENAME TO zcounted;
DELETE FROM acc WHERE id IN (41, 42);
SELECT * FROM totals WHERE owner = 'o0';
-- All or nothing.
BEGIN;
INSERT INTO acc VALUES (50, 'o5', 1);
SELECT * FROM totals WHERE owner = 'o5';
SAVEPOINT s;
INSERT INTO acc VALUES (51, 'o5', 1);
SELECT * FROM totals WHERE owner = 'o5';
ROLLBACK TO s;
SELECT * FROM totals WHERE owner = 'o5';
ROLLBACK;
SELECT * FROM totals WHERE owner = 'o5';
-- Errors are the function's, and undo the statement.
CREATE FUNCTION limited() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE have numeric;
BEGIN
  SELECT sum(amount) INTO have FROM acc WHERE owner = NEW.owner;
  IF have > 1000 THEN
    RAISE EXCEPTION '% has too much: %', NEW.owner, have USING ERRCODE = '23514', HINT = 'Spend it.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER limited AFTER INSERT OR UPDATE ON acc FOR EACH ROW WHEN (NEW.amount > 100) EXECUTE FUNCTION limited();
INSERT INTO acc VALUES (60, 'o6', 900);
INSERT INTO acc VALUES (61, 'o6', 90), (62, 'o6', 20);
INSERT INTO acc VALUES (63, 'o6', 101);
UPDATE acc SET amount = 1001 WHERE id = 60;
SELECT * FROM acc WHERE owner = 'o6' ORDER BY id;
SELECT * FROM totals WHERE owner = 'o6';
SELECT op, id FROM audit WHERE id BETWEEN 60 AND 63 ORDER BY id, op, was::text, now_is::text;
-- MERGE, ON CONFLICT, data changes in WITH, COPY, RETURNING.
INSERT INTO acc VALUES (60, 'x', 1), (64, 'x', 2) ON CONFLICT (id) DO UPDATE SET amount = acc.amount - 1;
INSERT INTO acc VALUES (60, 'x', 1), (65, 'x', 2) ON CONFLICT DO NOTHING;
MERGE INTO acc USING (VALUES (64, 5), (66, 6)) v(id, amount) ON acc.id = v.id WHEN MATCHED THEN UPDATE SET amount = v.amount WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'm', v.amount);
WITH gone AS (DELETE FROM acc WHERE id IN (61, 62) RETURNING *) INSERT INTO acc SELECT id + 100, owner, amount FROM gone RETURNING id, amount;
COPY acc FROM stdin;
70	c	7
71	c	\N
72	c	9
\.
SELECT op, id, was, now_is FROM audit WHERE id BETWEEN 60 AND 200 ORDER BY id, op, was::text, now_is::text;
SELECT * FROM totals ORDER BY owner;
COPY acc FROM stdin;
73	c	500
74	c	600
\.
SELECT * FROM acc WHERE owner = 'c' ORDER BY id;
UPDATE acc SET amount = amount + v.n FROM (SELECT 70 AS id, 1 AS n UNION ALL SELECT 71, 2) v WHERE acc.id = v.id RETURNING acc.id, amount;
SELECT op, id, was, now_is FROM audit WHERE id IN (70, 71) ORDER BY id, op, was::text, now_is::text;
-- Rows that a function changes fire triggers in turn.
CREATE TABLE chain (id int PRIMARY KEY, left_over int) /*dist: hash(id) | replication*/;
CREATE FUNCTION goes_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.left_over > 0 THEN
    INSERT INTO chain VALUES (NEW.id + 1, NEW.left_over - 1);
  ELSE
    RAISE NOTICE '% % % % % % % %', TG_NAME, TG_WHEN, TG_LEVEL, TG_OP, TG_TABLE_NAME, TG_RELNAME, TG_RELID = 'chain'::regclass, TG_TABLE_SCHEMA = current_schema();
    RAISE NOTICE '% % % % %', TG_NARGS, TG_ARGV[0], TG_ARGV[1], TG_ARGV[2], OLD;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER goes_on AFTER INSERT ON chain FOR EACH ROW EXECUTE FUNCTION goes_on('one', 'it''s');
INSERT INTO chain VALUES (1, 4);
SELECT * FROM chain ORDER BY id;
DROP TABLE chain;
-- A WITH, a loop and a body that changes the rows.
DO $$ DECLARE r record; BEGIN FOR r IN SELECT id FROM acc WHERE owner = 'c' ORDER BY id LOOP UPDATE acc SET amount = 1 WHERE id = r.id; END LOOP; END $$;
SELECT * FROM totals WHERE owner = 'c';
-- A cascading foreign key.
CREATE TABLE part (acc int REFERENCES acc ON DELETE CASCADE, k int, PRIMARY KEY (acc, k)) /*dist: hash(acc) | replication*/;
CREATE TRIGGER kept AFTER DELETE ON part FOR EACH ROW EXECUTE FUNCTION audited_part();
CREATE FUNCTION audited_part() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (op, id) VALUES ('part', OLD.acc * 1000 + OLD.k); RETURN OLD; END $$;
CREATE TRIGGER kept AFTER DELETE ON part FOR EACH ROW EXECUTE FUNCTION audited_part();
INSERT INTO part SELECT 70, g FROM generate_series(1, 3) g;
DELETE FROM acc WHERE id = 70;
SELECT op, id FROM audit WHERE id / 1000 = 70 ORDER BY id;
DROP TABLE part;
-- Partitions.
CREATE TABLE days (id int, d date, v text, PRIMARY KEY (id, d)) PARTITION BY RANGE (d) /*dist: hash(id) | replication*/;
CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (op, id, was) VALUES (TG_TABLE_NAME, NEW.id, to_jsonb(NEW)); RETURN NEW; END $$;
CREATE TRIGGER told AFTER INSERT OR UPDATE ON days FOR EACH ROW EXECUTE FUNCTION told();
CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
INSERT INTO days VALUES (1, '2020-05-05', 'a'), (2, '2021-05-05', 'b');
UPDATE days SET v = 'c' WHERE id = 2;
INSERT INTO days_1 VALUES (3, '2020-05-05', 'd');
SELECT op, id, was FROM audit WHERE op LIKE 'days%' ORDER BY id, op, was::text, now_is::text;
ALTER TABLE days DISABLE TRIGGER told;
INSERT INTO days VALUES (4, '2020-05-05', 'a');
ALTER TABLE days ENABLE TRIGGER told;
INSERT INTO days VALUES (5, '2020-05-05', 'a');
SELECT op, id, was FROM audit WHERE op LIKE 'days%' AND id > 3 ORDER BY id, op, was::text, now_is::text;
DROP TRIGGER told ON days;
INSERT INTO days VALUES (6, '2020-05-05', 'a');
SELECT tgname FROM pg_trigger WHERE tgrelid IN ('days'::regclass, 'days_1'::regclass, 'days_2'::regclass);
DROP TABLE days;
-- Through a view.
CREATE VIEW rich AS SELECT id, owner, amount FROM acc WHERE amount > 50;
UPDATE rich SET owner = 'v' WHERE id = 63;
SELECT op, id, was, now_is FROM audit WHERE id = 63 ORDER BY op DESC, was::text LIMIT 1;
-- The function is replaced; it goes with CASCADE.
CREATE OR REPLACE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'now only told: %', NEW.*; RETURN NULL; END $$;
INSERT INTO acc VALUES (80, 'n', 1);
CREATE OR REPLACE TRIGGER audited AFTER INSERT ON acc FOR EACH ROW EXECUTE FUNCTION audited();
INSERT INTO acc VALUES (81, 'n', 1);
CREATE OR REPLACE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (op) VALUES ('again'); END $$;
DROP FUNCTION counted();
DROP FUNCTION counted() CASCADE;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'acc'::regclass ORDER BY tgname;
-- Statements in the function fail: the message and its context.
DROP TRIGGER audited ON acc;
CREATE TRIGGER audited AFTER INSERT ON acc FOR EACH ROW EXECUTE FUNCTION audited();
INSERT INTO acc VALUES (82, 'n', 1);
CREATE OR REPLACE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO totals VALUES ('dup', 1, 1);
  RETURN NULL; END $$;
INSERT INTO acc VALUES (83, 'n', 1), (84, 'n', 1);
SELECT * FROM acc WHERE id > 79 ORDER BY id;
CREATE OR REPLACE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO totals VALUES ('dup', 1, 1);
EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'there is one'; RETURN NULL; END $$;
INSERT INTO acc VALUES (83, 'n', 1);
CREATE OR REPLACE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO totals VALUES ('dup', 1, 1) ON CONFLICT DO NOTHING; IF NEW.* IS DISTINCT FROM OLD.* THEN RAISE NOTICE 'new'; END IF; RETURN 1; END $$;
INSERT INTO acc VALUES (85, 'n', 1);
DROP TABLE acc CASCADE;
-- What a node's own trigger tells comes from no other trigger.
CREATE TABLE nt (id int PRIMARY KEY, v int) /*dist: hash(id) | replication*/;
CREATE FUNCTION a_chk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF (SELECT sum(v) FROM nt) > 1000 THEN RAISE 'big'; END IF; RETURN NULL; END $$;
CREATE FUNCTION b_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'note %', NEW.id; RETURN NULL; END $$;
CREATE TRIGGER a_chk AFTER UPDATE ON nt FOR EACH ROW EXECUTE FUNCTION a_chk();
CREATE TRIGGER b_note AFTER UPDATE ON nt FOR EACH ROW EXECUTE FUNCTION b_note();
INSERT INTO nt VALUES (1, 1), (2, 2);
UPDATE nt SET v = v + 1 WHERE id = 1;
DO $$ BEGIN UPDATE nt SET v = v + 1 WHERE id = 2; END $$;
