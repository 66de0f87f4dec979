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
