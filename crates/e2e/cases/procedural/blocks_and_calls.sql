-- BEGIN inside a block: a warning, and its modes hold. Procedures that call procedures which end transactions.
CREATE TABLE t (k int PRIMARY KEY, v int) /*dist: hash(k) | replication | modulo(k)*/;
CREATE TABLE log (what text, n int) /*dist: roundrobin | hash(what) | replication*/;
INSERT INTO t SELECT i, i FROM generate_series(1, 6) AS i;
BEGIN READ ONLY;
BEGIN READ WRITE;
SHOW transaction_read_only;
INSERT INTO log VALUES ('rw', 1);
COMMIT;
BEGIN;
SELECT count(*) FROM t;
BEGIN READ ONLY;
SHOW transaction_read_only;
INSERT INTO log VALUES ('ro', 1);
ROLLBACK;
BEGIN READ ONLY;
SELECT count(*) FROM t;
START TRANSACTION READ WRITE;
ROLLBACK;
BEGIN;
BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SHOW transaction_isolation;
SELECT sum(v) FROM t;
COMMIT;
BEGIN;
SELECT sum(v) FROM t;
BEGIN ISOLATION LEVEL SERIALIZABLE;
ROLLBACK;
BEGIN;
SAVEPOINT s;
BEGIN READ ONLY;
SHOW transaction_read_only;
ROLLBACK TO s;
SHOW transaction_read_only;
UPDATE t SET v = v + 1 WHERE k = 1;
COMMIT;
BEGIN;
SELECT 1 / 0;
BEGIN READ WRITE;
COMMIT;
SELECT * FROM log;

CREATE PROCEDURE step(n int, fails boolean DEFAULT false) LANGUAGE plpgsql AS $$
BEGIN
  UPDATE t SET v = v + n WHERE k <= n;
  COMMIT;
  INSERT INTO log VALUES ('step', n);
  IF fails THEN RAISE EXCEPTION 'no step %', n; END IF;
END $$;
CREATE PROCEDURE steps(INOUT n int) LANGUAGE plpgsql AS $$
DECLARE i int;
BEGIN
  FOR i IN 1..n LOOP
    CALL step(i);
    INSERT INTO log VALUES ('after', i);
    IF i = 2 THEN ROLLBACK; END IF;
  END LOOP;
  n := n * 10;
END $$;
CALL steps(3);
SELECT what, n FROM log ORDER BY what, n;
SELECT * FROM t ORDER BY k;
CREATE PROCEDURE outer_steps() LANGUAGE plpgsql AS $$
DECLARE m int := 2; a int;
BEGIN
  CALL steps(m);
  RAISE NOTICE 'm is %', m;
  SELECT count(*) INTO a FROM log;
  COMMIT;
  CALL step(5, true);
END $$;
CALL outer_steps();
SELECT what, n FROM log ORDER BY what, n;
SELECT * FROM t ORDER BY k;
DO $$ BEGIN CALL step(1); CALL step(2); ROLLBACK; END $$;
SELECT what, n FROM log ORDER BY what, n;
BEGIN;
CALL steps(1);
ROLLBACK;
DO $$ BEGIN BEGIN CALL step(1); EXCEPTION WHEN division_by_zero THEN NULL; END; END $$;
CREATE FUNCTION through() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CALL step(1); RETURN 1; END $$;
SELECT through();
SELECT k, through() FROM t WHERE k < 3 ORDER BY k;
CREATE PROCEDURE in_loop() LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT k FROM t ORDER BY k LIMIT 3 LOOP CALL step(r.k); END LOOP; END $$;
CALL in_loop();
SELECT * FROM t ORDER BY k;
SELECT what, count(*) FROM log GROUP BY what ORDER BY what;
-- The first statement fails on one node: the others go on, and nobody is told of a failed transaction.
CREATE TABLE fails_first (id int PRIMARY KEY) /*dist: hash(id) | replication*/;
INSERT INTO fails_first VALUES (1), (2), (3);
DO $$ BEGIN BEGIN INSERT INTO fails_first VALUES (1); EXCEPTION WHEN unique_violation THEN NULL; END; COMMIT; END $$;
DO $$ BEGIN BEGIN INSERT INTO fails_first VALUES (2); EXCEPTION WHEN unique_violation THEN PERFORM set_config('app.caught', 'yes', false); END; INSERT INTO fails_first VALUES (4); COMMIT; END $$;
SELECT count(*), current_setting('app.caught') FROM fails_first;
DROP TABLE fails_first;
