-- WHEN of triggers that ask for pg_trigger_depth(), and of those FOR EACH STATEMENT.
CREATE TABLE n (id int PRIMARY KEY, v int, at int DEFAULT 0) /*dist: hash(id) | replication*/;
CREATE TABLE log (t text) /*dist: hash(t) | roundrobin*/;
INSERT INTO n VALUES (1, 1), (2, 2), (3, -9);
-- The function only computes.
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := OLD.at + 1; RETURN NEW; END $$;
CREATE TRIGGER a_touch BEFORE UPDATE ON n FOR EACH ROW WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION touch();
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE n SET v = v + 100 WHERE id = NEW.id; INSERT INTO log VALUES (concat_ws(' ', 'again', NEW.id, pg_trigger_depth())); RETURN NULL; END $$;
CREATE TRIGGER b_again AFTER UPDATE ON n FOR EACH ROW WHEN (pg_trigger_depth() = 0 AND NEW.v > 0 AND OLD.* IS DISTINCT FROM NEW.*)
  EXECUTE FUNCTION again();
UPDATE n SET v = v + 1;
SELECT * FROM n ORDER BY id;
SELECT t FROM log ORDER BY t;
TRUNCATE log;
CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO log VALUES (concat_ws(' ', TG_NAME, TG_OP, TG_WHEN, pg_trigger_depth())); RETURN NULL; END $$;
CREATE TRIGGER s1 AFTER UPDATE OR DELETE ON n FOR EACH STATEMENT WHEN (current_setting('my.audit', true) IS DISTINCT FROM 'off') EXECUTE FUNCTION told();
CREATE TRIGGER s2 BEFORE UPDATE ON n FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION told();
CREATE TRIGGER s3 BEFORE UPDATE ON n FOR EACH STATEMENT WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION told();
UPDATE n SET v = v + 1 WHERE id = 1;
SELECT t FROM log ORDER BY t;
TRUNCATE log;
SET my.audit = 'off';
UPDATE n SET v = 4 WHERE id = 3;
SELECT t FROM log ORDER BY t;
SELECT * FROM n ORDER BY id;
SET my.audit = 'on';
TRUNCATE log;
CREATE FUNCTION gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log SELECT 'gone ' || id FROM gone; RETURN NULL; END $$;
CREATE TRIGGER s4 AFTER DELETE ON n REFERENCING OLD TABLE AS gone FOR EACH STATEMENT WHEN (current_setting('my.audit', true) IS DISTINCT FROM 'off') EXECUTE FUNCTION gone();
DELETE FROM n WHERE id = 1;
SELECT t FROM log ORDER BY t;
-- The condition is evaluated before the rows' triggers run.
CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('my.audit', 'off', true); INSERT INTO log VALUES ('quiet'); RETURN NULL; END $$;
CREATE TRIGGER c_quiet AFTER DELETE ON n FOR EACH ROW WHEN (OLD.id = 2) EXECUTE FUNCTION quiet();
TRUNCATE log;
BEGIN;
DELETE FROM n WHERE id = 2;
DELETE FROM n WHERE id = 3;
COMMIT;
SELECT t FROM log ORDER BY t;
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'n'::regclass ORDER BY tgname;
-- A trigger that switches itself on and off, and one made anew without the condition.
ALTER TABLE n DISABLE TRIGGER a_touch;
INSERT INTO n VALUES (5, 5);
UPDATE n SET v = -5;
SELECT * FROM n ORDER BY id;
ALTER TABLE n ENABLE TRIGGER a_touch;
CREATE OR REPLACE TRIGGER a_touch BEFORE UPDATE ON n FOR EACH ROW WHEN (NEW.v < 0) EXECUTE FUNCTION touch();
UPDATE n SET v = 8;
UPDATE n SET v = -8;
SELECT * FROM n ORDER BY id;
-- What the function of a trigger may make, and where errors are.
CREATE TABLE p (id int PRIMARY KEY) /*dist: hash(id) | replication*/;
CREATE FUNCTION makes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  CREATE TEMP TABLE IF NOT EXISTS made AS SELECT pg_trigger_depth() AS depth; RETURN NULL; END $$;
CREATE TRIGGER m AFTER INSERT ON p EXECUTE FUNCTION makes();
INSERT INTO p VALUES (7);
SELECT * FROM made;
DROP TABLE made;
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN
  SELECT pg_trigger_depth() INTO r;
  RAISE NOTICE 'depth %', r.pg_trigger_depth;
  INSERT INTO log SELECT pg_trigger_depth() || nosuch FROM n; RETURN NULL; END $$;
CREATE TRIGGER f AFTER UPDATE ON p EXECUTE FUNCTION fails();
UPDATE p SET id = id WHERE id = 7;
-- The depth in arguments of CALL and in GROUP BY, and a condition that PostgreSQL prints otherwise than it was written.
CREATE TABLE q (id int PRIMARY KEY, v int) /*dist: hash(id) | replication*/;
CREATE PROCEDURE note(what text, n int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (concat_ws(' ', what, n)); END $$;
CREATE FUNCTION calls() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  CALL note('called', pg_trigger_depth());
  INSERT INTO log SELECT concat_ws(' ', 'grouped', pg_trigger_depth(), count(*)) FROM q GROUP BY pg_trigger_depth();
  RETURN NULL; END $$;
CREATE TRIGGER c AFTER INSERT ON q EXECUTE FUNCTION calls();
TRUNCATE log;
INSERT INTO q VALUES (1, 1), (2, 2);
SELECT t FROM log ORDER BY t;
CREATE TRIGGER o AFTER UPDATE ON q FOR EACH ROW WHEN (pg_trigger_depth() = 0::int AND NEW.v > 0) EXECUTE FUNCTION told();
TRUNCATE log;
UPDATE q SET v = -1 WHERE id = 1;
UPDATE q SET v = 5 WHERE id = 2;
SELECT t FROM log ORDER BY t;
-- A foreign key's action is inside of its trigger.
CREATE TABLE whole (id int PRIMARY KEY) /*dist: replication*/;
CREATE TABLE part (id int PRIMARY KEY, of int REFERENCES whole ON DELETE CASCADE) /*dist: replication*/;
INSERT INTO whole VALUES (1), (2);
INSERT INTO part VALUES (1, 1), (2, 1), (3, 2), (4, 2);
CREATE TRIGGER c0 AFTER DELETE ON part FOR EACH ROW WHEN (OLD.id > 0 AND pg_trigger_depth() = 0) EXECUTE FUNCTION told();
CREATE TRIGGER c3 AFTER DELETE ON part FOR EACH ROW WHEN (pg_trigger_depth() < 5) EXECUTE FUNCTION told();
CREATE TRIGGER c4 AFTER DELETE ON part FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION told();
TRUNCATE log;
DELETE FROM whole WHERE id = 1;
SELECT t FROM log ORDER BY t;
TRUNCATE log;
DELETE FROM part WHERE id = 3;
SELECT t FROM log ORDER BY t;
CREATE TRIGGER c1 AFTER DELETE ON part FOR EACH ROW WHEN (pg_trigger_depth() = 1) EXECUTE FUNCTION told();
-- refused
DELETE FROM part WHERE id = 4;
