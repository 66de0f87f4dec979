-- Functions of a user's that look like PostgreSQL's own, and words that stand where they mean nothing.
CREATE TABLE t (k int, v int, d date, c time, x text)
  /*dist: hash(k) | roundrobin | replication | modulo(v)*/;
INSERT INTO t SELECT i, i * 10, date '2020-01-01' + i * 100, time '10:00' + i * interval '1 minute', 'x' || i
  FROM generate_series(1, 30) i;
CREATE SCHEMA nw;

-- Overloads of set_config and of now.
CREATE FUNCTION nw.set_config(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1 || $2';
CREATE FUNCTION nw.set_config(text, text, boolean) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1 || $2';
CREATE FUNCTION nw.now() RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$SELECT '2001-02-03 04:05:06+00'::timestamptz$$;
CREATE FUNCTION nw.extract(text, date) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7';
CREATE FUNCTION nw.lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'low' || $1$$;
SELECT nw.set_config('nw.a', 'b', false), nw.set_config('work_mem', 'c');
SELECT set_config('nw.a', 'real', false), nw.set_config('nw.a', 'b', false);
SELECT current_setting('nw.a');
SELECT nw.set_config(x, 'y') FROM t WHERE k < 4 ORDER BY k;
SELECT nw.set_config(x, 'y', true), k FROM t WHERE k < 4 ORDER BY k;
SELECT count(*) FROM t WHERE nw.now() < '2002-01-01';
SELECT count(*) FROM t a JOIN t b ON a.k = b.v WHERE nw.lower(b.x) LIKE 'low%' AND nw.extract('year', a.d) = 7;
UPDATE t SET x = nw.set_config(x, nw.now()::date::text) WHERE k = 5;
SELECT x FROM t WHERE k = 5;
SELECT current_setting('nw.a'), current_setting('work_mem') <> 'c';

-- The same names bare, where they come before pg_catalog.
BEGIN;
SELECT pg_catalog.set_config('search_path', 'nw, ' || current_setting('search_path') || ', pg_catalog', true) IS NOT NULL;
SELECT set_config('nw.a', 'b', false), set_config('work_mem', 'c');
SELECT set_config('work_mem', 'none', false);
SELECT set_config(x, 'y') FROM t WHERE k < 4 ORDER BY k;
SELECT set_config(x, 'y', true), k FROM t WHERE k < 4 ORDER BY k;
INSERT INTO t (k, v, x) VALUES (100, 1, set_config('k', 'v', true));
UPDATE t SET x = x || now()::date, d = now() WHERE v % 20 = 0;
SELECT max(d), min(x), count(*) FROM t WHERE d = now()::date;
SELECT count(*) FROM t a JOIN t b ON a.k = b.v WHERE lower(b.x) LIKE 'low%';
SELECT count(*), min(now()) FROM t WHERE d <= now();
SELECT k, x FROM t WHERE k = 100;
SELECT current_setting('nw.a'), current_setting('work_mem') <> 'none';
COMMIT;

-- PL/pgSQL that is no more than one query, and what only looks like it.
CREATE TABLE w (k int, v int, x text) /*dist: hash(k) | replication | roundrobin | modulo(v)*/;
INSERT INTO w SELECT i, i * 10, 'x' || i FROM generate_series(1, 30) i;
CREATE SEQUENCE nw.drawn;
CREATE FUNCTION nw.all_above(low int) RETURNS SETOF int LANGUAGE plpgsql STABLE AS
  $$BEGIN RETURN QUERY SELECT w.v FROM w WHERE w.k > low; RETURN; END$$;
CREATE FUNCTION nw.rounded(n numeric) RETURNS numeric LANGUAGE plpgsql STABLE AS
  $$DECLARE r numeric(5,1); BEGIN SELECT sum(w.v) * n INTO r FROM w; RETURN r; END$$;
CREATE FUNCTION nw.whole(n numeric) RETURNS numeric LANGUAGE plpgsql STABLE AS
  $$DECLARE "Sum" numeric; BEGIN SELECT sum(w.v) * n INTO "Sum" FROM w; RETURN "Sum"; END$$;
CREATE FUNCTION nw.counted(n int) RETURNS bigint LANGUAGE plpgsql AS
  $$DECLARE c bigint := nextval('nw.drawn'); BEGIN SELECT count(*) INTO c FROM w WHERE w.k > n; RETURN c; END$$;
CREATE FUNCTION nw.ambiguous(k int) RETURNS int LANGUAGE plpgsql STABLE AS
  $$BEGIN RETURN (SELECT v FROM w WHERE w.k = k); END$$;
CREATE FUNCTION nw.by_column(k int) RETURNS bigint LANGUAGE plpgsql STABLE AS
  $$#variable_conflict use_column
  BEGIN RETURN (SELECT count(*) FROM w WHERE w.k = k); END$$;
CREATE FUNCTION nw.by_variable(k int) RETURNS bigint LANGUAGE plpgsql STABLE AS
  $$#variable_conflict use_variable
  BEGIN RETURN (SELECT count(*) FROM w WHERE w.k = k); END$$;
SELECT sum(a), count(*) FROM nw.all_above(20) a;
SELECT nw.rounded(0.0123), nw.whole(0.0123);
SELECT nw.counted(10);
SELECT currval('nw.drawn');
SELECT nw.ambiguous(3);
SELECT nw.by_column(3), nw.by_variable(3);
SELECT k, nw.by_variable(k) FROM w WHERE k < 3 ORDER BY k;

-- What a body says, not what stands in its texts.
CREATE FUNCTION nw.said(n int) RETURNS text LANGUAGE plpgsql STABLE AS
  $$DECLARE said text COLLATE "C" := 'COMMIT; EXECUTE ''x'' INTO NEW.k'; BEGIN RAISE DEBUG 'ROLLBACK %', n; RETURN said || n; END$$;
SELECT nw.said(k) FROM w WHERE k < 3 ORDER BY k;
CREATE TABLE "DEFAULT VALUES" (k int PRIMARY KEY, v int DEFAULT 5) /*dist: hash(k) | replication | hash(k) | replication*/;
INSERT INTO "DEFAULT VALUES" AS "ON CONFLICT" SELECT k, v FROM w WHERE k < 4
  ON CONFLICT (k) DO UPDATE SET v = "ON CONFLICT".v + 1 RETURNING k, 'DEFAULT VALUES' AS "RETURNING";
INSERT INTO "DEFAULT VALUES" AS "ON CONFLICT" SELECT k, v FROM w WHERE k < 6
  ON CONFLICT (k) DO UPDATE SET v = "ON CONFLICT".v + 1;
SELECT * FROM "DEFAULT VALUES" ORDER BY k;

-- Triggers that give a row another key, and those that do not.
CREATE FUNCTION nw.keeps() RETURNS trigger LANGUAGE plpgsql AS $$DECLARE alias int := 1; call int;
  BEGIN call := alias; NEW.x := NEW.x || call; RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END; END$$;
CREATE FUNCTION nw.moves() RETURNS trigger LANGUAGE plpgsql AS
  $$DECLARE r ALIAS FOR NEW; BEGIN r.k := r.k + 1; RETURN NEW; END$$;
CREATE TRIGGER keeps BEFORE INSERT OR UPDATE OR DELETE ON w FOR EACH ROW EXECUTE FUNCTION nw.keeps();
INSERT INTO w VALUES (50, 50, 'a');
UPDATE w SET x = 'b' WHERE k < 3;
DELETE FROM w WHERE k = 4;
CREATE TRIGGER moves BEFORE INSERT ON w FOR EACH ROW EXECUTE FUNCTION nw.moves();
INSERT INTO w VALUES (60, 60, 'a'), (70, 70, 'b');
SELECT * FROM w WHERE k < 5 OR k > 40 ORDER BY k;
DROP TABLE w;

-- A policy and a rule lock the table that they are for; START TRANSACTION says so.
/* no word of the statement */ START TRANSACTION;
CREATE POLICY nw_all ON t USING (k > 0);
CREATE RULE nw_none AS ON DELETE TO t DO INSTEAD NOTHING;
DELETE FROM t;
SELECT count(*) > 0 FROM t;
ROLLBACK;
DROP SCHEMA nw CASCADE;
