-- What PostgreSQL prints otherwise than it was meant: the user's own text goes to one node, and what would have to be rewritten is refused.
CREATE TABLE o (id int PRIMARY KEY, name text, cust int) /*dist: hash(id)*/;
CREATE TABLE c (id int PRIMARY KEY, name text) /*dist: hash(id)*/;
INSERT INTO o VALUES (10, 'order', 1);
INSERT INTO c VALUES (1, 'cust');
-- refused
SELECT to_jsonb(q) FROM (SELECT o.*, c.* FROM o JOIN c ON c.id = o.cust) q;
-- refused
WITH q AS (SELECT o.*, c.* FROM o JOIN c ON c.id = o.cust) SELECT row_to_json(q) FROM q;
SELECT * FROM (SELECT o.*, c.* FROM o JOIN c ON c.id = o.cust) q;
SELECT to_jsonb(q) FROM (SELECT o.id, o.name, c.name AS name_of FROM o JOIN c ON c.id = o.cust) q;

CREATE TABLE g (id int PRIMARY KEY, b text, n int) /*dist: hash(id)*/;
INSERT INTO g VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
-- refused
SELECT id AS x, id AS y, count(*) FROM g GROUP BY GROUPING SETS ((x), (y)) ORDER BY 1, 2;
-- refused
SELECT id AS x, id AS y, count(*) FROM g GROUP BY x, ROLLUP (y) ORDER BY 1, 2;
-- refused
CREATE TABLE gg AS SELECT v AS x, v AS y, count(*) FROM generate_series(1, 3) v GROUP BY GROUPING SETS ((x), (y));
SELECT id, n, count(*) FROM g GROUP BY GROUPING SETS ((id), (n)) ORDER BY 1, 2;
SELECT id, id + 0 AS z, count(*) FROM g GROUP BY ROLLUP (id, id + 0) ORDER BY 1, 2, 3;

-- One node has it all.
CREATE TABLE r (id int PRIMARY KEY, name text) /*dist: replication*/;
INSERT INTO r VALUES (1, 'one'), (2, 'two');
SELECT to_jsonb(q) FROM (SELECT a.*, b.* FROM r a JOIN r b USING (id)) q ORDER BY 1;
SELECT id AS x, id AS y, count(*) FROM r GROUP BY GROUPING SETS ((x), (y)) ORDER BY 1, 2;
COPY (SELECT to_jsonb(q) FROM (SELECT a.*, b.* FROM r a JOIN r b USING (id)) q ORDER BY 1) TO STDOUT;
-- refused
WITH unused AS (SELECT 1) SELECT to_jsonb(q) FROM (SELECT a.*, b.* FROM r a JOIN r b USING (id)) q ORDER BY 1;
BEGIN;
DECLARE c CURSOR FOR SELECT to_jsonb(q) FROM (SELECT a.*, b.* FROM r a JOIN r b USING (id)) q ORDER BY 1;
FETCH ALL FROM c;
COMMIT;
