-- INSERTs of many rows of several kinds. A coordinator plans such a statement by its rows if it has met rows of these kinds
-- before, so each comes twice and more, with other constants.
CREATE TABLE t (k int PRIMARY KEY, v text, n numeric DEFAULT 7, a int[], CHECK (n < 1000)) /*dist: hash(k) | modulo(k) | replication*/;
INSERT INTO t (k, v, n) VALUES (1, upper('a'), 2 + 3), (2, upper('b, (c)'), 4 * 1), (3, upper('it''s'), 5 - 6);
INSERT INTO t (k, v, n) VALUES (4, upper('d'), 2 + 3), (5, upper('e'), 4 * 1), (6, upper('f'), 5 - 6), (7, upper(''), 1 + 1);
INSERT INTO t (k, v, n) VALUES (8, NULL, DEFAULT), (9, upper('x'), -1), (10, 'y' || repeat('z', 2), DEFAULT), (11, 'plain', 1.5);
INSERT INTO t (k, v, n) VALUES (12, NULL, DEFAULT), (13, upper('y'), 3), (14, 'x' || repeat('y', 3), DEFAULT), (15, '', NULL) RETURNING k, v, n;
INSERT INTO t (k, v, n) VALUES (16, 'a' || repeat('z', 2), DEFAULT), (17, upper('y'), +3), (18, NULL, DEFAULT) RETURNING *;
INSERT INTO t VALUES (20, '1'::int + 1, '2'::int, '{1,2}'::int[]), (21, ('3'::int + 4)::text, 3, array[1, 2 + 3, NULL]);
INSERT INTO t VALUES (22, '5'::int + 1, '6'::int, '{}'::int[]), (23, ('7'::int + 8)::text, 3, array[4, 5 + 6, NULL]), (24, '9'::int + 1, '10'::int, '{11}'::int[]);
INSERT INTO t VALUES (25, ((('a' || ('b')))), ((1 + 2) * (3 + 4)), (array[[1, 2], [3, 4]])[1:1]), (26, CASE WHEN 1 > 2 THEN 'x' ELSE lower('Y') END, coalesce(NULL, 3), NULL);
INSERT INTO t VALUES (27, ((('c' || ('d')))), ((5 + 2) * (3 + 4)), (array[[5, 6], [7, 8]])[1:1]), (28, CASE WHEN 3 > 2 THEN 'x' ELSE lower('Y') END, coalesce(NULL, 3), NULL);
SELECT * FROM t ORDER BY k;
-- Where a value is wrong.
INSERT INTO t (k, v, n) VALUES (30, upper('d'), 2 + 3), (31, upper('e'), 'x' + 1);
INSERT INTO t (k, v, n) VALUES (30, upper('d'), 2 + 3), (31, upper('e'), 'x'::int), (32, upper('e'), '4'::int);
INSERT INTO t (k, v, n) VALUES (30, upper('d'), 2 + 3), (31, upper('e'), '3'::int), (32, upper('e'), 'y'::int);
INSERT INTO t (k, v, n) VALUES (30, upper('d'), 2 + 3), (31, upper('e'), '3'::int), (32, upper('é'), '99999999999'::int);
INSERT INTO t (k, v, n) VALUES (30, repeat('d', 2), 1), (31, repeat('e', 3), 1);
INSERT INTO t (k, v, n) VALUES (32, repeat('d', 2), 1), (33, repeat('e', 3000000000), 1);
INSERT INTO t (k, v, n) VALUES (34, repeat('d', 2), 1), (33, repeat('e', 3.5), 1);
INSERT INTO t (k, v, n) VALUES (35, repeat('d', 2), 1), (36, repeat('e', 3), 'nan'), (37, repeat('é', 4), 'abc');
INSERT INTO t (k, v, n) VALUES (35, repeat('d', 2), 1), (36, repeat('e', 3), 10 / 0);
INSERT INTO t (k, v, n) VALUES (35, repeat('d', 2), 10 / 5), (36, repeat('e', 3), 10 / 2), (37, repeat('e', 3), 10 / 0);
INSERT INTO t (k, v, n) VALUES (38, repeat('d', 2), 10 / 5), (39, repeat('e', 3), 1000 / 1);
INSERT INTO t (k, v, n) VALUES (38, repeat('d', 2), 10 / 5), (1, repeat('e', 3), 10 / 1);
INSERT INTO t (k, v, n) VALUES (38, repeat('d', 2), 10 / 5), (38, repeat('e', 3), 10 / 1);
INSERT INTO t (k, v, n) VALUES (38, repeat('d', 2), 10 / 5), (39, repeat('e', 3), 10 / 1), (NULL, repeat('e', 3), 10 / 1);
-- What PostgreSQL does not understand goes before what it would find out later.
INSERT INTO t (k, v, n) VALUES (1, repeat('d', 2), 10 / 5), (39, repeat('e', 3), 10 / 'x');
INSERT INTO t (k, v, n) VALUES (39, repeat('d', 2), 10 / 'x'), (1, repeat('e', 3), 10 / '2'), (2, repeat('e', 3), 10 / '1');
INSERT INTO t (k, v, n) VALUES (1, 'a', 1000), (38, 'b', 'x'), (39, 'c', 'y'), (2, 'd', 2);
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, nope('b'));
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, upper(5));
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, upper('b', 'c'));
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, upper(k));
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, upper('b'), 3);
INSERT INTO t (k, v) VALUES (40, upper('a')), (41);
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, upper('b')]);
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, upper('b'), );
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, (DEFAULT));
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, max('b'));
INSERT INTO t (k, v) VALUES (40, upper('a')), (41, row_number() OVER ());
SELECT k, v, n FROM t WHERE k >= 30 ORDER BY k;
-- Sets: allowed in one row, not in several.
INSERT INTO t (k, n) VALUES (50, generate_series(1, 1));
INSERT INTO t (k, n) VALUES (51, generate_series(1, 1)), (52, generate_series(1, 1));
INSERT INTO t (k, n) VALUES (53, generate_series(1, 1)), (54, generate_series(1, 1)), (55, 5);
CREATE FUNCTION some(int) RETURNS SETOF int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
INSERT INTO t (k, n) VALUES (56, some(1)), (57, some(1));
INSERT INTO t (k, n) VALUES (58, some(1)), (59, some(1));
-- Keys that no literal tells.
INSERT INTO t (k, v) VALUES (60 + 1, upper('a')), (62, upper('b'));
INSERT INTO t (k, v) VALUES (62 + 1, upper('a')), (64, upper('b'));
INSERT INTO t (k, v) VALUES (-65, upper('a')), ((66), upper('b')), ('67', upper('c')), (68::int, upper('d')), (abs(69), upper('e'));
INSERT INTO t (k, v) VALUES (-75, upper('a')), ((76), upper('b')), ('77', upper('c')), (78::int, upper('d')), (abs(79), upper('e'));
INSERT INTO t (k, v) VALUES (80, upper('a')), ('81', upper('b')), (' 82 ', upper('c')), (0083, upper('d'));
INSERT INTO t (k, v) VALUES (84, upper('a')), ('85', upper('b')), (' 86 ', upper('c')), (0087, upper('d')), (88.0, upper('e'));
SELECT k, v FROM t WHERE abs(k) BETWEEN 50 AND 99 ORDER BY k;
-- Sub-selects, strings of other kinds, comments.
INSERT INTO t (k, v) VALUES (100, upper('a')), (101, (SELECT max(v) FROM t WHERE k < 5));
INSERT INTO t (k, v) VALUES (102, upper('a')), (103, (SELECT max(v) FROM t WHERE k < 5)), (104, upper((SELECT 'x')));
INSERT INTO t (k, v) VALUES (105, upper(E'a\tb')), (106, upper($$c'$$)), (107, upper($x$d,)$$$x$)), (108, upper('e' /* ',( */)), (109, upper(U&'\00e4'));
INSERT INTO t (k, v) VALUES (110, upper(E'a\'b')), (111, upper($$c''$$)), (112, upper($x$d),($$$x$)), (113, upper('e' -- ',(
 )), (114, upper(U&'\00e5')), (115, upper('f'
 'g'));
INSERT INTO t (k, v) VALUES (116, upper('a\')), (117, upper('b"c')), (118, 'é' || upper('ü'));
INSERT INTO t (k, v) VALUES (119, upper('d\')), (120, upper('e"f')), (121, 'ß' || upper('ö'));
INSERT INTO t (k, n) VALUES (122, 1e2 + 1), (123, 0x1f + 1), (124, .5 + 1), (125, 1_000 / 10), (126, 5.5 % 2);
INSERT INTO t (k, n) VALUES (132, 1e2 + 2), (133, 0x1e + 1), (134, .5 + 2), (135, 1_000 / 20), (136, 7.5 % 2);
SELECT k, v, n FROM t WHERE k >= 100 ORDER BY k;
-- ON CONFLICT and RETURNING.
INSERT INTO t (k, v) VALUES (1, upper('a')), (140, upper('b')), (2, lower('C')) ON CONFLICT DO NOTHING RETURNING k, v;
INSERT INTO t (k, v) VALUES (1, upper('a')), (141, upper('b')), (2, lower('C')) ON CONFLICT DO NOTHING RETURNING k, v;
INSERT INTO t (k, v) VALUES (1, upper('x')), (142, lower('Y')) ON CONFLICT (k) DO UPDATE SET v = t.v || EXCLUDED.v, n = DEFAULT;
INSERT INTO t (k, v) VALUES (2, upper('x')), (143, lower('Y')), (3, upper('z')) ON CONFLICT (k) DO UPDATE SET v = t.v || EXCLUDED.v, n = DEFAULT;
INSERT INTO t (k, v) VALUES (2, upper('x')), (144, lower('Y')), (2, upper('z')) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO t (k, v) VALUES (145, upper('x')), (2, lower('Y')), (2, upper('z')) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO t AS x (k, v) VALUES (146, upper('a')), (147, lower('B')), (148, upper('c')) RETURNING x.k + 1 AS next, v || '!' AS loud;
INSERT INTO t AS x (k, v) VALUES (151, upper('a')), (149, lower('B')), (150, upper('c')) RETURNING x.k + 1 AS next, v || '!' AS loud;
SELECT k, v, n FROM t WHERE k < 4 OR k >= 140 ORDER BY k;
-- Parameters.
-- params: 160 | a | 161
INSERT INTO t (k, v) VALUES ($1, upper($2)), ($3, upper($2));
-- params: 162 | b | 163
INSERT INTO t (k, v) VALUES ($1, upper($2)), ($3, upper($2));
-- params: 164 | c | 165
INSERT INTO t (k, v) VALUES ($1, upper($2)), ($3, upper($2));
-- params: 166 | 7
INSERT INTO t (k, n) VALUES ($1, $2::int + 1), (167, $2::int + 2), ($1 + 2, 3);
-- params: 169 | 8
INSERT INTO t (k, n) VALUES ($1, $2::int + 1), (170, $2::int + 2), ($1 + 2, 3);
-- params: 172 | x
INSERT INTO t (k, n) VALUES ($1, $2::int + 1), (173, $2::int + 2), ($1 + 2, 3);
SELECT k, v, n FROM t WHERE k >= 160 ORDER BY k;
-- Blocks.
BEGIN;
INSERT INTO t (k, v, n) VALUES (200, upper('a'), 2 + 3), (201, upper('b'), 4 * 1), (202, upper('c'), 5 - 6);
INSERT INTO t (k, v, n) VALUES (203, upper('a'), 2 + 3), (204, upper('b'), 4 * 1), (205, upper('c'), 5 - 6);
SELECT count(*) FROM t WHERE k >= 200;
SAVEPOINT s;
INSERT INTO t (k, v, n) VALUES (206, upper('a'), 2 + 3), (207, upper('b'), 4 * 1), (200, upper('c'), 5 - 6);
ROLLBACK TO s;
INSERT INTO t (k, v, n) VALUES (208, upper('a'), 2 + 3), (209, upper('b'), '4'::int), (210, upper('b'), 'x'::int);
ROLLBACK TO s;
INSERT INTO t (k, v, n) VALUES (211, upper('a'), 2 + 3), (212, upper('b'), '4'::int), (213, upper('b'), '5'::int);
COMMIT;
SELECT k, v, n FROM t WHERE k >= 200 ORDER BY k;
-- The block itself holds a lock that keeps everybody else from reading the statement.
BEGIN;
LOCK TABLE t;
INSERT INTO t (k, v, n) VALUES (214, upper('a'), 10 / 5), (215, upper('b'), 10 / 0), (216, upper('c'), 10 / 1), (217, upper('c'), 10 / 2);
ROLLBACK;
BEGIN;
LOCK TABLE t;
INSERT INTO t (k, v, n) VALUES (214, upper('a'), 10 / 5), (215, upper('b'), 10 / 2), (216, upper('c'), 10 / 1), (217, upper('c'), 10 / 0);
ROLLBACK;
-- Functions of the user's: their overloads, what they read and write, whether they give the same twice.
CREATE FUNCTION kind(int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'int' $$;
CREATE FUNCTION kind(bigint) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'bigint' $$;
CREATE FUNCTION kind(numeric) RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN 'numeric'; END $$;
CREATE FUNCTION counted() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT count(*) FROM t WHERE k > 300 $$;
CREATE FUNCTION drawn() RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN random(); END $$;
INSERT INTO t (k, v) VALUES (301, kind(1)), (302, kind(3000000000)), (303, kind(1.5)), (304, kind('1'));
INSERT INTO t (k, v) VALUES (305, kind(3000000000)), (306, kind(30000000000000000000)), (307, kind(1)), (308, kind(2.5));
INSERT INTO t (k, n) VALUES (311, counted()), (312, counted()), (313, 5);
INSERT INTO t (k, n) VALUES (314, counted()), (315, counted()), (316, 5);
INSERT INTO t (k, n) VALUES (321, drawn()), (322, random()), (323, drawn() * 2), (324, random() - 1);
INSERT INTO t (k, n) VALUES (325, drawn()), (326, random()), (327, drawn() * 2), (328, random() - 1);
SELECT k, v, CASE WHEN k < 320 THEN n END AS n FROM t WHERE k > 300 ORDER BY k;
SELECT count(DISTINCT n) FROM t WHERE k > 320;
DROP FUNCTION kind(numeric);
INSERT INTO t (k, v) VALUES (331, kind(1)), (332, kind(3000000000)), (333, kind(1.5));
INSERT INTO t (k, v) VALUES (331, kind(1)), (332, kind(3000000000)), (333, kind(2));
-- Clocks, sequences, identities, generated columns.
CREATE TABLE c (k int, at timestamptz DEFAULT now(), d date, v text) /*dist: hash(k) | replication*/;
INSERT INTO c (k, d, v) VALUES (1, current_date, 'a'), (2, '2024-01-01', 'b'), (3, current_date - 1, 'c');
INSERT INTO c (k, d, v) VALUES (4, current_date, 'd'), (5, '2024-01-01', 'e'), (6, current_date - 1, 'f');
INSERT INTO c (k, at, v) VALUES (11, now(), upper('a')), (12, DEFAULT, upper('b')), (13, now() - interval '0', upper('c')), (14, DEFAULT, lower('D'));
INSERT INTO c (k, at, v) VALUES (15, now(), upper('a')), (16, DEFAULT, upper('b')), (17, now() - interval '0', upper('c')), (18, DEFAULT, lower('D'));
INSERT INTO c (k, at, v) VALUES (21, '2024-01-01 10:00Z', upper('a')), (22, timestamptz '2024-01-02 10:00Z', upper('b')), (23, date '2024-01-03', upper('c'));
INSERT INTO c (k, at, v) VALUES (24, '2024-01-01 10:00Z', upper('a')), (25, timestamptz '2024-01-02 10:00Z', upper('b')), (26, date '2024-01-03', upper('c'));
SELECT k, CASE WHEN k > 20 THEN at END AS at, v FROM c ORDER BY k;
SELECT count(DISTINCT at) FROM c WHERE k < 10;
SELECT count(*) FROM (SELECT at FROM c WHERE k BETWEEN 11 AND 18 GROUP BY at HAVING count(*) = 4) x;
CREATE TABLE s (id serial, k int, v text, UNIQUE (k)) /*dist: hash(k) | replication*/;
INSERT INTO s (k, v) VALUES (1, upper('a')), (2, upper('b')), (3, lower('C'));
INSERT INTO s (k, v) VALUES (4, upper('a')), (5, upper('b')), (6, lower('C'));
INSERT INTO s (id, k, v) VALUES (DEFAULT, 7, upper('a')), (100, 8, upper('b')), (nextval('s_id_seq'), 9, lower('C'));
INSERT INTO s (id, k, v) VALUES (DEFAULT, 10, upper('a')), (101, 11, upper('b')), (nextval('s_id_seq'), 12, lower('C'));
INSERT INTO s (id, k, v) VALUES (102, 13, upper('a')), (103, 14, upper('b')), (currval('s_id_seq'), 15, lower('C'));
SELECT * FROM s ORDER BY k;
CREATE TABLE g (k int, i int GENERATED ALWAYS AS IDENTITY, d int GENERATED ALWAYS AS (k * 2) STORED, v text) /*dist: hash(k) | replication*/;
INSERT INTO g (k, d, v) VALUES (1, DEFAULT, upper('a')), (2, DEFAULT, upper('b'));
INSERT INTO g (k, d, v) VALUES (3, DEFAULT, upper('a')), (4, DEFAULT, upper('b'));
INSERT INTO g (k, d, v) VALUES (5, DEFAULT, upper('a')), (6, 12, upper('b'));
INSERT INTO g (k, d, v) VALUES (5, DEFAULT, upper('a')), (6, 12, upper('b'));
INSERT INTO g (k, i, v) VALUES (7, DEFAULT, upper('a')), (8, DEFAULT, upper('b'));
INSERT INTO g (k, i, v) VALUES (9, DEFAULT, upper('a')), (10, 5, upper('b'));
INSERT INTO g (k, i, v) OVERRIDING SYSTEM VALUE VALUES (11, 50, upper('a')), (12, 51, upper('b'));
INSERT INTO g (k, i, v) OVERRIDING SYSTEM VALUE VALUES (13, 52, upper('a')), (14, 53, upper('b')), (15, 54, lower('C'));
SELECT k, d, v FROM g ORDER BY k;
-- Parts of columns, domains, types of the user's.
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE TYPE pair AS (x int, y text);
CREATE TABLE p (k int, a int[], q pair, s small) /*dist: hash(k) | replication*/;
INSERT INTO p (k, a[1], a[2]) VALUES (1, 2 + 3, 4), (2, abs(-5), '6');
INSERT INTO p (k, a[1], a[2]) VALUES (3, 7 + 8, 9), (4, abs(-10), '11'), (5, 1 + 1, 2);
INSERT INTO p (k, q.x, q.y) VALUES (6, 2 + 3, upper('a')), (7, abs(-5), 'b');
INSERT INTO p (k, q.x, q.y) VALUES (8, 7 + 8, upper('c')), (9, abs(-10), 'd'), (10, 1 + 1, upper('e'));
INSERT INTO p (k, q, s) VALUES (11, ROW(1, 'a'), 2 + 3), (12, '(2,b)', 4), (13, (3, upper('c'))::pair, '5'::small);
INSERT INTO p (k, q, s) VALUES (14, ROW(4, 'd'), 2 + 4), (15, '(5,e)', 7), (16, (6, upper('f'))::pair, '8'::small);
INSERT INTO p (k, q, s) VALUES (17, ROW(4, 'd'), 2 + 4), (18, '(5,e)', 7), (19, (6, upper('f'))::pair, '18'::small);
INSERT INTO p (k, q, s) VALUES (17, ROW(4, 'd'), 2 + 4), (18, '(5,e)', 7), (19, ROW(4, 'd'), 20 + 4);
SELECT * FROM p ORDER BY k;
