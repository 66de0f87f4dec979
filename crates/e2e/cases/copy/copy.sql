-- COPY in and out, every format and option.
CREATE TABLE t (k int, v text, n numeric, d date) /*dist: hash(k) | hash(v) | replication | roundrobin*/;
COPY t FROM STDIN;
1	one	1.50	2020-01-01
2	two	\N	2020-02-02
3	\N	3	\N
4	tab\there	4	infinity
5	back\\slash	5	2021-12-31
6		6	2021-12-31
7	line\nbreak	7	2021-12-31
\N	null key	8	\N
\.
SELECT * FROM t ORDER BY k;
COPY t (v, k) FROM STDIN;
partial	10
columns	11
\.
COPY t FROM STDIN (FORMAT csv);
20,plain,1.5,2020-01-01
21,"quoted, comma",2,2020-01-01
22,"a ""quote""",3,2020-01-01
23,"two
lines",4,2020-01-01
24,,5,
25,"",6,2020-01-01
 26,leading blank,7,2020-01-01
\.
SELECT k, v, v IS NULL, n, d FROM t WHERE k BETWEEN 20 AND 29 ORDER BY k;
COPY t FROM STDIN (FORMAT csv, HEADER, DELIMITER ';', NULL 'NULL', QUOTE '''');
k;v;n;d
30;'semi;colon';1;NULL
31;NULL;2;NULL
\.
COPY t FROM STDIN WITH CSV HEADER;
k,v,n,d
32,old syntax,1,
\.
COPY t FROM STDIN (DELIMITER '|', NULL '');
33|pipe||
34||1|2020-01-01
\.
COPY t FROM STDIN (FORMAT csv, HEADER match);
k,v,n,d
35,match,1,
\.
COPY t FROM STDIN (FORMAT csv, HEADER match);
k,v,d,n
36,no match,1,
\.
COPY t FROM STDIN (FORMAT csv, FORCE_NULL (v), FORCE_NOT_NULL (v));
37,"",1,
38,,1,
\.
COPY t FROM STDIN (FORMAT csv, FORCE_NULL (v));
39,"",1,
\.
COPY t FROM STDIN (FORMAT csv, FORCE_NOT_NULL (v));
40,,1,
\.
COPY t FROM STDIN (FORMAT csv, ESCAPE '\', QUOTE '"');
41,"esc \" aped",1,
\.
SELECT k, v, v IS NULL AS null FROM t WHERE k >= 30 ORDER BY k;
COPY t FROM STDIN;
\.
COPY t FROM STDIN WHERE k < 52;
50	a	1	\N
51	b	1	\N
52	c	1	\N
\.
SELECT k FROM t WHERE k >= 50 ORDER BY k;
COPY t FROM STDIN;
60	x	1	2020-01-01
61	y	bad	2020-01-01
\.
COPY t FROM STDIN;
60	x	1	2020-01-01
61	y	1	not a date
\.
COPY t FROM STDIN;
60	x	1
\.
COPY t FROM STDIN;
60	x	1	2020-01-01	extra
\.
COPY t FROM STDIN;
abc	x	1	2020-01-01
\.
COPY t FROM STDIN (FORMAT csv);
60,"a"b,c",1,2020-01-01
\.
COPY t FROM STDIN (FORMAT csv);
60,"never closed,1,2020-01-01
61,x,1,2020-01-01
\.
COPY t FROM STDIN (FORMAT csv, DELIMITER 'xy');
\.
COPY t FROM STDIN (FORMAT csv, QUOTE 'xy');
\.
COPY t FROM STDIN (FORMAT text, QUOTE '"');
\.
COPY t FROM STDIN (NOSUCH true);
\.
COPY t FROM STDIN (FORMAT csv, FORMAT csv);
\.
COPY t FROM STDIN (FORCE_NULL (nope), FORMAT csv);
\.
COPY t (k, k) FROM STDIN;
\.
COPY t (nope) FROM STDIN;
\.
SELECT count(*) FROM t WHERE k >= 60;
COPY t TO STDOUT;
COPY t (k, v) TO STDOUT;
COPY t TO STDOUT (FORMAT csv, HEADER);
COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE *, NULL 'nil', DELIMITER ';');
COPY (SELECT k, v FROM t WHERE k < 8 ORDER BY k) TO STDOUT;
COPY (SELECT count(*), max(k) FROM t) TO STDOUT (FORMAT csv, HEADER);
COPY (SELECT v, count(*) FROM t GROUP BY v ORDER BY v) TO STDOUT (FORMAT csv);
COPY (VALUES (1, 'x'), (2, NULL)) TO STDOUT;
COPY (SELECT nope FROM t) TO STDOUT;
COPY (INSERT INTO t VALUES (70, 'ret', 1, NULL) RETURNING k, v) TO STDOUT;
COPY t TO STDOUT (FORMAT csv, HEADER match);
BEGIN;
COPY t FROM STDIN;
80	in block	1	\N
\.
SELECT count(*) FROM t WHERE k = 80;
ROLLBACK;
SELECT count(*) FROM t WHERE k = 80;
BEGIN;
COPY t FROM STDIN;
81	fails	x	\N
\.
SELECT 1;
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (82, 'before', 1, NULL);
SAVEPOINT s;
COPY t FROM STDIN;
83	fails	x	\N
\.
ROLLBACK TO s;
COPY t FROM STDIN;
84	works	1	\N
\.
COMMIT;
SELECT k, v FROM t WHERE k > 80 ORDER BY k;
CREATE TABLE keyed (k bigint PRIMARY KEY, v text DEFAULT 'dflt', s serial) /*dist: hash(k) | replication*/;
COPY keyed (k) FROM STDIN;
1
2
3
\.
SELECT k, v FROM keyed ORDER BY k;
SELECT count(DISTINCT s) FROM keyed;
COPY keyed (k, v) FROM STDIN;
4	x
4	y
\.
COPY keyed (k, v) FROM STDIN;
\N	x
\.
SELECT count(*) FROM keyed;
CREATE TABLE gen (k int, twice int GENERATED ALWAYS AS (k * 2) STORED) /*dist: hash(k) | replication | roundrobin*/;
COPY gen FROM STDIN;
1
2
\.
COPY gen (k, twice) FROM STDIN;
\.
SELECT * FROM gen ORDER BY k;
COPY gen TO STDOUT;
CREATE VIEW vw AS SELECT k FROM t;
COPY vw FROM STDIN;
\.
COPY vw TO STDOUT;
COPY (SELECT * FROM vw WHERE k < 5 ORDER BY k) TO STDOUT;
-- Conditions that a datanode finds broken: CONTEXT quotes the row, though it got there in another form.
CREATE TABLE checked (k int, v text NOT NULL, n int CHECK (n > 0), half int GENERATED ALWAYS AS (100 / n) STORED) /*dist: hash(k) | replication | roundrobin*/;
COPY checked FROM STDIN;
60	\N	1
\.
COPY checked FROM STDIN (FORMAT csv, HEADER);
k,v,n
1,"two
lines",5
2,"a row of more than one hundred bytes: äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü",-5
3,x,1
\.
COPY checked FROM STDIN;
1	a	1
2	division	0
3	b	-1
\.
COPY checked (v, k) FROM STDIN (FORMAT csv);
a,1
,2
\.
COPY checked FROM STDIN WHERE k < 3;
1	a	1
3	\N	1
2	\N	1
\.
SELECT * FROM checked ORDER BY k;
COPY t FROM '/nonexistent/file';
COPY t FROM '/tmp';
COPY t FROM 'relative';
COPY t TO 'relative';
COPY t TO '/tmp';
COPY t TO '/nonexistent/file';
COPY t TO STDOUT (ON_ERROR ignore);
COPY t FROM STDIN (FORMAT csv, FORCE_NULL (k, k));
\.
COPY t (k, k) FROM STDIN;
\.
COPY t (k) FROM STDIN (FORMAT csv, FORCE_NOT_NULL (v));
\.
COPY t FROM STDIN (HEADER '1');
\.
COPY t FROM STDIN (HEADER 2);
\.
COPY t FROM STDIN (HEADER 1);
k	v
\.
COPY t FROM STDIN (FREEZE);
1	frozen	1	\N
\.
BEGIN;
TRUNCATE t;
COPY t FROM STDIN (FREEZE);
1	frozen	1	\N
2	frozen	2	\N
\.
SELECT k, v FROM t ORDER BY k;
ROLLBACK;
SELECT count(*) FROM t WHERE v = 'frozen';
SELECT 'an identity column, and a default that is asked for each row';
CREATE TABLE made (id int GENERATED BY DEFAULT AS IDENTITY, k int, at text DEFAULT 'now', r float8 DEFAULT random()) /*dist: hash(k) | replication | roundrobin*/;
COPY made (k) FROM STDIN;
1
2
\.
COPY made (k, at) FROM STDIN (FORMAT csv, NULL 'none');
3,here
none,none
\.
SELECT id, k, at, r BETWEEN 0 AND 1 AS made FROM made ORDER BY id;
COPY made (k) FROM STDIN;
x
\.
COPY made (k, k) FROM STDIN;
\.
COPY made FROM STDIN (FORMAT csv, HEADER match);
id,k,at,r
7,8,x,0.5
\.
COPY made (id, k, at) TO STDOUT (FORMAT csv, HEADER);
CREATE TABLE parted (k int, v text) PARTITION BY LIST (v) /*dist: hash(k) | replication*/;
CREATE TABLE parted_a PARTITION OF parted FOR VALUES IN ('a');
CREATE TABLE parted_b PARTITION OF parted FOR VALUES IN ('b');
COPY parted FROM STDIN;
1	a
2	b
3	a
\.
COPY parted FROM STDIN;
4	a
5	none
\.
COPY parted TO STDOUT;
COPY parted_a TO STDOUT;
COPY (SELECT * FROM parted ORDER BY k) TO STDOUT;
SELECT tableoid::regclass::text, k, v FROM parted ORDER BY k;

-- Tables that only this session has.
CREATE TEMP TABLE own (a int, b text DEFAULT 'none', c int GENERATED ALWAYS AS (a * 2) STORED);
COPY own (a, b) FROM STDIN;
1	one
2	\N
\.
COPY own FROM STDIN (FORMAT csv, HEADER);
a,b
3,"three, and more"
\.
COPY own (a) FROM STDIN WHERE a > 10;
4
11
\.
COPY own FROM STDIN;
5	five
x	six
\.
COPY own FROM '/nonexistent/file';
BEGIN;
COPY own (a) FROM STDIN;
20
\.
INSERT INTO t (k) SELECT a FROM own WHERE a = 20;
ROLLBACK;
SELECT * FROM own ORDER BY a;
COPY own TO STDOUT;
DROP TABLE own;
-- What triggers say names the input's lines, in their order.
CREATE TABLE spoken (k int, v text) /*dist: hash(k) | replication | roundrobin*/;
CREATE FUNCTION speak() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''row %'', NEW.k; RETURN NEW; END';
CREATE TRIGGER speak BEFORE INSERT ON spoken FOR EACH ROW EXECUTE FUNCTION speak();
COPY spoken FROM STDIN (FORMAT csv);
1,a
2,"b
c"
3,d
4,e
5,f
6,g
\.
SELECT k, v FROM spoken ORDER BY k;
-- A domain as the key, COPYed and found again; a table that the home node has no rows of.
CREATE DOMAIN short AS varchar(3) CHECK (VALUE <> '');
CREATE TABLE by_domain (s short, k int) /*dist: hash(s) | replication | roundrobin*/;
COPY by_domain FROM STDIN;
a	1
abc	2
ab 	3
\N	4
\.
COPY by_domain FROM STDIN;
abcd	5
\.
SELECT * FROM by_domain WHERE s = 'abc';
SELECT * FROM by_domain ORDER BY k;
-- Documents, right and wrong; the first wrong value of a row is the one to report.
CREATE TABLE docs (k int, j jsonb, d date, i json, s smallint) /*dist: hash(k)*/;
COPY docs FROM STDIN (FORMAT csv, FORCE_NOT_NULL (s));
1,"{""a"": [1, 2, ""x""], ""b"":   null}",2020-01-01," {""b"":  1} ",1
2,"""text""",,"""""",2
3,7,2020-01-01,[],3
\.
COPY docs FROM STDIN;
4	{"a": "say \\"hi\\""}	2020-01-01	{"\\u00e9": 1}	4
5	\N	\N	\N	\N
\.
SELECT k, j, d, i, s FROM docs ORDER BY k;
COPY docs FROM STDIN (FORMAT csv);
6,{},2020-01-01,{},1
7,{},2020-01-01,"{""a"": bad}",1
8,{bad,2020-01-01,{},1
\.
COPY docs FROM STDIN (FORMAT csv);
9,"{""a"":",2020-13-01,{},1
\.
COPY docs FROM STDIN (FORMAT csv);
10,{},2020-13-01,{bad,1
\.
COPY docs FROM STDIN;
11	{"a"	2020-01-01	{}
\.
COPY docs FROM STDIN;
12	{}	2020-01-01	{}	1
13	{"a" 1}	2020-01-01	{}	x
\.
SELECT count(*) FROM docs;
