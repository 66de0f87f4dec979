-- Roles and privileges. Roles are global, so the file drops what it makes.
CREATE ROLE e2e_reader;
CREATE ROLE e2e_reader;
CREATE TABLE t (k int, v text) /*dist: hash(k) | replication*/;
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT has_table_privilege('e2e_reader', 't', 'SELECT');
GRANT SELECT ON t TO e2e_reader;
SELECT has_table_privilege('e2e_reader', 't', 'SELECT'), has_table_privilege('e2e_reader', 't', 'INSERT');
REVOKE SELECT ON t FROM e2e_reader;
SELECT has_table_privilege('e2e_reader', 't', 'SELECT');
GRANT INSERT, UPDATE (v) ON t TO e2e_reader;
SELECT has_column_privilege('e2e_reader', 't', 'v', 'UPDATE'), has_column_privilege('e2e_reader', 't', 'k', 'UPDATE');
ALTER ROLE e2e_reader NOLOGIN;
DROP ROLE e2e_reader;
DROP OWNED BY e2e_reader;
DROP ROLE e2e_reader;
DROP ROLE e2e_reader;
DROP ROLE IF EXISTS e2e_reader;


-- Who a session is, on every node: another user begins without a role, and RESET ALL changes neither.
CREATE ROLE e2e_user;
CREATE ROLE e2e_role;
GRANT e2e_role TO e2e_user;
GRANT SELECT ON t TO e2e_role;
SET SESSION AUTHORIZATION e2e_user;
SELECT count(*) FROM t;
SET ROLE e2e_role;
SELECT session_user, current_user, count(*) FROM t;
RESET SESSION AUTHORIZATION;
INSERT INTO t SELECT g, 'c' FROM generate_series(3, 30) g;
SET ROLE e2e_role;
RESET ALL;
SELECT current_user, count(*) FROM t;
UPDATE t SET v = 'd';
UPDATE t SET v = 'd' WHERE k = 1;
UPDATE t SET v = 'd' WHERE k = 2;
UPDATE t SET v = 'd' WHERE k = 3;
RESET ROLE;
UPDATE t SET v = 'd';
SET ROLE e2e_role;
SET SESSION AUTHORIZATION DEFAULT;
UPDATE t SET v = 'e';
DROP OWNED BY e2e_role;
DROP ROLE e2e_user, e2e_role;

-- Policies that read a table, which becomes replicated for them.
CREATE ROLE e2e_ann;
CREATE ROLE e2e_bob;
CREATE TABLE docs (id int, team text, body text) /*dist: hash(id) | replication*/;
CREATE TABLE members (team text, who text) /*dist: default*/;
INSERT INTO members VALUES ('red', 'e2e_ann'), ('blue', 'e2e_ann'), ('blue', 'e2e_bob');
INSERT INTO docs SELECT g, CASE g % 3 WHEN 0 THEN 'red' WHEN 1 THEN 'blue' ELSE 'green' END, 'd' || g FROM generate_series(1, 30) g;
CREATE POLICY by_team ON docs USING (team IN (SELECT team FROM members WHERE who = current_user))
    WITH CHECK (EXISTS (SELECT FROM members m WHERE m.team = docs.team AND m.who = current_user));
-- refused
CREATE POLICY own ON docs USING (id < (SELECT max(id) FROM docs));
ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
GRANT ALL ON docs TO e2e_ann, e2e_bob;
GRANT SELECT, DELETE ON members TO e2e_ann, e2e_bob;
SET ROLE e2e_bob;
SELECT count(*), sum(id), min(team) FROM docs;
SELECT * FROM docs WHERE id = 3;
INSERT INTO docs VALUES (40, 'blue', 'new') RETURNING *;
INSERT INTO docs VALUES (41, 'red', 'not his');
UPDATE docs SET body = 'b' WHERE id < 8 RETURNING id, team;
UPDATE docs SET team = 'red' WHERE id = 4;
DELETE FROM docs WHERE id BETWEEN 10 AND 16 RETURNING id;
SET ROLE e2e_ann;
SELECT team, count(*) FROM docs GROUP BY team;
SELECT count(*) FROM docs a JOIN docs b ON a.team = b.team;
BEGIN;
DELETE FROM members WHERE team = 'blue';
SELECT team, count(*) FROM docs GROUP BY team;
SELECT count(*) FROM docs a JOIN docs b ON a.team = b.team AND a.body <> b.body;
ROLLBACK;
SELECT count(*) FROM docs;
RESET ROLE;
SELECT count(*) FROM docs;
DROP POLICY by_team ON docs;
DROP OWNED BY e2e_ann, e2e_bob;
DROP ROLE e2e_ann, e2e_bob;
