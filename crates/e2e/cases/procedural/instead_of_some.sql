-- Views with INSTEAD OF triggers for some of the events: the others change what lies under the view.
CREATE TABLE b (id int PRIMARY KEY, title text DEFAULT 'none', del timestamptz) /*dist: hash(id) | replication | modulo(id)*/;
CREATE TABLE other (id int, word text) /*dist: hash(id) | roundrobin | replication*/;
INSERT INTO other SELECT i, 'w' || i FROM generate_series(1, 8) AS i;
CREATE VIEW alive AS SELECT id, title FROM b WHERE del IS NULL;
CREATE FUNCTION soft() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE b SET del = '2026-01-01 00:00Z' WHERE id = OLD.id; RETURN OLD; END $$;
CREATE TRIGGER soft INSTEAD OF DELETE ON alive FOR EACH ROW EXECUTE FUNCTION soft();
INSERT INTO alive VALUES (1, 'one'), (2, 'two'), (3, 'three') RETURNING *;
INSERT INTO alive (id) SELECT id + 3 FROM other WHERE id < 4;
INSERT INTO alive VALUES (1, 'again') ON CONFLICT (id) DO UPDATE SET title = excluded.title || '!' RETURNING id, title;
INSERT INTO alive VALUES (1, 'again'), (7, 'seven') ON CONFLICT DO NOTHING;
UPDATE alive SET title = title || ' up' WHERE id < 3 RETURNING *;
UPDATE alive AS v SET title = o.word FROM other AS o WHERE o.id = v.id AND o.id > 5 RETURNING v.id, v.title;
DELETE FROM alive WHERE id = 2 RETURNING id;
DELETE FROM alive AS v USING other AS o WHERE o.id = v.id AND o.word = 'w3';
-- refused
WITH gone AS (UPDATE alive SET title = 'with' WHERE id = 4 RETURNING id) SELECT * FROM gone;
-- params: 5 | five
UPDATE alive SET title = $2 WHERE id = $1::int;
SELECT id, title, del IS NULL AS alive FROM b ORDER BY id;
-- A view over it.
CREATE VIEW above AS SELECT title AS name, id AS number FROM alive WHERE id < 100;
INSERT INTO above VALUES ('above', 10) RETURNING number, name;
UPDATE above SET name = upper(name) WHERE number = 10 RETURNING *;
DELETE FROM above WHERE name = 'ABOVE' RETURNING number + 1 AS n;
DELETE FROM above WHERE number > 100;
-- params: 1
DELETE FROM above WHERE number = $1 RETURNING name;
DO $$ DECLARE n int; BEGIN DELETE FROM above WHERE number IN (4, 5); GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '%', n; END $$;
SELECT id, title, del IS NULL AS alive FROM b ORDER BY id;
-- Triggers FOR EACH STATEMENT of a view are fired with those INSTEAD OF alone.
CREATE VIEW told AS SELECT id, title FROM b;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% % %', TG_WHEN, TG_OP, TG_TABLE_NAME; RETURN NULL; END $$;
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON told FOR EACH STATEMENT EXECUTE FUNCTION tell();
INSERT INTO told VALUES (20, 'told');
UPDATE told SET title = 'twice' WHERE id = 20 RETURNING *;
CREATE TRIGGER soft INSTEAD OF DELETE ON told FOR EACH ROW EXECUTE FUNCTION soft();
DELETE FROM told WHERE id = 20 RETURNING title;
UPDATE told SET title = 'thrice' WHERE id = 20 RETURNING *;
-- INSTEAD OF INSERT, and a rule of another view over it.
CREATE VIEW made AS SELECT id, title, del FROM b;
CREATE FUNCTION make() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO b VALUES (NEW.id, coalesce(NEW.title, 'made')); NEW.title := 'returned'; RETURN NEW; END $$;
CREATE TRIGGER make INSTEAD OF INSERT ON made FOR EACH ROW EXECUTE FUNCTION make();
CREATE VIEW over_made AS SELECT id, title FROM made WHERE id > 0;
INSERT INTO over_made VALUES (30), (31) RETURNING *;
INSERT INTO over_made SELECT id + 40, word FROM other WHERE id < 3;
UPDATE over_made SET title = 'changed' WHERE id > 40 RETURNING id;
DELETE FROM over_made WHERE id = 30 RETURNING *;
CREATE VIEW checked AS SELECT id, title FROM made WHERE id < 50 WITH LOCAL CHECK OPTION;
UPDATE checked SET title = 'checked' WHERE id = 31;
DELETE FROM checked WHERE id = 41;
SELECT id, title, del IS NULL AS alive FROM b ORDER BY id;
