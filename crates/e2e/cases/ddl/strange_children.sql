-- A temporary table is no part of a table that lies on several nodes.
CREATE TABLE parent (k int, v text) /*dist: hash(k) | replication | roundrobin*/;
INSERT INTO parent SELECT g, 'p' FROM generate_series(1, 5) g;
-- refused
CREATE TEMP TABLE child () INHERITS (parent);
CREATE TEMP TABLE beside (k int, v text);
-- refused
ALTER TABLE beside INHERIT parent;
INSERT INTO beside VALUES (1, 'b');
SELECT * FROM parent ORDER BY k;
CREATE TEMP TABLE own_child () INHERITS (beside);
INSERT INTO own_child VALUES (2, 'c');
SELECT * FROM beside ORDER BY k;

-- A unique index whose equality is not the hash's cannot be kept by each node alone.
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE named (k text, v int) /*dist: hash(k)*/;
-- refused
CREATE UNIQUE INDEX ON named (k COLLATE ci);
-- refused
CREATE UNIQUE INDEX ON named (v, k COLLATE ci);
CREATE INDEX ON named (k COLLATE ci);
CREATE UNIQUE INDEX ON named (k COLLATE "C");
CREATE UNIQUE INDEX ON named (k, k COLLATE ci);
INSERT INTO named VALUES ('a', 1), ('A', 1);
INSERT INTO named VALUES ('a', 2);
-- A table whose distribution nobody chose becomes replicated for it.
CREATE TABLE named_too (k text, v int);
CREATE UNIQUE INDEX ON named_too (k COLLATE ci);
INSERT INTO named_too VALUES ('a', 1);
INSERT INTO named_too VALUES ('A', 2);
INSERT INTO named_too VALUES ('b', 3) ON CONFLICT DO NOTHING;
SELECT * FROM named_too ORDER BY v;
-- Nor can one that was there before.
CREATE TABLE named_once (k text COLLATE "C", v int) /*dist: replication*/;
CREATE UNIQUE INDEX ON named_once (k COLLATE ci);
CREATE UNIQUE INDEX ON named_once (k COLLATE "POSIX", v);
INSERT INTO named_once VALUES ('a', 1), ('B', 1), ('c', 1);
INSERT INTO named_once VALUES ('b', 2);
CREATE TABLE named_like (LIKE named_once INCLUDING INDEXES);
INSERT INTO named_like VALUES ('a', 1), ('B', 1), ('c', 1);
INSERT INTO named_like VALUES ('A', 2);
CREATE TABLE named_near (k text, v int) /*dist: hash(k)*/;
CREATE UNIQUE INDEX ON named_near (k COLLATE "C");
CREATE TABLE named_nearby (LIKE named_near INCLUDING INDEXES) /*dist: hash(k)*/;
INSERT INTO named_nearby VALUES ('a', 1), ('A', 1);
INSERT INTO named_nearby VALUES ('a', 2);
SELECT * FROM named_nearby WHERE k = 'a';
