-- Plans that are kept by their text: the same queries again with other values, and after everything that may give them another meaning.
CREATE TABLE t (id int, k int, v text, n numeric(10,2)) /*dist: hash(id) | hash(k) | replication | roundrobin*/;
INSERT INTO t SELECT g, g % 5, 'v' || g % 3, g / 4.0 FROM generate_series(1, 30) g;
CREATE TABLE u (k int, w text) /*dist: hash(k) | roundrobin | replication | hash(k)*/;
INSERT INTO u SELECT g, 'w' || g FROM generate_series(0, 4) g;
-- Ranges, lists, keys, NULL, conditions of which one branch pins the key.
-- params: 3 | 9
SELECT count(*), sum(n) FROM t WHERE id BETWEEN $1 AND $2;
-- params: 9 | 3
SELECT count(*), sum(n) FROM t WHERE id BETWEEN $1 AND $2;
-- params: \N | 30
SELECT count(*), sum(n) FROM t WHERE id BETWEEN $1 AND $2;
-- params: 25 | 30
SELECT count(*), sum(n) FROM t WHERE id BETWEEN $1 AND $2;
-- params: 4 | 4 | 4
SELECT count(*), max(v) FROM t WHERE id IN ($1, $2, $3);
-- params: 1 | 2 | 3
SELECT count(*), max(v) FROM t WHERE id IN ($1, $2, $3);
-- params: 5 | \N | 29
SELECT count(*), max(v) FROM t WHERE id IN ($1, $2, $3);
-- params: \N
SELECT count(*), min(n) FROM t WHERE id = $1;
-- params: 7
SELECT count(*), min(n) FROM t WHERE id = $1;
-- params: 8
SELECT count(*), min(n) FROM t WHERE id = $1;
-- params: 2 | f
SELECT count(*) FROM t WHERE k = $1 OR $2::boolean;
-- params: 2 | t
SELECT count(*) FROM t WHERE k = $1 OR $2::boolean;
PREPARE p (int, text) AS SELECT t.k, w, count(*), sum(n) FROM t JOIN u USING (k) WHERE id > $1 AND v <> $2 GROUP BY 1, 2 ORDER BY 1, 2;
EXECUTE p (10, 'v1');
EXECUTE p (20, 'v2');
EXECUTE p (NULL, 'v2');
EXECUTE p (28, '');
PREPARE q (int) AS SELECT id, n FROM t WHERE n > $1 ORDER BY n DESC LIMIT $1;
EXECUTE q (2);
EXECUTE q (5);
EXECUTE q (0);
EXECUTE q (-1);
BEGIN;
EXECUTE p (5, 'v0');
EXECUTE p (6, 'v1');
UPDATE t SET n = n + 1 WHERE k = 3;
EXECUTE p (5, 'v0');
EXECUTE q (3);
SAVEPOINT s;
EXECUTE q ('x');
ROLLBACK TO s;
EXECUTE q (1);
ROLLBACK;
EXECUTE p (5, 'v0');
BEGIN ISOLATION LEVEL REPEATABLE READ;
EXECUTE q (2);
EXECUTE p (25, 'v0');
COMMIT;
-- A function's body, its volatility, a view, a cast's target: what was put into the plan.
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE VIEW odd AS SELECT * FROM t WHERE id % 2 = 1;
SELECT count(*), sum(twice(id)) FROM t;
SELECT count(*), sum(twice(id)) FROM t;
SELECT count(*), sum(n) FROM odd;
SELECT count(*), sum(n) FROM odd;
CREATE OR REPLACE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 3';
CREATE OR REPLACE VIEW odd AS SELECT * FROM t WHERE id % 2 = 0 AND id > 3;
SELECT count(*), sum(twice(id)) FROM t;
SELECT count(*), sum(n) FROM odd;
-- The table itself.
SELECT max(v), count(*) FROM t;
ALTER TABLE t RENAME COLUMN v TO x;
SELECT max(v), count(*) FROM t;
ALTER TABLE t ADD COLUMN v int DEFAULT 7;
SELECT max(v), count(*) FROM t;
DROP TABLE u CASCADE;
EXECUTE p (10, 'v1');
CREATE TABLE u (k int, w numeric) /*dist: replication | hash(k) | hash(k) | roundrobin*/;
INSERT INTO u SELECT g, g / 8.0 FROM generate_series(0, 9) g;
SELECT count(*), sum(w) FROM u;
SELECT count(*), sum(w) FROM u;
-- What names mean: the path, temporary tables, settings.
CREATE SCHEMA kept_other;
CREATE TABLE kept_other.u (k int, w numeric) /*dist: hash(k) | hash(k) | replication | roundrobin*/;
INSERT INTO kept_other.u SELECT g, 100 FROM generate_series(1, 3) g;
SELECT set_config('search_path', 'kept_other, ' || current_setting('search_path'), false) LIKE 'kept_other%';
SELECT count(*), sum(w) FROM u;
SELECT set_config('search_path', substr(current_setting('search_path'), 13), false) LIKE 'kept_other%';
SELECT count(*), sum(w) FROM u;
CREATE TEMP TABLE u (k int, w numeric);
INSERT INTO u VALUES (1, 0.5);
SELECT count(*), sum(w) FROM u;
DROP TABLE pg_temp.u;
SELECT count(*), sum(w) FROM u;
SET DateStyle = 'ISO, MDY';
SELECT count(*) FROM u WHERE date '01/02/2024' = date '2024-01-02';
SELECT count(*) FROM u WHERE date '01/02/2024' = date '2024-01-02';
SET DateStyle = 'ISO, DMY';
SELECT count(*) FROM u WHERE date '01/02/2024' = date '2024-01-02';
RESET DateStyle;
BEGIN;
ALTER TABLE u ADD COLUMN z int DEFAULT 1;
SELECT count(*), sum(w) FROM u;
SELECT sum(z) FROM u;
ROLLBACK;
SELECT count(*), sum(w) FROM u;
SELECT sum(z) FROM u;
-- Clocks and volatile functions are nobody's to keep.
SELECT count(*) FROM t WHERE now() >= transaction_timestamp() AND id > 3;
SELECT count(*) FROM t WHERE now() >= transaction_timestamp() AND id > 3;
CREATE TABLE ev (id int, at timestamptz) /*dist: hash(id) | hash(id) | replication | roundrobin*/;
INSERT INTO ev SELECT g, now() - g * interval '1 day' FROM generate_series(1, 20) g;
SELECT count(*) FROM ev WHERE at < ANY ('{now}'::timestamptz[]);
SELECT count(*) FROM ev WHERE at < ANY ('{now}'::timestamptz[]);
INSERT INTO ev VALUES (21, now());
SELECT count(*) FROM ev WHERE at < ANY ('{now}'::timestamptz[]);
SELECT count(*) FROM ev WHERE at <@ '[now,)'::tstzrange;
CREATE FUNCTION before_now(x int) RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT count(*) FROM ev WHERE id > x AND at < 'now'::timestamptz $$;
SELECT before_now(2);
SELECT before_now(2);
INSERT INTO ev VALUES (22, now());
SELECT before_now(2);
-- What a block has changed, and a function that nobody may ask elsewhere.
CREATE FUNCTION same(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE TABLE side (k int) /*dist: hash(k) | hash(k) | replication | roundrobin*/;
BEGIN;
INSERT INTO side VALUES (1);
SELECT count(*) FROM t JOIN u ON t.id = u.w * 8 WHERE same(t.k) > 0;
SELECT count(*) FROM t JOIN u ON t.id = u.w * 8 WHERE same(t.k) > 0;
ROLLBACK;
BEGIN;
SELECT count(*) FROM t JOIN u ON t.id = u.w * 8 WHERE same(t.k) > 0;
SELECT count(*) FROM t JOIN u ON t.id = u.w * 8 WHERE same(t.k) > 0;
ROLLBACK;
CREATE SEQUENCE drawn;
SELECT count(*), max(nextval('drawn')) FROM t;
SELECT count(*), max(nextval('drawn')) FROM t;
DROP SCHEMA kept_other CASCADE;
