-- Rules that meet: other rules, sequences, triggers, partitions, schemas.
CREATE TABLE t (id int, v text, n int DEFAULT 5) /*dist: hash(id)*/;
CREATE TABLE log (id int, what text, now_is text) /*dist: hash(id)*/;
INSERT INTO t VALUES (1, 'v1w1', 1), (20, 'new', 5), (21, 'newer', 5), (3, 'three', 3);
-- Rules about what rules do.
CREATE TABLE a (x int) /*dist: hash(x)*/;
CREATE TABLE b (x int, y text) /*dist: hash(y)*/;
CREATE TABLE c (x int, y text) /*dist: hash(x)*/;
CREATE RULE a1 AS ON INSERT TO a WHERE new.x > 10 DO INSTEAD INSERT INTO b VALUES (new.x, 'from a');
CREATE RULE a2 AS ON INSERT TO a WHERE new.x > 20 DO ALSO INSERT INTO c VALUES (new.x, 'from a');
CREATE RULE b1 AS ON INSERT TO b WHERE new.x > 15 DO ALSO INSERT INTO c VALUES (new.x, new.y || ', b');
INSERT INTO a VALUES (5), (12), (18), (25);
INSERT INTO a SELECT id FROM t WHERE id > 15;
INSERT INTO a VALUES (13);
INSERT INTO a VALUES (3);
SELECT 'a' AS of, x, '' AS y FROM a UNION ALL SELECT 'b', x, y FROM b UNION ALL SELECT 'c', x, y FROM c ORDER BY 1, 2, 3;
CREATE RULE a3 AS ON UPDATE TO a DO INSTEAD UPDATE b SET x = new.x WHERE x = old.x;
CREATE RULE b2 AS ON UPDATE TO b DO INSTEAD UPDATE a SET x = new.x WHERE x = old.x;
UPDATE a SET x = 1;
UPDATE b SET x = 1;
DROP TABLE b;
DROP TABLE b CASCADE;
INSERT INTO a VALUES (14);
SELECT count(*) FROM a;
CREATE RULE tell AS ON INSERT TO c DO ALSO NOTIFY c_changed;
INSERT INTO c VALUES (1, 'told');
-- What a value is, and how often it is made.
CREATE SEQUENCE s;
CREATE TABLE made (id int DEFAULT nextval('s'), code char(4), price numeric(6,2), at timestamp(0), twice int GENERATED ALWAYS AS (id * 2) STORED) /*dist: hash(id)*/;
CREATE TABLE seen (id int, other int, code text, price text, at text) /*dist: hash(code)*/;
CREATE RULE seen AS ON INSERT TO made DO ALSO INSERT INTO seen VALUES (new.id, new.id, new.code, new.price, new.at);
INSERT INTO made (code) VALUES ('a');
INSERT INTO made VALUES (nextval('s'), 'b', 1.005, '2020-01-01 10:11:12.6');
INSERT INTO made (price, code) VALUES (2.345, 'c'), (3, 'd');
INSERT INTO made (code, price) SELECT v, n FROM t WHERE id = 1;
INSERT INTO made (code) VALUES ('too long');
INSERT INTO made (code, price) VALUES ('e', 12345);
SELECT id, code, price, at, twice FROM made ORDER BY id;
SELECT * FROM seen ORDER BY id;
CREATE RULE often AS ON UPDATE TO made WHERE old.id > 2 AND (new.code = 'full' OR new.code = 'g') DO INSTEAD NOTHING;
UPDATE made SET code = 'full' WHERE id < 6;
UPDATE made SET code = 'f' WHERE id = 4;
UPDATE made SET price = price + 1;
SELECT id, code, price FROM made ORDER BY id;
-- refused
UPDATE made SET code = 'x' || nextval('s');
DROP RULE often ON made;
CREATE RULE deep AS ON DELETE TO made WHERE EXISTS (SELECT 1 FROM seen WHERE seen.id = old.id AND seen.price IS NOT NULL) DO INSTEAD UPDATE seen SET at = 'not gone' WHERE id = old.id;
DELETE FROM made AS m WHERE m.id < 5;
SELECT id, code FROM made ORDER BY id;
SELECT id, at FROM seen ORDER BY id;
-- With triggers, partitions, keys that are changed, other schemas.
CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (id, what, now_is) VALUES (NEW.id, 'trigger', NEW.code); RETURN NULL; END $$;
CREATE TRIGGER loud AFTER INSERT ON seen FOR EACH ROW EXECUTE FUNCTION loud();
INSERT INTO made (id, code) VALUES (70, 'h') RETURNING id;
SELECT id, what, now_is FROM log WHERE what = 'trigger';
CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE RULE low AS ON INSERT TO parts WHERE new.id < 0 DO INSTEAD INSERT INTO parts VALUES (-new.id, new.v);
CREATE RULE low AS ON INSERT TO parts_low DO INSTEAD NOTHING;
INSERT INTO parts VALUES (-5, 'minus');
DROP RULE low ON parts;
INSERT INTO parts VALUES (5, 'five'), (15, 'fifteen');
INSERT INTO parts_low VALUES (6, 'six');
SELECT * FROM parts ORDER BY id;
CREATE SCHEMA away;
CREATE TABLE away.t (id int PRIMARY KEY, v text);
CREATE VIEW away.v AS SELECT * FROM away.t;
CREATE RULE ins AS ON INSERT TO away.v DO INSTEAD INSERT INTO away.t VALUES (new.id, new.v) ON CONFLICT (id) DO UPDATE SET v = excluded.v || '!' RETURNING *;
CREATE RULE upd AS ON UPDATE TO away.v DO INSTEAD UPDATE away.t SET id = new.id, v = new.v WHERE id = old.id RETURNING *;
INSERT INTO away.v VALUES (1, 'one');
INSERT INTO away.v VALUES (1, 'uno') RETURNING v.id, v;
INSERT INTO away.v VALUES (2, 'two'), (3, 'three'), (1, 'eins');
UPDATE away.v SET id = id + 10 WHERE id > 1 RETURNING *;
UPDATE away.v AS new SET v = new.v || '?' WHERE new.id = 1 RETURNING new.v;
DELETE FROM away.v WHERE id = 12;
SELECT * FROM away.v ORDER BY id;
SET session_replication_role = replica;
-- refused
INSERT INTO away.v VALUES (9, 'nine');
RESET session_replication_role;
CREATE TABLE child (id int REFERENCES away.t ON DELETE CASCADE, v text);
-- refused
CREATE RULE kept AS ON DELETE TO child DO INSTEAD NOTHING;
CREATE RULE kept AS ON INSERT TO child DO INSTEAD NOTHING;
DROP SCHEMA away CASCADE;
CREATE VIEW lower AS SELECT * FROM t WHERE n < 100;
CREATE VIEW upper_one AS SELECT id, v FROM lower WHERE id > 0;
CREATE RULE gone AS ON DELETE TO lower DO INSTEAD UPDATE t SET v = 'gone' WHERE id = old.id;
CREATE RULE told AS ON UPDATE TO t WHERE new.v = 'gone' DO ALSO INSERT INTO log VALUES (old.id, 'gone', old.v);
DELETE FROM upper_one WHERE id = 3;
UPDATE upper_one SET v = 'gone' WHERE id = 20 RETURNING *;
DELETE FROM upper_one WHERE id = 21 RETURNING *;
SELECT id, v FROM t ORDER BY id;
SELECT * FROM log WHERE what = 'gone' ORDER BY id;
DROP RULE told ON t;
CREATE TEMP TABLE passing (x int);
CREATE TEMP TABLE noted (x int);
CREATE RULE note AS ON INSERT TO passing DO ALSO INSERT INTO noted VALUES (new.x);
-- refused
CREATE RULE elsewhere AS ON INSERT TO passing DO ALSO INSERT INTO t VALUES (new.x);
-- refused
CREATE RULE temporary AS ON INSERT TO t DO ALSO INSERT INTO noted VALUES (new.id);
INSERT INTO passing VALUES (1);
ALTER RULE note ON passing RENAME TO renamed;
ALTER TABLE passing DISABLE RULE renamed;
INSERT INTO passing VALUES (2);
DROP RULE renamed ON passing;
SELECT * FROM noted;
-- Rules that PostgreSQL refuses, and we do.
CREATE RULE bad AS ON INSERT TO c DO INSTEAD INSERT INTO a VALUES (old.x);
CREATE RULE bad AS ON INSERT TO nowhere DO INSTEAD NOTHING;
CREATE RULE tell AS ON INSERT TO c DO ALSO NOTHING;
DROP RULE bad ON c;
-- refused
CREATE RULE shows AS ON UPDATE TO c DO INSTEAD SELECT * FROM a;
-- refused
ALTER TABLE c ENABLE ALWAYS RULE tell;
CREATE RULE nothing AS ON DELETE TO c DO INSTEAD NOTHING;
-- refused
EXPLAIN DELETE FROM c;
