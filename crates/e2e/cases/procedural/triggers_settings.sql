-- Rows of triggers that the coordinator runs, under settings by which values are printed otherwise.
CREATE TABLE m (k int, ts timestamptz, t timestamp, d date, i interval, f float8, r real, b bytea, n numeric) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE lg (what text, k int, ts timestamptz, t timestamp, d date, i interval, f float8, r real, b bytea, n numeric) /*dist: hash(what) | hash(k) | replication*/;
CREATE TABLE whole (what text, v text) /*dist: hash(what)*/;
CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO lg SELECT tg_op, new.k, new.ts, new.t, new.d, new.i, new.f, new.r, new.b, new.n;
  INSERT INTO whole VALUES (tg_op, new.ts::text || old.f::text);
  RETURN NULL;
END $$;
CREATE FUNCTION logs_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO lg SELECT 'all', * FROM fresh; RETURN NULL; END $$;
INSERT INTO m VALUES (1, '2024-03-05 06:07:08.912345+00', '2024-03-05 06:07:08.9', '2024-03-05', '-1 day 02:03:04', 1.0 / 3, 1.0 / 3, '\xff00', 1.50);
CREATE TRIGGER a AFTER INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION logs();
CREATE TRIGGER b AFTER UPDATE ON m REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION logs_all();
SET datestyle = 'SQL, DMY';
SET timezone = 'Asia/Kolkata';
SET extra_float_digits = -5;
SET intervalstyle = 'sql_standard';
SET bytea_output = 'escape';
UPDATE m SET k = k;
UPDATE m SET n = 2.00 WHERE k = 1;
INSERT INTO m VALUES (20, '2024-03-05 06:07:08.912345+00', '2024-03-05 06:07:08.9', '2024-12-05', '1 mon -3 days', 0.123456789012345, 0.1234567, '\x0102', 3);
RESET ALL;
SELECT * FROM lg ORDER BY what, k, n;
SELECT what, count(*) FROM whole GROUP BY what ORDER BY what;
