-- Constants of bodies are read as the session reads that calls them, whichever backend it gets. (One that has called a body and then
-- reads otherwise: docs/sql.md.)
CREATE FUNCTION moment() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RETURN '2024-01-01 12:00'::timestamptz; END $$;
CREATE FUNCTION month() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN extract(month FROM date '01/02/2024'); END $$;
CREATE FUNCTION span() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN extract(day FROM interval '-1 2:03:04'); END $$;
CREATE FUNCTION marked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.m := extract(month FROM date '03/04/2024'); RETURN NEW; END $$;
CREATE TABLE t (k int PRIMARY KEY, m int, c int DEFAULT month()) /*dist: hash(k) | replication*/;
CREATE TRIGGER marked BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION marked();

CREATE FUNCTION is_null(x int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN x = NULL; END $$;

-- @f
SET transform_null_equals = on;
SELECT is_null(NULL), is_null(1);
-- @g
SELECT is_null(NULL), is_null(1);
SET transform_null_equals = on;
-- @h
SELECT is_null(NULL), is_null(1);
-- @f
SELECT is_null(NULL), is_null(1);

-- @a
SET datestyle = 'ISO, DMY';
SET timezone = 'Asia/Tokyo';
SELECT moment() AT TIME ZONE 'UTC', month();
INSERT INTO t VALUES (1), (2), (3), (4);
-- @b
SELECT moment() AT TIME ZONE 'UTC', month();
INSERT INTO t VALUES (11), (12), (13), (14);
SELECT k, month() FROM t ORDER BY k;
BEGIN;
SET LOCAL datestyle = 'ISO, YMD';
SET LOCAL timezone = 'America/New_York';
SELECT extract(month FROM date '2024/05/06'), span();
COMMIT;
-- @c
SELECT moment() AT TIME ZONE 'UTC', month();
INSERT INTO t VALUES (21), (22), (23);
-- @a
SELECT moment() AT TIME ZONE 'UTC', month(), span();
-- @d
SET datestyle = 'ISO, DMY';
SET intervalstyle = 'sql_standard';
SELECT month(), span();
-- @e
SELECT month(), span();
SELECT * FROM t ORDER BY k;

-- A session that has read as others do before it reads otherwise; in a block, too, on all its nodes.
CREATE TABLE later (k int, c timestamptz) /*dist: hash(k)*/;
CREATE FUNCTION noon() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.c := '2024-01-01 12:00'::timestamptz; RETURN NEW; END $$;
CREATE TRIGGER noon BEFORE INSERT ON later FOR EACH ROW EXECUTE FUNCTION noon();
-- @i
INSERT INTO later VALUES (7), (8), (9), (10);
SELECT count(*) FROM later WHERE k = 7;
SELECT 1;
-- @j
SELECT count(*) FROM later WHERE k = 7;
SELECT count(*) FROM later;
SET timezone = 'Asia/Tokyo';
INSERT INTO later VALUES (7) RETURNING c AT TIME ZONE 'UTC';
-- @l
SELECT count(*) FROM later WHERE k = 8;
BEGIN;
SET LOCAL timezone = 'America/New_York';
INSERT INTO later VALUES (8), (9), (10), (11), (12), (13);
SELECT k, c AT TIME ZONE 'UTC' FROM later ORDER BY 1, 2;
COMMIT;
-- @i
INSERT INTO later VALUES (20), (21), (22), (23);
SELECT k, c AT TIME ZONE 'UTC' FROM later WHERE k > 19 ORDER BY 1, 2;
