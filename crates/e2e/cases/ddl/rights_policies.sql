-- Changes through a view are under the policies that are for its owner, not for whoever makes them.
CREATE SCHEMA e2e_policies;
SET search_path = e2e_policies;
CREATE ROLE e2e_rp_own;
CREATE ROLE e2e_rp_low;
GRANT ALL ON SCHEMA e2e_policies TO e2e_rp_own, e2e_rp_low;
CREATE TABLE r(id int, v text) /*dist: hash(id) | replication | roundrobin | replication*/;
CREATE TABLE src(k int) /*dist: hash(k) | replication | roundrobin | hash(k)*/;
INSERT INTO src VALUES (1), (2), (3);
ALTER TABLE r OWNER TO e2e_rp_own;
ALTER TABLE r ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY po ON r TO e2e_rp_own USING (id < 6);
CREATE POLICY p ON r TO e2e_rp_low USING (id > 3);
CREATE VIEW vr AS SELECT v AS w, id AS i FROM r;
ALTER VIEW vr OWNER TO e2e_rp_own;
CREATE VIEW above AS SELECT i, w FROM vr;
ALTER VIEW above OWNER TO e2e_rp_low;
GRANT INSERT ON vr TO e2e_rp_low;
GRANT SELECT ON src TO e2e_rp_low;
SET SESSION AUTHORIZATION e2e_rp_low;
INSERT INTO vr (i, w) SELECT 11, 'y';
INSERT INTO vr (i, w) SELECT 1, 'y';
INSERT INTO vr (i, w) SELECT k + 10, 'y' FROM src;
INSERT INTO vr (i, w) SELECT k, 'y' FROM src;
INSERT INTO vr (i, w) VALUES ((SELECT count(*) FROM src) + 20, 'z');
-- refused: v2
INSERT INTO vr (i, w) VALUES ((SELECT count(*) FROM src), 'z');
INSERT INTO above SELECT k + 10, 'o' FROM src;
INSERT INTO above SELECT k, 'o' FROM src;
INSERT INTO vr (i, w) VALUES (12, 'c');
-- refused: v2 | v4
INSERT INTO vr (i, w) VALUES (4, 'c');
WITH made AS (SELECT k + 1 AS k FROM src) INSERT INTO vr (i, w) SELECT k, 'w' FROM made;
RESET SESSION AUTHORIZATION;
SELECT id, v FROM r ORDER BY id, v;
DROP TABLE r CASCADE;

-- A view that does not show all that its table has: the rows are made by one node, and no name of the view's takes them.
CREATE TABLE r(id int, v text) /*dist: hash(id)*/;
ALTER TABLE r OWNER TO e2e_rp_own;
ALTER TABLE r ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON r TO e2e_rp_low USING (id > 3);
CREATE VIEW vr AS SELECT id FROM r;
ALTER VIEW vr OWNER TO e2e_rp_own;
GRANT INSERT ON vr, r TO e2e_rp_low;
SET SESSION AUTHORIZATION e2e_rp_low;
INSERT INTO vr SELECT k * 2 - 1 FROM src WHERE k = (SELECT 1);
INSERT INTO vr VALUES (2);
RESET SESSION AUTHORIZATION;
SELECT id, v FROM r ORDER BY id;
DROP TABLE r CASCADE;

-- Copies get the rows that the first one has made, whose policies are asked there.
CREATE TABLE r(id int PRIMARY KEY, own name, v text) /*dist: replication*/;
INSERT INTO r VALUES (1, 'e2e_rp_own', 'a'), (2, 'e2e_rp_low', 'a'), (3, 'e2e_rp_own', 'a'), (4, 'e2e_rp_low', 'a');
ALTER TABLE r OWNER TO e2e_rp_own;
ALTER TABLE r ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON r USING (own = current_user);
CREATE VIEW vr AS SELECT * FROM r;
ALTER VIEW vr OWNER TO e2e_rp_own;
GRANT ALL ON r, vr TO e2e_rp_low;
SET SESSION AUTHORIZATION e2e_rp_low;
UPDATE vr SET v = 'b' WHERE own = 'e2e_rp_own';
DELETE FROM vr WHERE id = 1;
INSERT INTO vr VALUES (10, 'e2e_rp_own', 'x');
UPDATE vr SET own = 'e2e_rp_own' WHERE id = 4;
UPDATE r SET v = 'c' || length(current_user::text);
SELECT * FROM r ORDER BY id;
SELECT * FROM vr ORDER BY id;
RESET SESSION AUTHORIZATION;
-- Under policies for the owner too no view of his shows the other copies' rows.
ALTER TABLE r FORCE ROW LEVEL SECURITY;
CREATE POLICY all_of_his ON r TO e2e_rp_own USING (true);
DROP POLICY p ON r;
CREATE POLICY p ON r TO e2e_rp_low USING (id > 3);
SET SESSION AUTHORIZATION e2e_rp_low;
UPDATE r SET v = 'd' || length(current_user::text) WHERE id = 10;
-- refused
UPDATE vr SET v = 'e' WHERE id = 3;
-- refused
DELETE FROM vr WHERE id = 3;
-- refused
INSERT INTO vr VALUES (0, 'e2e_rp_low', 'x');
UPDATE vr SET v = 'f' WHERE id = 4;
RESET SESSION AUTHORIZATION;
SELECT * FROM r ORDER BY id;
DROP SCHEMA e2e_policies CASCADE;
DROP ROLE e2e_rp_own, e2e_rp_low;
