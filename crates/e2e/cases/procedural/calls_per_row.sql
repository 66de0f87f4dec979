-- Functions that read and write tables, called once for each row.
CREATE TABLE t (k int PRIMARY KEY, v int, w text) /*dist: hash(k) | replication*/;
CREATE TABLE log (id serial, what text, a int) /*dist: roundrobin | replication | hash(id)*/;
CREATE TABLE u (k int, n numeric(8, 2), d date) /*dist: hash(k) | roundrobin | replication*/;
INSERT INTO t SELECT i, i * 10 % 7, 'w' || i FROM generate_series(1, 6) AS i;
INSERT INTO u SELECT i, i / 3.0, date '2026-01-01' + i FROM generate_series(1, 12) AS i;
CREATE FUNCTION put(x int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN INSERT INTO log (what, a) VALUES ('put', x); SELECT count(*) INTO n FROM log; RETURN n; END $$;
CREATE FUNCTION tell(x int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what, a) VALUES ('tell', x); RETURN x % 2 = 0; END $$;
CREATE FUNCTION word(x int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN EXECUTE format('SELECT w FROM %I WHERE k = $1', 't') INTO r USING x; RETURN r; END $$;
CREATE FUNCTION total(x int) RETURNS numeric LANGUAGE plpgsql AS $$ DECLARE r numeric; BEGIN FOR r IN SELECT sum(n) FROM u WHERE k <= x LOOP RETURN r; END LOOP; END $$;

-- In the select list.
-- ordered
SELECT k, put(k) FROM t ORDER BY k;
SELECT a FROM log ORDER BY a;
TRUNCATE log;
-- ordered
SELECT word(k), w = word(k) AS same, upper(word(k) || v) FROM t WHERE v > 2 ORDER BY k DESC;
-- ordered
SELECT total(k), total(k + 1) - total(k) AS d FROM t ORDER BY k;
SELECT put(k) > 0, 'x', NULL FROM t ORDER BY k LIMIT 3;
SELECT a FROM log ORDER BY a;
TRUNCATE log;
SELECT put(k) > 0 FROM t ORDER BY k DESC LIMIT 2 OFFSET 1;
SELECT a FROM log ORDER BY a;
TRUNCATE log;
-- ordered
SELECT put(put(k)) FROM t ORDER BY k;
SELECT a FROM log ORDER BY a;
TRUNCATE log;
-- ordered
SELECT k, word(k), put(v) + put(v + 1) FROM t ORDER BY k;
SELECT a, count(*) FROM log GROUP BY a ORDER BY a;
TRUNCATE log;

-- Only where the expression gets there.
-- ordered
SELECT k, CASE WHEN k % 3 = 0 THEN put(k) > 0 WHEN tell(k) THEN true ELSE put(-k) < 0 END FROM t ORDER BY k;
SELECT what, a FROM log ORDER BY a, what;
TRUNCATE log;
-- ordered
SELECT k, tell(k) AND put(k) > 0, tell(k) OR tell(k + 100), coalesce(nullif(k, 4), put(k * 1000)) > 0 FROM t ORDER BY k;
SELECT what, a, count(*) FROM log GROUP BY what, a ORDER BY a, what;
TRUNCATE log;
-- ordered
SELECT k, CASE v WHEN 3 THEN word(k) WHEN 6 THEN 'six' ELSE word(k - 1) END FROM t ORDER BY k;
-- ordered
SELECT CASE WHEN v <> 0 THEN word(12 / v) END FROM t ORDER BY k;

-- In WHERE.
SELECT k FROM t WHERE tell(k) ORDER BY k;
SELECT a FROM log ORDER BY a;
TRUNCATE log;
SELECT k FROM t WHERE tell(k) AND k > 5 ORDER BY k;
SELECT a FROM log ORDER BY a;
TRUNCATE log;
SELECT k, word(k) FROM t WHERE tell(k) ORDER BY k DESC LIMIT 2;
TRUNCATE log;
SELECT k, put(k) > 0 FROM t WHERE tell(k) AND v > 0;
SELECT what, a FROM log ORDER BY a, what;
TRUNCATE log;
SELECT count(*), sum(v), string_agg(w, ',' ORDER BY w) FROM t WHERE tell(k);
SELECT v % 3, count(*) FROM t WHERE tell(k) GROUP BY v % 3 ORDER BY 1;
SELECT word(k) FROM t WHERE word(k) > 'w3' AND total(k) > 3 ORDER BY word(k);
SELECT DISTINCT word(k % 2 + 1) FROM t ORDER BY 1;
SELECT t.k, u.n FROM t JOIN u ON u.k = t.k WHERE word(u.k) = t.w ORDER BY 1;

-- Aggregates, groups, windows.
SELECT sum(total(k)), count(word(k)), max(word(v)) FROM t;
SELECT word(v), count(*) FROM t GROUP BY word(v) ORDER BY 1 NULLS FIRST;
SELECT v, word(v), count(*) FROM t GROUP BY v ORDER BY v;
SELECT word(max(v)), total(min(k)) FROM t;
SELECT count(*) FILTER (WHERE tell(k)) FROM t;
-- ordered
SELECT k, word(rank() OVER (ORDER BY v)::int) FROM t ORDER BY k;
SELECT k FROM t ORDER BY word(7 - k);

-- Sub-selects, WITH, set operations.
SELECT * FROM (SELECT k, word(k) AS w FROM t) AS s WHERE w > 'w3' ORDER BY k;
WITH q AS (SELECT k, word(k) AS w FROM t) SELECT count(*), max(w) FROM q;
SELECT word(k) FROM t WHERE k < 3 UNION ALL SELECT 'x' UNION ALL SELECT word(k) FROM t WHERE k > 5 ORDER BY 1;
SELECT k FROM t WHERE w IN (SELECT word(u.k) FROM u WHERE u.k < 4) ORDER BY k;
SELECT (SELECT max(word(k)) FROM t), (SELECT count(*) FROM t);

-- Records, sets, void.
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION paired(x int) RETURNS pair LANGUAGE plpgsql AS $$ DECLARE c pair; BEGIN SELECT k, w INTO c FROM t WHERE k = x; RETURN c; END $$;
CREATE FUNCTION outs(x int, OUT a int, OUT b text) LANGUAGE plpgsql AS $$ BEGIN SELECT t.v, t.w INTO a, b FROM t WHERE t.k = x; END $$;
CREATE FUNCTION below(x int) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what, a) VALUES ('some', x); RETURN QUERY SELECT k FROM t WHERE k < x ORDER BY k; END $$;
CREATE FUNCTION listed(x int) RETURNS TABLE (one int, other text) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY EXECUTE format('SELECT k, w FROM %I WHERE v = $1 ORDER BY k', 't') USING x; END $$;
CREATE FUNCTION whole(x int) RETURNS SETOF t LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY UPDATE t SET v = v + 1 WHERE k = x RETURNING *; END $$;
CREATE FUNCTION nothing(x int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what, a) VALUES ('nothing', x); END $$;
-- ordered
SELECT k, paired(k) FROM t ORDER BY k;
-- ordered
SELECT outs(k), k FROM t ORDER BY k;
-- ordered
-- refused: v2
SELECT outs(k), put(k) > 0 FROM t ORDER BY k;
-- ordered
SELECT (paired(k)).b, (outs(k)).a + 1, (paired(k)).* FROM t ORDER BY k;
-- ordered
SELECT k, below(k) FROM t WHERE k < 5 ORDER BY k;
SELECT k, nothing(k) FROM t WHERE k < 3 ORDER BY k;
SELECT what, a FROM log ORDER BY a, what;
TRUNCATE log;
SELECT t.k, l.* FROM t, listed(t.v) AS l ORDER BY t.k, l.one;
SELECT t.k, l.one FROM t LEFT JOIN LATERAL listed(t.k) AS l ON true WHERE t.v > 1 ORDER BY 1, 2;
SELECT t.k, s.n, s.o FROM t CROSS JOIN LATERAL below(t.k) WITH ORDINALITY AS s(n, o) WHERE t.k < 4 ORDER BY 1, 2;
SELECT t.k, p.b, o.b FROM t, paired(t.k) AS p, outs(t.k) AS o WHERE p.a > 3 ORDER BY 1;
SELECT u.k, x.w, u.n FROM u JOIN t ON t.k = u.k CROSS JOIN LATERAL word(u.k) AS x(w) WHERE u.n > 1 ORDER BY 1;
SELECT t.k, r.v, r.w FROM t, whole(t.k) AS r WHERE t.k IN (2, 5) ORDER BY 1;
SELECT k, v FROM t ORDER BY k;

-- Overloads.
CREATE FUNCTION kind(x int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'int ' || (SELECT count(*) FROM t WHERE k < x); END $$;
CREATE FUNCTION kind(x text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'text ' || (SELECT count(*) FROM t WHERE w < x); END $$;
CREATE FUNCTION kind(x numeric) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'numeric ' || (SELECT count(*) FROM u WHERE n < x); END $$;
-- ordered
SELECT kind(k), kind(w), kind(k / 2.0) FROM t ORDER BY k;
SELECT kind(3), kind('w3'::text), kind(2.5);

-- Changes of rows.
INSERT INTO u SELECT 20 + k, total(k), date '2026-03-01' + put(k) FROM t WHERE k < 4 ORDER BY k;
SELECT k, n FROM u ORDER BY k;
SELECT a FROM log ORDER BY a;
TRUNCATE log;
INSERT INTO log (what, a) VALUES ('one', total(1)::int), ('two', total(3)::int), ('three', NULL);
SELECT what, a FROM log ORDER BY what;
-- The second row's number depends on the first.
INSERT INTO u (k, n) VALUES (30, total(100)), (31, total(100));
INSERT INTO u (k, n, d) VALUES (40, total(100), DEFAULT), (41, 2, date '2026-02-02'), (42, total(100) - 1, NULL), (43, total(42));
INSERT INTO u (k, n, d) VALUES (44, total(100), DEFAULT), (45, 2, date '2026-02-02'), (46, total(100) - 1, NULL), (47, total(42), DEFAULT);
SELECT k, n FROM u WHERE k >= 30 ORDER BY k;
-- params: 48 | 49
INSERT INTO u (k, n) VALUES ($1, total($2)), ($2, total($1));
INSERT INTO log (what, a) VALUES ('p', put(1)), ('q', put(2)), ('r', 3), ('s', put(4));
SELECT what, a FROM log ORDER BY what, a;
INSERT INTO log (what, a) VALUES ('p', put(5)), ('q', put(6) / 0), ('r', 7);
SELECT count(*) FROM log WHERE a = 5;
DELETE FROM u WHERE k >= 30;
INSERT INTO u (k, n) SELECT 30 + k, total(100) FROM t WHERE k < 4 ORDER BY k;
SELECT k, round(n) FROM u WHERE k > 30 ORDER BY k;
INSERT INTO log (what, a) VALUES ('x', 2) RETURNING a, word(a);
INSERT INTO u (k, n) VALUES (7, 8), (9, 10) RETURNING k, paired(k);
INSERT INTO log (what, a) SELECT word(k), k FROM t WHERE tell(k);
-- refused
UPDATE t SET w = word(k) || '!' WHERE k < 3;
-- refused: v1 | v2
UPDATE u SET n = total(1) WHERE k = 7;
UPDATE t SET v = total(k)::int, w = w || '?' WHERE tell(k) RETURNING k, v, w;
SELECT * FROM t ORDER BY k;
UPDATE t SET v = 1 WHERE k = 3 RETURNING k, put(v) > 0 AS p;
UPDATE t SET v = v + 1 WHERE total(k) > 3 AND k < 6;
UPDATE t SET v = t.v + x.c FROM (SELECT total(2)::int AS c) AS x WHERE k = 1;
DELETE FROM t WHERE total(k) > 3 AND k < 6 RETURNING k, total(k);
DELETE FROM t WHERE k = 1 RETURNING total(k) AS gone, v;
SELECT * FROM t ORDER BY k;
CREATE FUNCTION others(x int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM t WHERE k < x); END $$;
UPDATE t SET v = others(k) + 100;
INSERT INTO t SELECT 50 + others(100), 1, 'n' FROM generate_series(1, 3);
SELECT * FROM t ORDER BY k;
DELETE FROM t WHERE others(k) > 2 AND k > 50;
SELECT * FROM t ORDER BY k;

-- Errors and NULLs.
CREATE FUNCTION strict(x int) RETURNS text LANGUAGE plpgsql STRICT AS $$ BEGIN RETURN coalesce(word(x), 'none'); END $$;
-- ordered
SELECT k, strict(nullif(k, 4)) FROM t ORDER BY k;
CREATE FUNCTION fails(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what, a) VALUES ('fails', x); IF x > 5 THEN RAISE EXCEPTION 'no %', x; END IF; RETURN x; END $$;
SELECT fails(k) FROM t ORDER BY k;
SELECT count(*) FROM log WHERE what = 'fails';
SELECT fails(k) FROM t WHERE false;
SELECT word(k, 3) FROM t;
SELECT word(d) FROM u;
BEGIN;
SELECT put(k) > 0 FROM t ORDER BY k LIMIT 1;
SAVEPOINT a;
SELECT fails(k) FROM t ORDER BY k;
ROLLBACK TO a;
SELECT count(*) FROM log WHERE what = 'fails';
COMMIT;
-- params: 3
SELECT k, word(k + $1 - $1), put($1::int) > 0 FROM t WHERE k > $1::int ORDER BY k;
SELECT put($1);
SELECT put($1 + k) FROM t;
-- Not VOLATILE: of one moment.
CREATE FUNCTION steady(x int) RETURNS numeric LANGUAGE plpgsql STABLE AS $$ DECLARE r numeric := 0; a numeric; BEGIN FOR a IN SELECT n FROM u WHERE k <= x LOOP r := r + coalesce(a, 0); END LOOP; RETURN r; END $$;
-- ordered
SELECT k, steady(k), steady(k + 1) - steady(k) FROM t ORDER BY k;
SELECT max(steady(k)) FROM t WHERE steady(k) > 1;

-- On other roads.
CREATE VIEW words AS SELECT k, word(k) AS w FROM t;
SELECT count(*), max(w) FROM words WHERE k > 1;
PREPARE p(int) AS SELECT k, word(k + $1 - $1) FROM t WHERE k < $1 ORDER BY k;
EXECUTE p(4);
DO $$ DECLARE r record; BEGIN FOR r IN SELECT k, word(k) AS w FROM t ORDER BY k LOOP RAISE NOTICE '% %', r.k, r.w; END LOOP; PERFORM put(k) FROM t; END $$;
WITH x AS (DELETE FROM log RETURNING a, what) SELECT what, word(a) FROM x WHERE a > 1 ORDER BY a, what;
SELECT i, word(i) FROM generate_series(1, 3) AS i;
SELECT word(k), k FROM t ORDER BY 2 FETCH FIRST 1 ROW WITH TIES;
SELECT word(NULL), word(k) IS NULL FROM t WHERE k = 2;
CREATE FUNCTION of_row(r t) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN r.w || (SELECT count(*) FROM t); END $$;
-- ordered
SELECT of_row(t), t FROM t ORDER BY k;
-- ordered
SELECT t.of_row, length(of_row(t.*)) FROM t ORDER BY t.k;
CREATE FUNCTION between_of(a int, b int DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE r bigint; BEGIN FOR r IN SELECT sum(k) FROM t WHERE k BETWEEN b AND a LOOP RETURN r; END LOOP; END $$;
-- ordered
SELECT k, between_of(k), between_of(b => 3, a => k), between_of(b => v, a => 6) FROM t ORDER BY k;
-- refused
SELECT k, (SELECT word(t.k)) FROM t ORDER BY k;
SELECT k FROM t GROUP BY k HAVING word(k) > 'w2' ORDER BY k;
-- refused
SELECT t.k FROM t JOIN u ON word(t.k) = 'w' || u.k ORDER BY 1;
CREATE TABLE made AS SELECT k, word(k) AS w FROM t;

-- Jobs.
CREATE TABLE jobs (id bigserial PRIMARY KEY, queue text, payload jsonb, locked_at timestamptz, attempts int NOT NULL DEFAULT 0) /*dist: hash(id) | replication*/;
CREATE FUNCTION send(q text, body jsonb) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE r bigint; BEGIN EXECUTE format('INSERT INTO %I (queue, payload) VALUES ($1, $2) RETURNING id', 'jobs') INTO r USING q, body; RETURN r; END $$;
CREATE FUNCTION take(q text, qty int) RETURNS SETOF jobs LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY EXECUTE format('WITH cte AS (SELECT id FROM %I WHERE queue = $1 AND locked_at IS NULL ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) UPDATE %I m SET locked_at = ''2026-01-01 00:00Z'', attempts = attempts + 1 FROM cte WHERE m.id = cte.id RETURNING m.*', 'jobs', 'jobs') USING q, qty;
END $$;
CREATE FUNCTION done(j bigint) RETURNS boolean LANGUAGE plpgsql AS $$ DECLARE d bigint; BEGIN DELETE FROM jobs WHERE id = j RETURNING id INTO d; RETURN d IS NOT NULL; END $$;
SELECT send('a', jsonb_build_object('n', i)) > 0 FROM generate_series(1, 4) AS i;
SELECT count(send('b', p)) FROM unnest(ARRAY['1', '{"x": 2}']::jsonb[]) AS p;
SELECT queue, payload, attempts FROM take('a', 2) ORDER BY id;
SELECT q, j.payload FROM (VALUES ('a'), ('b')) AS qs(q), take(q, 1) AS j ORDER BY 1, 2;
SELECT done(id), done(id) FROM jobs WHERE queue = 'b' ORDER BY id;
SELECT queue, attempts, count(*) FROM jobs GROUP BY queue, attempts ORDER BY 1, 2;
-- Functions that change rows are called of no more rows than LIMIT leaves, or not at all.
CREATE TABLE limited (id int, k int) /*dist: hash(id)*/;
INSERT INTO limited SELECT g, g FROM generate_series(1, 40) g;
CREATE TABLE limited_log (i int) /*dist: hash(i)*/;
CREATE FUNCTION logged(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO limited_log VALUES (x); RETURN -x; END $$;
CREATE FUNCTION logged_twice(x int) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO limited_log VALUES (x); RETURN NEXT 1; RETURN NEXT 2; END $$;
CREATE FUNCTION looked_up(x int) RETURNS SETOF int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN QUERY SELECT id FROM limited WHERE id BETWEEN x AND x + 1 ORDER BY id; END $$;
SELECT id, logged(id) FROM limited ORDER BY k LIMIT 3;
SELECT id, logged(id) FROM limited ORDER BY k OFFSET 1 LIMIT 2;
SELECT count(*) FROM limited_log;
-- refused
SELECT id, logged_twice(id) FROM limited ORDER BY k LIMIT 3;
-- refused
INSERT INTO limited SELECT id + 100, logged_twice(id) FROM limited ORDER BY k LIMIT 3;
-- refused
SELECT x.id, f FROM (SELECT id FROM limited ORDER BY k) x, logged(x.id) f LIMIT 3;
SELECT count(*) FROM limited_log;
SELECT id, looked_up(id) FROM limited ORDER BY k LIMIT 3;
SELECT id, logged_twice(id) FROM limited WHERE k < 3 ORDER BY k;
SELECT count(*) FROM limited_log;
