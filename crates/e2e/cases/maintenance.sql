-- CLUSTER, REINDEX and CREATE INDEX where they take several transactions; EXPLAIN of CREATE TABLE AS.
CREATE TABLE parted (id int, v text) PARTITION BY RANGE (id) /*dist: hash(id) | roundrobin*/;
CREATE TABLE part_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE part_2 PARTITION OF parted FOR VALUES FROM (10) TO (20);
CREATE INDEX by_id ON parted (id);
INSERT INTO parted SELECT g, 'v' || g FROM generate_series(1, 19) g;
REINDEX TABLE parted;
REINDEX INDEX by_id;
CLUSTER parted USING by_id;
REINDEX TABLE part_1;
CREATE TEMP TABLE own (a int);
CREATE INDEX CONCURRENTLY of_own ON own (a);
DROP TABLE own;
BEGIN;
REINDEX TABLE part_1;
COMMIT;
CREATE TABLE copied AS SELECT ctid FROM part_1;
SELECT count(*) FROM parted;
