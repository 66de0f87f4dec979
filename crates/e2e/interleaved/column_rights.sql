-- Roles with rights on some columns insert beside each other, and beside the owner: nobody waits before anybody's end.
CREATE ROLE e2e_clerk;
DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO e2e_clerk', current_schema()); END $$;
CREATE TABLE one (id int, name text, n serial) /*dist: hash(id) | roundrobin*/;
CREATE TABLE two (id int PRIMARY KEY, name text DEFAULT 'none', n serial) /*dist: hash(id)*/;
CREATE TABLE parts (id int, name text, n serial) PARTITION BY LIST (id) /*dist: hash(id)*/;
CREATE TABLE part PARTITION OF parts DEFAULT;
CREATE TABLE source (no int) /*dist: hash(no) | replication*/;
INSERT INTO source SELECT generate_series(1, 6);
GRANT INSERT (id, name), SELECT (id, name) ON one, two, parts TO e2e_clerk;
GRANT UPDATE (name) ON two TO e2e_clerk;
GRANT USAGE ON one_n_seq, two_n_seq, parts_n_seq TO e2e_clerk;
GRANT SELECT ON source TO e2e_clerk;

-- @a
SET ROLE e2e_clerk;
BEGIN;
INSERT INTO one (id, name) SELECT no, 'a' FROM source;
INSERT INTO two (id) SELECT no FROM source RETURNING id, name;
INSERT INTO parts (id, name) VALUES (1, 'a'), (2, 'a');
-- @b
SET ROLE e2e_clerk;
INSERT INTO one (id, name) VALUES (7, 'b');
INSERT INTO one (id, name) VALUES (8, 'b'), (9, 'b') RETURNING name AS called, one.id + 1;
INSERT INTO two (id) VALUES (11), (12) ON CONFLICT (id) DO UPDATE SET name = excluded.name || two.name RETURNING id, upper(name);
INSERT INTO parts (id, name) SELECT no, 'b' FROM source;
INSERT INTO one (id, name, n) VALUES (1, 'b', 1), (2, 'b', 2);
INSERT INTO two (id) VALUES (13), (14) RETURNING n;
INSERT INTO two (id) SELECT 30 + no FROM source WHERE no < 3 ON CONFLICT ON CONSTRAINT two_pkey DO NOTHING;
-- @c
ANALYZE one, two, parts;
GRANT SELECT (n) ON one TO e2e_clerk;
REVOKE SELECT (n) ON one FROM e2e_clerk;
INSERT INTO two (id) VALUES (15), (16) RETURNING name, two.n IS NULL;
-- @a
INSERT INTO two (id) VALUES (17), (12) ON CONFLICT (id) DO UPDATE SET name = 'met' WHERE two.id > 0 RETURNING *;
INSERT INTO two (id) VALUES (17), (18) ON CONFLICT DO NOTHING;
-- @a
ROLLBACK;
BEGIN;
INSERT INTO two (id) VALUES (17), (12) ON CONFLICT (id) DO UPDATE SET name = 'met' WHERE two.id > 0 RETURNING id, name;
-- @b
BEGIN;
INSERT INTO one (id, name) SELECT no, 'b' FROM source;
INSERT INTO two (id) VALUES (19), (20);
-- @a
INSERT INTO one (id, name) SELECT no, 'a' FROM source;
COMMIT;
-- @b
COMMIT;
-- @c
SELECT id, name FROM one ORDER BY 1, 2;
SELECT id, name FROM two ORDER BY 1;
SELECT id, name FROM parts ORDER BY 1, 2;
SELECT relacl IS NOT NULL, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND attacl IS NOT NULL) FROM pg_class c WHERE relname IN ('one', 'two', 'parts') ORDER BY 2;
