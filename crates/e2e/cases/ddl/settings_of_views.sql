-- What the query of a materialized view sets does not outlive the statement that runs it.
CREATE SCHEMA e2e_mv_set;
SET search_path = e2e_mv_set, pg_catalog;
CREATE TABLE t (k int, v int) /*dist: hash(k) | roundrobin | hash(v)*/;
INSERT INTO t SELECT i, i FROM generate_series(1, 40) AS i;
CREATE FUNCTION sets_path(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'pg_catalog', false); RETURN $1; END $$;
CREATE FUNCTION sets_app(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('e2e.app', 'x' || $1, false); RETURN $1; END $$;
CREATE FUNCTION sets_within(int) RETURNS int LANGUAGE plpgsql SET work_mem = '5MB' AS $$ BEGIN RETURN $1; END $$;
CREATE MATERIALIZED VIEW by_path AS SELECT e2e_mv_set.sets_path(k) AS k FROM t;
SHOW search_path;
SELECT count(*) FROM by_path;
REFRESH MATERIALIZED VIEW by_path;
SHOW search_path;
SELECT count(*), sum(k) FROM by_path;
SET e2e.app = 'mine';
CREATE MATERIALIZED VIEW by_app AS SELECT e2e_mv_set.sets_app(k) AS k, count(*) AS n FROM t GROUP BY 1;
SHOW e2e.app;
REFRESH MATERIALIZED VIEW by_app;
SHOW e2e.app;
SELECT count(*), sum(n) FROM by_app;
-- What is set afterwards stays.
SELECT set_config('e2e.app', 'later', false);
SHOW e2e.app;
BEGIN;
-- refused
REFRESH MATERIALIZED VIEW by_app;
ROLLBACK;
SHOW e2e.app;
BEGIN;
CREATE MATERIALIZED VIEW within AS SELECT e2e_mv_set.sets_within(k) AS k FROM t;
SELECT set_config('e2e.app', 'in block', false);
COMMIT;
SHOW e2e.app;
RESET e2e.app;
DROP SCHEMA e2e_mv_set CASCADE;
