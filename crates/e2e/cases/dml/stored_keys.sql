-- A row lies where its key says as it is stored: rounded, padded, cut by an assignment; not as it was given.
CREATE TABLE src (id int, n numeric, x float8, s text, v varchar(8), w varchar(3), c char(4), t timestamp, tz timestamptz, ti time, i interval, d date)
  /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO src SELECT g, g * 0.0031, g * 0.0031, repeat('x', g % 3) || ' ', 'v' || g || '   ', 'w' || g % 3, 'c' || g % 3,
  timestamp '2020-01-01 00:00:00' + g * interval '0.3 s', timestamptz '2020-01-01 00:00:00+00' + g * interval '0.3 s',
  time '01:00' + g * interval '0.3 s', g * interval '0.3 s', date '2020-01-01' + g FROM generate_series(1, 24) g;

-- numeric
CREATE TABLE kn (n numeric(10,2), id int) /*dist: hash(n)*/;
INSERT INTO kn SELECT n, id FROM src;
SELECT id FROM kn WHERE n = 0.01 ORDER BY id;
SELECT id FROM kn WHERE n = 0.03 ORDER BY id;
INSERT INTO kn SELECT n + 1, id FROM src WHERE id < 9;
INSERT INTO kn SELECT x, id FROM src WHERE id > 20;
INSERT INTO kn SELECT sum(n), max(id) FROM src GROUP BY id % 4;
INSERT INTO kn SELECT a.n, b.id FROM src a JOIN src b ON a.id = b.id + 1 WHERE a.id < 6;
SELECT n, count(*) FROM kn GROUP BY n ORDER BY n;
SELECT id FROM kn WHERE n = 1.01 ORDER BY id;
SELECT id FROM kn WHERE n = 0.07 ORDER BY id;
UPDATE kn SET n = n + 0.006 WHERE n = 0.01;
SELECT id FROM kn WHERE n = 0.02 ORDER BY id;
DELETE FROM kn WHERE n = 0.02 RETURNING id;
-- params: 0.014 | 100
INSERT INTO kn VALUES ($1, $2);
-- params: 0.011 | 101
INSERT INTO kn VALUES ($1::numeric, $2::int);
INSERT INTO kn VALUES (0.0149, 102), (0.009, 103), ('0.0051', 104), (1e-2, 105);
SELECT id FROM kn WHERE n = 0.01 ORDER BY id;
WITH moved AS (INSERT INTO kn SELECT n, id + 1000 FROM src WHERE id < 4 RETURNING n, id) SELECT * FROM moved ORDER BY id;
SELECT id FROM kn WHERE n = 0.01 ORDER BY id;
COPY kn FROM STDIN;
0.0123	200
0.00999	201
1e-2	202
\.
SELECT id FROM kn WHERE n = 0.01 ORDER BY id;
CREATE TABLE kn_unique (n numeric(10,2) PRIMARY KEY, id int) /*dist: hash(n)*/;
INSERT INTO kn_unique SELECT n, id FROM src WHERE id = 3;
INSERT INTO kn_unique SELECT n, id FROM src WHERE id IN (2, 4);
INSERT INTO kn_unique SELECT n, id FROM src ON CONFLICT DO NOTHING;
INSERT INTO kn_unique SELECT n + 0.001, id FROM src WHERE id > 5 ON CONFLICT (n) DO UPDATE SET id = kn_unique.id + 1000;
SELECT n, id % 1000 < 25 FROM kn_unique ORDER BY n;
MERGE INTO kn_unique k USING (SELECT n + 2 AS n, id FROM src WHERE id % 8 = 1) s ON k.n = s.n
  WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.n, s.id);
SELECT id FROM kn_unique WHERE n = 2.03;
SELECT n, id FROM kn_unique WHERE n > 2 ORDER BY n;
CREATE TABLE kn_made /*dist: hash(n)*/ AS SELECT id, n::numeric(10,2) FROM src;
SELECT id FROM kn_made WHERE n = 0.02 ORDER BY id;

-- texts
CREATE TABLE kv (v varchar(3), id int) /*dist: hash(v)*/;
INSERT INTO kv SELECT s || '  ', id FROM src;
INSERT INTO kv SELECT w, id FROM src;
INSERT INTO kv SELECT v, id FROM src WHERE id < 10;
INSERT INTO kv SELECT v, id FROM src;
INSERT INTO kv SELECT c, id FROM src;
INSERT INTO kv VALUES ('a', 1), ('a  ', 2), ('a    ', 3), ('abc  ', 4);
INSERT INTO kv VALUES ('abcd', 5);
SELECT id FROM kv WHERE v = 'v1 ' ORDER BY id;
SELECT id FROM kv WHERE v = 'w1' ORDER BY id;
SELECT id FROM kv WHERE v = 'x  ' ORDER BY id;
SELECT id FROM kv WHERE v = 'abc' ORDER BY id;
CREATE TABLE kc (c char(3), id int) /*dist: hash(c)*/;
INSERT INTO kc SELECT s, id FROM src;
INSERT INTO kc SELECT w, id FROM src;
INSERT INTO kc SELECT c, id FROM src;
INSERT INTO kc SELECT v::char(8), id FROM src;
SELECT id FROM kc WHERE c = 'w1' ORDER BY id;
SELECT id FROM kc WHERE c = 'x' ORDER BY id;
SELECT id FROM kc WHERE c = 'c2' ORDER BY id;

-- times
CREATE TABLE kt (t timestamp(0), id int) /*dist: hash(t)*/;
INSERT INTO kt SELECT t, id FROM src;
INSERT INTO kt SELECT t::timestamp(1), id FROM src;
INSERT INTO kt SELECT d, id FROM src;
INSERT INTO kt VALUES ('2020-01-01 00:00:00.9', 200), ('2020-01-01 00:00:01.1', 201);
SELECT id FROM kt WHERE t = '2020-01-01 00:00:01' ORDER BY id;
SELECT id FROM kt WHERE t = '2020-01-01 00:00:02' ORDER BY id;
CREATE TABLE kz (t timestamptz(0), id int) /*dist: hash(t)*/;
INSERT INTO kz SELECT tz, id FROM src;
SELECT id FROM kz WHERE t = '2020-01-01 00:00:02+00' ORDER BY id;
CREATE TABLE kti (t time(0), i interval(0), id int) /*dist: hash(t) | hash(i) | hash(t, i)*/;
INSERT INTO kti SELECT ti, i, id FROM src;
SELECT id FROM kti WHERE t = '01:00:01' ORDER BY id;
SELECT id FROM kti WHERE i = '2 seconds' ORDER BY id;
SELECT id FROM kti WHERE i = '2 seconds' AND t = '01:00:02' ORDER BY id;

-- domains: their modifiers and defaults are the columns'
CREATE DOMAIN amount AS numeric(10,2);
CREATE DOMAIN positive AS amount CHECK (VALUE > 0);
CREATE DOMAIN word AS varchar(3);
CREATE DOMAIN words AS word;
CREATE TABLE da (n positive PRIMARY KEY, id int) /*dist: hash(n)*/;
INSERT INTO da VALUES (4.00, 1);
INSERT INTO da VALUES (3.999, 2);
INSERT INTO da VALUES (3.9951, 3) ON CONFLICT (n) DO UPDATE SET id = 99 RETURNING *;
INSERT INTO da VALUES ('4.004', 4);
INSERT INTO da VALUES (-1, 5);
-- params: 4.001
INSERT INTO da VALUES ($1, 6);
INSERT INTO da SELECT n + 5, id FROM src WHERE id IN (1, 5, 9);
COPY da FROM STDIN;
6.0049	10
7.994	11
\.
INSERT INTO da VALUES (8.0001, 12), (7.9941, 13);
INSERT INTO da VALUES (7.992, 14) ON CONFLICT DO NOTHING;
SELECT id FROM da WHERE n = 4;
SELECT id FROM da WHERE n = 7.99;
SELECT id FROM da WHERE n = 8;
SELECT * FROM da ORDER BY n;
CREATE TABLE dw (w words, id int) /*dist: hash(w)*/;
INSERT INTO dw VALUES ('ab', 1), ('ab   ', 2), ('abc   ', 3);
INSERT INTO dw VALUES ('abcd', 4);
INSERT INTO dw SELECT v, id FROM src WHERE id < 10;
INSERT INTO dw SELECT v, id FROM src;
SELECT id FROM dw WHERE w = 'v1 ';
SELECT id FROM dw WHERE w = 'ab ';
SELECT id FROM dw WHERE w = 'abc';
CREATE DOMAIN numbered AS int DEFAULT 7;
CREATE DOMAIN numbered_too AS numbered;
CREATE TABLE dd (k numbered_too, v text) /*dist: hash(k) | modulo(k)*/;
INSERT INTO dd (v) VALUES ('a');
INSERT INTO dd VALUES (DEFAULT, 'b'), (7, 'c'), (NULL, 'd');
INSERT INTO dd (v) SELECT s FROM src WHERE id = 1;
INSERT INTO dd DEFAULT VALUES;
COPY dd (v) FROM STDIN;
e
f
\.
SELECT v FROM dd WHERE k = 7 ORDER BY v;
SELECT v FROM dd WHERE k IS NULL ORDER BY v;
ALTER TABLE dd ALTER k SET DEFAULT NULL;
INSERT INTO dd (v) VALUES ('no default');
SELECT v FROM dd WHERE k IS NULL ORDER BY v;
ALTER TABLE dd ALTER k SET DEFAULT 9;
INSERT INTO dd (v) VALUES ('nine');
SELECT v FROM dd WHERE k = 9;
ALTER TABLE dd ALTER k DROP DEFAULT;
INSERT INTO dd (v) VALUES ('seven');
ALTER DOMAIN numbered_too SET DEFAULT 8;
INSERT INTO dd (v) VALUES ('eight');
SELECT v FROM dd WHERE k = 8;
SELECT v FROM dd WHERE k = 7 ORDER BY v;
CREATE VIEW dd_view AS SELECT k, v FROM dd;
ALTER TABLE dd ALTER k SET DEFAULT 10;
INSERT INTO dd_view (v) VALUES ('the view''s own');
INSERT INTO dd_view (v) SELECT s || s FROM src WHERE id = 2;
SELECT v FROM dd WHERE k = 8 ORDER BY v;
SELECT v FROM dd WHERE k = 10;

-- A default that is another for each row or each call is made once for all copies.
CREATE SEQUENCE counted_up;
CREATE DOMAIN random_id AS uuid DEFAULT gen_random_uuid();
CREATE DOMAIN counted AS int DEFAULT nextval('counted_up');
CREATE DOMAIN moment AS timestamptz DEFAULT clock_timestamp();
CREATE TABLE dr (k int, id random_id, n counted, at moment) /*dist: replication | hash(k) | hash(n) | hash(id)*/;
INSERT INTO dr (k) VALUES (1), (2), (3);
INSERT INTO dr (k) SELECT 10 + g FROM generate_series(1, 5) g;
INSERT INTO dr VALUES (4), (5);
COPY dr (k) FROM STDIN;
6
7
\.
INSERT INTO dr DEFAULT VALUES;
SELECT count(*), count(DISTINCT id), count(DISTINCT n), count(at) FROM dr;
SELECT count(*) FROM dr a JOIN dr b ON a.id = b.id AND a.n = b.n AND a.at = b.at;
SELECT count(*) FROM dr a, dr b WHERE a.k = b.k AND a.id <> b.id;
SELECT k FROM dr WHERE n = 3;

-- A rule's values are stored as a domain stores them.
CREATE TABLE ruled (k int, w words) /*dist: hash(k)*/;
CREATE TABLE noted (k int, w words) /*dist: hash(k)*/;
CREATE RULE note AS ON INSERT TO ruled DO ALSO INSERT INTO noted VALUES (new.k, new.w);
-- refused
INSERT INTO ruled VALUES (1, 'abc   ');
INSERT INTO ruled (k) VALUES (2);
SELECT * FROM noted ORDER BY k;

-- The type of a key changes, and its values with it.
CREATE TABLE ka (n numeric, id int);
INSERT INTO ka SELECT n, id FROM src;
ALTER TABLE ka ALTER n TYPE amount;
SELECT id FROM ka WHERE n = 0.01 ORDER BY id;
ALTER TABLE ka ALTER n TYPE numeric(10,1);
SELECT count(*) FROM ka WHERE n = 0.1;
CREATE TABLE ka_fixed (n numeric, id int) /*dist: hash(n)*/;
INSERT INTO ka_fixed SELECT n, id FROM src;
-- refused
ALTER TABLE ka_fixed ALTER n TYPE amount;
SELECT count(*) FROM ka_fixed WHERE n = 0.0062;

-- Columns that are added with the default of their type.
CREATE TABLE added (k int PRIMARY KEY) /*dist: replication | hash(k)*/;
INSERT INTO added SELECT generate_series(1, 5);
ALTER TABLE added ADD COLUMN a numbered;
-- refused
ALTER TABLE added ADD COLUMN c counted;
-- refused: v1 | v3 | mixed
ALTER TABLE added ADD COLUMN r random_id;
ALTER TABLE added ADD COLUMN own random_id DEFAULT NULL;
SELECT k, a, own FROM added ORDER BY k;

-- No key is computed where the row is stored.
CREATE TABLE computed (a int, g int GENERATED ALWAYS AS (a * 2) STORED);
-- refused
CREATE TABLE computed_key (a int, g int GENERATED ALWAYS AS (a * 2) STORED) /*dist: hash(g)*/;
-- refused
CREATE TABLE computed_like (LIKE computed INCLUDING GENERATED) /*dist: hash(g)*/;
CREATE TABLE plain_like (LIKE computed) /*dist: hash(g)*/;
INSERT INTO plain_like VALUES (1, 7), (2, 8);
SELECT a FROM plain_like WHERE g = 8;
CREATE TABLE plain_parent (a int, g int) /*dist: hash(g)*/;
-- refused
CREATE TABLE computed_child (g int GENERATED ALWAYS AS (7) STORED) INHERITS (plain_parent);
-- refused
ALTER TABLE computed INHERIT plain_parent;
CREATE TABLE keyed (id int PRIMARY KEY) /*dist: hash(id)*/;
-- refused
CREATE TABLE computed_reference (a int, g int GENERATED ALWAYS AS (a * 2) STORED REFERENCES keyed);
