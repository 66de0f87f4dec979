-- Types and domains in pg_temp beside distributed tables: the other datanodes do not have them, or have another of their name.
CREATE SCHEMA q;
CREATE TABLE q.o (id int, v int) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO q.o SELECT g, g FROM generate_series(1, 10) g;
CREATE TYPE pg_temp.mood AS ENUM ('b', 'a');
CREATE DOMAIN pg_temp.dom AS int CHECK (VALUE > 0);
CREATE TYPE pg_temp.comp AS (x int, y text);
SELECT 'a'::pg_temp.mood, id FROM q.o ORDER BY id LIMIT 2;
SELECT id::pg_temp.dom FROM q.o ORDER BY id;
SELECT id FROM q.o WHERE v::pg_temp.dom > 8 ORDER BY 1;
SELECT row(id, 'z')::pg_temp.comp FROM q.o ORDER BY id;
SELECT count(*) FROM q.o WHERE row(id, 'z')::pg_temp.comp IS NOT NULL;
SELECT max(id::pg_temp.dom) FROM q.o;
INSERT INTO q.o SELECT 5::pg_temp.dom, 6;
INSERT INTO q.o VALUES (11::pg_temp.dom, 6);
UPDATE q.o SET v = 9::pg_temp.dom WHERE id = 3;
DELETE FROM q.o WHERE v = 6::pg_temp.dom;
SELECT array['a', 'b']::pg_temp.mood[], count(*) FROM q.o;
SELECT 'a'::mood < 'b'::mood, id FROM q.o WHERE id = 1;
CREATE TEMP TABLE t (id int, m pg_temp.mood);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT * FROM t JOIN q.o USING (id) ORDER BY 1;
BEGIN;
-- refused
CREATE TABLE q.p (id int, m pg_temp.mood);
ROLLBACK;
BEGIN;
-- refused
CREATE TABLE q.p OF comp;
ROLLBACK;
BEGIN;
-- refused
CREATE FUNCTION q.f(m t) RETURNS int LANGUAGE sql AS 'SELECT 1';
ROLLBACK;
BEGIN;
-- refused
ALTER TABLE q.o ADD COLUMN m mood;
ROLLBACK;
-- Where another type of the name is on the other nodes.
CREATE TYPE q.e AS ENUM ('one', 'two');
CREATE DOMAIN q.d AS int CHECK (VALUE < 100);
CREATE TABLE q.e1 (id int, e q.e) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO q.e1 VALUES (1, 'one'), (2, 'two'), (3, 'one'), (4, 'two'), (5, 'one');
CREATE TYPE pg_temp.e AS ENUM ('three', 'one');
CREATE DOMAIN pg_temp.d AS int CHECK (VALUE < 3);
SET search_path = q;
SELECT 'three'::e, id FROM e1 ORDER BY id;
SELECT 'one'::e, id FROM e1 ORDER BY id;
SELECT 'two'::e, id FROM e1 ORDER BY id;
SELECT id::d FROM e1 WHERE id < 3 ORDER BY id;
SELECT count(id::q.d) FROM e1;
SELECT id FROM e1 WHERE e = 'two' ORDER BY id;
SELECT e, count(*) FROM e1 GROUP BY e ORDER BY e;
BEGIN;
-- refused
CREATE TABLE q.z (id int, dd d);
ROLLBACK;
BEGIN;
-- refused
CREATE TABLE q.z (id int, dd int CHECK (dd::d > 0));
ROLLBACK;
BEGIN;
-- refused
CREATE TABLE q.z (id int, dd int DEFAULT 2::d);
ROLLBACK;
BEGIN;
-- refused
CREATE FUNCTION q.f(m e) RETURNS int LANGUAGE sql AS 'SELECT 1';
ROLLBACK;
BEGIN;
-- refused
CREATE FUNCTION q.f(m int) RETURNS e LANGUAGE sql AS 'SELECT NULL::e';
ROLLBACK;
CREATE FUNCTION q.f(m q.e) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
SELECT q.f('two');
CREATE TABLE q.z (id int, dd q.d);
BEGIN;
-- refused
ALTER TABLE z ALTER COLUMN dd TYPE int USING dd::d;
ROLLBACK;
INSERT INTO z VALUES (1, 50);
INSERT INTO z SELECT id, 60 FROM e1 WHERE id = 2;
SELECT * FROM z ORDER BY id;
SET search_path = q, pg_temp;
SELECT id::d FROM e1 ORDER BY id;
CREATE TEMP TABLE uuid (a int);
SELECT id, '00000000-0000-0000-0000-000000000001'::uuid FROM e1 WHERE id < 3 ORDER BY id;
DROP TABLE pg_temp.uuid;
SET search_path = q;
DROP DOMAIN d;
DROP TYPE e;
SELECT 'two'::e;
RESET search_path;
DROP TABLE t;
DROP TYPE pg_temp.mood, pg_temp.dom, pg_temp.comp;
DROP SCHEMA q CASCADE;
-- A domain in pg_temp that hides another, in statements that came before: by another session's plan, and in a block.
CREATE TABLE hiding (k int, g int, v int) /*dist: hash(k) | hash(g) | replication | roundrobin*/;
INSERT INTO hiding SELECT g, g % 5, g * 3 FROM generate_series(1, 30) g;
CREATE DOMAIN hidden_dom AS int;
SELECT min(v::hidden_dom), count(*) FROM hiding WHERE k <> 1;
SELECT min(v::hidden_dom), count(*) FROM hiding WHERE k <> 1;
SELECT min((v::hidden_dom)::text), count(*) FROM hiding WHERE g <> 1;
SELECT min((v::hidden_dom)::text), count(*) FROM hiding WHERE g <> 1;
CREATE DOMAIN pg_temp.hidden_dom AS numeric(4,1);
SELECT min((v::hidden_dom)::text), count(*) FROM hiding WHERE g <> 1;
BEGIN;
SELECT min((v::hidden_dom)::text), count(*) FROM hiding WHERE g <> 1;
SELECT count(a.v::hidden_dom), min(b.k::hidden_dom::text) FROM hiding a JOIN hiding b ON a.g = b.v WHERE a.k <> 1;
ROLLBACK;
DROP DOMAIN pg_temp.hidden_dom;
SELECT min((v::hidden_dom)::text), count(*) FROM hiding WHERE g <> 1;
CREATE DOMAIN pg_temp.hidden_dom AS text;
SELECT min(v::hidden_dom), count(*) FROM hiding WHERE k <> 1;
BEGIN;
SELECT min(v::hidden_dom), count(*) FROM hiding WHERE k <> 1;
ROLLBACK;
DROP DOMAIN pg_temp.hidden_dom;
DROP DOMAIN hidden_dom;
