-- Functions that the session's datanode calls by itself: in defaults, CHECKs, triggers and indexes of temporary tables, and those in
-- pg_temp. It has not all rows, so they may use what is temporary and what every node has.
CREATE TABLE d (id int PRIMARY KEY, v int) /*dist: hash(id)*/;
INSERT INTO d SELECT i, i FROM generate_series(1, 100) i;
CREATE TABLE r (id int PRIMARY KEY) /*dist: replication*/;
INSERT INTO r VALUES (1), (2);
CREATE FUNCTION rows_of_d() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM d';
CREATE FUNCTION rows_of_r() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM r); END$$;
CREATE FUNCTION into_d() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO d VALUES (new.a + 1000, 1); RETURN new; END$$;
CREATE FUNCTION count_d() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO log SELECT count(*) FROM d; RETURN NULL; END$$;
CREATE FUNCTION count_t() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO log SELECT count(*) + rows_of_r() FROM t; RETURN new; END$$;
CREATE FUNCTION by_text() RETURNS bigint LANGUAGE plpgsql AS $$DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM d' INTO n; RETURN n; END$$;

CREATE TEMP TABLE of_default (a int, n bigint DEFAULT rows_of_d());
-- refused
INSERT INTO of_default VALUES (1);
-- refused
INSERT INTO of_default SELECT id FROM d WHERE id < 3;
-- refused
WITH made AS (INSERT INTO of_default VALUES (1) RETURNING n) SELECT * FROM made;
-- refused
MERGE INTO of_default USING d ON a = id WHEN NOT MATCHED THEN INSERT VALUES (id);
CREATE TEMP VIEW over_it AS SELECT a FROM of_default;
-- refused
INSERT INTO over_it VALUES (1);
-- refused
COPY of_default (a) FROM STDIN;
1
\.
SELECT * FROM of_default;
ALTER TABLE of_default ALTER n DROP DEFAULT;
-- refused
INSERT INTO of_default SELECT id, rows_of_d() FROM d WHERE id < 3;
SELECT * FROM of_default ORDER BY a;
-- refused
ALTER TABLE of_default ADD m bigint DEFAULT rows_of_d();
-- refused
ALTER TABLE of_default ADD CHECK (n <= rows_of_d());
CREATE TEMP TABLE of_check (a bigint CHECK (a < by_text()));
-- refused
INSERT INTO of_check VALUES (1);

CREATE TEMP TABLE log (a bigint);
CREATE TEMP TABLE t (a int, n bigint DEFAULT rows_of_r());
CREATE TRIGGER counts BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION count_t();
INSERT INTO t VALUES (1), (2);
INSERT INTO t SELECT id FROM d WHERE id < 4;
SELECT * FROM t ORDER BY a;
SELECT * FROM log ORDER BY a;
CREATE TRIGGER counts_d AFTER TRUNCATE ON t EXECUTE FUNCTION count_d();
INSERT INTO t VALUES (3);
-- refused
TRUNCATE t;
DROP TRIGGER counts_d ON t;
TRUNCATE t;
PREPARE one AS INSERT INTO t VALUES (1);
EXECUTE one;
CREATE TRIGGER writes BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION into_d();
-- refused
EXECUTE one;
DROP TRIGGER writes ON log;
EXECUTE one;
CREATE TRIGGER writes BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION into_d();
-- refused
EXECUTE one;
ALTER TABLE t DISABLE TRIGGER writes;
EXECUTE one;
SELECT count(*) FROM d;

CREATE FUNCTION pg_temp.of_d() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM d); END$$;
SELECT pg_temp.of_d();
-- refused
SELECT id, pg_temp.of_d() FROM r ORDER BY id;
CREATE PROCEDURE pg_temp.store() LANGUAGE sql AS 'INSERT INTO d VALUES (2000)';
CALL pg_temp.store();
SELECT max(id) FROM d;
-- As an ORM finds or makes a row.
CREATE FUNCTION pg_temp.make(OUT response d, OUT caught text) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO d VALUES (2001, 5) RETURNING * INTO response;
EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS caught = PG_EXCEPTION_DETAIL; END$$;
SELECT (make.response).id, (make.response).v, make.caught FROM pg_temp.make();
SELECT (make.response).id, (make.response).v, make.caught FROM pg_temp.make();
DROP FUNCTION pg_temp.make();
DROP FUNCTION IF EXISTS pg_temp.make();
CREATE TYPE pg_temp.mood AS ENUM ('sad');
DROP TYPE pg_temp.mood;
CREATE FUNCTION pg_temp.above(int) RETURNS SETOF int LANGUAGE plpgsql AS $$BEGIN RETURN QUERY SELECT id FROM d WHERE id > $1 ORDER BY id; END$$;
SELECT * FROM pg_temp.above(98);
-- params: 99
SELECT sum(a) FROM pg_temp.above($1) AS a;
-- A function that another one calls changes what the statement reads.
CREATE FUNCTION pg_temp.inner_one() RETURNS int LANGUAGE plpgsql AS $$BEGIN INSERT INTO d VALUES (2002, 7); RETURN 1; END$$;
CREATE FUNCTION pg_temp.outer_one() RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM pg_temp.inner_one(); RETURN 1; END$$;
-- refused
SELECT count(*) FROM d, pg_temp.outer_one();
SELECT count(*) FROM d WHERE id = 2002;
CREATE FUNCTION pg_temp.three() RETURNS SETOF int LANGUAGE sql AS 'VALUES (1), (2), (3)';
CREATE FUNCTION pg_temp.plus(int) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN $1 + (SELECT count(*) FROM d WHERE id < 3); END$$;
SELECT pg_temp.plus(5);
-- refused
SELECT pg_temp.plus(pg_temp.three());
CREATE PROCEDURE p_of_two(a int, INOUT b int) LANGUAGE plpgsql AS $$BEGIN b := 7; END$$;
CREATE PROCEDURE pg_temp.p_of_two(INOUT a int, b int) LANGUAGE plpgsql AS $$BEGIN a := 42 + (SELECT count(*) FROM d WHERE id < 3); END$$;
-- refused
DO $$DECLARE x int := 1; y int := 2; BEGIN CALL pg_temp.p_of_two(x, y); RAISE NOTICE '% %', x, y; END$$;
DROP PROCEDURE p_of_two(int, int);
CREATE FUNCTION pg_temp.of_t(int) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN INSERT INTO log VALUES ($1); RETURN (SELECT count(*) FROM log) + rows_of_r(); END$$;
SELECT pg_temp.of_t(1);
SELECT a FROM log ORDER BY a;
CREATE FUNCTION pg_temp.fixed(int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN $1 + (SELECT count(*) FROM d); END$$;
-- refused
CREATE INDEX ON t (pg_temp.fixed(a));
DROP TABLE t, log, of_default, of_check CASCADE;
DROP FUNCTION rows_of_d, rows_of_r, into_d, count_d, count_t, by_text;
DROP TABLE d, r;
