-- Rules: what a change becomes.
CREATE TABLE t (id int, v text, n int DEFAULT 5) /*dist: hash(id) | modulo(n) | replication | roundrobin*/;
CREATE TABLE log (id int, what text, was text, now_is text, who name) /*dist: roundrobin | hash(id) | hash(what) | replication*/;
CREATE TABLE other (id int, w text, t_id int) /*dist: hash(t_id) | replication | hash(w) | roundrobin*/;
INSERT INTO t SELECT g, 'v' || g, g % 4 FROM generate_series(1, 12) g;
INSERT INTO other SELECT g, 'w' || g, g % 6 FROM generate_series(1, 12) g;
-- Nothing, always and sometimes.
CREATE RULE keep AS ON DELETE TO t DO INSTEAD NOTHING;
DELETE FROM t;
DELETE FROM t WHERE id = 1 RETURNING *;
SELECT count(*) FROM t;
CREATE OR REPLACE RULE keep AS ON DELETE TO t WHERE old.n > 1 DO INSTEAD NOTHING;
DELETE FROM t WHERE id > 10;
DELETE FROM t AS a USING other AS o WHERE o.t_id = a.id AND o.w < 'w2' RETURNING a.id, o.w;
SELECT id FROM t ORDER BY id;
DROP RULE keep ON t;
CREATE RULE once AS ON INSERT TO t WHERE EXISTS (SELECT 1 FROM t x WHERE x.id = new.id) DO INSTEAD NOTHING;
INSERT INTO t VALUES (2, 'again'), (20, 'new'), (21, 'newer', DEFAULT);
INSERT INTO t VALUES (2, 'again') RETURNING id;
INSERT INTO t (v, id) VALUES ('twenty-two', 22) RETURNING *;
INSERT INTO t SELECT id + 17, w FROM other WHERE id < 8 RETURNING id, v;
INSERT INTO t DEFAULT VALUES;
-- params: 2 | two
INSERT INTO t (id, v) VALUES ($1, $2);
INSERT INTO t (id, v) VALUES (40, 'forty') RETURNING n;
SELECT * FROM t ORDER BY id;
ALTER TABLE t DISABLE RULE once;
INSERT INTO t VALUES (2, 'again');
ALTER TABLE t ENABLE RULE once;
INSERT INTO t VALUES (2, 'again');
SELECT count(*) FROM t WHERE id = 2;
DELETE FROM t WHERE v = 'again';
ALTER RULE once ON t RENAME TO twice;
SELECT rulename, ev_type, ev_enabled, is_instead FROM pg_rewrite WHERE ev_class = 't'::regclass;
SELECT rulename, definition FROM pg_rules WHERE tablename = 't';
DROP RULE twice ON t;
-- Logs.
CREATE RULE log_in AS ON INSERT TO t DO ALSO INSERT INTO log VALUES (new.id, 'in', NULL, new.v || ' ' || new.n, current_user);
CREATE RULE log_up AS ON UPDATE TO t WHERE old.v IS DISTINCT FROM new.v DO ALSO INSERT INTO log VALUES (old.id, 'up', old.v, new.v, current_user);
CREATE RULE log_out AS ON DELETE TO t DO ALSO (INSERT INTO log SELECT old.id, 'out', old.v, o.w FROM other o WHERE o.t_id = old.id; DELETE FROM other WHERE t_id = old.id;);
INSERT INTO t VALUES (50, 'fifty'), (51, 'fifty-one', 1);
INSERT INTO t VALUES (52, 'fifty-two') RETURNING *;
INSERT INTO t (id) SELECT id + 60 FROM other WHERE id < 3;
UPDATE t SET v = upper(v) WHERE id > 50 RETURNING id, v;
UPDATE t SET v = DEFAULT, n = 9 WHERE id = 52;
UPDATE t AS a SET v = a.v || o.w FROM other o WHERE o.t_id = a.id AND o.id < 4;
UPDATE t SET (n, v) = (n + 1, 'pair') WHERE id = 3;
-- params: 4 | four
UPDATE t SET v = $2 WHERE id = $1;
DELETE FROM t WHERE id IN (4, 5) RETURNING id;
SELECT id, what, was, now_is, who = current_user AS mine FROM log ORDER BY id, what, was, now_is;
SELECT * FROM other ORDER BY id;
SELECT * FROM t ORDER BY id;
COPY t (id, v) FROM STDIN;
70	seventy
\.
SELECT count(*) FROM log WHERE id = 70;
BEGIN;
INSERT INTO t VALUES (80, 'eighty');
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (81, 'eighty-one');
UPDATE t SET v = 'changed' WHERE id = 81;
COMMIT;
SELECT id, what, was, now_is FROM log WHERE id > 79 ORDER BY what;
INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING;
WITH x AS (SELECT 90 AS id) INSERT INTO t SELECT id FROM x;
MERGE INTO t USING other o ON o.id = t.id WHEN MATCHED THEN DELETE;
INSERT INTO t VALUES (1, 'x', 1, 'too many');
INSERT INTO t (nowhere) VALUES (1);
INSERT INTO t VALUES ('x');
UPDATE t SET v = 'x' WHERE nowhere = 1;
DO $$ BEGIN FOR i IN 1..2 LOOP INSERT INTO t VALUES (100 + i, 'loop'); END LOOP; DELETE FROM t WHERE id = 101; END $$;
SELECT id, what, was, now_is FROM log WHERE id > 99 ORDER BY id, what;
DROP RULE log_in ON t;
DROP RULE log_up ON t;
DROP RULE log_out ON t;
-- A view made writable.
CREATE TABLE base (id int, name varchar(6), city text DEFAULT 'Rome') /*dist: hash(id) | hash(name) | replication | roundrobin*/;
CREATE TABLE extra (id int, age int) /*dist: hash(id) | replication | hash(age) | roundrobin*/;
CREATE VIEW people AS SELECT b.id, b.name, b.city, e.age FROM base b LEFT JOIN extra e ON e.id = b.id;
CREATE RULE people_in AS ON INSERT TO people DO INSTEAD (INSERT INTO base (id, name, city) VALUES (new.id, new.name, coalesce(new.city, 'none')) RETURNING id, name, city, NULL::int; INSERT INTO extra VALUES (new.id, new.age););
CREATE RULE people_up AS ON UPDATE TO people DO INSTEAD (UPDATE base SET id = new.id, name = new.name, city = new.city WHERE id = old.id; UPDATE extra SET age = new.age WHERE id = old.id;);
CREATE RULE people_out AS ON DELETE TO people DO INSTEAD (DELETE FROM extra WHERE id = old.id; DELETE FROM base WHERE id = old.id RETURNING id, name, city, 0;);
INSERT INTO people VALUES (1, 'Anna', 'Oslo', 30);
INSERT INTO people (id, name, age) VALUES (2, 'Bert', 40), (3, 'Cleo', 50);
INSERT INTO people (id, name) VALUES (4, 'Dora') RETURNING *;
INSERT INTO people (id, name, age) SELECT id + 10, 'n' || id, n FROM t WHERE id < 4 RETURNING upper(name) AS loud, people.id;
INSERT INTO people VALUES (9, 'far too long');
UPDATE people SET age = age + 1, city = 'Bonn' WHERE id < 3;
UPDATE people SET name = 'Emil' WHERE id = 4 RETURNING id;
UPDATE people p SET city = o.w FROM other o WHERE o.id = p.id AND p.age = 50;
DELETE FROM people WHERE id = 2 RETURNING id, name;
-- params: 11
DELETE FROM people WHERE id = $1;
SELECT * FROM people ORDER BY id;
SELECT * FROM extra ORDER BY id;
CREATE VIEW few AS SELECT id, name, city FROM base WHERE id < 100;
CREATE RULE also AS ON INSERT TO few DO ALSO INSERT INTO log (id, what) VALUES (new.id, 'some');
INSERT INTO few VALUES (60, 'sixty') RETURNING *;
UPDATE few SET city = 'none' WHERE id = 60;
SELECT id, what FROM log WHERE what = 'some';
-- Rules about what rules do.
CREATE TABLE a (x int) /*dist: hash(x) | replication*/;
CREATE TABLE b (x int, y text) /*dist: hash(x) | roundrobin | hash(y)*/;
CREATE TABLE c (x int, y text) /*dist: hash(y) | hash(x) | replication*/;
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
CREATE TABLE made (id int DEFAULT nextval('s'), code char(4), price numeric(6,2), at timestamp(0), twice int GENERATED ALWAYS AS (id * 2) STORED) /*dist: hash(id) | replication | roundrobin | hash(code)*/;
CREATE TABLE seen (id int, other int, code text, price text, at text) /*dist: hash(id) | hash(code) | roundrobin | replication*/;
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
