-- Queries within commands take parameters, whose types PostgreSQL infers.
CREATE TABLE t (id int, x numeric(6,2), s text, d date) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO t SELECT g, g / 4.0, 's' || g, date '2024-01-01' + g FROM generate_series(1, 20) g;
-- params: 3
CREATE TABLE one AS SELECT id, x, s FROM t WHERE id = $1;
SELECT * FROM one;
-- params: 4.5 | s7
CREATE TABLE more AS SELECT id, x, $2 || '!' AS s FROM t WHERE x > $1 OR s = $2;
SELECT * FROM more ORDER BY id;
-- params: 2024-01-10
CREATE TEMP TABLE later AS SELECT id, d FROM t WHERE d > $1;
SELECT * FROM later ORDER BY id;
-- params: 15
SELECT id, s INTO over_15 FROM t WHERE id > $1;
SELECT * FROM over_15 ORDER BY id;
-- params: 5 | \N
CREATE TABLE IF NOT EXISTS more AS SELECT $1::int, $2;
-- params: 5 | \N
CREATE TABLE listed (a, b, c) AS VALUES ($1::int, 2, $2::text);
SELECT * FROM listed;
-- params: 1
CREATE TABLE empty AS SELECT * FROM t WHERE id = $1 WITH NO DATA;
SELECT count(*) FROM empty;
-- params: x
CREATE TABLE wrong AS SELECT * FROM t WHERE id = $1;
-- params: 1
CREATE TABLE untyped AS SELECT $1 AS a;
BEGIN;
-- params: 3
DECLARE c CURSOR FOR SELECT id, s FROM t WHERE id < $1 ORDER BY id;
FETCH ALL FROM c;
-- params: s5
DECLARE e CURSOR FOR SELECT id, s FROM t WHERE s = $1;
FETCH ALL FROM e;
COMMIT;
-- params: 18
DECLARE h CURSOR WITH HOLD FOR SELECT count(*) FROM t WHERE id > $1;
FETCH h;
CLOSE h;
DROP TABLE one, more, over_15, listed, empty;
