-- What the query fuzzer has found, each as small as it could be made.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
CREATE TABLE h (id int, i int, t text, m mood, PRIMARY KEY (id)) /*dist: hash(id) | hash(id) | replication | hash(id)*/;
CREATE TABLE g (id int, i int, t text, f float8) /*dist: hash(id) | hash(i) | hash(t) | roundrobin*/;
INSERT INTO h SELECT n, n % 5, 't' || n % 3, (ARRAY['sad', 'ok', 'glad', NULL])[n % 4 + 1]::mood FROM generate_series(1, 12) n;
INSERT INTO g SELECT n, n % 4, 't' || n % 4, n * 0.5 FROM generate_series(1, 9) n;
-- A parameter of a type of the user's own that only some fragments mention.
-- params: sad
SELECT $1::mood AS c FROM h LEFT JOIN g ON h.i = g.i ORDER BY 1;
-- params: 3 | glad
SELECT h.id, $2::mood FROM h JOIN g ON h.t = g.t AND g.id > $1 ORDER BY 1;
-- params: ok | 2
SELECT count(*) FROM h WHERE m = $1 AND EXISTS (SELECT 1 FROM g WHERE g.i = h.i AND g.id > $2::int);
-- The columns of a RETURNING that no row reaches.
INSERT INTO g (id, i) SELECT h.id + 100, h.i FROM h WHERE false RETURNING id + 1 AS next, t;
INSERT INTO h (id, m) SELECT g.id + 100, 'ok' FROM g WHERE g.id > 99 RETURNING *;
UPDATE g SET t = 'x' FROM h WHERE h.i = g.id AND h.id = g.id + 100 RETURNING g.t, g.id;
DELETE FROM g USING h WHERE h.i = g.i AND h.id = 3 RETURNING g.id;
-- A constant without a type takes that of the column it is inserted into.
INSERT INTO h (id, m) SELECT g.id + 200, 'ok' FROM g JOIN h ON g.i = h.i GROUP BY g.id RETURNING id, m;
INSERT INTO h (id, i, m) SELECT g.id + 300, NULL, 'sad' FROM g ORDER BY g.f LIMIT 2;
-- params: glad
INSERT INTO h (id, m) SELECT g.id + 400, $1 FROM g WHERE g.id < 3;
SELECT * FROM h WHERE id > 99;
-- No node has all of the source: a copy each would lose other rows.
CREATE TABLE r (id int, i int) /*dist: replication | hash(i)*/;
INSERT INTO r SELECT n, n FROM generate_series(1, 9) n;
MERGE INTO r USING g ON r.id = g.id WHEN MATCHED AND g.i = 1 THEN DELETE;
MERGE INTO r USING g ON r.id = g.id WHEN MATCHED THEN UPDATE SET id = r.id + 10;
SELECT * FROM r;
-- EXECUTE of a statement whose result has got another column since, also where rows are exchanged.
PREPARE wider AS SELECT h.* FROM h JOIN g ON h.t = g.t;
EXECUTE wider;
ALTER TABLE h ADD COLUMN extra int DEFAULT 7;
EXECUTE wider;
ALTER TABLE h DROP COLUMN extra;
EXECUTE wider;
-- What needs a temp table on the home node in a READ ONLY transaction.
CREATE TEMP TABLE tmp (id int, i int);
INSERT INTO tmp VALUES (1, 1), (2, 2);
DELETE FROM g USING tmp WHERE g.i = tmp.id AND g.id > 5;
BEGIN READ ONLY;
SELECT count(*) FROM h JOIN g ON h.t = g.t;
-- refused: mixed | v1 | v2 | v4
SELECT tmp.id, h.t FROM tmp JOIN h ON h.i = tmp.i ORDER BY 1, 2;
ROLLBACK;
BEGIN READ ONLY;
DECLARE reader CURSOR FOR SELECT count(*) FROM h;
FETCH ALL FROM reader;
COMMIT;
BEGIN READ ONLY;
-- refused
INSERT INTO tmp SELECT h.id, g.i FROM h JOIN g ON h.t = g.t;
ROLLBACK;
BEGIN READ ONLY;
INSERT INTO g (id, i) SELECT h.id, g.i FROM h JOIN g ON h.t = g.t WHERE h.id > 100;
ROLLBACK;
CREATE TABLE alone (id int, i int) /*dist: hash(id) to node (dn1)*/;
INSERT INTO alone VALUES (1, 1), (3, 3);
DELETE FROM alone USING tmp WHERE alone.i = tmp.id;
UPDATE alone SET i = 4 FROM tmp WHERE tmp.id < alone.i;
SELECT * FROM alone;
PREPARE own AS SELECT * FROM tmp;
EXECUTE own;
ALTER TABLE tmp ADD COLUMN extra int;
EXECUTE own;
-- A WITH item that nothing reads, over a table that one node has.
WITH unread AS MATERIALIZED (SELECT id FROM tmp) SELECT id FROM g;
