-- Views with INSTEAD OF triggers.
CREATE TABLE t (k int PRIMARY KEY, v int, w varchar(5)) /*dist: hash(k) | replication | modulo(k)*/;
CREATE TABLE extra (k int, note text, at timestamptz DEFAULT '2026-01-01 00:00Z') /*dist: roundrobin | hash(k) | replication*/;
CREATE TABLE log (what text, old text, new text) /*dist: roundrobin | hash(what) | replication*/;
INSERT INTO t SELECT i, i * 10, 'w' || i FROM generate_series(1, 5) AS i;
INSERT INTO extra (k, note) SELECT i, 'note ' || i FROM generate_series(1, 4) AS i;
CREATE VIEW both_of AS SELECT t.k, t.v, t.w, e.note, e.at FROM t LEFT JOIN extra AS e USING (k);
CREATE FUNCTION change_both() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log VALUES (TG_OP || ' ' || TG_WHEN || ' ' || TG_LEVEL || ' ' || TG_TABLE_NAME || ' ' || coalesce(TG_ARGV[0], ''), OLD::text, NEW::text);
  IF TG_OP = 'INSERT' THEN
    IF NEW.k < 0 THEN RETURN NULL; END IF;
    NEW.v := coalesce(NEW.v, (SELECT max(v) FROM t) + 1);
    INSERT INTO t VALUES (NEW.k, NEW.v, NEW.w);
    INSERT INTO extra (k, note) VALUES (NEW.k, NEW.note);
    RETURN NEW;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE t SET v = NEW.v, w = NEW.w WHERE k = OLD.k;
    IF NOT FOUND THEN RETURN NULL; END IF;
    UPDATE extra SET note = NEW.note WHERE k = OLD.k;
    NEW.note := upper(NEW.note);
    RETURN NEW;
  END IF;
  DELETE FROM t WHERE k = OLD.k;
  DELETE FROM extra WHERE k = OLD.k;
  IF NOT FOUND THEN RETURN NULL; END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER change INSTEAD OF INSERT OR UPDATE OR DELETE ON both_of FOR EACH ROW EXECUTE FUNCTION change_both('given');
INSERT INTO both_of VALUES (6, 60, 'w6', 'note 6');
INSERT INTO both_of (k, note) VALUES (7, 'seven'), (-1, 'none'), (8, 'eight') RETURNING k, v, note;
INSERT INTO both_of (k, w) SELECT k + 10, w FROM t WHERE k < 3 ORDER BY k;
INSERT INTO both_of (k, w) VALUES (9, 'too long');
INSERT INTO both_of DEFAULT VALUES;
SELECT * FROM both_of ORDER BY k;
UPDATE both_of SET v = v + 1, note = w || '!' WHERE k < 3 RETURNING *;
UPDATE both_of SET note = 'many' WHERE k IN (SELECT k FROM extra WHERE k > 5) AND v > 0;
UPDATE both_of AS b SET v = t.v FROM t WHERE t.k = b.k + 1 AND b.k = 3;
UPDATE both_of SET w = 'much too long' WHERE k = 1;
DELETE FROM both_of WHERE k > 6 RETURNING k, note;
DELETE FROM both_of WHERE note IS NULL;
SELECT * FROM both_of ORDER BY k;
SELECT * FROM log ORDER BY 1, 2, 3;
-- params: 50 | fifty
INSERT INTO both_of (k, w) VALUES ($1::int, $2) RETURNING k, w;
-- params: 2
UPDATE both_of SET v = $1 WHERE k = $1 RETURNING v;
DO $$ DECLARE n int; m text; BEGIN UPDATE both_of SET v = 1 WHERE k < 4; GET DIAGNOSTICS n = ROW_COUNT; DELETE FROM both_of WHERE k = 3 RETURNING note INTO m; RAISE NOTICE '% %', n, m; END $$;
WITH x AS (SELECT max(k) AS k FROM t) UPDATE both_of SET note = 'last' FROM x WHERE both_of.k = x.k;
BEGIN;
DELETE FROM both_of;
SELECT count(*) FROM both_of;
ROLLBACK;
SELECT k, v, note FROM both_of ORDER BY k;
-- Defaults of the view, and two triggers.
CREATE VIEW plain AS SELECT k, v, w FROM t;
ALTER VIEW plain ALTER COLUMN w SET DEFAULT 'new';
CREATE FUNCTION first_of() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := NEW.v * 2; RETURN NEW; END $$;
CREATE FUNCTION second_of() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v > 100 THEN RAISE EXCEPTION 'too much: %', NEW; END IF; INSERT INTO t VALUES (NEW.*); RETURN NEW; END $$;
CREATE TRIGGER b INSTEAD OF INSERT ON plain FOR EACH ROW EXECUTE FUNCTION second_of();
CREATE TRIGGER a INSTEAD OF INSERT ON plain FOR EACH ROW EXECUTE FUNCTION first_of();
INSERT INTO plain (k, v) VALUES (20, 4), (21, 5) RETURNING *;
INSERT INTO plain VALUES (22, 4, DEFAULT), (23, 60, 'x');
SELECT * FROM t WHERE k >= 20 ORDER BY k;
DROP TRIGGER b ON plain;
INSERT INTO plain VALUES (24, 4, 'x');
DROP TRIGGER a ON plain;
INSERT INTO plain VALUES (24, 4, 'x');
SELECT * FROM t WHERE k >= 20 ORDER BY k;
-- A DELETE makes no row that a domain could forbid.
CREATE DOMAIN must AS int NOT NULL;
CREATE TABLE strict (k int, m must) /*dist: hash(k) | replication*/;
CREATE VIEW stricter AS SELECT k, m FROM strict;
CREATE FUNCTION gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM strict WHERE k = OLD.k; RETURN OLD; END $$;
CREATE TRIGGER gone INSTEAD OF DELETE ON stricter FOR EACH ROW EXECUTE FUNCTION gone();
INSERT INTO strict VALUES (1, 2), (3, 4);
DELETE FROM stricter WHERE k = 1 RETURNING k, m;
SELECT * FROM strict ORDER BY k;
-- Rights.
CREATE ROLE e2e_viewer;
DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO e2e_viewer', current_schema()); END $$;
GRANT SELECT ON both_of TO e2e_viewer;
SET ROLE e2e_viewer;
INSERT INTO both_of (k) VALUES (90);
RESET ROLE;
