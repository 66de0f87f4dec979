-- Views in a schema that is open to a role, over tables in one that is not: what belongs to the schema's owner is changed and read
-- through the views alone.
CREATE SCHEMA e2e_open;
CREATE SCHEMA e2e_closed;
CREATE ROLE e2e_owner;
CREATE ROLE e2e_caller;
CREATE ROLE e2e_middle;
GRANT USAGE ON SCHEMA e2e_open TO e2e_owner, e2e_caller, e2e_middle;
GRANT USAGE ON SCHEMA e2e_closed TO e2e_owner;
CREATE TABLE e2e_closed.item (k int PRIMARY KEY, v int, w text DEFAULT 'none') /*dist: replication | hash(k) | replication | hash(k)*/;
CREATE TABLE e2e_closed.part (k int, n int) /*dist: hash(k) | replication | roundrobin | replication*/;
CREATE TABLE e2e_closed.small (k int PRIMARY KEY, s text) /*dist: replication*/;
INSERT INTO e2e_closed.item SELECT i, i * 10, 'w' || i % 4 FROM generate_series(1, 40) i;
INSERT INTO e2e_closed.part SELECT i % 20, i FROM generate_series(1, 60) i;
INSERT INTO e2e_closed.small VALUES (1, 'a'), (2, 'b'), (3, 'c');
ALTER TABLE e2e_closed.item OWNER TO e2e_owner;
ALTER TABLE e2e_closed.part OWNER TO e2e_owner;
ALTER TABLE e2e_closed.small OWNER TO e2e_owner;
CREATE VIEW e2e_open.item AS SELECT k, v, w FROM e2e_closed.item WHERE v > 0;
CREATE VIEW e2e_open.part AS SELECT k, n FROM e2e_closed.part;
CREATE VIEW e2e_open.small AS SELECT * FROM e2e_closed.small;
CREATE VIEW e2e_open.sums AS SELECT i.w, count(*) AS n, sum(p.n) AS s FROM e2e_closed.item i JOIN e2e_closed.part p ON p.k = i.k GROUP BY i.w;
CREATE VIEW e2e_open.checked AS SELECT k, v FROM e2e_closed.item WHERE v < 1000 WITH CHECK OPTION;
ALTER VIEW e2e_open.item OWNER TO e2e_owner;
ALTER VIEW e2e_open.part OWNER TO e2e_owner;
ALTER VIEW e2e_open.small OWNER TO e2e_owner;
ALTER VIEW e2e_open.sums OWNER TO e2e_owner;
ALTER VIEW e2e_open.checked OWNER TO e2e_owner;
GRANT ALL ON e2e_open.item TO e2e_middle;
CREATE VIEW e2e_open.over AS SELECT k, v FROM e2e_open.item WHERE k < 30;
ALTER VIEW e2e_open.over OWNER TO e2e_middle;
CREATE VIEW e2e_open.asked WITH (security_invoker) AS SELECT k, v FROM e2e_open.item;
CREATE VIEW e2e_open.asked_below WITH (security_invoker) AS SELECT k, v FROM e2e_closed.item;
GRANT ALL ON e2e_open.item, e2e_open.part, e2e_open.small, e2e_open.sums, e2e_open.checked, e2e_open.over, e2e_open.asked, e2e_open.asked_below TO e2e_caller;
CREATE TABLE e2e_open.mine (k int PRIMARY KEY, v int) /*dist: hash(k) | replication | replication | hash(k)*/;
INSERT INTO e2e_open.mine SELECT i, i FROM generate_series(1, 10) i;
ALTER TABLE e2e_open.mine OWNER TO e2e_caller;
CREATE TYPE e2e_open.color AS ENUM ('red', 'green', 'blue');
CREATE TABLE e2e_closed.coloured (c e2e_open.color PRIMARY KEY, "N 1" int, twice int GENERATED ALWAYS AS ("N 1" * 2) STORED) /*dist: replication*/;
INSERT INTO e2e_closed.coloured VALUES ('red', 1), ('green', 2), ('blue', 3);
ALTER TABLE e2e_closed.coloured OWNER TO e2e_owner;
CREATE VIEW e2e_open.coloured AS SELECT * FROM e2e_closed.coloured;
ALTER VIEW e2e_open.coloured OWNER TO e2e_owner;
GRANT ALL ON e2e_open.coloured TO e2e_caller;

SET SESSION AUTHORIZATION e2e_caller;
UPDATE e2e_open.coloured SET "N 1" = "N 1" + 10 WHERE c <> 'red';
DELETE FROM e2e_open.coloured WHERE c = 'green' RETURNING *;
INSERT INTO e2e_open.coloured VALUES ('green', 7), ('blue', 8) ON CONFLICT (c) DO UPDATE SET "N 1" = excluded."N 1" RETURNING c, twice;
SELECT * FROM e2e_open.coloured ORDER BY c;
-- refused
INSERT INTO e2e_open.item (k, v) SELECT k + 3000, v FROM e2e_open.mine WHERE false RETURNING k;
SELECT count(*), sum(v) FROM e2e_open.item;
SELECT * FROM e2e_open.item WHERE k = 3;
SELECT * FROM e2e_open.sums ORDER BY w;
SELECT i.w, count(*) FROM e2e_open.item i JOIN e2e_open.part p USING (k) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM e2e_open.over o JOIN e2e_open.mine m USING (k);
SELECT count(*) FROM e2e_closed.item;
UPDATE e2e_open.item SET v = v + 1 WHERE k = 3;
UPDATE e2e_open.item SET v = v + 1 WHERE k > 30;
UPDATE e2e_open.item SET v = 7 WHERE w = 'w1' RETURNING k, v;
-- refused: mixed | v1
UPDATE e2e_open.item i SET v = m.v FROM e2e_open.mine m WHERE m.k = i.k;
-- refused: v1 | v3
UPDATE e2e_open.item i SET v = p.n FROM e2e_open.part p WHERE p.k = i.k AND p.n = 5;
-- refused: v1 | v3
UPDATE e2e_open.item SET v = (SELECT max(n) FROM e2e_open.part) WHERE k = 9;
-- refused: v2 | v4
UPDATE e2e_open.item SET k = k + 100 WHERE k = 10;
UPDATE e2e_open.over SET v = v + 2 WHERE k BETWEEN 4 AND 6;
UPDATE e2e_open.asked SET v = v + 2 WHERE k BETWEEN 4 AND 6;
UPDATE e2e_open.asked_below SET v = v + 2 WHERE k BETWEEN 4 AND 6;
UPDATE e2e_open.checked SET v = v + 2 WHERE k = 8;
UPDATE e2e_open.checked SET v = 2000 WHERE k = 8;
UPDATE e2e_open.small SET s = s || k;
UPDATE e2e_open.part SET n = n + 1 WHERE k < 5;
UPDATE e2e_closed.item SET v = 0;
DELETE FROM e2e_open.item WHERE k = 11;
-- refused: mixed | v1
DELETE FROM e2e_open.item i USING e2e_open.mine m WHERE m.k = i.k AND m.v > 8;
-- refused: mixed | v1
DELETE FROM e2e_open.over WHERE k IN (SELECT k FROM e2e_open.mine WHERE v = 8);
DELETE FROM e2e_open.small WHERE k = 3 RETURNING s;
INSERT INTO e2e_open.item VALUES (200, 1, 'new'), (201, 2, 'new');
INSERT INTO e2e_open.item (k, v) VALUES (202, 3);
INSERT INTO e2e_open.item (k, v) SELECT k + 300, v FROM e2e_open.mine;
INSERT INTO e2e_open.item SELECT k + 400, n, 'p' FROM e2e_open.part WHERE n < 4;
INSERT INTO e2e_open.item (k, v) VALUES (1, 99) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
INSERT INTO e2e_open.item (k, v) VALUES (1, 98), (500, 5) ON CONFLICT DO NOTHING RETURNING k;
INSERT INTO e2e_open.small VALUES (1, 'x'), (9, 'y') ON CONFLICT (k) DO UPDATE SET s = excluded.s || e2e_open.small.s;
-- refused: mixed | v1 | v4
INSERT INTO e2e_open.small SELECT k, 'm' FROM e2e_open.mine WHERE k > 5 ON CONFLICT (k) DO NOTHING;
INSERT INTO e2e_open.checked VALUES (600, 5);
INSERT INTO e2e_open.checked VALUES (601, 5000);
INSERT INTO e2e_open.over (k, v) VALUES (602, 1);
INSERT INTO e2e_closed.item VALUES (700, 1);
COPY e2e_open.mine FROM STDIN;
50	50
51	51
\.
BEGIN;
UPDATE e2e_open.item SET v = v + 1 WHERE k = 3;
UPDATE e2e_open.small SET s = s || '!';
UPDATE e2e_open.item SET v = v - 1 WHERE k < 3;
SAVEPOINT a;
UPDATE e2e_closed.small SET s = '';
ROLLBACK TO a;
INSERT INTO e2e_open.small VALUES (70, 'seventy');
COMMIT;
PREPARE p(int) AS UPDATE e2e_open.small SET s = s || $1 WHERE k = $1;
EXECUTE p(1);
EXECUTE p(9);
DEALLOCATE p;
SELECT * FROM e2e_open.small ORDER BY k FOR UPDATE;
SELECT k FROM e2e_open.item WHERE k < 3 ORDER BY k FOR SHARE;
RESET SESSION AUTHORIZATION;

-- Rights on the tables, and still none on their schema.
GRANT ALL ON e2e_closed.item, e2e_closed.part, e2e_closed.small TO e2e_caller;
SET SESSION AUTHORIZATION e2e_caller;
SELECT count(*), sum(v) FROM e2e_open.item;
SELECT * FROM e2e_open.sums ORDER BY w;
SELECT i.w, count(*) FROM e2e_open.item i JOIN e2e_open.part p USING (k) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM e2e_closed.item;
UPDATE e2e_open.item SET v = v + 1 WHERE k > 30;
-- refused: v1 | v3
UPDATE e2e_open.item i SET v = p.n FROM e2e_open.part p WHERE p.k = i.k AND p.n = 5;
-- refused: v2 | v4
UPDATE e2e_open.item SET k = k + 1000 WHERE k = 20;
UPDATE e2e_open.asked_below SET v = v + 2 WHERE k BETWEEN 4 AND 6;
UPDATE e2e_open.small SET s = s || k;
DELETE FROM e2e_open.item WHERE k = 12;
INSERT INTO e2e_open.item SELECT k + 800, n, 'p' FROM e2e_open.part WHERE n < 4;
INSERT INTO e2e_open.small VALUES (1, 'x'), (19, 'y') ON CONFLICT (k) DO UPDATE SET s = excluded.s;
SELECT count(*) FROM e2e_open.asked_below;
RESET SESSION AUTHORIZATION;

-- A view's owner without rights gives none.
REVOKE ALL ON e2e_closed.item, e2e_closed.part, e2e_closed.small FROM e2e_owner, e2e_caller;
SET SESSION AUTHORIZATION e2e_caller;
UPDATE e2e_open.item SET v = v + 1 WHERE k = 3;
UPDATE e2e_open.small SET s = '';
INSERT INTO e2e_open.small VALUES (1, 'x') ON CONFLICT (k) DO UPDATE SET s = '';
DELETE FROM e2e_open.over WHERE k = 3;
RESET SESSION AUTHORIZATION;
SELECT * FROM e2e_closed.item ORDER BY k;
SELECT * FROM e2e_closed.small ORDER BY k;
SELECT count(*), sum(n) FROM e2e_closed.part;
DROP SCHEMA e2e_open, e2e_closed CASCADE;
DROP ROLE e2e_owner, e2e_caller, e2e_middle;
