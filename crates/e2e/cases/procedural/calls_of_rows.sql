-- Functions that read or write tables, called for each row of a query whose rows something else takes: COPY, CREATE TABLE AS,
-- materialized views, cursors, EXPLAIN; in HAVING, ON and MERGE.
CREATE TABLE t (k int PRIMARY KEY, v int, w text) /*dist: hash(k) | replication | modulo(k)*/;
CREATE TABLE u (k int, n numeric(8,2)) /*dist: hash(k) | hash(n) | roundrobin*/;
CREATE TABLE log (nr serial, what text, a int) /*dist: hash(nr) | roundrobin | replication*/;
INSERT INTO t SELECT g, g % 4, 'w' || g FROM generate_series(1, 6) g;
INSERT INTO u SELECT g % 5, g * 1.25 FROM generate_series(1, 10) g;
CREATE FUNCTION word(x int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN SELECT w INTO r FROM t WHERE k = x; r := coalesce(r, 'none'); RETURN r; END $$;
CREATE FUNCTION total(x int) RETURNS numeric LANGUAGE plpgsql AS $$ DECLARE r numeric := 0; c record; BEGIN FOR c IN SELECT n FROM u WHERE k = x LOOP r := r + c.n; END LOOP; RETURN r; END $$;
CREATE FUNCTION note(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what, a) VALUES ('note', x); RETURN x * 10; END $$;
CREATE FUNCTION fussy(x int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE c int; BEGIN SELECT count(*) INTO c FROM t; IF x > 4 THEN RAISE EXCEPTION 'too much: %', x; END IF; RETURN c; END $$;
CREATE FUNCTION steady(x int) RETURNS numeric LANGUAGE plpgsql STABLE AS $$ DECLARE r numeric := 0; c record; BEGIN FOR c IN SELECT n FROM u WHERE k = x LOOP r := r + c.n; END LOOP; RETURN r; END $$;
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION paired(x int) RETURNS pair LANGUAGE plpgsql AS $$ DECLARE p pair; BEGIN SELECT k, w INTO p FROM t WHERE k = x; RETURN p; END $$;
CREATE FUNCTION several(x int) RETURNS SETOF int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN FOR r IN SELECT k FROM t WHERE k <= x ORDER BY k LOOP RETURN NEXT r; END LOOP; END $$;

-- COPY
COPY (SELECT k, word(k), total(k) FROM t ORDER BY k) TO STDOUT;
COPY (SELECT k, note(k) AS n FROM t WHERE k < 4 ORDER BY k) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *);
SELECT what, a FROM log ORDER BY nr;
COPY (SELECT word(k) || e'\t"' AS a, NULL AS b FROM t WHERE word(k) > 'w3' ORDER BY 1 DESC LIMIT 2) TO STDOUT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
COPY (SELECT k, steady(k) FROM t ORDER BY k) TO STDOUT;
COMMIT;
COPY (SELECT several(3)) TO STDOUT;
COPY (SELECT * FROM t, several(t.k) s WHERE t.k < 3 ORDER BY 1, 4) TO STDOUT;
COPY (SELECT fussy(k) FROM t ORDER BY k) TO STDOUT;
COPY (SELECT (paired(k)).b, paired(k) FROM t WHERE k < 3 ORDER BY k) TO STDOUT;
COPY (INSERT INTO u SELECT k, note(k) FROM t WHERE k > 5 ORDER BY k RETURNING k, n) TO STDOUT;
COPY (UPDATE t SET v = v + note(k) WHERE k = 6 RETURNING k, v) TO STDOUT;
UPDATE t SET v = 2 WHERE k = 6;
DELETE FROM u WHERE k > 4;
TRUNCATE log;

-- Tables
CREATE TABLE made AS SELECT k, word(k) AS w, total(k) AS n FROM t /*dist: hash(k) | replication*/;
SELECT * FROM made ORDER BY k;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'made'::regclass AND attnum > 0 ORDER BY attnum;
CREATE TABLE IF NOT EXISTS made AS SELECT note(k) FROM t;
CREATE TABLE made AS SELECT note(k) FROM t;
SELECT count(*) FROM log;
CREATE TABLE made2 (x, y) AS SELECT note(k), w FROM t ORDER BY k LIMIT 3;
SELECT * FROM made2 ORDER BY x;
SELECT what, a FROM log ORDER BY nr;
CREATE TABLE made3 AS SELECT word(k) FROM t WITH NO DATA;
SELECT * FROM made3;
SELECT k, word(k) AS w INTO made4 FROM t WHERE k % 2 = 0;
SELECT * FROM made4 ORDER BY k;
CREATE TABLE made5 AS SELECT fussy(k) FROM t ORDER BY k;
SELECT * FROM made5;
CREATE TABLE made8 AS SELECT k, steady(k) AS s FROM t;
SELECT * FROM made8 ORDER BY k;
CREATE TEMP TABLE tmp4 AS SELECT k, steady(k) AS s FROM t WHERE steady(k) > 10;
SELECT * FROM tmp4 ORDER BY k;
CREATE TEMP TABLE tmp AS SELECT k, total(k) FROM t WHERE k < 6;
SELECT * FROM tmp ORDER BY k;
CREATE TEMP TABLE IF NOT EXISTS tmp AS SELECT note(1000);
SELECT word(k) INTO TEMP tmp2 FROM t WHERE k < 4;
SELECT * FROM tmp2 ORDER BY 1;
BEGIN;
CREATE TEMP TABLE tmp3 ON COMMIT DROP AS SELECT note(k) FROM t WHERE k < 3;
SELECT * FROM tmp3 ORDER BY 1;
CREATE TABLE made6 AS SELECT t.k, word(s) FROM t, several(t.k) s WHERE t.k < 4;
SELECT * FROM made6 ORDER BY 1, 2;
ROLLBACK;
SELECT count(*) FROM log;

-- Materialized views
CREATE MATERIALIZED VIEW mv AS SELECT k, word(k) AS w FROM t WHERE k < 5;
SELECT * FROM mv ORDER BY k;
UPDATE t SET w = 'changed' WHERE k = 3;
REFRESH MATERIALIZED VIEW mv;
SELECT * FROM mv WHERE w = 'changed';
CREATE UNIQUE INDEX ON mv (k);
DELETE FROM t WHERE k = 4;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT * FROM mv ORDER BY k;
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
CREATE MATERIALIZED VIEW mv2 AS SELECT fussy(k) FROM t ORDER BY k;
SELECT definition FROM pg_matviews WHERE matviewname = 'mv';
DROP MATERIALIZED VIEW mv;
UPDATE t SET w = 'w3' WHERE k = 3;
INSERT INTO t VALUES (4, 0, 'w4');

-- Cursors
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k, word(k), total(k) FROM t ORDER BY k;
FETCH 2 FROM c;
FETCH LAST FROM c;
FETCH ABSOLUTE 4 FROM c;
MOVE BACKWARD 2 FROM c;
FETCH c;
CLOSE c;
DECLARE d CURSOR WITH HOLD FOR SELECT word(k) FROM t ORDER BY k;
COMMIT;
FETCH 3 FROM d;
UPDATE t SET v = v;
FETCH ALL FROM d;
CLOSE d;
BEGIN;
-- refused
DECLARE c CURSOR FOR SELECT note(k) FROM t;
ROLLBACK;
BEGIN;
-- refused
DECLARE c CURSOR WITH HOLD FOR SELECT note(k) FROM t;
ROLLBACK;
-- Outside of a block all rows are made at once.
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT k, note(k) > 0 FROM t ORDER BY k;
FETCH 2 FROM c;
UPDATE t SET v = v WHERE k = 1;
FETCH LAST FROM c;
CLOSE c;
DECLARE c CURSOR WITH HOLD FOR SELECT fussy(k) FROM t ORDER BY k;
FETCH c;
BEGIN;
DECLARE c CURSOR FOR SELECT word(k) FROM t ORDER BY k;
FETCH c;
UPDATE t SET w = w || '!' WHERE k = 2;
-- refused: v1 | v3 | mixed
FETCH c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT fussy(k) FROM t WHERE k < 4 ORDER BY k;
FETCH ALL FROM c;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE s SCROLL CURSOR FOR SELECT steady(k) FROM t ORDER BY k;
INSERT INTO u VALUES (2, 1000);
FETCH ABSOLUTE 2 FROM s;
ROLLBACK;
CREATE FUNCTION gathered() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c CURSOR FOR SELECT word(k) AS w FROM t ORDER BY k; r record; s text := ''; BEGIN
FOR r IN c LOOP s := s || r.w || ','; END LOOP;
FOR r IN SELECT total(k) AS n FROM t ORDER BY k LOOP s := s || r.n || ';'; END LOOP; RETURN s; END $$;
SELECT gathered();

-- EXPLAIN makes no calls.
DO $$ DECLARE r text; BEGIN EXECUTE 'EXPLAIN SELECT note(k) FROM t' INTO r; EXECUTE 'EXPLAIN UPDATE t SET v = note(k)' INTO r; END $$;
SELECT count(*) FROM log;
-- EXPLAIN ANALYZE makes them.
DO $$ DECLARE r text; BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT note(k) FROM t' INTO r; EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) UPDATE t SET v = note(k) WHERE k < 3' INTO r; END $$;
SELECT a, count(*) FROM log GROUP BY a ORDER BY a;
SELECT k, v FROM t WHERE k < 4 ORDER BY k;
DO $$ DECLARE r text; BEGIN EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) DELETE FROM t WHERE total(k) < 0' INTO r; EXECUTE 'EXPLAIN ANALYZE SELECT fussy(k) FROM t ORDER BY k' INTO r; END $$;
UPDATE t SET v = k % 4;
TRUNCATE log;
SELECT count(*) FROM log WHERE a > 4;

-- HAVING
SELECT v FROM t GROUP BY v HAVING word(v) > 'w1' ORDER BY v;
SELECT v, count(*), max(w) FROM t GROUP BY v HAVING count(*) > 1 AND total(v) < 16 AND word(max(k)) <> 'w6' ORDER BY 2 DESC, v LIMIT 3;
SELECT v % 2 AS odd, sum(k), word(min(k)) FROM t GROUP BY v % 2 HAVING total(min(k)) > 1 OR word((v % 2)) = 'w1' ORDER BY sum(k) DESC;
SELECT count(*) FROM t HAVING fussy(count(*)::int) > 1;
SELECT count(*) FROM t HAVING fussy(3) > 100;
SELECT DISTINCT count(*) FROM t GROUP BY v HAVING total(v) > 0 ORDER BY 1;
SELECT k, w FROM t GROUP BY k HAVING word(k) LIKE 'w1%' ORDER BY k DESC;
SELECT word(k) AS w, count(*) FROM t GROUP BY word(k) HAVING word(max(k)) > 'w3' ORDER BY 1;
SELECT sum(total(k)) FROM t HAVING max(total(v)) > 0 AND word(max(k)) IS NOT NULL;
SELECT v FROM t GROUP BY v HAVING note(v) > 10 ORDER BY v;
SELECT sum(a) FROM log WHERE what = 'note';
-- refused: v1 | v3 | mixed
SELECT v, w FROM t GROUP BY GROUPING SETS ((v), (w)) HAVING word(v) IS NOT NULL ORDER BY 1, 2;

-- Lists
SELECT k FROM t WHERE word(k) IN ('w1', 'w5', 'w9') ORDER BY k;
SELECT k FROM t WHERE 'w' || k IN (word(k), w) ORDER BY k;
SELECT k FROM t WHERE k IN (fussy(3), 2) ORDER BY k;
SELECT k FROM t WHERE total(k) BETWEEN 8 AND 14 ORDER BY k;
SELECT k FROM t WHERE word(k) NOT IN ('w1', w) ORDER BY k;
SELECT k FROM t WHERE word(k) IN (SELECT word(v) FROM t) ORDER BY k;
SELECT k FROM t WHERE k = ANY (ARRAY[fussy(1), v]) ORDER BY k;

-- ON
SELECT t.k, u.n FROM t JOIN u ON u.k = t.k AND word(t.k) = 'w' || u.k ORDER BY 1, 2;
SELECT t.k, u.n FROM t JOIN u ON word(t.k) = 'w' || u.k WHERE u.n < 8 ORDER BY 1, 2;
SELECT a.k, b.k, u.n FROM t a JOIN t b ON word(a.k) = b.w JOIN u ON u.k = b.k AND total(u.k) > 10 ORDER BY 1, 2, 3;
SELECT a.k, b.k, count(*) FROM t a JOIN t b ON word(a.v) = b.w LEFT JOIN u ON u.k = a.k GROUP BY a.k, b.k ORDER BY 1, 2;
-- refused: v1 | v3 | mixed
SELECT t.k, u.n FROM t LEFT JOIN u ON u.k = t.k AND word(t.k) = 'w3' ORDER BY 1, 2;
-- refused
SELECT t.k FROM t JOIN u ON note(t.k) = u.k ORDER BY 1;

-- MERGE
CREATE TABLE m (k int PRIMARY KEY, w text) /*dist: hash(k) | replication*/;
INSERT INTO m SELECT g, 'old' FROM generate_series(1, 8, 2) g;
-- refused: v2
MERGE INTO m USING (SELECT k, word(k) AS w FROM t) s ON m.k = s.k WHEN MATCHED THEN UPDATE SET w = s.w WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.w);
SELECT * FROM m ORDER BY k;
-- refused
MERGE INTO m USING t ON m.k = t.k WHEN MATCHED THEN UPDATE SET w = word(t.k);
-- refused
MERGE INTO t USING (SELECT k, word(k) AS w FROM t) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET w = s.w || '.';
SELECT * FROM t ORDER BY k;
-- params: 3
SELECT v FROM t GROUP BY v HAVING word(v + $1) > 'w3' ORDER BY v;
