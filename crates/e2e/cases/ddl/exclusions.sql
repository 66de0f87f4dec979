-- EXCLUDE on tables that are distributed by columns which it compares by =.
CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE TABLE bookings (id int, room int, during int4range, EXCLUDE USING gist (room WITH =, during WITH &&)) /*dist: hash(room) | modulo(room)*/;
INSERT INTO bookings SELECT g, g % 7, int4range(g * 10, g * 10 + 5) FROM generate_series(1, 70) g;
INSERT INTO bookings VALUES (100, 3, '[30,32)');
INSERT INTO bookings VALUES (100, 3, '[36,38)'), (101, 4, '[30,32)');
INSERT INTO bookings VALUES (102, 3, '[37,39)') ON CONFLICT DO NOTHING;
INSERT INTO bookings VALUES (102, 3, '[37,39)'), (103, 5, '[37,39)') ON CONFLICT ON CONSTRAINT bookings_room_during_excl DO NOTHING;
INSERT INTO bookings SELECT 200, r, '[1000,1001)' FROM generate_series(1, 3) r;
UPDATE bookings SET during = '[30,40)' WHERE id = 100;
UPDATE bookings SET room = 3 WHERE id = 101;
UPDATE bookings SET room = 6 WHERE id = 101;
UPDATE bookings SET room = room + 100;
SELECT count(*), sum(room) FROM bookings;
SELECT room, count(*) FROM bookings WHERE during && '[0,60)' GROUP BY room ORDER BY room;
DELETE FROM bookings WHERE id = 100;
INSERT INTO bookings VALUES (104, 103, '[36,38)');
-- A column of the key is missing, or is compared by something else.
-- refused
CREATE TABLE apart (id int, room int, EXCLUDE USING btree (room WITH =)) DISTRIBUTE BY HASH (id);
-- refused
CREATE TABLE apart (id int, room int, EXCLUDE USING gist (room WITH <>)) DISTRIBUTE BY HASH (room);
-- refused
CREATE TABLE apart (id int, room int, EXCLUDE USING btree ((room + 1) WITH =)) DISTRIBUTE BY HASH (room);
-- refused
CREATE TABLE apart (id int, room int, EXCLUDE USING btree (room WITH =)) DISTRIBUTE BY ROUNDROBIN;
CREATE TABLE named (name text, n int, EXCLUDE USING btree (name WITH OPERATOR(pg_catalog.=), n WITH =)) /*dist: hash(name) | hash(n, name)*/;
INSERT INTO named VALUES ('a', 1), ('a', 2), ('b', 1);
INSERT INTO named VALUES ('b', 1);
CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE added (id int, room int, name text) /*dist: hash(room)*/;
INSERT INTO added VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 2, 'c');
ALTER TABLE added ADD CONSTRAINT one EXCLUDE USING btree (room WITH =);
DELETE FROM added WHERE id = 3;
ALTER TABLE added ADD CONSTRAINT one EXCLUDE USING btree (room WITH =) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO added VALUES (4, 2, 'd');
UPDATE added SET room = 3 WHERE id = 2;
COMMIT;
SELECT * FROM added ORDER BY id;
BEGIN;
INSERT INTO added VALUES (5, 2, 'd');
COMMIT;
SELECT * FROM added ORDER BY id;
CREATE TABLE like_added (LIKE added INCLUDING INDEXES) /*dist: hash(room)*/;
INSERT INTO like_added VALUES (1, 1, 'a'), (2, 1, 'b');
-- Nobody has said how these lie.
CREATE TABLE chosen (n int, room int, EXCLUDE USING btree (room WITH =));
INSERT INTO chosen SELECT g, g FROM generate_series(1, 20) g;
INSERT INTO chosen VALUES (21, 5);
SELECT count(*) FROM chosen;
CREATE TABLE later (n int PRIMARY KEY, room int);
INSERT INTO later SELECT g, g FROM generate_series(1, 20) g;
ALTER TABLE later ADD EXCLUDE USING btree (room WITH =);
INSERT INTO later VALUES (21, 5);
SELECT count(*) FROM later;
-- A column that is no key may have any collation.
CREATE TABLE blind_one (k text, l text COLLATE blind, EXCLUDE USING btree (k WITH =, l WITH =)) /*dist: hash(k)*/;
CREATE TABLE blind_two (LIKE blind_one INCLUDING ALL) /*dist: hash(k)*/;
INSERT INTO blind_two VALUES ('a', 'x'), ('b', 'X');
INSERT INTO blind_two VALUES ('a', 'X');
-- Another operator of that name, by which other values are equal.
CREATE SCHEMA ops;
CREATE OPERATOR ops.= (LEFTARG = text, RIGHTARG = text, FUNCTION = texticregexeq, COMMUTATOR = OPERATOR(ops.=));
CREATE FUNCTION ops.h(text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE OPERATOR CLASS ops.oc FOR TYPE text USING hash AS OPERATOR 1 ops.= (text, text), FUNCTION 1 ops.h(text);
-- refused
CREATE TABLE alike (k text, EXCLUDE USING hash (k ops.oc WITH OPERATOR(ops.=))) DISTRIBUTE BY HASH (k);
DO $$ BEGIN EXECUTE format('SET search_path = ops, pg_catalog, %I', current_schema); END $$;
-- refused
CREATE TABLE alike (k text, EXCLUDE USING hash (k ops.oc WITH =)) DISTRIBUTE BY HASH (k);
RESET search_path;
DROP SCHEMA ops CASCADE;
