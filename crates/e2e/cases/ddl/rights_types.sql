-- Types in a schema that is closed to a role: PostgreSQL reads a constant for a column of such a type without a right on the schema, since
-- nobody names the type. (What needs a table of ours with such a column is another matter.)
CREATE SCHEMA e2e_use;
CREATE SCHEMA e2e_types;
SET search_path = e2e_use;
CREATE ROLE e2e_user;
GRANT USAGE ON SCHEMA e2e_use TO e2e_user;
CREATE TYPE e2e_types.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN e2e_types.score AS int CHECK (VALUE < 100);
CREATE DOMAIN e2e_types.word AS text CHECK (VALUE <> 'bad');
CREATE TYPE e2e_types.pair AS (a int, b text);
CREATE TABLE t (k int PRIMARY KEY, m e2e_types.mood DEFAULT 'ok', s e2e_types.score, w e2e_types.word, p e2e_types.pair) /*dist: hash(k) | modulo(k) | hash(k)*/;
CREATE TABLE u (k int, m e2e_types.mood, v text) /*dist: hash(v) | hash(v) | replication*/;
INSERT INTO t SELECT g, 'ok', g, 'w' || g, ROW(g, 'p')::e2e_types.pair FROM generate_series(1, 8) g;
INSERT INTO u SELECT g, CASE WHEN g % 2 = 0 THEN 'sad' ELSE 'happy' END::e2e_types.mood, 'v' || g FROM generate_series(1, 8) g;
GRANT ALL ON t, u TO e2e_user;

SET SESSION AUTHORIZATION e2e_user;
INSERT INTO t VALUES (10, 'sad', 1, 'a', '(1,x)');
INSERT INTO t VALUES (11, 'sad', 1, 'a', '(1,x)'), (12, 'happy', 2, 'b', '(2,y)'), (13, DEFAULT, NULL, NULL, NULL);
INSERT INTO t VALUES (14, 'none', 1, 'a', NULL), (15, 'happy', 2, 'b', NULL);
INSERT INTO t VALUES (14, 'sad', 1, 'bad', NULL), (15, 'happy', 2, 'b', NULL);
-- params: 16, happy, 5
INSERT INTO t (k, m, s) VALUES ($1, $2, $3);
SELECT count(*) FROM t WHERE m = 'ok';
SELECT k FROM t WHERE m = 'sad' ORDER BY k;
SELECT k FROM t WHERE k = 3 AND m = 'ok';
SELECT k FROM t WHERE m IN ('sad', 'happy') ORDER BY k;
SELECT k FROM t WHERE m NOT IN ('sad', 'ok') ORDER BY k;
SELECT count(*) FROM t WHERE m = ANY ('{sad,ok}') AND m BETWEEN 'sad' AND 'ok';
SELECT count(*) FROM t WHERE (m, s) = ('ok', 3) OR s IN (1, 2);
SELECT k FROM t WHERE m > 'sad' AND s < 5 ORDER BY k;
SELECT k FROM t WHERE w = 'w3' OR w LIKE 'b%' ORDER BY k;
SELECT m, count(*) FROM t GROUP BY m ORDER BY m;
SELECT max(m), min(m) FROM t WHERE m <> 'happy';
SELECT coalesce(m, 'sad') FROM t WHERE k > 11 ORDER BY k;
SELECT k FROM t WHERE CASE WHEN k > 5 THEN m ELSE 'happy' END = 'happy' ORDER BY k;
SELECT t.k, u.k FROM t JOIN u ON t.s = u.k WHERE u.m = 'sad' AND t.m = 'ok' ORDER BY 1;
SELECT t.k FROM t JOIN u ON t.m = u.m WHERE u.m = 'sad' ORDER BY 1;
SELECT count(*) FROM t WHERE EXISTS (SELECT FROM u WHERE u.k = t.s AND u.m = 'happy');
-- params: happy
SELECT k FROM t WHERE m = $1 ORDER BY k;
-- params: happy
SELECT count(*) FROM t JOIN u ON t.s = u.k WHERE t.m <> $1;
UPDATE t SET m = 'happy' WHERE k = 1;
UPDATE t SET m = 'sad', s = s + 1, w = 'n' WHERE m = 'happy';
UPDATE t SET s = 1000 WHERE k < 3;
DELETE FROM t WHERE m = 'sad' AND k > 12;
INSERT INTO t (k, m) VALUES (1, 'sad'), (70, 'ok') ON CONFLICT (k) DO UPDATE SET m = excluded.m WHERE t.m <> 'ok';
WITH x AS (SELECT k, m FROM u WHERE m = 'sad') SELECT count(*) FROM x JOIN t ON t.m = x.m;
SELECT k, m, s, w, p FROM t ORDER BY k;
SELECT 'sad'::e2e_types.mood;
SELECT k FROM t WHERE m = 'sad'::e2e_types.mood;
RESET SESSION AUTHORIZATION;
DROP TABLE t, u;
DROP TYPE e2e_types.mood, e2e_types.pair;
DROP DOMAIN e2e_types.score, e2e_types.word;
DROP SCHEMA e2e_use;
DROP SCHEMA e2e_types;
DROP ROLE e2e_user;
