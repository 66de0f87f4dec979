-- With whose rights materialized views are refreshed, bodies of functions read views, rules run, and views are changed; rights on some
-- columns.
CREATE SCHEMA e2e_owners;
SET search_path = e2e_owners;
CREATE ROLE e2e_guest;
CREATE ROLE e2e_keeper;
CREATE ROLE e2e_some;
GRANT ALL ON SCHEMA e2e_owners TO e2e_guest, e2e_keeper, e2e_some;

-- Who refreshes a materialized view does so as its owner.
CREATE TABLE t(k int, g int) /*dist: hash(k) | replication | roundrobin | hash(k)*/;
INSERT INTO t SELECT i, i%3 FROM generate_series(1,30) i;
ALTER TABLE t OWNER TO e2e_keeper;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON t TO e2e_guest USING (g = 1);
GRANT SELECT ON t TO e2e_guest;
SET SESSION AUTHORIZATION e2e_guest;
CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t;
CREATE MATERIALIZED VIEW m2 AS SELECT current_user AS u, g FROM t;
SELECT * FROM m;
SELECT count(*), min(u) FROM m2;
RESET SESSION AUTHORIZATION;
REFRESH MATERIALIZED VIEW m;
REFRESH MATERIALIZED VIEW m2;
SELECT * FROM m;
SELECT count(*), min(u) FROM m2;
REVOKE SELECT ON t FROM e2e_guest;
REFRESH MATERIALIZED VIEW m;
REFRESH MATERIALIZED VIEW m2;
DROP MATERIALIZED VIEW m, m2;
DROP TABLE t;

-- Bodies of functions that become part of the statement.
CREATE TABLE t(k int, g int) /*dist: hash(k) | replication | roundrobin | hash(k)*/;
INSERT INTO t SELECT i, i%3 FROM generate_series(1,30) i;
ALTER TABLE t OWNER TO e2e_keeper;
CREATE VIEW tot AS SELECT g, count(*) AS s FROM t GROUP BY g;
ALTER VIEW tot OWNER TO e2e_keeper;
GRANT SELECT ON tot TO e2e_guest;
SET SESSION AUTHORIZATION e2e_guest;
DO $$ DECLARE n int := 0; BEGIN n := (SELECT sum(s) FROM tot); RAISE NOTICE '%', n; END $$;
DO $$ DECLARE n int := 0; BEGIN SELECT sum(s) INTO n FROM tot; RAISE NOTICE '%', n; END $$;
DO $$ DECLARE n int := 0; BEGIN EXECUTE 'SELECT sum(s) FROM tot' INTO n; RAISE NOTICE '%', n; END $$;
DO $$ DECLARE n int := 0; BEGIN PERFORM sum(s) FROM tot; RAISE NOTICE '%', n; END $$;
DO $$ DECLARE r record; n int := 0; BEGIN FOR r IN SELECT g, s FROM tot LOOP n := n + r.s; END LOOP; RAISE NOTICE '%', n; END $$;
DO $$ DECLARE r record; n int := 0; c refcursor; BEGIN OPEN c FOR SELECT g, s FROM tot; FETCH c INTO r; RAISE NOTICE '%', r; END $$;
CREATE FUNCTION b1() RETURNS bigint LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT sum(s) FROM tot); END $$;
CREATE FUNCTION b2() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(s)::bigint FROM tot';
CREATE FUNCTION b3() RETURNS setof tot LANGUAGE sql STABLE AS 'SELECT * FROM tot';
SELECT b1();
SELECT b2();
SELECT * FROM b3() ORDER BY 1;
SELECT count(*) FROM t;
RESET SESSION AUTHORIZATION;
DROP TABLE t CASCADE;

-- Rules: their actions have the rights of who owns the table.
CREATE TABLE a(k int primary key, g int) /*dist: hash(k) | replication | hash(k) | hash(k)*/;
CREATE TABLE lg(s int, t text) /*dist: hash(s) | hash(s) | replication | roundrobin*/;
CREATE TABLE other(s int, t text) /*dist: hash(t) | roundrobin | hash(t) | replication*/;
ALTER TABLE a OWNER TO e2e_keeper;
ALTER TABLE lg OWNER TO e2e_keeper;

INSERT INTO a SELECT i, i%3 FROM generate_series(1,9) i;
CREATE RULE r AS ON INSERT TO a DO ALSO INSERT INTO lg VALUES (new.k, 'ins');
CREATE RULE r2 AS ON DELETE TO a DO ALSO INSERT INTO other VALUES (old.k, 'del');
CREATE RULE r3 AS ON UPDATE TO a DO ALSO INSERT INTO lg SELECT new.k, old.g || current_user;
GRANT INSERT, DELETE, UPDATE, SELECT ON a TO e2e_guest;
GRANT ALL ON other TO e2e_guest;
SET SESSION AUTHORIZATION e2e_guest;
-- refused
INSERT INTO a VALUES (100, 1);
-- refused
INSERT INTO a SELECT 100+i, i FROM generate_series(1,5) i;
-- refused
UPDATE a SET g = 7 WHERE k < 4;
-- refused
DELETE FROM a WHERE k = 5;
SELECT count(*) FROM lg;
RESET SESSION AUTHORIZATION;
SELECT * FROM a ORDER BY 1;
SELECT * FROM lg ORDER BY 1,2;
SELECT * FROM other ORDER BY 1;
-- views with rules, instead
CREATE VIEW v AS SELECT k, g FROM a WHERE g < 3;
ALTER VIEW v OWNER TO e2e_keeper;
CREATE RULE vi AS ON INSERT TO v DO INSTEAD INSERT INTO lg VALUES (new.k, 'view');
GRANT ALL ON v TO e2e_guest;
REVOKE ALL ON a FROM e2e_guest;
SET SESSION AUTHORIZATION e2e_guest;
-- refused
INSERT INTO v VALUES (1000, 2), (1001, 2);
-- refused
UPDATE v SET g = 2 WHERE k = 9;
-- refused
UPDATE v SET g = g + (SELECT count(*) FROM other) WHERE k > 7;
-- refused
DELETE FROM v WHERE k = 8;
-- refused
DELETE FROM v USING other o WHERE o.s = v.k;
RESET SESSION AUTHORIZATION;
SELECT * FROM a ORDER BY 1;
SELECT * FROM lg ORDER BY 1,2;
SELECT * FROM other ORDER BY 1;
-- keys
CREATE TABLE par(id int primary key, n text) /*dist: hash(id) | replication | hash(id) | hash(id)*/;
CREATE TABLE kid(id int, pid int references par on delete cascade on update cascade, x text) /*dist: hash(pid) | replication | hash(pid) | hash(pid)*/;
ALTER TABLE par OWNER TO e2e_keeper;
ALTER TABLE kid OWNER TO e2e_keeper;
INSERT INTO par SELECT i, 'p'||i FROM generate_series(1,6) i;
INSERT INTO kid SELECT i, i%6+1, 'k'||i FROM generate_series(1,12) i;
GRANT SELECT, UPDATE, DELETE ON par TO e2e_guest;
GRANT SELECT (id), UPDATE (x) ON kid TO e2e_some;
GRANT UPDATE (k), SELECT (k) ON a TO e2e_some;
GRANT UPDATE (s), SELECT (s) ON lg TO e2e_some;
SET SESSION AUTHORIZATION e2e_guest;
DELETE FROM par WHERE id = 1;
-- refused: mixed | v1 | v3 | v4
UPDATE par SET id = 60 WHERE id = 6;
DELETE FROM par WHERE n IN (SELECT t FROM other);
SELECT count(*) FROM kid;
SET SESSION AUTHORIZATION e2e_some;
UPDATE kid SET x = 'y';
UPDATE kid SET x = 'z' WHERE id = 3;
-- refused: v1 | v2
UPDATE lg SET s = s + 1;
-- refused: v1 | v2
UPDATE lg SET s = s + 1 WHERE s > 5;
-- refused: v1 | v2
UPDATE lg SET s = 5 FROM a WHERE a.k = lg.s;
UPDATE kid SET x = 'q' || a.k FROM a WHERE a.k = kid.id;
DELETE FROM kid WHERE id = 1;
RESET SESSION AUTHORIZATION;
SELECT * FROM par ORDER BY 1;
SELECT * FROM kid ORDER BY 1;
SELECT * FROM lg ORDER BY 1, 2;
DROP TABLE a, lg, other, par, kid CASCADE;

-- Rights on some columns.
CREATE TABLE a(k int, g int, s text) /*dist: hash(k) | replication | roundrobin | hash(k)*/;
CREATE TABLE b(s int, t text) /*dist: hash(t) | roundrobin | hash(t) | replication*/;
CREATE TABLE c(s int, t text, u text) /*dist: replication | hash(s) | replication | hash(t)*/;
INSERT INTO a SELECT i, i%5, 'a'||i FROM generate_series(1,9) i;
INSERT INTO b SELECT i, 'b'||i FROM generate_series(1,9) i;
INSERT INTO c SELECT i, 'c'||i FROM generate_series(1,9) i;
GRANT SELECT (k, g), UPDATE (g), DELETE ON a TO e2e_some;
GRANT UPDATE ON a TO e2e_guest;
GRANT SELECT (s) ON b TO e2e_some, e2e_guest;
GRANT SELECT (s, t), UPDATE (t), INSERT (s) ON c TO e2e_some;
SET SESSION AUTHORIZATION e2e_some;
UPDATE a SET g = b.s FROM b WHERE b.s = a.g RETURNING k, a.g;
UPDATE a SET g = b.s FROM b WHERE b.s = a.g RETURNING *;
UPDATE a SET g = (SELECT max(s) FROM b WHERE b.s > a.g) WHERE k < 8;
UPDATE a SET g = 1 FROM b WHERE b.t = a.s;
UPDATE a SET g = 1 FROM b WHERE b.s = length(a.s);
UPDATE a SET s = 1 FROM b WHERE b.s = a.k;
BEGIN;
UPDATE a SET g = g + b.s FROM b WHERE b.s = a.k % 3;
UPDATE a SET g = g + b.s FROM b WHERE b.s = a.k % 3;
SELECT s FROM a;
ROLLBACK;
BEGIN;
UPDATE a SET g = g + b.s FROM b WHERE b.s = a.k % 3;
SAVEPOINT x;
UPDATE a SET g = 1/(g-g) FROM b WHERE b.s = a.k % 3;
ROLLBACK TO x;
UPDATE a SET g = g + b.s FROM b WHERE b.s = a.k % 3;
COMMIT;
SELECT k, g FROM a ORDER BY 1;
DELETE FROM a USING b WHERE b.s = a.g + 3;
-- refused: v4
UPDATE c SET t = b.s FROM b WHERE b.s = c.s;
-- refused: v4
UPDATE c SET t = (SELECT min(k) FROM a WHERE a.k > c.s) WHERE s < 4;
BEGIN;
-- refused: v4
UPDATE c SET t = b.s FROM b WHERE b.s = c.s;
ROLLBACK;
BEGIN;
SELECT count(*) FROM b;
-- refused: v4
UPDATE c SET t = (SELECT max(k) FROM a WHERE a.k > c.s) WHERE s < 4;
ROLLBACK;
BEGIN;
-- refused: v4
WITH m AS (UPDATE c SET t = 9 FROM b WHERE b.s = c.s RETURNING c.s, c.t) SELECT count(*) FROM m;
ROLLBACK;
UPDATE c SET u = b.s FROM b WHERE b.s = c.s;
MERGE INTO a USING b ON b.s = a.g WHEN MATCHED THEN UPDATE SET g = 77;
MERGE INTO a USING b ON b.s = a.g WHEN NOT MATCHED THEN INSERT (k) VALUES (b.s);
SELECT k, g FROM a ORDER BY 1;
SELECT s, t FROM c ORDER BY 1;
SELECT ctid FROM a;
SET SESSION AUTHORIZATION e2e_guest;
UPDATE a SET g = b.s FROM b WHERE b.s = 3;
UPDATE a SET g = b.s FROM b WHERE b.s = a.k;
RESET SESSION AUTHORIZATION;
SELECT attname, attacl FROM pg_attribute WHERE attrelid = 'a'::regclass AND attacl IS NOT NULL ORDER BY 1;
SELECT * FROM a ORDER BY 1;
-- views
CREATE VIEW v AS SELECT k, g FROM a WHERE g < 50;
ALTER VIEW v OWNER TO e2e_keeper;
ALTER TABLE a OWNER TO e2e_keeper;
REVOKE ALL ON a FROM e2e_guest;
GRANT ALL ON v TO e2e_guest;
INSERT INTO a SELECT i+50, i%5, 'a'||i FROM generate_series(1,9) i;
SET SESSION AUTHORIZATION e2e_guest;
UPDATE v SET g = 1 WHERE k = 51;
UPDATE v SET g = 2;
-- refused: mixed | v1 | v2 | v3
UPDATE v SET g = b.s FROM b WHERE b.s = v.k - 50;
-- refused: mixed | v1 | v4
UPDATE v SET k = k + 1;
-- refused: mixed | v1 | v2 | v3
DELETE FROM v USING b WHERE b.s = v.g;
INSERT INTO v SELECT s + 90, s FROM b WHERE s < 4;
INSERT INTO v VALUES (200, 1), (201, 2);
SELECT * FROM v ORDER BY 1;
RESET SESSION AUTHORIZATION;
SELECT * FROM a ORDER BY 1,2;
DROP SCHEMA e2e_owners CASCADE;
DROP ROLE e2e_guest, e2e_keeper, e2e_some;
