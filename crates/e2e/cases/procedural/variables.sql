-- Variables in statements of bodies that the coordinator runs.
CREATE TABLE t (id int PRIMARY KEY, b text, n int) /*dist: hash(id) | replication*/;
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
CREATE TABLE lg (x text) /*dist: roundrobin | replication | hash(x)*/;

-- Several columns at once.
CREATE FUNCTION f_set(v text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET (b, n) = (v, 7) WHERE id = 1; RETURN 1; END $$;
SELECT f_set('x');
CREATE FUNCTION f_row(v text) RETURNS int LANGUAGE sql AS $$ UPDATE t SET (b, n) = ROW('w', v::int) WHERE id = 2; SELECT count(*)::int FROM lg $$;
SELECT f_row('9');
DO $$ DECLARE v int := 5; BEGIN UPDATE t SET (b, n) = (SELECT 'q', v) WHERE id = 3; END $$;
SELECT * FROM t ORDER BY id;
CREATE FUNCTION f_conflict(v int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO t VALUES (1, 'n', 0) ON CONFLICT (id) DO UPDATE SET (b, n) = (EXCLUDED.b, v);
END $$;
SELECT f_conflict(11);
SELECT * FROM t ORDER BY id;

-- A column is called as the variable that it shows.
CREATE TABLE u (id int PRIMARY KEY, mail text) /*dist: hash(id) | replication*/;
CREATE TABLE log (j json) /*dist: roundrobin | replication*/;
CREATE FUNCTION tg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO log SELECT row_to_json(x) FROM (SELECT NEW.id, NEW.mail, TG_OP) x; RETURN NULL;
END $$;
CREATE TRIGGER tg AFTER INSERT ON u FOR EACH ROW EXECUTE FUNCTION tg();
INSERT INTO u VALUES (1, 'a@b');
SELECT * FROM log;
DO $$ DECLARE r record; k int := 4; nm text := 'it'; arr int[] := '{7,8}'; i int := 2; BEGIN
  DELETE FROM lg;
  FOR r IN SELECT id, k FROM t ORDER BY id LOOP INSERT INTO lg VALUES (r.id || ' ' || r.k); END LOOP;
  SELECT k, nm::varchar(1), arr[i] FROM t WHERE id = 1 INTO r;
  INSERT INTO lg VALUES (row_to_json(r)::text);
  SELECT nm COLLATE "C", i::text FROM t WHERE id = 1 INTO r;
  INSERT INTO lg VALUES (row_to_json(r)::text);
  FOR r IN SELECT s.k, s.arr FROM (SELECT k, arr[i] FROM t) s LOOP INSERT INTO lg VALUES (r.k || '/' || r.arr); END LOOP;
  WITH q AS (SELECT id, i FROM t) UPDATE t SET b = 'y' FROM q WHERE q.i = t.id;
END $$;
SELECT * FROM lg ORDER BY x COLLATE "C";
SELECT * FROM t ORDER BY id;
CREATE FUNCTION tell(uid int, who text) RETURNS json LANGUAGE plpgsql AS $$ DECLARE r json; BEGIN
  DELETE FROM lg;
  SELECT json_agg(q) INTO r FROM (SELECT uid, who, count(*) AS n FROM t) q; RETURN r;
END $$;
SELECT tell(3, 'me');

-- In every spelling and place.
DO $$ DECLARE r record; v int := 4; d date := '2024-05-06'; s text := 'sss'; i int := 1; arr int[] := '{5,6}'; k int; BEGIN
  DELETE FROM lg;
  SELECT (v), (s)::varchar(2), arr [ i ], d::timestamp without time zone, ((d)) AS e FROM t WHERE id = 1 INTO r;
  INSERT INTO lg VALUES (row_to_json(r)::text);
  SELECT v::numeric(10,2) /* two */ , -- digits
    s COLLATE "C", v IS NULL AS n, v + 1 AS w, d AT TIME ZONE 'UTC' AS z FROM t WHERE id = 1 INTO r;
  INSERT INTO lg VALUES (row_to_json(r)::text);
  FOR r IN SELECT id, v FROM t WHERE id IN (SELECT i) OR EXISTS (SELECT v FROM t WHERE id = v) UNION ALL SELECT 9, i ORDER BY 1, 2 LOOP
    INSERT INTO lg SELECT r.id || ':' || r.v || s; END LOOP;
  INSERT INTO lg SELECT s FROM t WHERE id = 1 UNION SELECT (s || 'x');
  SELECT (SELECT v), (SELECT i FROM t WHERE id = 1) FROM t WHERE id = 1 INTO r;
  INSERT INTO lg VALUES (row_to_json(r)::text);
  WITH q AS (UPDATE t SET n = v WHERE id = 2 RETURNING id, v, s) SELECT row_to_json(q) FROM q INTO r;
  INSERT INTO lg VALUES (r.row_to_json::text);
  UPDATE t SET n = 2 WHERE id = 2 RETURNING v INTO k;
  INSERT INTO lg VALUES ('k' || k) ;
  INSERT INTO lg SELECT row_to_json(q)::text FROM (SELECT r.row_to_json, v FROM t WHERE id = 1) q;
  INSERT INTO lg SELECT row_to_json(q)::text FROM (SELECT DISTINCT v, s FROM t ORDER BY v, s LIMIT i OFFSET i - 1) q;
END $$;
SELECT * FROM lg ORDER BY x COLLATE "C";

DO $$ DECLARE r record; v int := 4; s text := 'sss'; a t; j json; BEGIN
  DELETE FROM lg;
  SELECT * INTO a FROM t WHERE id = 1;
  SELECT CAST(v AS text), CAST((s) AS varchar(1)), a.b FROM t WHERE id = 1 INTO r;
  INSERT INTO lg VALUES (row_to_json(r)::text);
  INSERT INTO t SELECT v, s ON CONFLICT DO NOTHING;
  INSERT INTO t SELECT v + 1, s RETURNING id INTO v;
  INSERT INTO lg SELECT row_to_json(x)::text FROM (SELECT a.*, s) x;
  j := (SELECT json_agg(q) FROM (SELECT v, count(*) AS n FROM t WHERE id < 3) q);
  INSERT INTO lg VALUES (j::text);
  IF EXISTS (SELECT FROM (SELECT v) q WHERE q.v = 5) THEN INSERT INTO lg SELECT s; END IF;
  INSERT INTO lg VALUES ((SELECT row_to_json(q)::text FROM (SELECT a.id, a.b) q));
  CREATE TABLE no_data AS SELECT v, s::text WITH NO DATA;
  DELETE FROM t WHERE id > 3;
END $$;
SELECT * FROM lg ORDER BY x COLLATE "C";
SELECT * FROM no_data;
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO log SELECT row_to_json(x) FROM (SELECT NEW.*, TG_OP) x; RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON u FOR EACH ROW EXECUTE FUNCTION audit();
UPDATE u SET mail = 'c@d' WHERE id = 1;
SELECT j::text FROM log ORDER BY 1;

-- Equal uses are equal expressions.
CREATE TABLE ev (a int, at timestamp) /*dist: hash(a) | roundrobin*/;
INSERT INTO ev SELECT g, timestamp '2024-01-01' + g * interval '10 days' FROM generate_series(1, 9) g;
CREATE FUNCTION per(u text) RETURNS TABLE (d timestamp, c bigint) LANGUAGE plpgsql AS $$ BEGIN
  DELETE FROM lg;
  RETURN QUERY SELECT date_trunc(u, at), count(*) FROM ev GROUP BY date_trunc(u, at) ORDER BY date_trunc(u, at);
END $$;
SELECT * FROM per('month');
DO $$ DECLARE r record; v int := 4; s text := '-'; BEGIN
  DELETE FROM lg;
  FOR r IN SELECT a / v AS q, count(*) AS n FROM ev GROUP BY a / v ORDER BY a / v LOOP INSERT INTO lg VALUES (r.q || ':' || r.n); END LOOP;
  FOR r IN SELECT DISTINCT ON (b || s) b || s AS d FROM t ORDER BY b || s LOOP INSERT INTO lg VALUES (r.d); END LOOP;
END $$;
SELECT * FROM lg ORDER BY x COLLATE "C";

-- INTO fetches one row.
DO $$ DECLARE k int; c int; BEGIN
  DELETE FROM lg;
  SELECT id INTO k FROM t; GET DIAGNOSTICS c = ROW_COUNT; INSERT INTO lg VALUES ('into ' || c);
  SELECT id INTO k FROM t WHERE id > 9; GET DIAGNOSTICS c = ROW_COUNT; INSERT INTO lg VALUES ('none ' || c);
  EXECUTE 'SELECT id FROM t' INTO k; GET DIAGNOSTICS c = ROW_COUNT; INSERT INTO lg VALUES ('execute ' || c);
END $$;
SELECT * FROM lg ORDER BY x COLLATE "C";

-- What gives no rows is not copied, whatever it needs.
CREATE TABLE s (id serial PRIMARY KEY, a int) /*dist: hash(id) | replication*/;
COPY (INSERT INTO s (a) VALUES (1)) TO STDOUT;
COPY (INSERT INTO s DEFAULT VALUES) TO STDOUT;
SELECT count(*) FROM s;

-- An error in rows on their way leaves the block whole.
CREATE TABLE raw (a int, b text) /*dist: hash(a) | replication*/;
CREATE TABLE m (id int, v int) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO raw VALUES (1, '1'), (2, 'x'), (3, '3');
BEGIN;
SAVEPOINT s;
INSERT INTO m SELECT b::int, a FROM raw;
ROLLBACK TO s;
INSERT INTO m SELECT (SELECT b FROM raw GROUP BY b)::int, a FROM raw;
ROLLBACK TO s;
INSERT INTO m VALUES (1, 1), (2, 2);
COMMIT;
DO $$ BEGIN INSERT INTO m SELECT b::int, a FROM raw; EXCEPTION WHEN others THEN INSERT INTO m VALUES (3, 3); END $$;
SELECT * FROM m ORDER BY id;

-- Domains are checked whenever a variable gets a value.
CREATE DOMAIN dpos AS int CHECK (VALUE > 0);
CREATE DOMAIN dnn AS int NOT NULL;
CREATE DOMAIN dsmall AS dpos CHECK (VALUE < 10);
CREATE DOMAIN mail AS varchar(12) CHECK (VALUE LIKE '%@%');
CREATE TABLE dt (p dpos, m mail) /*dist: hash(p) | replication | roundrobin*/;
DO $$ DECLARE v dpos := 5; BEGIN DELETE FROM lg; v := 0; END $$;
DO $$ DECLARE v dnn; BEGIN DELETE FROM lg; END $$;
DO $$ DECLARE v dpos; BEGIN DELETE FROM lg; SELECT 0 INTO v; END $$;
DO $$ DECLARE v dpos := 0; BEGIN DELETE FROM lg; END $$;
DO $$ DECLARE v dsmall := 9; w dpos := 3; BEGIN DELETE FROM lg; w := v; v := w + 7; END $$;
DO $$ DECLARE v dt.p%TYPE; BEGIN DELETE FROM lg; v := -1; END $$;
DO $$ DECLARE v mail; BEGIN DELETE FROM lg; v := 'nobody'; END $$;
DO $$ DECLARE v mail; BEGIN DELETE FROM lg; v := 'somebody@somewhere'; EXCEPTION WHEN string_data_right_truncation THEN INSERT INTO lg VALUES ('long'); END $$;
SELECT count(*) FROM lg WHERE x = 'long';
DO $$ DECLARE v mail; a dpos[]; BEGIN DELETE FROM lg; v := 'a@b'; a := '{1,2}'; INSERT INTO lg VALUES (v), (a[2]); END $$;
SELECT * FROM lg ORDER BY x COLLATE "C";
CREATE DOMAIN tags AS text[] CHECK (cardinality(VALUE) < 3);
DO $$ DECLARE v tags; BEGIN DELETE FROM lg; v := '{a,b}'; INSERT INTO lg VALUES (v[2]); v := '{a,b,c}'; END $$;
CREATE FUNCTION of_domain(v dpos) RETURNS dsmall LANGUAGE plpgsql AS $$ BEGIN DELETE FROM lg; RETURN v + 1; END $$;
SELECT of_domain(3);
SELECT of_domain(12);
SELECT of_domain(0);

-- No transaction ends in a loop over changed rows.
DO $$ DECLARE r record; BEGIN FOR r IN UPDATE t SET n = n * 2 RETURNING n LOOP INSERT INTO lg VALUES (r.n::text); COMMIT; END LOOP; END $$;
DO $$ DECLARE r record; BEGIN FOR r IN SELECT n FROM t ORDER BY n LOOP INSERT INTO lg VALUES (r.n::text); COMMIT; END LOOP; END $$;
DO $$ DECLARE r record; BEGIN FOR r IN EXECUTE 'DELETE FROM t WHERE id = 3 RETURNING n' LOOP ROLLBACK; END LOOP; END $$;
SELECT * FROM t ORDER BY id;

-- Tables made of a query with variables.
CREATE FUNCTION made(p_id int, p_b text) RETURNS text LANGUAGE plpgsql AS $$ DECLARE c text; e text; BEGIN
  CREATE TEMP TABLE tmp ON COMMIT DROP AS SELECT id, p_b AS b2, e FROM t WHERE id > p_id;
  SELECT string_agg(id || b2, ',' ORDER BY id) INTO c FROM tmp; DROP TABLE tmp; RETURN c;
END $$;
SELECT made(1, 'x');
SELECT made(0, 'y');
DO $$ DECLARE v int := 1; c int; BEGIN CREATE TABLE kept AS SELECT id, n + v AS n FROM t WHERE id <> v; END $$;
SELECT * FROM kept ORDER BY id;
-- The name of a cursor that is declared with its query.
DO $$ DECLARE c CURSOR FOR SELECT 1; n int; BEGIN SELECT count(*) INTO n FROM t; RAISE NOTICE '%', c; OPEN c; RAISE NOTICE '%', c; CLOSE c; OPEN c; OPEN c; END $$;
DO $$ DECLARE c CURSOR FOR SELECT 1; n int; BEGIN SELECT count(*) INTO n FROM t; OPEN c; FOR r IN c LOOP NULL; END LOOP; END $$;
DO $$ DECLARE c CURSOR FOR SELECT 1; n int; BEGIN SELECT count(*) INTO n FROM t; FOR r IN c LOOP RAISE NOTICE '% %', c, r; END LOOP; FOR r IN c LOOP RAISE NOTICE '%', r; END LOOP; RAISE NOTICE '%', c; END $$;
