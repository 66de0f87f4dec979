-- Triggers whose functions do more than when they were created: functions made later, and functions made anew.
CREATE TABLE slots (id int PRIMARY KEY, link int, said text) /*dist: hash(id) | replication*/;
CREATE TABLE lines (id int PRIMARY KEY, slot int, said text) /*dist: hash(id) | replication*/;
CREATE TABLE log (n serial PRIMARY KEY, what text, id int) /*dist: hash(n) | replication*/;
CREATE TABLE apart (id int PRIMARY KEY, v int) /*dist: hash(id) | replication*/;

-- The function that a trigger's function calls comes after the trigger.
CREATE FUNCTION slot_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM set_back(NEW.id, NEW.link);
    ELSIF NEW.link IS DISTINCT FROM OLD.link THEN
        PERFORM unset_back(OLD.link);
        PERFORM set_back(NEW.id, NEW.link);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slot_changes AFTER INSERT OR UPDATE ON slots FOR EACH ROW EXECUTE FUNCTION slot_changes();
CREATE FUNCTION set_back(of int, at int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lines SET slot = of WHERE id = at;
    IF NOT FOUND AND at IS NOT NULL THEN
        RAISE EXCEPTION 'no line %', at;
    END IF;
    RETURN 0;
END $$;
CREATE FUNCTION unset_back(at int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lines SET slot = NULL WHERE id = at;
    RETURN 0;
END $$;
INSERT INTO lines SELECT g FROM generate_series(1, 20) g;
INSERT INTO slots VALUES (1, 11), (2, 12), (3, NULL);
INSERT INTO slots VALUES (4, 100);
UPDATE slots SET link = link + 5 WHERE id < 3;
SELECT id, slot FROM lines WHERE slot IS NOT NULL ORDER BY id;
SELECT * FROM slots ORDER BY id;
SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1;

-- A function is made anew, in a migration that is given up first.
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.said := upper(NEW.said); RETURN NEW; END $$;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON lines FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER notes AFTER DELETE OR UPDATE OF v ON apart FOR EACH ROW WHEN (OLD.v > 0) EXECUTE FUNCTION notes('a', 'b');
INSERT INTO lines VALUES (21, 1, 'before');
INSERT INTO apart VALUES (1, 1), (2, 2), (3, -3);
BEGIN;
CREATE OR REPLACE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.said := upper(NEW.said) || ' ' || (SELECT count(*) FROM lines WHERE slot = NEW.slot);
    INSERT INTO log (what, id) VALUES (TG_NAME, NEW.id);
    RETURN NEW;
END $$;
INSERT INTO lines VALUES (22, 1, 'within'), (23, 1, 'within');
SELECT * FROM lines WHERE id > 20 ORDER BY id;
ROLLBACK;
INSERT INTO lines VALUES (24, 1, 'after');
SELECT * FROM lines WHERE id > 20 ORDER BY id;
SELECT count(*) FROM log;
CREATE OR REPLACE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.said := upper(NEW.said) || ' ' || (SELECT count(*) FROM lines WHERE slot = NEW.slot);
    INSERT INTO log (what, id) VALUES (TG_NAME, NEW.id);
    RETURN NEW;
END $$;
INSERT INTO lines VALUES (25, 1, 'anew');
UPDATE lines SET said = 'again' WHERE id = 21;
SELECT * FROM lines WHERE id > 20 ORDER BY id;
SELECT what, id FROM log ORDER BY id;
CREATE OR REPLACE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log (what, id) VALUES (TG_OP || ' ' || TG_ARGV[1], OLD.v);
    RETURN NULL;
END $$;
UPDATE apart SET v = v * 10;
DELETE FROM apart WHERE id = 2;
SELECT what, id FROM log ORDER BY id, what;
SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1;

-- One that is switched off stays so, and one that computes again works.
ALTER TABLE apart DISABLE TRIGGER notes;
CREATE OR REPLACE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% %', TG_OP, OLD.id; RETURN NULL; END $$;
UPDATE apart SET v = v + 1 WHERE id = 1;
ALTER TABLE apart ENABLE TRIGGER notes;
UPDATE apart SET v = v + 1 WHERE id = 1;

-- Other languages, and other people's tables, as before.
CREATE ROLE judged_owner;
GRANT USAGE, CREATE ON SCHEMA public TO judged_owner;
SET ROLE judged_owner;
CREATE FUNCTION helper() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TABLE own (id int PRIMARY KEY) /*dist: hash(id)*/;
CREATE TRIGGER own AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION helper();
RESET ROLE;
CREATE TRIGGER other AFTER INSERT ON apart FOR EACH ROW EXECUTE FUNCTION helper();
SET ROLE judged_owner;
CREATE OR REPLACE FUNCTION helper() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', (SELECT count(*) FROM own); RETURN NEW; END $$;
INSERT INTO own VALUES (1);
RESET ROLE;
-- refused[: v1 | mixed]
INSERT INTO apart VALUES (9, 9);
DROP TABLE own;
DROP FUNCTION helper CASCADE;
DROP OWNED BY judged_owner;
DROP ROLE judged_owner;
