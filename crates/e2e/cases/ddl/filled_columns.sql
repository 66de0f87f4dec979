-- Columns whose values are filled in node by node, in tables with triggers: none of them fires, and each is as it was.
CREATE TABLE heard (what text);
CREATE TABLE fc (k int PRIMARY KEY, v text) /*dist: hash(k) | replication*/;
INSERT INTO fc SELECT g, 'v' || g FROM generate_series(1, 9) g;
CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := NEW.v || '!'; RETURN NEW; END $$;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO heard VALUES (TG_NAME || ' ' || TG_OP); RETURN NULL; END $$;
CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;
CREATE TRIGGER shouts BEFORE INSERT OR UPDATE ON fc FOR EACH ROW EXECUTE FUNCTION shout();
CREATE TRIGGER "Tells" AFTER INSERT OR UPDATE ON fc FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER tells_all AFTER UPDATE ON fc FOR EACH STATEMENT EXECUTE FUNCTION tell();
CREATE TRIGGER nevers BEFORE UPDATE ON fc FOR EACH ROW EXECUTE FUNCTION never();
ALTER TABLE fc DISABLE TRIGGER nevers;
ALTER TABLE fc ENABLE ALWAYS TRIGGER shouts;
ALTER TABLE fc ADD COLUMN id serial;
SELECT count(DISTINCT id), min(id), max(id), min(v), max(v) FROM fc;
SELECT count(*) FROM heard;
ALTER TABLE fc ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY;
SELECT count(DISTINCT n), min(n), max(n) FROM fc;
BEGIN;
UPDATE fc SET v = v || '?' WHERE k = 1;
ALTER TABLE fc ADD COLUMN m serial;
UPDATE fc SET v = v || '?' WHERE k = 2;
ROLLBACK;
SELECT count(*) FROM heard;
ALTER TABLE fc ADD COLUMN moment timestamptz NOT NULL DEFAULT clock_timestamp();
SELECT count(*) FROM fc WHERE moment IS NULL;
SELECT count(*) FROM heard;
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'fc'::regclass AND tgname NOT LIKE 'loxo:%' ORDER BY 1;
UPDATE fc SET v = v || '?' WHERE k < 3;
INSERT INTO fc (k, v) VALUES (10, 'w');
SELECT k, v, id > 0, n > 0 FROM fc WHERE k IN (1, 2, 3, 10) ORDER BY k;
SELECT what, count(*) FROM heard GROUP BY what ORDER BY what;
ALTER TABLE fc ADD COLUMN broken int NOT NULL DEFAULT nextval('nowhere');
UPDATE fc SET v = v || '?' WHERE k = 3 RETURNING v;
SELECT what, count(*) FROM heard GROUP BY what ORDER BY what;
-- A rule is no trigger.
CREATE RULE hushed AS ON UPDATE TO fc DO ALSO INSERT INTO heard VALUES ('rule');
-- refused
ALTER TABLE fc ADD COLUMN o serial;
