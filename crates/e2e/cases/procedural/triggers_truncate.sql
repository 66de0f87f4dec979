-- Triggers ON TRUNCATE whose functions write tables.
CREATE TABLE t (id int PRIMARY KEY, v int) /*dist: hash(id) | replication | default*/;
CREATE TABLE refs (id int, t_id int REFERENCES t) /*dist: hash(t_id) | hash(t_id) | default*/;
CREATE TABLE log (n serial, what text, rows int) /*dist: roundrobin | replication | hash(n)*/;
CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE found int;
BEGIN
  EXECUTE format('SELECT count(*) FROM %I', TG_TABLE_NAME) INTO found;
  INSERT INTO log (what, rows) VALUES (concat_ws(' ', TG_NAME, TG_WHEN, TG_OP, TG_LEVEL, TG_TABLE_NAME, TG_ARGV[0]), found);
  RETURN NULL;
END $$;
CREATE TRIGGER b BEFORE TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION told('x');
CREATE TRIGGER a BEFORE TRUNCATE ON t EXECUTE FUNCTION told();
CREATE TRIGGER c AFTER TRUNCATE OR DELETE ON t EXECUTE FUNCTION told();
INSERT INTO t SELECT g, g FROM generate_series(1, 5) AS g;
DELETE FROM t WHERE id = 5;
TRUNCATE t CASCADE;
SELECT what, rows FROM log ORDER BY n;
SELECT count(*) FROM t;
SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 't'::regclass AND NOT tgisinternal ORDER BY tgname;

-- Those of several tables; CASCADE that leads to another is refused.
CREATE TRIGGER r AFTER TRUNCATE ON refs EXECUTE FUNCTION told();
CREATE TRIGGER q BEFORE TRUNCATE ON refs EXECUTE FUNCTION told();
INSERT INTO t VALUES (1, 1), (2, 2);
INSERT INTO refs VALUES (1, 1);
TRUNCATE log RESTART IDENTITY;
-- refused
TRUNCATE ONLY t CASCADE;
TRUNCATE refs, t;
SELECT what, rows FROM log ORDER BY n;
TRUNCATE log RESTART IDENTITY;
BEGIN;
INSERT INTO t VALUES (3, 3);
TRUNCATE refs, t;
SELECT what, rows FROM log ORDER BY n;
ROLLBACK;
SELECT what, rows FROM log ORDER BY n;
ALTER TABLE t DISABLE TRIGGER b;
TRUNCATE t, refs;
SELECT what, rows FROM log ORDER BY n;
ALTER TABLE t ENABLE TRIGGER b;

-- An error takes all back; a function may refuse.
CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM t WHERE v > 10) THEN RAISE EXCEPTION 'there are rows'; END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER d BEFORE TRUNCATE ON t EXECUTE FUNCTION no();
INSERT INTO t VALUES (4, 4), (11, 11);
TRUNCATE log RESTART IDENTITY;
TRUNCATE t, refs;
SELECT count(*) FROM log;
SELECT id FROM t ORDER BY id;
DELETE FROM t WHERE v > 10;
TRUNCATE t, refs;
SELECT what, rows FROM log ORDER BY n;
DROP TRIGGER d ON t;
DROP TRIGGER a ON t;
ALTER TRIGGER b ON t RENAME TO z;
TRUNCATE log RESTART IDENTITY;
DO $$ BEGIN TRUNCATE t, refs; END $$;
SELECT what, rows FROM log ORDER BY n;

-- Of tables with partitions they are refused.
CREATE TABLE parts (id int, v int) PARTITION BY LIST (id) /*dist: hash(id) | replication | default*/;
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
-- refused
CREATE TRIGGER p AFTER TRUNCATE ON parts EXECUTE FUNCTION told();
-- refused
CREATE TRIGGER p AFTER TRUNCATE ON parts_1 EXECUTE FUNCTION told();
