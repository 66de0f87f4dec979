-- Bodies that read and write tables: DO blocks, procedures and functions that the coordinator runs.
CREATE TABLE t (id int PRIMARY KEY, grp int, v text, n numeric(8,2)) /*dist: hash(id) | modulo(id) | replication | hash(id)*/;
CREATE TABLE log (at int, word varchar(8)) /*dist: roundrobin | hash(at) | hash(at) | replication*/;
-- Loops and branches.
DO $$ BEGIN FOR i IN 1..12 LOOP INSERT INTO t VALUES (i, i % 3, 'v' || i, i * 1.5); END LOOP; END $$;
SELECT * FROM t ORDER BY id;
DO $$
DECLARE
  total int := 0;
  r record;
  big CONSTANT int DEFAULT 8;
BEGIN
  FOR r IN SELECT id, v FROM t WHERE grp = 1 ORDER BY id LOOP
    CONTINUE WHEN r.id = 4;
    total := total + r.id;
    IF r.id > big THEN
      RAISE NOTICE 'big %', r.v;
    ELSIF r.id = 7 THEN
      RAISE NOTICE 'seven';
    ELSE
      RAISE NOTICE 'small %: %', r.id, r.v;
    END IF;
  END LOOP;
  RAISE NOTICE 'total % found %', total, FOUND;
  FOR i IN REVERSE 6..1 BY 2 LOOP INSERT INTO log VALUES (i, 'down'); END LOOP;
  WHILE total > 0 LOOP total := total / 2; END LOOP;
  <<outer>> LOOP
    LOOP EXIT outer WHEN total > 3; total := total + 1; END LOOP;
  END LOOP outer;
  CASE total WHEN 1, 2 THEN RAISE NOTICE 'few'; WHEN 4 THEN RAISE NOTICE 'four'; ELSE RAISE NOTICE 'many'; END CASE;
  CASE WHEN total > 100 THEN NULL; ELSE RAISE NOTICE 'else'; END CASE;
END $$;
SELECT * FROM log ORDER BY at;
DO $$ DECLARE e int; BEGIN FOREACH e IN ARRAY ARRAY[3, NULL, 5] LOOP RAISE NOTICE 'e %', e; DELETE FROM log WHERE at = e; END LOOP; END $$;
-- INTO, FOUND, diagnostics, RETURNING.
DO $$
DECLARE a int; b text; r t%ROWTYPE; x t.n%TYPE; c bigint; s log.word%TYPE;
BEGIN
  SELECT id, v INTO a, b FROM t WHERE id = 5;
  RAISE NOTICE '% % %', a, b, FOUND;
  SELECT * INTO r FROM t WHERE id = 6;
  RAISE NOTICE '% % %', r.id, r.n, r;
  SELECT id INTO a FROM t WHERE id = 500;
  RAISE NOTICE '% %', a, FOUND;
  UPDATE t SET n = n + 1 WHERE grp = 2;
  GET DIAGNOSTICS c = ROW_COUNT;
  RAISE NOTICE 'changed %', c;
  INSERT INTO t VALUES (100, 1, 'new', 7) RETURNING n / 3 INTO x;
  RAISE NOTICE 'x %', x;
  r.id := 101; r.v := 'row'; r.grp := 3.7;
  INSERT INTO t VALUES (r.*);
  INSERT INTO t SELECT r.id + 1, r.grp, r.v, x;
  DELETE FROM t WHERE id = 102 RETURNING id, v INTO a, b;
  RAISE NOTICE 'gone % %', a, b;
  PERFORM 1 FROM t WHERE id = 101;
  RAISE NOTICE 'found %', FOUND;
  PERFORM id FROM t WHERE id = 102;
  RAISE NOTICE 'found %', FOUND;
  s := 'abcdefgh';
  SELECT count(*) INTO STRICT c FROM t;
  RAISE NOTICE 'count %', c;
END $$;
SELECT * FROM t WHERE id >= 100 ORDER BY id;
DO $$ DECLARE s log.word%TYPE; BEGIN s := 'abcdefghi'; END $$;
DO $$ DECLARE a int; BEGIN SELECT id INTO STRICT a FROM t; END $$;
DO $$ DECLARE a int; BEGIN SELECT id INTO STRICT a FROM t WHERE id < 0; END $$;
DO $$ BEGIN SELECT id FROM t; END $$;
DO $$ DECLARE a int NOT NULL := 1; BEGIN a := NULL; DELETE FROM t; END $$;
DO $$ DECLARE id int := 3; BEGIN DELETE FROM t WHERE id = id; END $$;
DO $$ DECLARE grp int := 3; BEGIN INSERT INTO t VALUES (grp, 1) ON CONFLICT DO NOTHING; UPDATE t SET v = 'same' WHERE t.id = grp; END $$;
DO $$ DECLARE n int := 1; BEGIN FOR i IN 1..2 LOOP RAISE NOTICE '%', (SELECT count(*) AS n FROM log ORDER BY n); END LOOP; END $$;
DO $$ BEGIN INSERT INTO t VALUES (nothing, 1); END $$;
DO $$ BEGIN INSERT INTO nowhere VALUES (1); DELETE FROM t; END $$;
DO $$ BEGIN INSERT INTO t VALUES (1, 1 / 0); END $$;
DO $$ BEGIN RETURN 5; DELETE FROM t; END $$;
DO $$ BEGIN DELETE FROM t WHERE; END $$;
-- Errors and what becomes of them.
DO $$
DECLARE x int; msg text; ctx text; state text; con text;
BEGIN
  BEGIN
    INSERT INTO t VALUES (900, 0, 'kept', 0);
  EXCEPTION WHEN unique_violation THEN
    RAISE NOTICE 'never';
  END;
  BEGIN
    INSERT INTO t VALUES (901, 0, 'undone', 0);
    x := 1 / 0;
  EXCEPTION WHEN division_by_zero OR unique_violation THEN
    GET STACKED DIAGNOSTICS msg = MESSAGE_TEXT, state = RETURNED_SQLSTATE, ctx = PG_EXCEPTION_CONTEXT;
    RAISE NOTICE '% % [%]', msg, state, ctx;
  END;
  BEGIN
    INSERT INTO t VALUES (902, 0, 'undone', 0), (900, 0, 'twice', 0);
  EXCEPTION WHEN integrity_constraint_violation THEN
    GET STACKED DIAGNOSTICS con = CONSTRAINT_NAME;
    RAISE NOTICE '% % %', SQLSTATE, SQLERRM, con;
  END;
  BEGIN
    RAISE EXCEPTION 'mine % and %%', 5 USING ERRCODE = 'P0815', HINT = 'a hint', DETAIL = 'a detail', TABLE = 'tab';
  EXCEPTION WHEN SQLSTATE 'P0815' THEN
    RAISE NOTICE '%', SQLERRM;
    BEGIN
      RAISE;
    EXCEPTION WHEN OTHERS THEN
      RAISE WARNING 'again % %', SQLSTATE, SQLERRM;
    END;
  END;
  FOR i IN 1..2 LOOP
    BEGIN
      INSERT INTO t VALUES (902 + i, 0, NULL, 0);
      IF i = 2 THEN RAISE no_data_found; END IF;
    EXCEPTION WHEN no_data_found THEN
      RAISE NOTICE 'no data: %', SQLERRM;
    END;
  END LOOP;
END $$;
SELECT id, v FROM t WHERE id >= 900 ORDER BY id;
DO $$ BEGIN DELETE FROM t; RAISE EXCEPTION USING MESSAGE = 'all of it', ERRCODE = 'unique_violation'; END $$;
DO $$ BEGIN DELETE FROM t; RAISE division_by_zero; END $$;
DO $$ BEGIN DELETE FROM t; ASSERT 1 = 2, 'wrong ' || 5; END $$;
DO $$ BEGIN DELETE FROM t WHERE id = 900; ASSERT (SELECT count(*) FROM t WHERE id = 900) = 0; END $$;
DO $$ BEGIN BEGIN RAISE EXCEPTION 'inner'; EXCEPTION WHEN OTHERS THEN DELETE FROM t WHERE id = 903; RAISE; END; END $$;
SELECT count(*) FROM t;
-- EXECUTE.
DO $$
DECLARE n bigint; word text := 'v'; r record;
BEGIN
  EXECUTE 'INSERT INTO log SELECT id, $1 || id FROM t WHERE id <= $2' USING word, 3;
  GET DIAGNOSTICS n = ROW_COUNT;
  EXECUTE 'SELECT count(*) FROM log' INTO n;
  RAISE NOTICE 'rows %', n;
  FOR r IN EXECUTE format('SELECT * FROM %I WHERE at < $1 ORDER BY at, word', 'log') USING 3 LOOP
    RAISE NOTICE '% %', r.at, r.word;
  END LOOP;
  EXECUTE 'CREATE TEMP TABLE made AS SELECT id FROM t WHERE id < 4';
  RAISE NOTICE 'made %', (SELECT count(*) FROM made);
  DROP TABLE made;
END $$;
DO $$ BEGIN EXECUTE 'DELETE FROM t WHERE'; END $$;
DO $$ BEGIN EXECUTE NULL; DELETE FROM t; END $$;
DO $$ BEGIN EXECUTE 'INSERT INTO t VALUES (1, 1 / 0)'; END $$;
-- Cursors.
DO $$
DECLARE c CURSOR (least int) FOR SELECT id, v FROM t WHERE id >= least ORDER BY id; d refcursor; a int; b text;
BEGIN
  OPEN c(4);
  FETCH c INTO a, b;
  RAISE NOTICE '% %', a, b;
  MOVE RELATIVE 2 FROM c;
  FETCH c INTO a, b;
  RAISE NOTICE '% % %', a, b, FOUND;
  CLOSE c;
  OPEN d FOR SELECT id FROM t WHERE grp = 0 ORDER BY id DESC;
  LOOP
    FETCH d INTO a;
    EXIT WHEN NOT FOUND;
    RAISE NOTICE 'd %', a;
  END LOOP;
  CLOSE d;
  FOR r IN c(9) LOOP RAISE NOTICE 'c %', r.v; END LOOP;
END $$;
-- Procedures and transactions.
CREATE PROCEDURE add(n int, INOUT total bigint, note text DEFAULT 'none') LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log VALUES (n, note);
  SELECT count(*) INTO total FROM log;
END $$;
CALL add(50, 0);
CALL add(51, total => 0, note => 'named');
CALL add(52, NULL, 'a note that is too long');
CREATE PROCEDURE twice(n int) LANGUAGE plpgsql AS $$
DECLARE many bigint;
BEGIN
  CALL add(n, many);
  RAISE NOTICE 'many %', many;
  CALL add(n + 1, many, 'second');
  COMMIT;
  INSERT INTO log VALUES (n + 2, 'lost');
  ROLLBACK;
  INSERT INTO log VALUES (n + 3, 'kept');
END $$;
CALL twice(60);
SELECT * FROM log WHERE at >= 50 ORDER BY at, word;
BEGIN;
CALL twice(70);
ROLLBACK;
DO $$ BEGIN FOR i IN 80..82 LOOP INSERT INTO log VALUES (i, 'done'); IF i = 81 THEN ROLLBACK; ELSE COMMIT; END IF; END LOOP; END $$;
DO $$ BEGIN INSERT INTO log VALUES (90, 'x'); BEGIN COMMIT; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; END; END $$;
SELECT * FROM log WHERE at >= 80 ORDER BY at;
-- Functions.
CREATE FUNCTION put(n int, word text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log VALUES (n, word);
  RETURN (SELECT count(*) FROM log);
END $$;
SELECT put(200, 'one');
SELECT put(201, 'two') AS x, put(202, 'three') + 1 AS y, 'z' AS z;
-- params: 203 | four
SELECT put($1, $2);
SELECT put(204, 'much too long a word');
SELECT put(205);
CREATE FUNCTION listed(least int) RETURNS TABLE (num int, word text) LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
  FOR r IN SELECT * FROM log WHERE log.at >= least ORDER BY log.at LOOP
    num := r.at; word := upper(r.word);
    RETURN NEXT;
  END LOOP;
  RETURN QUERY SELECT l.at, l.word::text FROM log l WHERE l.at = 1 ORDER BY word;
END $$;
SELECT * FROM listed(200);
SELECT x.num, t.v FROM listed(1) x JOIN t ON t.id = x.num ORDER BY 1, 2;
SELECT word AS w, count(*) FROM listed(80) GROUP BY word ORDER BY word;
INSERT INTO log SELECT num + 1000, word FROM listed(200);
SELECT * FROM log WHERE at >= 1000 ORDER BY at;
CREATE FUNCTION wrong() RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM log WHERE at > 1000; RETURN QUERY SELECT id::bigint FROM t; END $$;
SELECT * FROM wrong();
CREATE FUNCTION row_of(wanted int) RETURNS t LANGUAGE plpgsql AS $$ DECLARE r t; BEGIN UPDATE t SET n = 0 WHERE id = wanted; SELECT * INTO r FROM t WHERE id = wanted; RETURN r; END $$;
SELECT row_of(3);
CREATE FUNCTION outs(a int, OUT b int, INOUT c text) LANGUAGE plpgsql AS $$ BEGIN b := a + 1; c := c || a; INSERT INTO log VALUES (a, c); END $$;
SELECT outs(300, 'c');
SELECT * FROM outs(301, 'd');
SELECT b, c FROM outs(302, 'e') AS o;
CREATE FUNCTION nothing(a int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN DELETE FROM log WHERE at = a; END $$;
SELECT nothing(300);
SELECT nothing(301) AS n;
CREATE FUNCTION strict_one(a int) RETURNS int STRICT LANGUAGE plpgsql AS $$ BEGIN DELETE FROM log WHERE at = a; RETURN a; END $$;
SELECT strict_one(NULL), strict_one(302);
CREATE FUNCTION fact(n int) RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (n, 'fact'); IF n <= 1 THEN RETURN 1; END IF; RETURN n * fact(n - 1); END $$;
SELECT fact(5);
SELECT count(*) FROM log WHERE word = 'fact';
CREATE FUNCTION outer_one(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE x int; BEGIN x := put(n, 'outer'); PERFORM fact(2); x := 10 / (n - 400); RETURN x; END $$;
SELECT outer_one(400);
SELECT outer_one(401);
CREATE FUNCTION raises(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM log WHERE at = n; RAISE EXCEPTION 'no %', n; END $$;
CREATE FUNCTION catches(n int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM raises(n); RETURN 'never'; EXCEPTION WHEN raise_exception THEN RETURN SQLERRM; END $$;
SELECT catches(401);
DO $$ DECLARE x int; BEGIN x := raises(5); END $$;
DO $$ BEGIN PERFORM raises(6); END $$;
DO $$ DECLARE x int; BEGIN SELECT raises(7) INTO x; END $$;
CREATE FUNCTION ends(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM log WHERE at = n; END $$;
SELECT ends(1);
CREATE FUNCTION typed(a numeric, b date, c text[], d boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE i int := a; j bigint := i; k numeric(6,1) := a; s text := d; dd timestamp := b; e text := c[2]; x varchar(3) := 'abc';
BEGIN
  PERFORM count(*) FROM t;
  DELETE FROM log WHERE at = -1;
  RETURN concat_ws('/', i, j, k, s, dd, e, x, c || 'z'::text, d AND a > 1);
END $$;
SELECT typed(2.56, '2020-02-03', '{x,y}', true);
SELECT typed(1e10, '2020-02-03', '{x,y}', true);
SELECT put(500, 'in block');
BEGIN;
SELECT put(501, 'in block');
SELECT fact(2);
ROLLBACK;
SELECT count(*) FROM log WHERE at >= 500 AND at < 1000;
-- A call for each row, and a function that is not VOLATILE in READ COMMITTED, are refused.
SELECT put(id, v) FROM t;
-- Rights.
CREATE ROLE e2e_caller;
DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO e2e_caller', current_schema()); EXECUTE format('GRANT ALL ON ALL TABLES IN SCHEMA %I TO e2e_caller', current_schema()); END $$;
CREATE FUNCTION read_one(wanted int) RETURNS text LANGUAGE sql AS 'SELECT v FROM t WHERE id = wanted';
REVOKE EXECUTE ON FUNCTION put(int, text), read_one(int) FROM PUBLIC;
CREATE FUNCTION defined(n int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN DELETE FROM log WHERE at = n; RETURN n; END $$;
SET ROLE e2e_caller;
SELECT fact(2);
SELECT put(600, 'denied');
SELECT read_one(1);
-- refused
SELECT defined(600);
RESET ROLE;
SELECT read_one(1);
SELECT defined(600);
-- Arrays.
DO $$
DECLARE a int[] := '{1,2}'; b text[]; r t%ROWTYPE; m int[] := '{{1,2},{3,4}}'; i int := 5;
BEGIN
  a[4] := 7.6; b[2] := 'it''s \ "q"'; m[2][1] := i; a[1] := NULL;
  RAISE NOTICE '% % % %', a, b, m, a[4] + 1;
  INSERT INTO log VALUES (a[4], b[1]);
  b := array_append(b, 'x');
  RAISE NOTICE '%', b;
  m[9][9] := 1;
END $$;
DO $$ DECLARE a int[]; BEGIN a[1] := 'x'; DELETE FROM t; END $$;
-- LANGUAGE sql, of several statements or changing rows.
CREATE FUNCTION s_put(n int, word text) RETURNS bigint LANGUAGE sql AS $$
  INSERT INTO log VALUES (n, word);
  UPDATE log SET word = upper(s_put.word) WHERE at = n;
  SELECT count(*) FROM log WHERE at >= $1;
$$;
SELECT s_put(700, 'sql');
SELECT s_put(701, 'sql') + 1;
SELECT * FROM log WHERE at >= 700 AND at < 1000 ORDER BY at;
CREATE FUNCTION s_del(n int) RETURNS SETOF int LANGUAGE sql AS $$ DELETE FROM log WHERE at >= n AND at < 1000 RETURNING at $$;
SELECT * FROM s_del(701);
SELECT s_del(700) AS gone;
CREATE FUNCTION s_none(n int) RETURNS void LANGUAGE sql AS $$ DELETE FROM log WHERE at = n; SELECT 1; $$;
SELECT s_none(1);
CREATE PROCEDURE s_proc(n int) LANGUAGE sql AS $$ INSERT INTO log VALUES (n, 'proc'); DELETE FROM log WHERE at = n - 1; $$;
CALL s_proc(800);
CALL s_proc(801);
SELECT * FROM log WHERE at >= 800 AND at < 1000 ORDER BY at;
CREATE FUNCTION s_atomic(n int) RETURNS bigint LANGUAGE sql BEGIN ATOMIC INSERT INTO log VALUES (n, 'atomic'); SELECT count(*) FROM log WHERE at = n; END;
SELECT s_atomic(810);
CREATE FUNCTION s_bad(n int) RETURNS int LANGUAGE sql AS $$ DELETE FROM log; SELECT 1 / n $$;
SELECT s_bad(0);
CREATE FUNCTION s_rows(n int, OUT a int, OUT b text) RETURNS SETOF record LANGUAGE sql AS $$ UPDATE t SET n = 1 WHERE id = s_rows.n; SELECT id, v FROM t WHERE id <= s_rows.n ORDER BY id $$;
SELECT * FROM s_rows(2);
-- Functions with settings of their own.
CREATE FUNCTION formatted(d date) RETURNS text LANGUAGE plpgsql SET datestyle = 'German' AS $$ BEGIN DELETE FROM log WHERE at = -5; RETURN d::text; END $$;
SELECT formatted('2020-02-03'), current_setting('datestyle');
SELECT current_setting('datestyle');
CREATE FUNCTION no_path() RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
SELECT no_path();
SELECT count(*) > 0 FROM t;

-- Rows of a named type in FROM.
CREATE TABLE person (id int, name text, boss int) /*dist: hash(id) | replication*/;
INSERT INTO person SELECT g, 'n' || g, g / 2 FROM generate_series(1, 12) g;
CREATE FUNCTION persons(low int) RETURNS SETOF person LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT * FROM person WHERE id >= low; RETURN QUERY SELECT * FROM person WHERE id = 1; END $$;
CREATE FUNCTION person_one(which int) RETURNS person LANGUAGE plpgsql AS $$ DECLARE r person; BEGIN SELECT * INTO r FROM person WHERE id = which; r.name := r.name || '!'; RETURN r; END $$;
SELECT * FROM persons(9);
SELECT p.name, b.name FROM persons(9) AS p JOIN person b ON b.id = p.boss;
SELECT number, x.title FROM persons(11) AS x (number, title);
SELECT count(*), sum(boss) FROM persons(1);
SELECT * FROM person_one(5);
SELECT o.id, o.name FROM person_one(7) AS o WHERE o.boss = 3;
SELECT * FROM person_one(70);
SELECT (person_one(6)).name;
-- Settings of PL/pgSQL about INTO, and cursors that are constants.
CREATE TABLE strict_rows (id int, v int) /*dist: hash(id) | roundrobin*/;
INSERT INTO strict_rows SELECT i, i FROM generate_series(1, 10) i;
CREATE FUNCTION strict_by(p int, q text) RETURNS int LANGUAGE plpgsql AS $$
#print_strict_params on
DECLARE n int; r record; BEGIN SELECT 1 AS a, q AS b INTO r; SELECT v INTO STRICT n FROM strict_rows WHERE v > p AND q IS NOT NULL AND v < r.a + 100; RETURN n; END$$;
SELECT strict_by(9, 'x');
SELECT strict_by(100, 'it''s');
SELECT strict_by(1, NULL);
SELECT strict_by(1, 'many');
CREATE FUNCTION strict_made(p int) RETURNS int LANGUAGE plpgsql AS $$DECLARE n int; BEGIN EXECUTE 'SELECT v FROM strict_rows WHERE v > $1' INTO STRICT n USING p; RETURN n; END$$;
SELECT strict_made(1);
SET plpgsql.print_strict_params = on;
CREATE FUNCTION strict_made_too(p int) RETURNS int LANGUAGE plpgsql AS $$DECLARE n int; BEGIN EXECUTE 'SELECT v FROM strict_rows WHERE v > $1 AND $2' INTO STRICT n USING p, true; RETURN n; END$$;
SELECT strict_made_too(1);
SELECT strict_made_too(100);
RESET plpgsql.print_strict_params;
CREATE FUNCTION widths() RETURNS int LANGUAGE plpgsql AS $$DECLARE n int; m int; r strict_rows; BEGIN
  SELECT v INTO n FROM strict_rows;
  SELECT v, v INTO n FROM strict_rows WHERE v = 1;
  SELECT v INTO n, m FROM strict_rows WHERE v = 1;
  SELECT v, v, v INTO r FROM strict_rows WHERE v = 2;
  SELECT v INTO n, m FROM strict_rows WHERE v = 100;
  FOR n, m IN SELECT v FROM strict_rows WHERE v < 3 LOOP NULL; END LOOP;
  RETURN r.v; END$$;
SET plpgsql.extra_warnings = 'all';
SELECT widths();
SET plpgsql.extra_errors = 'shadowed_variables, too_many_rows';
SELECT widths();
SET plpgsql.extra_errors = 'strict_multi_assignment';
SELECT widths();
SET plpgsql.extra_warnings = 'none';
SELECT widths();
RESET plpgsql.extra_errors;
SELECT widths();
CREATE FUNCTION fixed_cursor() RETURNS int LANGUAGE plpgsql AS $$DECLARE c CONSTANT refcursor := 'mine'; r record; BEGIN OPEN c FOR SELECT v FROM strict_rows ORDER BY v; FETCH c INTO r; CLOSE c; RETURN r.v; END$$;
SELECT fixed_cursor();
CREATE FUNCTION nameless_cursor() RETURNS int LANGUAGE plpgsql AS $$DECLARE c CONSTANT refcursor; BEGIN OPEN c FOR SELECT v FROM strict_rows; RETURN 1; END$$;
SELECT nameless_cursor();
CREATE FUNCTION bare_and_named(int, p1 int) RETURNS bigint LANGUAGE plpgsql AS $$DECLARE n bigint; BEGIN SELECT sum(v) INTO n FROM strict_rows WHERE v = p1 AND v > $1 - 2; RETURN n + $1 * 100 + p1 * 1000; END$$;
SELECT bare_and_named(3, 4);
DROP FUNCTION strict_by, strict_made, strict_made_too, widths, fixed_cursor, nameless_cursor, bare_and_named;
DROP TABLE strict_rows;
