-- Transition tables: known to the statements of the trigger's own function, and to nothing that it calls or fires.
CREATE TABLE a (id int PRIMARY KEY, v int) /*dist: hash(id) | replication*/;
CREATE TABLE b (id int PRIMARY KEY) /*dist: replication | hash(id)*/;
CREATE TABLE d (id int) /*dist: hash(id) | replication*/;
CREATE TABLE log (t text) /*dist: hash(t) | roundrobin*/;
INSERT INTO a SELECT g, g FROM generate_series(1, 9) g;
INSERT INTO b SELECT g FROM generate_series(1, 9) g;
INSERT INTO d VALUES (100);
CREATE FUNCTION helper() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT string_agg(id::text, ',') FROM d); END $$;
CREATE FUNCTION fa() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n int; r record; c refcursor; bound CURSOR FOR SELECT * FROM d ORDER BY id; id int := -1;
BEGIN
  INSERT INTO log VALUES ('called ' || helper());
  INSERT INTO log SELECT 'own ' || d.id FROM d;
  INSERT INTO log SELECT 'hidden ' || x.id FROM (WITH d AS (SELECT 7 AS id) SELECT * FROM d) x;
  INSERT INTO log WITH d AS (SELECT d.id + 1000 AS id FROM d) SELECT 'over itself ' || d.id FROM d;
  INSERT INTO log WITH RECURSIVE d(id) AS (SELECT 1 UNION ALL SELECT d.id + 1 FROM d WHERE d.id < 3) SELECT 'recursive ' || d.id FROM d;
  EXECUTE 'INSERT INTO log SELECT ''dynamic '' || count(*) FROM d';
  DELETE FROM log USING d WHERE log.t = 'own ' || d.id AND d.id = 1;
  FOR r IN SELECT * FROM d AS q(x) ORDER BY x LOOP INSERT INTO log VALUES ('loop ' || r.x); END LOOP;
  OPEN c FOR SELECT d.id FROM d ORDER BY 1; FETCH c INTO n; INSERT INTO log VALUES ('cursor ' || n); CLOSE c;
  FOR r IN bound LOOP INSERT INTO log VALUES ('bound ' || r.id); END LOOP;
  SELECT count(*) INTO n FROM ONLY d; INSERT INTO log VALUES ('only ' || n);
  SELECT count(*) INTO n FROM ONLY (d); INSERT INTO log VALUES ('only in brackets ' || n);
  INSERT INTO log SELECT 'star ' || d.id FROM d * WHERE EXISTS (TABLE d);
  INSERT INTO log SELECT 'row ' || d::text FROM d WHERE d.id IN (SELECT d.id FROM d);
  CREATE TEMP TABLE kept AS SELECT * FROM d;
  INSERT INTO log SELECT 'kept ' || count(*) FROM kept;
  DROP TABLE kept;
  RETURN NULL;
END $$;
CREATE TRIGGER t AFTER DELETE ON a REFERENCING OLD TABLE AS d FOR EACH STATEMENT EXECUTE FUNCTION fa();
DELETE FROM a WHERE id = 1;
SELECT t FROM log ORDER BY t;
TRUNCATE log;
DELETE FROM a WHERE id < 4;
SELECT t FROM log ORDER BY t;
TRUNCATE log;
-- A trigger that fires inside.
CREATE FUNCTION inside() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE d SET id = id + (SELECT count(*) FROM d); RETURN NULL; END $$;
CREATE TRIGGER i AFTER INSERT ON log FOR EACH ROW WHEN (NEW.t LIKE 'called%') EXECUTE FUNCTION inside();
DELETE FROM a WHERE id < 6;
SELECT id FROM d;
DROP TRIGGER i ON log;
TRUNCATE log;
-- One of another name, where there is no such table, and one that is to be changed.
CREATE FUNCTION none() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (helper()); RETURN NULL; END $$;
CREATE FUNCTION changes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM gone; RETURN NULL; END $$;
DROP TRIGGER t ON a;
CREATE TRIGGER t AFTER DELETE ON a REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION none();
DELETE FROM a WHERE id = 6;
CREATE TRIGGER u AFTER DELETE ON a REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION changes();
DELETE FROM a WHERE id = 7;
DROP TRIGGER t ON a;
DROP TRIGGER u ON a;
TRUNCATE log;
-- Transition tables of one name inside each other.
CREATE FUNCTION ga() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  DELETE FROM b WHERE id IN (SELECT id FROM gone); INSERT INTO log SELECT 'a' || id FROM gone; RETURN NULL; END $$;
CREATE FUNCTION gb() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log SELECT 'b' || id FROM gone; RETURN NULL; END $$;
CREATE TRIGGER x AFTER DELETE ON a REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION ga();
CREATE TRIGGER x AFTER DELETE ON b REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION gb();
DELETE FROM a WHERE id = 7;
SELECT t FROM log ORDER BY t;
CREATE TEMP TABLE gone (id int);
INSERT INTO gone VALUES (77);
DELETE FROM a WHERE id = 8;
SELECT t FROM log ORDER BY t;
SELECT * FROM gone;
DROP TABLE gone;
TRUNCATE log;
-- A table that its own trigger adds to.
CREATE TABLE tree (id int PRIMARY KEY, level int) /*dist: hash(id) | replication*/;
CREATE FUNCTION grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO tree SELECT id * 10, level + 1 FROM fresh WHERE level < 2;
  INSERT INTO log SELECT 'grown ' || string_agg(id::text, ',' ORDER BY id) FROM fresh HAVING count(*) > 0; RETURN NULL; END $$;
CREATE TRIGGER g AFTER INSERT ON tree REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT WHEN (pg_trigger_depth() < 4) EXECUTE FUNCTION grow();
INSERT INTO tree VALUES (1, 0), (2, 1);
SELECT * FROM tree ORDER BY id;
SELECT t FROM log ORDER BY t;
-- An error that is caught leaves nothing in the way, and is where the function has it.
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO log SELECT 'before' FROM gone;
  PERFORM gone.id, nosuch FROM gone;
  RETURN NULL;
END $$;
CREATE TRIGGER y AFTER DELETE ON b REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION fails();
DELETE FROM b WHERE id = 1;
DO $$ BEGIN
  BEGIN DELETE FROM b WHERE id = 1; EXCEPTION WHEN undefined_column THEN NULL; END;
  BEGIN DELETE FROM b WHERE id = 2; EXCEPTION WHEN undefined_column THEN NULL; END;
END $$;
SELECT id FROM b ORDER BY id;
-- A cursor that is left open, and arguments of CALL.
CREATE TABLE e (id int PRIMARY KEY) /*dist: hash(id) | replication*/;
CREATE PROCEDURE note(what text, n int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (concat_ws(' ', what, n)); END $$;
CREATE FUNCTION leaves() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE c refcursor; n int; BEGIN
  OPEN c FOR SELECT id FROM fresh ORDER BY id; FETCH c INTO n; INSERT INTO log VALUES ('left open ' || n);
  CALL note('called', pg_trigger_depth()); RETURN NULL; END $$;
CREATE TRIGGER z AFTER INSERT ON e REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION leaves();
TRUNCATE log;
INSERT INTO e VALUES (3), (2);
INSERT INTO e VALUES (5);
SELECT t FROM log ORDER BY t;
