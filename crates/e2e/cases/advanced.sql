-- MERGE, partitions, inheritance, materialized views, triggers, temporary tables, cursors, row level security.
CREATE TABLE tgt (k int, v text, n int) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE src (k int, v text) /*dist: hash(k) | hash(v) | roundrobin*/;
INSERT INTO tgt SELECT g, 't' || g, 0 FROM generate_series(1, 10) g;
INSERT INTO src SELECT g, 's' || g FROM generate_series(6, 15) g;
-- refused: v2
MERGE INTO tgt USING src ON tgt.k = src.k WHEN MATCHED AND tgt.k > 8 THEN DELETE WHEN MATCHED THEN UPDATE SET v = src.v, n = n + 1 WHEN NOT MATCHED THEN INSERT VALUES (src.k, src.v, -1);
SELECT * FROM tgt ORDER BY k;
CREATE TABLE part (k int, d date, v text) PARTITION BY RANGE (d) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE part_2020 PARTITION OF part FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE part_2021 PARTITION OF part FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
INSERT INTO part SELECT g, DATE '2020-01-01' + g * 10, 'v' || g FROM generate_series(1, 70) g;
SELECT count(*), min(d), max(d) FROM part;
SELECT count(*) FROM part_2021;
SELECT k, v FROM part WHERE d = '2020-01-11';
SELECT k FROM part WHERE k = 50;
INSERT INTO part VALUES (100, '2030-01-01', 'no partition');
SELECT extract(year FROM d) AS y, count(*) FROM part GROUP BY y ORDER BY y;
UPDATE part SET v = 'updated' WHERE d >= '2021-06-01';
SELECT count(*) FROM part_2021 WHERE v = 'updated';
ALTER TABLE part DETACH PARTITION part_2021;
SELECT count(*) FROM part;
ALTER TABLE part ATTACH PARTITION part_2021 FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
SELECT count(*) FROM part;
DROP TABLE part_2020;
SELECT count(*) FROM part;
CREATE TABLE base (k int, v text) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE derived (extra int) INHERITS (base);
INSERT INTO base VALUES (1, 'base');
INSERT INTO derived VALUES (2, 'derived', 22);
SELECT * FROM base ORDER BY k;
SELECT * FROM ONLY base;
SELECT * FROM derived;
DROP TABLE base CASCADE;
-- refused: mixed | v1 | v3
CREATE MATERIALIZED VIEW mat AS SELECT k % 2 AS odd, count(*) AS n FROM tgt GROUP BY 1;
SELECT * FROM mat ORDER BY odd;
DELETE FROM tgt WHERE k = 1;
SELECT * FROM mat ORDER BY odd;
REFRESH MATERIALIZED VIEW mat;
SELECT * FROM mat ORDER BY odd;
DROP MATERIALIZED VIEW mat;
CREATE TABLE logged (k int, was text) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE watched (k int, v text) /*dist: hash(k) | replication | roundrobin*/;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := upper(NEW.v); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO watched VALUES (1, 'a'), (2, 'b');
UPDATE watched SET v = 'changed' WHERE k = 1;
SELECT * FROM watched ORDER BY k;
DROP TRIGGER touch ON watched;
-- refused
CREATE RULE no_delete AS ON DELETE TO watched DO INSTEAD NOTHING;
DELETE FROM watched;
SELECT count(*) FROM watched;
CREATE TEMP TABLE tmp (k int, v text) ON COMMIT PRESERVE ROWS;
INSERT INTO tmp SELECT k, v FROM tgt WHERE k > 5;
SELECT count(*) FROM tmp;
SELECT tgt.k, tmp.v FROM tgt JOIN tmp USING (k) ORDER BY k LIMIT 3;
INSERT INTO logged SELECT k, v FROM tmp;
SELECT count(*), min(k) FROM logged;
CREATE TEMP TABLE tmp_as AS SELECT k, n FROM tgt WHERE n < 0;
SELECT count(*) FROM tmp_as;
SELECT k, v INTO into_table FROM tgt WHERE k < 4;
SELECT count(*) FROM into_table;
BEGIN;
DECLARE scr SCROLL CURSOR FOR SELECT k FROM tgt ORDER BY k;
FETCH LAST FROM scr;
FETCH FIRST FROM scr;
FETCH ABSOLUTE 3 FROM scr;
FETCH BACKWARD 2 FROM scr;
COMMIT;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT k FROM tgt ORDER BY k DESC;
COMMIT;
FETCH 2 FROM held;
CLOSE held;
CREATE FUNCTION total() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM tgt';
-- refused: mixed | v1 | v3
SELECT total();
-- refused: mixed | v1 | v3
SELECT k, total() FROM tgt WHERE k = 6;
CREATE PROCEDURE add_row(i int) LANGUAGE sql AS 'INSERT INTO tgt VALUES (i, ''by call'', 0)';
-- refused
CALL add_row(500);
SELECT v FROM tgt WHERE k = 500;
CREATE AGGREGATE product(int) (SFUNC = int4mul, STYPE = int, INITCOND = 1);
-- refused: mixed | v1 | v3
SELECT product(k) FROM tgt WHERE k IN (2, 3, 4);
-- refused: mixed | v1 | v3
SELECT n, product(k) FROM tgt WHERE k < 5 GROUP BY n ORDER BY n;
LISTEN chan;
UNLISTEN *;
SELECT pg_advisory_lock(42), pg_advisory_unlock(42);
SELECT k FROM tgt TABLESAMPLE BERNOULLI (100) ORDER BY k LIMIT 2;
-- refused: v3
SELECT tableoid::regclass, k FROM tgt WHERE k = 6;
SELECT tgt.k, g.k FROM tgt, LATERAL (SELECT src.k FROM src WHERE src.k >= tgt.k ORDER BY src.k LIMIT 1) g WHERE tgt.k > 5 ORDER BY 1;
ALTER TABLE tgt ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON tgt USING (k > 5);
SELECT count(*) FROM tgt;
DROP POLICY p ON tgt;
