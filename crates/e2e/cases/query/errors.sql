-- Every error has PostgreSQL's own code, message, detail and hint.
CREATE TABLE t (k int PRIMARY KEY, v text NOT NULL, n int CHECK (n < 100)) /*dist: hash(k) | replication*/;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 50) g;
SELEC 1;
SELECT * FORM t;
SELECT FROM WHERE;
SELECT 'a semicolon; and
a newline';
SELECT * FROM t WHERE;
SELECT (1;
SELECT "no such; column" FROM t;
SELECT 1 +;
SELECT * FROM nosuch;
SELECT * FROM nosuch.t;
SELECT nope FROM t;
SELECT t.nope FROM t;
SELECT vv FROM t;
SELECT x.k FROM t;
SELECT nofunction(k) FROM t;
SELECT upper(k) FROM t;
SELECT k + v FROM t;
SELECT k || 1 FROM t WHERE k = 1;
SELECT v > 1 FROM t;
SELECT k FROM t WHERE v;
SELECT k FROM t WHERE k = 'abc';
SELECT 1/0;
SELECT k / 0 FROM t;
SELECT k / (k - 25) FROM t;
SELECT 10 / n FROM t WHERE n > 0 AND k < 3 ORDER BY k;
SELECT sqrt(-1), ln(0);
SELECT ln(0);
SELECT 'abc'::date;
SELECT '2020-13-13'::date;
SELECT 300::smallint * 300::smallint;
SELECT 9223372036854775807 + 1;
SELECT 1e1000::float8;
SELECT v::int FROM t WHERE k = 3;
SELECT sum(v::int) FROM t WHERE k = 4;
SELECT chr(0);
SELECT repeat('x', -1), substr('abc', 1, -1);
SELECT ARRAY[1, 'x'];
SELECT (ARRAY[1, 2])[1][1], (ARRAY[1, 2])[5];
SELECT '{1,2'::int[];
SELECT NULL::nosuchtype;
SELECT CASE WHEN k THEN 1 END FROM t;
SELECT coalesce(1, 'x');
SELECT k FROM t GROUP BY v;
SELECT k, count(*) FROM t;
SELECT k FROM t HAVING k > 1;
SELECT k FROM t LIMIT 'x';
SELECT k FROM t, t;
SELECT k FROM t a, t b;
SELECT DISTINCT ON (k) v FROM t ORDER BY v;
SELECT generate_series(1, 3) FROM t WHERE generate_series(1, 3) > 1;
INSERT INTO t VALUES (1, 'dup', 1);
INSERT INTO t VALUES (100, NULL, 1);
INSERT INTO t VALUES (100, 'x', 100);
INSERT INTO t VALUES (100, 'x', 1), (101, 'x', 1), (100, 'x', 1);
INSERT INTO t (k) VALUES (100);
INSERT INTO t VALUES (1, 2);
INSERT INTO t SELECT 1, 'x', 1 FROM t;
INSERT INTO t SELECT k + 500 FROM t WHERE k = 1;
UPDATE t SET n = 200 WHERE k = 5;
UPDATE t SET v = NULL WHERE k = 5;
UPDATE t SET n = n / 0 WHERE k = 6;
UPDATE t SET v = 'a', v = 'b';
UPDATE t SET k = k.x;
DELETE FROM t WHERE k = 'x';
DELETE FROM nosuch;
SELECT count(*), sum(n) FROM t;
CREATE TABLE t (a int);
CREATE TABLE x (a int, b int, a int);
CREATE TABLE x (a int) INHERITS (nosuch);
CREATE INDEX ON t (nope);
CREATE INDEX ON nosuch (a);
CREATE VIEW bad AS SELECT nope FROM t;
DROP TABLE nosuch;
DROP VIEW t;
DROP INDEX t;
DROP INDEX t_pkey;
ALTER TABLE t ADD COLUMN k int;
ALTER TABLE t ALTER COLUMN v TYPE int;
ALTER TABLE t ALTER COLUMN nope SET NOT NULL;
ALTER TABLE t ADD CONSTRAINT dup CHECK (n < 10);
CREATE FUNCTION bad() RETURNS int LANGUAGE sql AS 'SELECT ''x''';
CREATE FUNCTION bad() RETURNS int LANGUAGE nosuch AS '';
COPY nosuch FROM STDIN;
COPY t (nope) FROM STDIN;
COPY t FROM STDIN (FORMAT nosuch);
COPY t FROM STDIN WITH (DELIMITER 'ab');
COPY t FROM STDIN;
60	x	1
61	too	few	cols	here
\.
COPY t FROM STDIN;
60	x	abc
\.
COPY t FROM STDIN;
60	\N	1
\.
COPY t FROM STDIN;
60	x
\.
COPY t FROM STDIN;
60	x	1
1	dup	1
\.
COPY t FROM STDIN (FORMAT csv);
60,"unterminated,1
\.
SELECT count(*) FROM t;
GRANT SELECT ON nosuch TO PUBLIC;
GRANT SELECT ON t TO nosuchrole;
SET ROLE nosuchrole;
EXECUTE nosuch;
FETCH nosuch;
CLOSE nosuch;
LISTEN;
EXPLAIN SELECT nope FROM t;
-- params: x
SELECT * FROM t WHERE k = $1;
-- params: 1
SELECT $1::int / 0;
SELECT $1;
SELECT count(*), sum(n) FROM t;
