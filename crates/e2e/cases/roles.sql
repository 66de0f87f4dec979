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
