-- What the files of other projects met: SQLite's logic tests, the Join Order Benchmark, PostgreSQL's regression files.
CREATE TABLE one_key (a int PRIMARY KEY, b int, x text) /*dist: hash(a) | default | replication*/;
CREATE TABLE other_key (a int PRIMARY KEY, b int, x text) /*dist: hash(a) | replication | hash(a)*/;
CREATE TABLE everywhere (a int PRIMARY KEY, b int, x text) /*dist: replication*/;
INSERT INTO one_key SELECT g, g % 10 + 1, 'one ' || g FROM generate_series(1, 10) g;
INSERT INTO other_key SELECT g, (g + 3) % 10 + 1, 'other ' || g FROM generate_series(1, 10) g;
INSERT INTO everywhere SELECT g, (g + 5) % 10 + 1, 'all ' || g FROM generate_series(1, 10) g;
-- A pinned table beside one that is everywhere narrows another one.
SELECT o.x, e.x, k.x FROM one_key k, other_key o, everywhere e WHERE k.a = 3 AND o.a = e.b AND k.b = o.a;
SELECT o.x, e.x, k.x FROM one_key k, other_key o, everywhere e WHERE k.a = 4 AND e.a = o.b AND k.b = e.b;
SELECT count(*) FROM one_key k, other_key o, everywhere e, one_key l WHERE k.a = 3 AND o.a = e.b AND k.b = o.a AND l.b = e.a AND l.a = 9;
-- A constant is NULL outside the grouping sets that group by it.
SELECT 1 AS c, b % 3 AS r, sum(a) FROM one_key GROUP BY GROUPING SETS (1, 2);
SELECT 1 AS c, a, count(*) FROM one_key GROUP BY ROLLUP (1, 2) HAVING a IS NULL OR a < 3;
SELECT * FROM (SELECT 'x' AS c, a, sum(b) FROM one_key GROUP BY CUBE (1, 2)) s WHERE a = 3;
-- The marks of CYCLE.
WITH RECURSIVE w(a, b) AS (SELECT a, b FROM one_key k WHERE a = 3 UNION ALL SELECT k.a, k.b FROM one_key k, w WHERE k.a = w.b) CYCLE a SET mark TO 'Y' DEFAULT 'N' USING path SELECT a, b, mark FROM w WHERE mark = 'Y';
-- refused
WITH RECURSIVE w(a, b) AS (SELECT a, b FROM one_key k WHERE a = 3 UNION ALL SELECT k.a, k.b FROM one_key k, w WHERE k.a = w.b) CYCLE a SET mark TO date '2020-01-01' DEFAULT date '2021-01-01' USING path SELECT mark, count(*) FROM w GROUP BY mark;
CREATE VIEW walks AS WITH RECURSIVE w(a, b) AS (SELECT a, b FROM one_key k WHERE a = 3 UNION ALL SELECT k.a, k.b FROM one_key k, w WHERE k.a = w.b) CYCLE a SET mark TO 'Y' DEFAULT 'N' USING path SELECT a, b, mark FROM w;
SELECT count(*) FROM walks JOIN other_key USING (a) WHERE mark = 'N';
-- The row of what a join has merged.
SELECT merged.a, merged.* FROM one_key JOIN other_key USING (a, b) AS merged;
-- refused
SELECT row_to_json(merged) FROM one_key JOIN other_key USING (a) AS merged WHERE merged.a = 3;
-- Functions in temporary views.
CREATE FUNCTION rows_from(int) RETURNS SETOF one_key LANGUAGE sql AS 'SELECT * FROM one_key WHERE a >= $1 ORDER BY a';
CREATE FUNCTION sum_of_all() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(b) FROM one_key';
CREATE TEMP VIEW own_rows AS SELECT * FROM rows_from(8);
SELECT * FROM own_rows;
CREATE TEMP TABLE single (n int);
INSERT INTO single VALUES (1);
CREATE TEMP VIEW own_sum AS SELECT n, sum_of_all() FROM single;
SELECT * FROM own_sum;
CREATE TEMP VIEW own_of_own AS SELECT * FROM own_sum, own_rows;
SELECT * FROM own_of_own ORDER BY a;
-- refused
CREATE RULE own_in AS ON INSERT TO own_sum DO INSTEAD INSERT INTO single VALUES (new.n);
-- refused
CREATE FUNCTION of_single(single) RETURNS int LANGUAGE sql AS 'SELECT $1.n';
SELECT count(*) FROM one_key;
-- The last parameter is VARIADIC and has a default.
CREATE FUNCTION any_number(VARIADIC numbers int[] DEFAULT '{7}') RETURNS bigint LANGUAGE sql AS 'SELECT sum(n) FROM unnest(numbers) n';
SELECT any_number(), any_number(1, 2), any_number(VARIADIC '{3,4}');
SELECT any_number(a, b) FROM one_key WHERE a = 2;
-- A parameter without a type.
PREPARE untyped (unknown, int) AS SELECT x FROM one_key WHERE a = $1 + $2;
EXECUTE untyped (1, 2);
-- In triggers that the coordinator runs.
CREATE TABLE told (n int, what text) /*dist: hash(n) | roundrobin*/;
CREATE TABLE first_in (n int) /*dist: hash(n) | replication*/;
CREATE TABLE then_in (n int) /*dist: replication | hash(n)*/;
CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO told VALUES (NEW.n, TG_TABLE_NAME || ' ' || pg_trigger_depth());
    IF pg_trigger_depth() = 1 THEN INSERT INTO then_in VALUES (NEW.n + 1); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tells AFTER INSERT ON first_in FOR EACH ROW EXECUTE FUNCTION tells();
CREATE TRIGGER tells AFTER INSERT ON then_in FOR EACH ROW EXECUTE FUNCTION tells();
INSERT INTO first_in VALUES (1);
SELECT * FROM told ORDER BY n;
CREATE FUNCTION tells_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO told VALUES (0, 'once at ' || pg_trigger_depth());
    RETURN NULL;
END $$;
CREATE TABLE quiet (n int) /*dist: hash(n) | roundrobin*/;
CREATE TRIGGER tells_once AFTER INSERT ON quiet FOR EACH STATEMENT EXECUTE FUNCTION tells_once();
SET session_replication_role = replica;
INSERT INTO quiet VALUES (1);
RESET session_replication_role;
SELECT * FROM told WHERE n = 0;
INSERT INTO quiet VALUES (2);
SELECT * FROM told WHERE n = 0;
CREATE FUNCTION writes_transition() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO gone VALUES (5);
    RETURN NULL;
END $$;
CREATE TRIGGER writes AFTER DELETE ON quiet REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION writes_transition();
DELETE FROM quiet WHERE n = 1;
SELECT * FROM quiet ORDER BY n;
-- A partition and its parent with the same foreign key.
CREATE TABLE led (a int PRIMARY KEY) /*dist: replication*/;
INSERT INTO led VALUES (1), (2), (11), (12);
CREATE TABLE whole (a int REFERENCES led ON DELETE SET NULL ON UPDATE CASCADE, b int) PARTITION BY LIST (b) /*dist: hash(a)*/;
CREATE TABLE part_1 (a int REFERENCES led ON DELETE SET NULL ON UPDATE CASCADE, b int) /*dist: hash(a)*/;
ALTER TABLE whole ATTACH PARTITION part_1 FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF whole FOR VALUES IN (2);
INSERT INTO whole VALUES (1, 1), (2, 1), (11, 2), (12, 2);
ALTER TABLE whole DETACH PARTITION part_2;
UPDATE led SET a = a + 100;
DELETE FROM led WHERE a IN (102, 112);
SELECT * FROM whole ORDER BY a;
SELECT * FROM part_2 ORDER BY a;
SELECT * FROM part_2 WHERE a = 111;
SELECT * FROM whole WHERE a = 101;
ALTER TABLE whole ATTACH PARTITION part_2 FOR VALUES IN (2);
ALTER TABLE whole DETACH PARTITION part_1;
SELECT count(*) FROM whole;
-- Clauses of an INSERT into a temporary table.
CREATE TEMP TABLE own (a int PRIMARY KEY, b int);
INSERT INTO own VALUES (1, 1), (2, 2) RETURNING a, (SELECT count(*) FROM one_key) AS c, a IN (SELECT a FROM other_key) AS has;
INSERT INTO own SELECT a + 2, b FROM own RETURNING a, (SELECT k.x FROM one_key k WHERE k.a = own.a) AS x;
INSERT INTO own VALUES (1, 5) ON CONFLICT (a) DO UPDATE SET b = (SELECT count(*) FROM one_key) RETURNING *;
INSERT INTO own VALUES (1, 5) ON CONFLICT (a) DO UPDATE SET b = 0 WHERE (SELECT count(*) FROM one_key) = 10 RETURNING *;
SELECT * FROM own ORDER BY a;
