-- What triggers, constraints, defaults and policies call may change its mind after it has come into use.
CREATE TABLE t (id int, v text) /*dist: hash(id) | roundrobin*/;
CREATE TABLE o (k int, n int) /*dist: hash(k) | roundrobin*/;
CREATE TABLE rates (r int) /*dist: replication*/;
INSERT INTO o SELECT g, g FROM generate_series(1, 20) g;
INSERT INTO rates VALUES (7);
-- A trigger whose function calls one that does not exist yet.
CREATE FUNCTION link() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := later(NEW.id); RETURN NEW; END $$;
CREATE TRIGGER link BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION link();
INSERT INTO t VALUES (1, 'a');
CREATE FUNCTION later(int) RETURNS text LANGUAGE sql AS $$ SELECT 'later ' || $1 $$;
INSERT INTO t VALUES (1, 'a');
SELECT * FROM t;
CREATE OR REPLACE FUNCTION later(int) RETURNS text LANGUAGE sql AS $$ SELECT count(*)::text FROM o $$;
INSERT INTO t VALUES (2, 'b');
UPDATE t SET v = 'c' WHERE id = 1;
COPY t FROM stdin;
3	c
\.
-- refused
WITH x AS (INSERT INTO t VALUES (2, 'b') RETURNING id) SELECT * FROM x;
SELECT * FROM t;
ALTER TABLE t DISABLE TRIGGER link;
INSERT INTO t VALUES (4, 'd');
ALTER TABLE t ENABLE TRIGGER link;
BEGIN;
CREATE OR REPLACE FUNCTION later(int) RETURNS text LANGUAGE sql AS $$ SELECT 'again ' || $1 $$;
INSERT INTO t VALUES (5, 'e');
COMMIT;
SELECT * FROM t ORDER BY id;
DROP TRIGGER link ON t;
-- A constraint, a default, an index, a domain.
CREATE FUNCTION known(int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT $1 < 100 $$;
CREATE FUNCTION given() RETURNS int LANGUAGE sql STABLE AS $$ SELECT 5 $$;
CREATE TABLE c (id int, n int DEFAULT given(), CHECK (known(n))) /*dist: hash(id) | roundrobin*/;
INSERT INTO c VALUES (1), (2, 200);
INSERT INTO c VALUES (1), (2, 20);
CREATE OR REPLACE FUNCTION known(int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT EXISTS (SELECT FROM o WHERE k = $1) $$;
-- refused
INSERT INTO c VALUES (3, 3);
-- Nothing of that is computed for a row that goes.
DELETE FROM c WHERE id = 2 RETURNING *;
BEGIN;
DELETE FROM c;
ROLLBACK;
-- refused
UPDATE c SET n = n + 1;
DELETE FROM o WHERE k = 20;
CREATE OR REPLACE FUNCTION known(int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT $1 < 10 $$;
CREATE OR REPLACE FUNCTION given() RETURNS int LANGUAGE sql STABLE AS $$ SELECT r FROM rates $$;
INSERT INTO c VALUES (3);
SELECT * FROM c ORDER BY id;
CREATE OR REPLACE FUNCTION given() RETURNS int LANGUAGE sql STABLE AS $$ SELECT count(*)::int FROM t $$;
-- refused
INSERT INTO c VALUES (4);
CREATE FUNCTION small(int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT $1 < 10 $$;
CREATE DOMAIN little AS int CHECK (small(VALUE));
CREATE TABLE d (id int, l little) /*dist: hash(id) | roundrobin*/;
INSERT INTO d VALUES (1, 1), (2, 2);
INSERT INTO d VALUES (3, 30);
CREATE OR REPLACE FUNCTION small(int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT $1 < (SELECT count(*) FROM o) $$;
-- refused
INSERT INTO d VALUES (3, 3);
-- Below a cascading foreign key.
CREATE TABLE parent (id int PRIMARY KEY) /*dist: hash(id)*/;
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE, n int) /*dist: hash(id)*/;
CREATE FUNCTION gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN OLD.n := later(OLD.id); RETURN OLD; END $$;
CREATE TRIGGER gone BEFORE DELETE ON child FOR EACH ROW EXECUTE FUNCTION gone();
INSERT INTO parent VALUES (1), (2);
INSERT INTO child VALUES (1, 1);
CREATE OR REPLACE FUNCTION later(int) RETURNS text LANGUAGE sql AS $$ SELECT count(*)::text FROM o $$;
-- refused
DELETE FROM parent WHERE id = 1;
DROP TABLE child;
DELETE FROM parent WHERE id = 1;
SELECT * FROM parent;
-- A policy.
CREATE FUNCTION mine(int) RETURNS bool LANGUAGE sql STABLE AS $$ SELECT $1 > 2 $$;
CREATE POLICY mine ON o USING (mine(n));
ALTER TABLE o ENABLE ROW LEVEL SECURITY;
SELECT count(*) FROM o;
CREATE OR REPLACE FUNCTION mine(int) RETURNS bool LANGUAGE sql STABLE AS $$ SELECT $1 > (SELECT count(*) FROM t) $$;
-- refused
SELECT count(*) FROM o;
-- refused
COPY o TO stdout;
DROP POLICY mine ON o;
SELECT count(*) FROM o;
