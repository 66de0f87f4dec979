-- UPDATE and DELETE of the row that a cursor stands on.
CREATE TABLE t (k int PRIMARY KEY, v text, n int) /*dist: hash(k) | modulo(k) | replication*/;
INSERT INTO t SELECT g, 'v' || g, g % 3 FROM generate_series(1, 20) g;
CREATE TABLE two (a int, b text, v int, PRIMARY KEY (a, b)) /*dist: hash(a) | replication*/;
INSERT INTO two SELECT g % 4, 'b' || g, g FROM generate_series(1, 12) g;
CREATE TABLE log (id int, what text) /*dist: hash(id) | roundrobin | replication*/;
BEGIN;
DECLARE c CURSOR FOR SELECT v, n FROM t ORDER BY k FOR UPDATE;
FETCH 3 FROM c;
UPDATE t SET v = 'third' WHERE CURRENT OF c;
UPDATE t SET v = v || '!' WHERE CURRENT OF c RETURNING k, v;
MOVE 2 IN c;
DELETE FROM t WHERE CURRENT OF c RETURNING *;
DELETE FROM t WHERE CURRENT OF c;
UPDATE t SET v = 'gone' WHERE CURRENT OF c;
FETCH NEXT FROM c;
UPDATE t AS x SET v = m.b FROM (SELECT max(b) AS b FROM two) m WHERE CURRENT OF c RETURNING x.*;
-- The next row of the same key is another one.
DELETE FROM t WHERE CURRENT OF c;
INSERT INTO t VALUES (6, 'another', 0);
UPDATE t SET v = 'wrong' WHERE CURRENT OF c;
FETCH RELATIVE 2 FROM c;
SELECT * FROM t ORDER BY k;
PREPARE change(text) AS UPDATE t SET v = $1 WHERE CURRENT OF c RETURNING k, v;
EXECUTE change('prepared');
FETCH FROM c;
EXECUTE change('prepared twice');
-- params: given
UPDATE t SET v = $1 WHERE CURRENT OF c RETURNING k, v;
FETCH ALL FROM c;
SAVEPOINT a;
UPDATE t SET v = 'behind' WHERE CURRENT OF c;
ROLLBACK TO a;
CLOSE c;
UPDATE t SET v = 'closed' WHERE CURRENT OF c;
ROLLBACK;
SELECT * FROM t ORDER BY k;
-- What PostgreSQL says where there is no row.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t ORDER BY k FOR UPDATE;
SAVEPOINT a;
UPDATE t SET v = 'x' WHERE CURRENT OF c;
ROLLBACK TO a;
FETCH c;
DELETE FROM log WHERE CURRENT OF c;
ROLLBACK TO a;
DELETE FROM t WHERE CURRENT OF d;
ROLLBACK TO a;
FETCH 2 FROM c;
UPDATE t SET n = 100 WHERE CURRENT OF c RETURNING *;
ROLLBACK TO a;
-- The cursor has not moved back.
UPDATE t SET n = 200 WHERE CURRENT OF c RETURNING *;
FETCH BACKWARD 1 FROM c;
ROLLBACK;
DELETE FROM t WHERE CURRENT OF c;
-- Keys that are changed: the row is followed, or no row is meant.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM two WHERE a = 1 ORDER BY v FOR UPDATE;
FETCH 1 FROM c;
UPDATE two SET b = 'moved' WHERE CURRENT OF c RETURNING *;
UPDATE two SET v = v + 100 WHERE CURRENT OF c RETURNING *;
FETCH 1 FROM c;
UPDATE two SET b = b || '+' WHERE a = 1;
UPDATE two SET v = v + 1000 WHERE CURRENT OF c RETURNING *;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT v FROM two WHERE a > 0 ORDER BY v FOR NO KEY UPDATE;
FETCH 2 FROM c;
DELETE FROM two WHERE CURRENT OF c RETURNING *;
FETCH ABSOLUTE 4 FROM c;
DELETE FROM two WHERE CURRENT OF c RETURNING *;
COMMIT;
SELECT * FROM two ORDER BY v;
-- One row, one node.
BEGIN;
DECLARE one CURSOR FOR SELECT * FROM t WHERE k = 7 FOR UPDATE;
FETCH one;
UPDATE t SET v = 'seven' WHERE CURRENT OF one RETURNING *;
FETCH one;
SAVEPOINT a;
UPDATE t SET v = 'eight' WHERE CURRENT OF one RETURNING *;
ROLLBACK TO a;
DECLARE sharing CURSOR FOR SELECT v AS k FROM t WHERE k IN (7, 8) ORDER BY t.k FOR SHARE;
FETCH 2 FROM sharing;
DELETE FROM t WHERE CURRENT OF sharing RETURNING *;
COMMIT;
-- Of a join, each table that is locked.
BEGIN;
DECLARE j CURSOR FOR SELECT t.v, two.v FROM t JOIN two ON two.a = t.k ORDER BY t.k, two.b FOR UPDATE OF t;
FETCH 2 FROM j;
-- refused: v3
UPDATE t SET v = 'joined' WHERE CURRENT OF j RETURNING *;
ROLLBACK;
BEGIN;
DECLARE j CURSOR FOR SELECT t.v, two.v FROM t JOIN two ON two.a = t.k ORDER BY t.k, two.b FOR UPDATE OF t;
FETCH 2 FROM j;
UPDATE two SET v = 0 WHERE CURRENT OF j;
ROLLBACK;
-- The same table twice.
BEGIN;
DECLARE j CURSOR FOR SELECT 1 FROM t x JOIN t y ON x.k = y.k WHERE x.k = 9 FOR UPDATE;
FETCH 1 FROM j;
DELETE FROM t WHERE CURRENT OF j;
ROLLBACK;
-- Not locked, or held.
BEGIN;
DECLARE unlocked CURSOR FOR SELECT * FROM t ORDER BY k;
FETCH unlocked;
-- refused
UPDATE t SET v = 'x' WHERE CURRENT OF unlocked;
ROLLBACK;
DECLARE held CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY k;
FETCH held;
UPDATE t SET v = 'x' WHERE CURRENT OF held;
CLOSE held;
-- A temporary table has its cursors beside it.
CREATE TEMP TABLE own (k int, v text);
INSERT INTO own VALUES (1, 'a'), (2, 'b');
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM own ORDER BY k;
DECLARE d CURSOR FOR SELECT * FROM own;
FETCH 2 FROM d;
UPDATE own SET v = 'current' WHERE CURRENT OF d;
DELETE FROM own WHERE CURRENT OF d;
COMMIT;
SELECT * FROM own;
-- Triggers, and constraints.
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO log VALUES (old.k, TG_OP || ' ' || old.v); RETURN NULL; END$$;
CREATE TRIGGER noted AFTER UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION noted();
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM t WHERE n = 1 ORDER BY k FOR UPDATE;
FETCH 2 FROM c;
UPDATE t SET v = 'seen' WHERE CURRENT OF c;
MOVE c;
DELETE FROM t WHERE CURRENT OF c;
COMMIT;
SELECT * FROM log ORDER BY id;
DROP TRIGGER noted ON t;
-- PL/pgSQL: bound cursors, loops, cursors of any name.
CREATE FUNCTION loops(low int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE c CURSOR (from_k int) FOR SELECT * FROM t WHERE k >= from_k ORDER BY k FOR UPDATE; done int := 0;
BEGIN
  FOR r IN c(low) LOOP
    CONTINUE WHEN r.n = 0;
    UPDATE t SET v = 'loop ' || r.k WHERE CURRENT OF c;
    IF FOUND THEN done := done + 1; END IF;
    IF r.k = 16 THEN DELETE FROM t WHERE CURRENT OF c; END IF;
  END LOOP;
  RETURN done;
END$$;
SELECT loops(12);
CREATE FUNCTION fetches() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor; r record; s text := ''; w text;
BEGIN
  OPEN c FOR SELECT * FROM t WHERE n = 2 ORDER BY k FOR UPDATE;
  LOOP
    FETCH c INTO r;
    EXIT WHEN NOT FOUND;
    UPDATE t SET v = upper(v), n = n + r.k WHERE CURRENT OF c RETURNING v INTO w;
    s := s || w || ' ';
    CONTINUE WHEN r.k < 10;
    INSERT INTO log VALUES (r.k, w);
    DELETE FROM t WHERE CURRENT OF c;
  END LOOP;
  CLOSE c;
  RETURN s;
END$$;
SELECT fetches();
SELECT * FROM t ORDER BY k;
DO $$
DECLARE c refcursor := 'named'; r record;
BEGIN
  OPEN c FOR EXECUTE 'SELECT v FROM two ORDER BY v FOR UPDATE';
  MOVE FORWARD 2 FROM c;
  UPDATE two SET v = -v WHERE CURRENT OF c RETURNING * INTO r;
  RAISE NOTICE '%', r;
  EXECUTE 'UPDATE two SET v = v - 1 WHERE CURRENT OF named';
  BEGIN
    MOVE FORWARD ALL FROM c;
    DELETE FROM two WHERE CURRENT OF c;
  EXCEPTION WHEN invalid_cursor_state THEN RAISE NOTICE 'caught %', SQLERRM;
  END;
END$$;
SELECT * FROM two ORDER BY v;
CREATE TABLE many (id int PRIMARY KEY, v int) /*dist: hash(id) | replication*/;
INSERT INTO many SELECT g, 0 FROM generate_series(1, 130) g;
CREATE PROCEDURE long_loop() LANGUAGE plpgsql AS $$
DECLARE c CURSOR FOR SELECT id FROM many WHERE id > 0 ORDER BY id FOR UPDATE;
BEGIN
  FOR r IN c LOOP
    IF r.id % 7 = 0 THEN UPDATE many SET v = r.id WHERE CURRENT OF c; END IF;
    IF r.id % 10 = 0 THEN DELETE FROM many WHERE CURRENT OF c; END IF;
  END LOOP;
END$$;
CALL long_loop();
SELECT count(*), sum(v), sum(id) FROM many;
-- Partitions, and what has no key.
CREATE TABLE parted (k int, p int, v text, PRIMARY KEY (k, p)) PARTITION BY LIST (p) /*dist: hash(k) | replication*/;
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
INSERT INTO parted SELECT g, g % 2 + 1, 'p' || g FROM generate_series(1, 8) g;
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM parted ORDER BY k FOR UPDATE;
FETCH 3 FROM c;
UPDATE parted SET v = 'third' WHERE CURRENT OF c RETURNING *;
FETCH 1 FROM c;
DELETE FROM parted WHERE CURRENT OF c RETURNING *;
COMMIT;
SELECT * FROM parted ORDER BY k;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM log ORDER BY id, what FOR UPDATE;
FETCH c;
-- refused
DELETE FROM log WHERE CURRENT OF c;
ROLLBACK;
-- In WITH, by roles with rights on some columns, of views, and of a partition by its own name.
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM parted ORDER BY k FOR UPDATE;
FETCH c;
-- refused
UPDATE parted_2 SET v = 'by its own name' WHERE CURRENT OF c;
ROLLBACK;
CREATE VIEW seen AS SELECT * FROM many;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM many ORDER BY id FOR UPDATE;
FETCH c;
SAVEPOINT a;
UPDATE seen SET v = 1 WHERE CURRENT OF c;
ROLLBACK TO a;
-- refused
WITH w AS (DELETE FROM many WHERE CURRENT OF c RETURNING id) SELECT * FROM w;
ROLLBACK;
CREATE ROLE e2e_current_of;
DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO PUBLIC', current_schema); END $$;
GRANT SELECT (id), UPDATE ON many TO e2e_current_of;
SET ROLE e2e_current_of;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM many WHERE id = 1 FOR UPDATE;
FETCH c;
-- refused
UPDATE many SET v = 1 WHERE CURRENT OF c;
ROLLBACK;
RESET ROLE;
GRANT SELECT, UPDATE ON two TO e2e_current_of;
SET ROLE e2e_current_of;
BEGIN;
DECLARE c CURSOR FOR SELECT v FROM two ORDER BY v FOR UPDATE;
FETCH 2 FROM c;
UPDATE two SET v = 500 WHERE CURRENT OF c RETURNING *;
DELETE FROM two WHERE CURRENT OF c;
ROLLBACK;
RESET ROLE;
DROP VIEW seen;
DROP TABLE many, two;
DO $$ BEGIN EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM PUBLIC', current_schema); END $$;
DROP ROLE e2e_current_of;
-- Dates and floating point as keys.
CREATE TABLE days (d timestamptz, f float8, v int, PRIMARY KEY (d, f)) /*dist: hash(d) | replication*/;
INSERT INTO days SELECT timestamptz '2024-03-01 12:00+00' + g * interval '1 day', g / 7.0::float8, g FROM generate_series(1, 9) g;
SET timezone = 'Asia/Kolkata';
BEGIN;
DECLARE c CURSOR FOR SELECT v FROM days ORDER BY d FOR UPDATE;
FETCH 4 FROM c;
UPDATE days SET v = -v WHERE CURRENT OF c RETURNING *;
SET LOCAL DateStyle = 'SQL, DMY';
-- refused
DELETE FROM days WHERE CURRENT OF c;
ROLLBACK;
