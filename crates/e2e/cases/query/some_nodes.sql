-- Functions that read a table which only some of the nodes have.
CREATE TABLE only_second (id int PRIMARY KEY, v int) /*dist: replication TO NODE (dn2) | hash(id) TO NODE (dn2) | replication*/;
CREATE TABLE t (id int PRIMARY KEY, v int, w text DEFAULT 'w') /*dist: hash(id) | replication | hash(id)*/;
INSERT INTO only_second VALUES (1, 5), (2, 6);
CREATE FUNCTION in_sql(int) RETURNS int LANGUAGE sql STABLE AS $$ SELECT v FROM only_second WHERE id = $1 $$;
CREATE FUNCTION in_plpgsql(int) RETURNS int LANGUAGE plpgsql STABLE AS $$ DECLARE x int; BEGIN SELECT v INTO x FROM only_second WHERE id = $1; RETURN x * 2; END $$;
INSERT INTO t VALUES (1, in_sql(1), 'a'), (2, in_sql(2), 'b');
INSERT INTO t (id, v) VALUES (3, in_plpgsql(1));
INSERT INTO t SELECT 4, in_sql(1);
INSERT INTO t SELECT 4 + g, in_sql(g) FROM generate_series(1, 2) g;
PREPARE one(int) AS INSERT INTO t VALUES ($1, in_sql(1), 'prepared');
EXECUTE one(7);
EXECUTE one(8);
WITH i AS (INSERT INTO t VALUES (9, in_sql(1), 'with'), (10, in_sql(2), 'with') RETURNING id, v) SELECT * FROM i ORDER BY id;
DO $$ BEGIN INSERT INTO t VALUES (11, in_sql(2), 'do'); END $$;
-- refused: mixed | v1
INSERT INTO t VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET v = in_sql(2);
-- refused: mixed | v1
INSERT INTO t VALUES (20, 0), (21, 0) RETURNING in_sql(1);
CREATE TEMP TABLE here (id int, v int);
INSERT INTO here VALUES (1, in_sql(1));
INSERT INTO here SELECT g, in_sql(g) FROM generate_series(2, 3) g;
-- refused: mixed | v1
UPDATE here SET v = in_sql(2);
-- refused: mixed | v1
DELETE FROM here WHERE v = in_sql(1);
SELECT * FROM here ORDER BY id;
SELECT * FROM t ORDER BY id;
