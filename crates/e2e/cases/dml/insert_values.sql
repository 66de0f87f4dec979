-- VALUES with sub-selects: each value is coerced to its column by itself, and DEFAULT stays one.
-- refused: v3
CREATE TABLE t (id int PRIMARY KEY, n numeric, i8 bigint, x int DEFAULT 7, s text) /*dist: hash(id) | replication | roundrobin*/;
-- refused: v3
CREATE TABLE p (id int PRIMARY KEY, x int) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO p SELECT g, 10 * g FROM generate_series(1, 30) g;
INSERT INTO t (id, x) VALUES (35, 2.5), (36, (SELECT 3.5::float8 FROM p WHERE id = 1)) RETURNING id, x;
INSERT INTO t (id, n) VALUES (31, 9007199254740993), (32, (SELECT 1.5::float8 FROM p WHERE id = 1)) RETURNING id, n;
INSERT INTO t (id, s) VALUES (11, 5), (12, (SELECT 'x' FROM p WHERE id = 1));
INSERT INTO t (id, s) VALUES (13, (SELECT max(id) FROM p)), (14, EXISTS (SELECT 1 FROM p)), (15, NULL), (16, 'plain');
INSERT INTO t VALUES ((SELECT max(id) + 100 FROM p), DEFAULT, (SELECT sum(x) FROM p), DEFAULT, (SELECT string_agg(x::text, ',' ORDER BY id) FROM p WHERE id < 4));
INSERT INTO t VALUES (17, 1.50, DEFAULT, (SELECT count(*) FROM p), DEFAULT), (18, DEFAULT, 1, DEFAULT, (SELECT 'é' FROM p WHERE id = 2)) RETURNING *;
INSERT INTO t (id, x) VALUES (19, (SELECT x FROM p WHERE id = 99)), (20, (SELECT x FROM p)) ;
INSERT INTO t (id, x) VALUES (19, (SELECT x FROM p WHERE id = 3) + 1), (35, (SELECT x FROM p WHERE id = 4)) ON CONFLICT (id) DO UPDATE SET x = excluded.x RETURNING id, x;
WITH w AS (SELECT max(x) AS m FROM p) INSERT INTO t (id, x) VALUES (21, (SELECT m FROM w));
WITH w AS (SELECT max(x) AS m FROM p) INSERT INTO t (id, x, s) SELECT 22, m, 'with' FROM w;
-- A query like any other, whose columns have one type each.
INSERT INTO t (id, x) VALUES (23, 5), (24, (SELECT max(x) FROM p)) ORDER BY 1;
INSERT INTO t (id, x) VALUES (25, 5), (26, (SELECT max(x) FROM p)), (27, 6) ORDER BY 1 LIMIT 2;
PREPARE more (int, text) AS INSERT INTO t (id, x, s) VALUES ($1, DEFAULT, (SELECT $2 || min(x) FROM p)), ($1 + 1, (SELECT max(x) FROM p), $2);
EXECUTE more (41, 'least ');
EXECUTE more (43, 'least ');
BEGIN;
INSERT INTO t (id, i8) VALUES (3, 9007199254740993), (4, (SELECT 1.5::float8));
INSERT INTO t (id, s) VALUES (5, date '2024-01-01'), (6, (SELECT timestamp '2024-01-02 00:00'));
INSERT INTO t (id, s) VALUES (7, 9007199254740993), (8, (SELECT 0.1::float4));
INSERT INTO t (id, s) VALUES (9, 0.1::float4), (10, (SELECT 0.1::float8));
INSERT INTO t (id, x, s) VALUES (60, DEFAULT, (SELECT 'x')), (61, (SELECT x FROM p WHERE id = 5), DEFAULT);
COMMIT;
SELECT * FROM t ORDER BY id;
-- Serial and identity, composites, arrays, a view, a partitioned table.
CREATE TYPE pair AS (a int, b text);
CREATE TABLE g (id serial, k int GENERATED ALWAYS AS IDENTITY, c pair, e int[], d numeric(4,1)) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO g (c, e, d) VALUES (ROW((SELECT min(id) FROM p), 'a'), ARRAY[1, (SELECT max(id) FROM p)], 1.25), (NULL, '{7}', (SELECT avg(x) FROM p));
INSERT INTO g (k, d, e) VALUES (DEFAULT, (SELECT 3), DEFAULT), (DEFAULT, 99.96, ARRAY(SELECT id FROM p WHERE id < 3 ORDER BY id));
SELECT c, e, d FROM g ORDER BY id;
SELECT count(DISTINCT id), count(DISTINCT k) FROM g;
-- refused: v3
CREATE TABLE pt (id int, x int DEFAULT 5, PRIMARY KEY (id)) PARTITION BY RANGE (id) /*dist: hash(id) | replication | roundrobin*/;
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (50);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (50) TO (500);
INSERT INTO pt VALUES ((SELECT max(id) + 40 FROM p), DEFAULT), (2, (SELECT min(x) FROM p));
SELECT tableoid::regclass, * FROM pt ORDER BY id;
CREATE TEMP TABLE tt (id int, n numeric, s text DEFAULT 'mine');
INSERT INTO tt VALUES (1, 9007199254740993, DEFAULT), (2, (SELECT 1.5::float8 FROM p WHERE id = 1), (SELECT count(*) FROM p));
SELECT * FROM tt ORDER BY id;
