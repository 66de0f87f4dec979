-- A film rental's schema as the well-known sample databases have it: every table notes its last change by a trigger BEFORE UPDATE,
-- and foreign keys make most of them replicated.
CREATE FUNCTION last_updated() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.last_update = CURRENT_TIMESTAMP; RETURN NEW; END $$;
CREATE SEQUENCE film_film_id_seq;
CREATE TABLE language (language_id serial PRIMARY KEY, name char(20) NOT NULL, last_update timestamptz DEFAULT now() NOT NULL);
CREATE TABLE actor (actor_id serial PRIMARY KEY, first_name text NOT NULL, last_name text NOT NULL, last_update timestamptz DEFAULT now() NOT NULL);
CREATE TABLE film (film_id int DEFAULT nextval('film_film_id_seq') PRIMARY KEY, title text NOT NULL, language_id int NOT NULL REFERENCES language ON UPDATE CASCADE ON DELETE RESTRICT, rate numeric(4,2) DEFAULT 4.99 NOT NULL, features text[], fulltext tsvector, last_update timestamptz DEFAULT now() NOT NULL);
CREATE TABLE film_actor (actor_id int REFERENCES actor ON UPDATE CASCADE ON DELETE RESTRICT, film_id int REFERENCES film ON UPDATE CASCADE ON DELETE CASCADE, last_update timestamptz DEFAULT now() NOT NULL, PRIMARY KEY (actor_id, film_id));
CREATE TABLE store (store_id serial PRIMARY KEY, manager text UNIQUE, last_update timestamptz DEFAULT now() NOT NULL);
CREATE TABLE inventory (inventory_id serial PRIMARY KEY, film_id int NOT NULL REFERENCES film ON UPDATE CASCADE ON DELETE RESTRICT, store_id int NOT NULL REFERENCES store ON UPDATE CASCADE ON DELETE RESTRICT, last_update timestamptz DEFAULT now() NOT NULL);
CREATE TABLE customer (customer_id serial PRIMARY KEY, store_id int NOT NULL REFERENCES store ON UPDATE CASCADE ON DELETE RESTRICT, first_name text NOT NULL, email text UNIQUE, active bool DEFAULT true NOT NULL, create_date date DEFAULT '2022-02-14' NOT NULL, last_update timestamptz DEFAULT now());
CREATE TABLE rental (rental_id serial PRIMARY KEY, rental_date timestamptz NOT NULL, inventory_id int NOT NULL REFERENCES inventory ON UPDATE CASCADE ON DELETE RESTRICT, customer_id int NOT NULL REFERENCES customer ON UPDATE CASCADE ON DELETE RESTRICT, return_date timestamptz, last_update timestamptz DEFAULT now() NOT NULL);
CREATE TRIGGER last_updated BEFORE UPDATE ON language FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON actor FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON film FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON film_actor FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON store FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON inventory FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON rental FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER film_fulltext BEFORE INSERT OR UPDATE ON film FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger('fulltext', 'pg_catalog.english', 'title');
INSERT INTO language (name, last_update) VALUES ('English', '2022-02-15 10:02:19+00'), ('Italian', '2022-02-15 10:02:19+00'), ('Japanese', '2022-02-15 10:02:19+00');
COPY actor (actor_id, first_name, last_name, last_update) FROM stdin;
1	PENELOPE	GUINESS	2022-02-15 10:34:33+00
2	NICK	WAHLBERG	2022-02-15 10:34:33+00
3	ED	CHASE	2022-02-15 10:34:33+00
4	JENNIFER	DAVIS, "JR" \\ (x)	2022-02-15 10:34:33+00
\.
COPY film (title, language_id, features, last_update) FROM stdin;
ACADEMY DINOSAUR	1	{"Deleted Scenes","Behind the Scenes"}	2022-09-10 17:46:03+00
ACE GOLDFINGER	1	{Trailers,"Deleted Scenes"}	2022-09-10 17:46:03+00
ADAPTATION HOLES	2	\N	2022-09-10 17:46:03+00
AFFAIR PREJUDICE	1	{}	2022-09-10 17:46:03+00
\.
INSERT INTO film_actor SELECT a.actor_id, f.film_id, '2022-02-15 10:05:03+00' FROM actor a, film f WHERE (a.actor_id + f.film_id) % 2 = 0;
INSERT INTO store (manager, last_update) VALUES ('Mike', '2022-02-15 09:57:12+00'), ('Jon', '2022-02-15 09:57:12+00') RETURNING store_id, manager;
INSERT INTO inventory (film_id, store_id, last_update) SELECT f, 1 + f % 2, '2022-02-15 10:09:17+00' FROM generate_series(1, 4) f;
INSERT INTO customer (store_id, first_name, email, last_update) SELECT 1 + g % 2, 'C' || g, 'c' || g || '@sakila.org', '2022-02-15 10:09:17+00' FROM generate_series(1, 6) g;
INSERT INTO rental (rental_date, inventory_id, customer_id, last_update) SELECT timestamptz '2022-05-24 22:53:30+00' + g * interval '1 hour', 1 + g % 4, 1 + g % 6, '2022-02-16 02:30:53+00' FROM generate_series(0, 19) g;
SELECT film_id, title, features, fulltext, rate, last_update FROM film ORDER BY 1;
SELECT actor_id, last_name, last_update FROM actor ORDER BY 1;
SELECT count(*), count(DISTINCT last_update) FROM rental;
-- Each of these changes lets the trigger write the time.
UPDATE language SET name = 'English (UK)' WHERE language_id = 1;
UPDATE language SET name = upper(name) WHERE language_id > 1 RETURNING language_id, name, last_update > '2023-01-01' AS touched;
UPDATE actor SET first_name = first_name || '!' WHERE actor_id IN (SELECT actor_id FROM film_actor WHERE film_id = 2);
SELECT actor_id, first_name, last_update > '2023-01-01' FROM actor ORDER BY 1;
UPDATE film SET rate = rate * 1.1 FROM film_actor fa WHERE fa.film_id = film.film_id AND fa.actor_id = 2 RETURNING film.film_id, rate, film.last_update = now();
UPDATE customer SET active = NOT active WHERE customer_id = 3;
UPDATE customer SET email = NULL WHERE customer_id = (SELECT max(customer_id) FROM rental WHERE inventory_id = 2);
INSERT INTO customer (customer_id, store_id, first_name, email) VALUES (3, 1, 'X', 'x@sakila.org'), (77, 2, 'Y', 'y@sakila.org') ON CONFLICT (customer_id) DO UPDATE SET first_name = customer.first_name || EXCLUDED.first_name RETURNING customer_id, first_name, last_update = now();
INSERT INTO customer (store_id, first_name, email) VALUES (1, 'Z', 'c1@sakila.org') ON CONFLICT (email) DO NOTHING;
SELECT customer_id, first_name, email, active, last_update > '2023-01-01' FROM customer ORDER BY 1;
MERGE INTO store s USING (VALUES (1, 'Mike H.'), (3, 'Ann')) AS n (id, manager) ON n.id = s.store_id WHEN MATCHED THEN UPDATE SET manager = n.manager WHEN NOT MATCHED THEN INSERT (store_id, manager) VALUES (n.id, n.manager);
SELECT store_id, manager, last_update > '2023-01-01' FROM store ORDER BY 1;
UPDATE rental SET return_date = rental_date + interval '3 days' WHERE rental_id % 2 = 0;
SELECT rental_id, return_date, last_update > '2023-01-01' FROM rental ORDER BY 1;
-- Keys that foreign keys follow.
UPDATE film SET film_id = 1001 WHERE film_id = 1;
UPDATE language SET language_id = language_id + 10 WHERE language_id = 1;
-- refused
UPDATE actor SET actor_id = 44 WHERE actor_id = 4;
SELECT film_id, language_id, last_update > '2023-01-01' FROM film ORDER BY 1;
SELECT actor_id, film_id, last_update > '2023-01-01' FROM film_actor ORDER BY 1, 2;
SELECT inventory_id, film_id, last_update > '2023-01-01' FROM inventory ORDER BY 1;
DELETE FROM film WHERE film_id = 4;
DELETE FROM inventory WHERE film_id = 4 AND NOT EXISTS (SELECT FROM rental r WHERE r.inventory_id = inventory.inventory_id);
DELETE FROM actor WHERE actor_id = 1;
DELETE FROM store WHERE store_id = 3 RETURNING manager;
SELECT (SELECT count(*) FROM film), (SELECT count(*) FROM film_actor), (SELECT count(*) FROM inventory);
-- In transactions, by WITH, through views, with savepoints.
BEGIN;
UPDATE film SET title = lower(title) WHERE film_id = 2;
SAVEPOINT a;
UPDATE film SET title = 'gone', rate = 9;
ROLLBACK TO a;
UPDATE film SET title = title || ' 2' WHERE film_id = 2 RETURNING title, fulltext;
SELECT last_update = now() FROM film WHERE film_id = 2;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM film;
UPDATE film SET rate = 1.5 WHERE film_id = 3;
COMMIT;
BEGIN;
UPDATE actor SET last_name = 'never' WHERE actor_id = 2;
ROLLBACK;
WITH changed AS (UPDATE customer SET active = false WHERE store_id = 1 RETURNING customer_id) SELECT count(*) FROM changed;
WITH gone AS (DELETE FROM film_actor WHERE actor_id = 40 RETURNING film_id), seen AS (UPDATE film SET rate = rate + 1 WHERE film_id IN (SELECT film_id FROM gone) RETURNING film_id) SELECT count(*) FROM seen;
CREATE VIEW active_customer AS SELECT customer_id, first_name, active FROM customer WHERE active;
UPDATE active_customer SET first_name = 'V' || first_name WHERE customer_id < 5;
SELECT customer_id, first_name, active, last_update > '2023-01-01' FROM customer ORDER BY 1;
SELECT film_id, title, rate, fulltext, last_update > '2023-01-01' FROM film ORDER BY 1;
-- params: 2 | nick
UPDATE actor SET first_name = $2 WHERE actor_id = $1;
-- params: 7.77 | ACE
UPDATE film SET rate = $1::numeric WHERE title ILIKE $2 || '%' RETURNING film_id, rate;
SELECT actor_id, first_name, last_name FROM actor ORDER BY 1;
-- Switched off, switched on.
ALTER TABLE actor DISABLE TRIGGER last_updated;
UPDATE actor SET last_update = '2000-01-01 00:00:00+00' WHERE actor_id = 3;
SELECT actor_id, last_update < '2001-01-01' FROM actor ORDER BY 1;
ALTER TABLE actor ENABLE TRIGGER last_updated;
UPDATE actor SET last_update = '2000-01-01 00:00:00+00' WHERE actor_id = 3;
SELECT actor_id, last_update < '2001-01-01' FROM actor ORDER BY 1;
ALTER TABLE actor DISABLE TRIGGER ALL;
UPDATE actor SET last_update = '2000-01-01 00:00:00+00' WHERE actor_id = 2;
ALTER TABLE actor ENABLE TRIGGER ALL;
SELECT actor_id, last_update < '2001-01-01' FROM actor ORDER BY 1;
SELECT tgname, tgrelid::regclass, tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY 2, 1;
DROP TRIGGER last_updated ON actor;
UPDATE actor SET last_update = '2000-01-01 00:00:00+00';
SELECT actor_id, last_update < '2001-01-01' FROM actor ORDER BY 1;
-- What tells of rows is not switched off with the user's triggers; rows in another order of settings.
CREATE TABLE told (id int PRIMARY KEY, v int) /*dist: replication*/;
INSERT INTO told SELECT i, i FROM generate_series(1, 4) i;
ALTER TABLE told DISABLE TRIGGER USER;
UPDATE told SET v = (SELECT 20);
DELETE FROM told WHERE id = (SELECT min(id) FROM told);
MERGE INTO told USING (SELECT 3 AS id) s ON s.id = told.id WHEN MATCHED THEN UPDATE SET v = (SELECT 21);
ALTER TABLE told DISABLE TRIGGER ALL;
UPDATE told SET v = v + (SELECT 1);
ALTER TABLE told ENABLE TRIGGER USER;
UPDATE told SET v = v + (SELECT 1) RETURNING *;
ALTER TABLE told ENABLE TRIGGER ALL;
UPDATE told SET v = v + (SELECT 1);
CREATE TABLE told_parts (id int, v int) PARTITION BY LIST (id) /*dist: replication*/;
CREATE TABLE told_one PARTITION OF told_parts FOR VALUES IN (1);
CREATE TABLE told_two PARTITION OF told_parts FOR VALUES IN (2);
INSERT INTO told_parts VALUES (1, 1), (2, 2);
ALTER TABLE told_one DISABLE TRIGGER USER;
UPDATE told_parts SET v = (SELECT 5);
ALTER TABLE told_parts DISABLE TRIGGER ALL;
UPDATE told_parts SET v = v + (SELECT 5);
CREATE FUNCTION as_replica(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('session_replication_role', 'replica', true); RETURN x + 1; END $$;
UPDATE told SET v = as_replica(v);
CREATE FUNCTION be_replica() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('session_replication_role', 'replica', true); RETURN NEW; END $$;
CREATE TRIGGER be_replica BEFORE UPDATE ON told FOR EACH ROW EXECUTE FUNCTION be_replica();
UPDATE told SET v = v + 1;
SELECT * FROM told ORDER BY id;
SELECT * FROM told_parts ORDER BY id;
DROP TABLE told, told_parts;
DROP FUNCTION as_replica, be_replica;
-- What tells of rows cannot be hushed by the statement itself.
CREATE TABLE hushed (id int PRIMARY KEY, v int) /*dist: replication*/;
INSERT INTO hushed SELECT i, i FROM generate_series(1, 4) i;
-- refused
UPDATE hushed SET v = v + 10 WHERE set_config('loxo.tell_rows', '', true) IS NOT NULL;
CREATE FUNCTION hush(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('loxo.tell_rows', CASE WHEN n = 2 THEN '' ELSE 'on' END, true); RETURN n + 1; END $$;
-- refused
UPDATE hushed SET v = hush(v);
-- refused
DELETE FROM hushed WHERE hush(v) > 0;
UPDATE hushed SET v = v + (SELECT 1) WHERE id > 1;
DROP TABLE hushed;
DROP FUNCTION hush;
