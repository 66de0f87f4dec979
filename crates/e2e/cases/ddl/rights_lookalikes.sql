-- Objects of one role that look like PostgreSQL's own, in the search path of whoever reads a view, has a default filled in, or
-- refreshes: what was bound when it was made calls none of them.
CREATE SCHEMA e2e_la;
CREATE SCHEMA e2e_la_eve;
CREATE ROLE e2e_la_own;
CREATE ROLE e2e_la_eve;
GRANT ALL ON SCHEMA e2e_la TO e2e_la_own;
GRANT USAGE ON SCHEMA e2e_la TO e2e_la_eve;
GRANT ALL ON SCHEMA e2e_la_eve TO e2e_la_eve;
GRANT USAGE ON SCHEMA e2e_la_eve TO e2e_la_own;
SET search_path = e2e_la;
SET ROLE e2e_la_own;
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TABLE t (k int PRIMARY KEY, g int, w text, a int[], m mood) /*dist: hash(k) | replication | hash(k)*/;
INSERT INTO t SELECT i, i % 3, 'w' || i, ARRAY[i % 2], 'low' FROM generate_series(1, 9) i;
CREATE TABLE d (id serial, who text, ok text DEFAULT format('%s', 'no'::text), l text GENERATED ALWAYS AS (who || 'x') STORED)
    /*dist: hash(who) | replication | roundrobin*/;
CREATE VIEW cnt AS SELECT g, count(w) AS n, array_agg(k ORDER BY k) AS ks FROM t GROUP BY g;
CREATE VIEW arr AS SELECT x.g, count(*) AS n FROM t x JOIN t y ON x.a = y.a WHERE x.m = 'low' GROUP BY x.g;
CREATE VIEW plain AS SELECT k, format('%s', w) AS f FROM t WHERE m = 'low';
CREATE MATERIALIZED VIEW mat AS SELECT g, count(w) AS n FROM t GROUP BY g;
CREATE FUNCTION atom() RETURNS bigint LANGUAGE sql STABLE BEGIN ATOMIC SELECT sum(n)::bigint FROM (SELECT count(w) AS n FROM t GROUP BY g) AS s; END;
GRANT SELECT ON cnt, arr, plain TO e2e_la_eve;
GRANT SELECT (k), UPDATE (w) ON t TO e2e_la_eve;
GRANT INSERT (who) ON d TO e2e_la_eve;
GRANT USAGE ON SEQUENCE d_id_seq TO e2e_la_eve;
SET ROLE e2e_la_eve;
CREATE FUNCTION e2e_la_eve.says(what name) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% as %', what, current_user; END $$;
CREATE FUNCTION e2e_la_eve.counts(bigint, text) RETURNS bigint LANGUAGE plpgsql
    AS $$ BEGIN PERFORM e2e_la_eve.says('count'); RETURN $1 + 100; END $$;
CREATE AGGREGATE e2e_la_eve.count(text) (SFUNC = e2e_la_eve.counts, STYPE = bigint, INITCOND = '0');
CREATE FUNCTION e2e_la_eve.same(int[], int[]) RETURNS bool LANGUAGE plpgsql
    AS $$ BEGIN PERFORM e2e_la_eve.says('arrays'); RETURN false; END $$;
CREATE OPERATOR e2e_la_eve.= (LEFTARG = int[], RIGHTARG = int[], FUNCTION = e2e_la_eve.same);
CREATE FUNCTION e2e_la_eve.same(e2e_la.mood, e2e_la.mood) RETURNS bool LANGUAGE plpgsql
    AS $$ BEGIN PERFORM e2e_la_eve.says('moods'); RETURN false; END $$;
CREATE OPERATOR e2e_la_eve.= (LEFTARG = e2e_la.mood, RIGHTARG = e2e_la.mood, FUNCTION = e2e_la_eve.same);
CREATE FUNCTION e2e_la_eve.format(text, text) RETURNS text LANGUAGE plpgsql
    AS $$ BEGIN PERFORM e2e_la_eve.says('format'); RETURN 'yes'; END $$;
CREATE FUNCTION e2e_la_eve.is_text(text) RETURNS bool LANGUAGE plpgsql
    AS $$ BEGIN PERFORM e2e_la_eve.says('text'); RETURN true; END $$;
CREATE DOMAIN e2e_la_eve.text AS pg_catalog.text CHECK (e2e_la_eve.is_text(value));

SET search_path = e2e_la_eve, e2e_la;
SELECT * FROM cnt ORDER BY g;
SELECT * FROM arr ORDER BY g;
SELECT * FROM plain WHERE k < 3 ORDER BY k;
SELECT a.g, b.n FROM cnt a JOIN arr b ON a.g = b.g ORDER BY 1;
INSERT INTO d (who) VALUES ('a'), ('b');
INSERT INTO d (who) SELECT 'c' || k FROM t;
UPDATE t SET w = 'u' || k WHERE k = 4;
SET search_path = e2e_la_eve, pg_catalog, e2e_la;
SELECT * FROM cnt ORDER BY g;
SELECT * FROM arr ORDER BY g;
INSERT INTO d (who) SELECT 'd'::varchar FROM t;
UPDATE t SET w = 'v'::varchar WHERE k = 5;
RESET ROLE;
SET search_path = e2e_la_eve, e2e_la;
SELECT * FROM cnt ORDER BY g;
SELECT * FROM arr ORDER BY g;
SELECT * FROM plain WHERE k < 3 ORDER BY k;
SELECT atom();
CREATE TABLE made AS SELECT n FROM cnt;
SELECT sum(n) FROM made;
INSERT INTO d (who) SELECT 'e' FROM t;
INSERT INTO d (who) VALUES ('f');
REFRESH MATERIALIZED VIEW mat;
SELECT * FROM mat ORDER BY g;
SHOW search_path;
SELECT who, ok, l, count(*) FROM d GROUP BY 1, 2, 3 ORDER BY 1;
DROP TABLE made;

-- Who refreshes becomes the view's owner for good as far as functions in it go.
SET search_path = e2e_la;
CREATE FUNCTION back(int) RETURNS int LANGUAGE plpgsql IMMUTABLE
    AS $$ BEGIN PERFORM set_config('role', 'none', true); RAISE NOTICE 'as %', current_user; RETURN $1; EXCEPTION WHEN OTHERS THEN RETURN $1; END $$;
CREATE INDEX ON mat (back(g));
-- refused: v1 | v3 | mixed
REFRESH MATERIALIZED VIEW mat;
SELECT current_user;
DROP INDEX mat_back_idx;
CREATE FUNCTION as_json(mood) RETURNS json LANGUAGE plpgsql
    AS $$ BEGIN PERFORM set_config('role', 'none', true); RAISE NOTICE 'as %', current_user; RETURN '1'; EXCEPTION WHEN OTHERS THEN RETURN '1'; END $$;
CREATE CAST (mood AS json) WITH FUNCTION as_json(mood);
CREATE MATERIALIZED VIEW mat2 AS SELECT x.g, to_json(x.m)::text AS j FROM t x JOIN t y ON x.g = y.k;
ALTER MATERIALIZED VIEW mat2 OWNER TO e2e_la_own;
-- refused: v1 | v3 | mixed
REFRESH MATERIALIZED VIEW mat2;
SELECT * FROM mat2 ORDER BY g;
RESET search_path;
DROP SCHEMA e2e_la, e2e_la_eve CASCADE;
DROP ROLE e2e_la_own, e2e_la_eve;
