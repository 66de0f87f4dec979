-- Foreign keys whose actions give rows another distribution key: the rows move to other nodes.
CREATE TABLE keeper (id int PRIMARY KEY, name text) /*dist: replication*/;
INSERT INTO keeper SELECT g, 'k' || g FROM generate_series(0, 12) g;
CREATE TABLE pet (keeper_id int REFERENCES keeper ON DELETE SET NULL ON UPDATE CASCADE, n int, tags text[], at timestamptz, twice int GENERATED ALWAYS AS (n * 2) STORED) /*dist: hash(keeper_id) | replication | modulo(keeper_id) | hash(n)*/;
CREATE TABLE toy (keeper_id int DEFAULT 0 REFERENCES keeper ON DELETE SET DEFAULT ON UPDATE SET DEFAULT, n bigint GENERATED ALWAYS AS IDENTITY, what varchar(20)) /*dist: hash(keeper_id) | hash(n) | replication | roundrobin*/;
CREATE TABLE cage (keeper_id int PRIMARY KEY REFERENCES keeper ON UPDATE CASCADE ON DELETE CASCADE, size numeric(6,2)) /*dist: hash(keeper_id) | replication*/;
INSERT INTO pet (keeper_id, n, tags, at) SELECT g % 12 + 1, g, ARRAY['a,b', NULL, 'c"d'], timestamptz '2024-02-03 04:05:06+00' + g * interval '1 hour' FROM generate_series(1, 48) g;
INSERT INTO toy (keeper_id, what) SELECT g % 12 + 1, 'toy ' || g FROM generate_series(1, 24) g;
INSERT INTO cage SELECT g, g * 1.5 FROM generate_series(1, 12) g;
DELETE FROM keeper WHERE id IN (1, 2);
SELECT keeper_id, count(*), sum(n), sum(twice), min(tags::text), max(at) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
SELECT keeper_id, count(*), sum(n), min(what) FROM toy GROUP BY keeper_id ORDER BY keeper_id;
SELECT * FROM cage ORDER BY keeper_id;
SELECT count(*) FROM pet WHERE keeper_id IS NULL;
SELECT count(*) FROM toy WHERE keeper_id = 0;
SELECT k.id, count(p.n) FROM keeper k LEFT JOIN pet p ON p.keeper_id = k.id GROUP BY k.id ORDER BY k.id;
UPDATE keeper SET id = id + 100 WHERE id IN (3, 4);
SELECT keeper_id, count(*), sum(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
SELECT n FROM pet WHERE keeper_id = 103 ORDER BY n;
SELECT what FROM toy WHERE keeper_id = 0 ORDER BY n;
SELECT * FROM cage WHERE keeper_id = 104;
UPDATE keeper SET name = upper(name) WHERE id = 5;
UPDATE keeper SET id = id WHERE id = 5;
-- Rows of the moved row's node are the same for the next statement of the block, and after ROLLBACK.
BEGIN;
DELETE FROM keeper WHERE id = 5 RETURNING name;
SELECT count(*) FROM pet WHERE keeper_id IS NULL;
SAVEPOINT s;
UPDATE keeper SET id = 600 WHERE id = 6;
SELECT n FROM pet WHERE keeper_id = 600 ORDER BY n;
ROLLBACK TO s;
SELECT n FROM pet WHERE keeper_id = 6 ORDER BY n;
ROLLBACK;
SELECT n FROM pet WHERE keeper_id = 5 ORDER BY n;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM pet WHERE keeper_id = 5;
DELETE FROM keeper WHERE id = 5;
SELECT count(*) FROM pet WHERE keeper_id IS NULL;
COMMIT;
SELECT keeper_id, count(*) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
-- A default that nothing is left for.
DELETE FROM keeper WHERE id = 0;
UPDATE toy SET keeper_id = 7 WHERE keeper_id = 0;
DELETE FROM keeper WHERE id = 0;
DELETE FROM keeper WHERE id = 7;
SELECT keeper_id, count(*) FROM toy GROUP BY keeper_id ORDER BY keeper_id;
SELECT keeper_id, count(*) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
INSERT INTO keeper VALUES (0, 'nobody');
-- params: 7
DELETE FROM keeper WHERE id = $1;
-- params: 8, 800
UPDATE keeper SET id = $2::int WHERE id = $1::int RETURNING id, name;
SELECT keeper_id, count(*), min(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
-- All other roads on which a row of the parent changes.
INSERT INTO keeper VALUES (9, 'again') ON CONFLICT (id) DO UPDATE SET id = 900;
SELECT n FROM pet WHERE keeper_id = 900 ORDER BY n;
MERGE INTO keeper k USING (VALUES (10, 1000), (11, 0)) v (a, b) ON k.id = v.a WHEN MATCHED AND v.b = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET id = v.b;
SELECT keeper_id, count(*), min(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
WITH gone AS (DELETE FROM keeper WHERE id = 12 RETURNING id) SELECT * FROM gone;
SELECT keeper_id, count(*), min(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
CREATE VIEW keepers AS SELECT id, name FROM keeper WHERE id > 100;
UPDATE keepers SET id = 1001 WHERE id = 1000;
DELETE FROM keepers WHERE id = 900;
SELECT keeper_id, count(*), min(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
CREATE FUNCTION leave(k int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE c int; BEGIN DELETE FROM keeper WHERE id = k; SELECT count(*) INTO c FROM pet WHERE keeper_id IS NULL; RETURN c; END $$;
SELECT leave(1001);
DO $$ BEGIN UPDATE keeper SET id = id + 1 WHERE id >= 100; EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'taken'; END $$;
SELECT keeper_id, count(*), min(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
SELECT * FROM cage ORDER BY keeper_id;
DELETE FROM keeper WHERE id = (SELECT max(keeper_id) FROM pet);
SELECT keeper_id, count(*), min(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
TRUNCATE keeper CASCADE;
SELECT (SELECT count(*) FROM pet), (SELECT count(*) FROM toy), (SELECT count(*) FROM cage);

-- Several columns.
CREATE TABLE part (a int, b text, c numeric, PRIMARY KEY (a, b)) /*dist: replication*/;
INSERT INTO part SELECT g, chr(64 + g), g FROM generate_series(1, 9) g;
CREATE TABLE line (a int, b text, n int, FOREIGN KEY (a, b) REFERENCES part MATCH FULL ON DELETE SET NULL ON UPDATE CASCADE) /*dist: hash(a, b) | hash(b) | hash(n)*/;
CREATE TABLE half (a int, b text, n int, FOREIGN KEY (a, b) REFERENCES part ON DELETE SET NULL (b)) /*dist: hash(b) | hash(a) | hash(a, b)*/;
INSERT INTO line SELECT g % 9 + 1, chr(65 + g % 9), g FROM generate_series(1, 27) g;
INSERT INTO half SELECT g % 9 + 1, chr(65 + g % 9), g FROM generate_series(1, 27) g;
DELETE FROM part WHERE a < 3;
UPDATE part SET b = lower(b) WHERE a = 4;
SELECT * FROM line ORDER BY n;
SELECT * FROM half ORDER BY n;
DELETE FROM half WHERE a IN (4, 5);
UPDATE part SET b = lower(b) WHERE a = 4 OR a = 5;
UPDATE part SET b = b || b, a = a * 10 WHERE a = 6;
DELETE FROM half WHERE a = 6;
UPDATE part SET b = b || b, a = a * 10 WHERE a = 6;
SELECT * FROM line ORDER BY n;
SELECT n FROM line WHERE a = 60 AND b = 'FF' ORDER BY n;
SELECT count(*) FROM line WHERE a IS NULL AND b IS NULL;
SELECT count(*) FROM half WHERE b IS NULL;

-- A key that is taken where the row comes to.
CREATE TABLE owner (id int PRIMARY KEY) /*dist: replication*/;
CREATE TABLE mark (owner_id int DEFAULT 1 REFERENCES owner ON DELETE SET DEFAULT, n int, UNIQUE (owner_id, n)) /*dist: hash(owner_id) | replication*/;
INSERT INTO owner SELECT generate_series(1, 6);
INSERT INTO mark SELECT o, n FROM generate_series(1, 5) o, generate_series(1, 2) n;
INSERT INTO mark VALUES (6, 3);
DELETE FROM owner WHERE id = 6;
-- Where the row comes to from another node, its statement is not the action's: no context.
DO $$ BEGIN DELETE FROM owner WHERE id = 5; EXCEPTION WHEN unique_violation THEN RAISE NOTICE '%', SQLERRM; END $$;
SELECT * FROM mark ORDER BY owner_id, n;
ALTER TABLE mark DROP CONSTRAINT mark_owner_id_n_key;
DELETE FROM owner WHERE id = 5;
SELECT owner_id, n FROM mark ORDER BY owner_id, n;
ALTER TABLE mark RENAME owner_id TO o;
ALTER TABLE mark DISABLE TRIGGER USER;
DELETE FROM owner WHERE id = 4;
SELECT o, n FROM mark ORDER BY o, n;
SELECT count(*) FROM mark WHERE o = 1;
ALTER TABLE mark DROP CONSTRAINT mark_owner_id_fkey;
ALTER TABLE mark ADD FOREIGN KEY (o) REFERENCES owner ON UPDATE CASCADE;
UPDATE owner SET id = id * 7;
SELECT o, n FROM mark ORDER BY o, n;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'mark'::regclass AND NOT tgisinternal;

-- Chains of actions.
CREATE TABLE top (id int PRIMARY KEY) /*dist: replication*/;
CREATE TABLE mid (id int PRIMARY KEY, top_id int REFERENCES top ON DELETE CASCADE ON UPDATE CASCADE) /*dist: replication*/;
CREATE TABLE low (mid_id int REFERENCES mid ON DELETE SET NULL, n int) /*dist: hash(mid_id) | replication*/;
INSERT INTO top SELECT generate_series(1, 4);
INSERT INTO mid SELECT g, g % 4 + 1 FROM generate_series(1, 12) g;
INSERT INTO low SELECT g % 12 + 1, g FROM generate_series(1, 24) g;
DELETE FROM top WHERE id = 2;
UPDATE top SET id = 30 WHERE id = 3;
SELECT * FROM mid ORDER BY id;
SELECT * FROM low ORDER BY n;
SELECT count(*) FROM low WHERE mid_id IS NULL;
DROP TABLE top CASCADE;
DELETE FROM mid WHERE id = 10;
SELECT count(*) FROM low WHERE mid_id IS NULL;

-- Tables that lie beside each other: rows of both move.
CREATE TABLE house (id int PRIMARY KEY, city text) /*dist: hash(id) | replication | modulo(id)*/;
-- refused: mixed
CREATE TABLE room (house_id int REFERENCES house ON UPDATE CASCADE ON DELETE CASCADE, n int, note text DEFAULT 'x', PRIMARY KEY (house_id, n)) /*dist: hash(house_id) | replication | modulo(house_id)*/;
CREATE TABLE bed (house_id int, n int, b int, FOREIGN KEY (house_id, n) REFERENCES room ON UPDATE CASCADE ON DELETE SET NULL) /*dist: hash(house_id) | hash(b) | modulo(house_id)*/;
CREATE TABLE guest (house_id int REFERENCES house ON UPDATE SET NULL ON DELETE SET NULL, name text) /*dist: hash(house_id) | hash(name) | modulo(house_id)*/;
-- refused: mixed
CREATE TABLE tax (house_id int REFERENCES house, sum numeric) /*dist: hash(house_id) | replication | modulo(house_id)*/;
INSERT INTO house SELECT g, 'city ' || g FROM generate_series(1, 12) g;
INSERT INTO room SELECT h, n FROM generate_series(1, 12) h, generate_series(1, 3) n;
INSERT INTO bed SELECT h, n, h * 10 + n FROM generate_series(1, 12) h, generate_series(1, 2) n;
INSERT INTO guest SELECT g % 12 + 1, 'guest ' || g FROM generate_series(1, 24) g;
INSERT INTO tax VALUES (1, 10), (2, 20.50), (3, 7);
UPDATE house SET id = 101 WHERE id = 1;
UPDATE house SET id = id + 100, city = upper(city) WHERE id BETWEEN 4 AND 6 RETURNING id, city;
SELECT * FROM house ORDER BY id;
SELECT city FROM house WHERE id = 104;
SELECT house_id, count(*), sum(n) FROM room GROUP BY house_id ORDER BY house_id;
SELECT n, note FROM room WHERE house_id = 105 ORDER BY n;
SELECT * FROM bed ORDER BY b;
SELECT b FROM bed WHERE house_id = 106 ORDER BY b;
SELECT * FROM guest ORDER BY name;
SELECT count(*) FROM guest WHERE house_id IS NULL;
SELECT h.id, r.n, b.b FROM house h JOIN room r ON r.house_id = h.id LEFT JOIN bed b ON b.house_id = r.house_id AND b.n = r.n WHERE h.id > 100 ORDER BY 1, 2, 3;
-- Taken, and referred to without an action.
UPDATE house SET id = 7 WHERE id = 8;
UPDATE house SET id = 102 WHERE id = 2;
DELETE FROM tax WHERE house_id = 2;
UPDATE house SET id = 102 WHERE id = 2;
UPDATE house SET id = 7, city = 'same' WHERE id = 7;
UPDATE house SET id = id, city = city || '.' WHERE id = 7;
DELETE FROM house WHERE id = 7;
SELECT count(*) FROM room WHERE house_id = 7;
SELECT count(*) FROM bed WHERE house_id IS NULL;
SELECT count(*) FROM guest WHERE house_id IS NULL;
BEGIN;
UPDATE house SET id = 900 WHERE id = 9;
SELECT n FROM room WHERE house_id = 900 ORDER BY n;
UPDATE house SET id = 901 WHERE id = 900;
SELECT n FROM room WHERE house_id = 901 ORDER BY n;
INSERT INTO room VALUES (901, 17), (900, 18);
ROLLBACK;
SELECT n FROM room WHERE house_id = 9 ORDER BY n;
-- params: 10, 1010
UPDATE house SET id = $2::int WHERE id = $1::int RETURNING *;
-- params: 1010, c
UPDATE house SET id = $1::int, city = $2::text WHERE id = $1::int;
MERGE INTO house h USING (VALUES (11, 1100), (1010, 0), (77, 77)) v (a, b) ON h.id = v.a WHEN MATCHED AND b = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET id = b WHEN NOT MATCHED THEN INSERT VALUES (a, 'new');
CREATE VIEW houses AS SELECT id AS number, city FROM house;
UPDATE houses SET number = 1200 WHERE number = 12;
UPDATE houses SET city = 'nowhere' WHERE number = 1200;
WITH m AS (UPDATE house SET id = 777 WHERE id = 77 RETURNING id) SELECT * FROM m;
COPY (UPDATE house SET id = 778 WHERE id = 777 RETURNING id, city) TO STDOUT;
COPY (WITH m AS (UPDATE house SET id = 777 WHERE id = 778 RETURNING id) SELECT id + 1 FROM m) TO STDOUT;
BEGIN READ ONLY;
UPDATE house SET id = 1 WHERE id = 777;
ROLLBACK;
CREATE FUNCTION renumber(a int, b int) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE c bigint; BEGIN UPDATE house SET id = b WHERE id = a; SELECT count(*) INTO c FROM room WHERE house_id = b; RETURN c; END $$;
SELECT renumber(1200, 1201);
DO $$ BEGIN UPDATE house SET id = 1100 WHERE id = 1201; EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'taken'; END $$;
SELECT * FROM house ORDER BY id;
SELECT house_id, count(*), sum(n) FROM room GROUP BY house_id ORDER BY house_id;
SELECT * FROM bed ORDER BY b;
SELECT * FROM guest ORDER BY name;
UPDATE house SET id = h.id + 5000 FROM tax t, house h WHERE house.id = h.id AND t.house_id = h.id AND h.id = 3;
DELETE FROM tax;
UPDATE house SET id = house.id + 5000 FROM room r WHERE r.house_id = house.id AND r.n = 1 AND house.id < 1000;
SELECT id FROM house ORDER BY id;
SELECT house_id, count(*) FROM room GROUP BY house_id ORDER BY house_id;

-- What a row that moves would be told of.
CREATE TABLE club (id int PRIMARY KEY) /*dist: replication*/;
CREATE TABLE member (club_id int REFERENCES club ON DELETE SET NULL ON UPDATE CASCADE, n int PRIMARY KEY) /*dist: hash(n) | replication*/;
CREATE TABLE fan (club_id int REFERENCES club ON DELETE SET NULL ON UPDATE CASCADE, n int) /*dist: hash(club_id)*/;
INSERT INTO club SELECT generate_series(1, 9);
INSERT INTO member SELECT g % 9 + 1, g FROM generate_series(1, 18) g;
INSERT INTO fan SELECT g % 7 + 1, g FROM generate_series(1, 18) g;
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% %', TG_OP, NEW.n; RETURN NEW; END $$;
CREATE TRIGGER fan_say AFTER INSERT ON fan FOR EACH ROW EXECUTE FUNCTION say();
DELETE FROM club WHERE id = 9;
-- refused
DELETE FROM club WHERE id = 1;
-- refused
UPDATE club SET id = 20 WHERE id = 2;
DROP TRIGGER fan_say ON fan;
DELETE FROM club WHERE id = 1;
UPDATE club SET id = 20 WHERE id = 2;
SELECT * FROM fan ORDER BY n;
SELECT * FROM member ORDER BY n;
-- refused
EXPLAIN ANALYZE DELETE FROM club WHERE id = 3;
CREATE TABLE club_city (club_id int PRIMARY KEY, city text) /*dist: hash(club_id)*/;
INSERT INTO club_city SELECT g, 'c' FROM generate_series(1, 100) g;
DELETE FROM fan WHERE club_id IS NULL;
ALTER TABLE fan ADD FOREIGN KEY (club_id) REFERENCES club_city;
-- refused
UPDATE club SET id = 30 WHERE id = 3;
DELETE FROM club WHERE id = 3;
SELECT * FROM fan ORDER BY n;
-- refused
CREATE TABLE twin (club_id int DEFAULT 4 REFERENCES club_city ON DELETE SET DEFAULT) /*dist: hash(club_id)*/;
-- refused
CREATE TABLE tree (a int, b int, up int, PRIMARY KEY (a, b), FOREIGN KEY (a, up) REFERENCES tree ON DELETE SET NULL) /*dist: hash(a)*/;
CREATE TABLE tree (a int, b int, up int, PRIMARY KEY (a, b), FOREIGN KEY (a, up) REFERENCES tree) /*dist: hash(a) | replication*/;
INSERT INTO tree SELECT a, b, nullif(b / 2, 0) FROM generate_series(1, 3) a, generate_series(1, 7) b;
UPDATE tree SET a = 14 WHERE a = 1;
UPDATE tree SET a = 15 WHERE a = 2 AND b = 7;
UPDATE tree SET a = 15 WHERE a = 2 AND b = 1;
SELECT a, count(*), sum(up) FROM tree GROUP BY a ORDER BY a;
SELECT * FROM tree WHERE a = 14 ORDER BY b;
-- The owner's rights are enough to follow a foreign key, the user's for rows that move.
CREATE ROLE e2e_ka_user;
DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO e2e_ka_user', current_schema()); END $$;
CREATE TABLE boss (id int PRIMARY KEY) /*dist: replication*/;
CREATE TABLE job (boss_id int REFERENCES boss ON DELETE SET NULL, n int) /*dist: hash(boss_id)*/;
INSERT INTO boss SELECT generate_series(1, 9);
INSERT INTO job SELECT g % 9 + 1, g FROM generate_series(1, 18) g;
GRANT SELECT, DELETE ON boss TO e2e_ka_user;
SET ROLE e2e_ka_user;
-- refused
DELETE FROM boss WHERE id = 1;
RESET ROLE;
GRANT SELECT, INSERT, DELETE ON job TO e2e_ka_user;
SET ROLE e2e_ka_user;
DELETE FROM boss WHERE id = 2;
DELETE FROM boss WHERE id = 1;
UPDATE boss SET id = 17;
RESET ROLE;
SELECT * FROM job ORDER BY n;
DROP OWNED BY e2e_ka_user;
DROP ROLE e2e_ka_user;
