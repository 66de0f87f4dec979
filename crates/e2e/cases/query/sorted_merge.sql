-- ORDER BY over several nodes: every node sorts, the coordinator merges. Every type whose order it knows, both directions, NULLs at
-- either end, ties, LIMIT and OFFSET, and what it must leave to the home node.
CREATE TABLE m (id int, i2 int2, i8 int8, o oid, b bool, ch "char", f4 float4, f8 float8, d date, t time, ts timestamp, tz timestamptz, u uuid, by bytea, n numeric, tx text, vc varchar(9), bp char(6), nm name, tc text COLLATE "C", td text COLLATE "POSIX") /*dist: hash(id) | hash(tx) | replication | roundrobin*/;
INSERT INTO m SELECT g, (g * 7919 % 2001 - 1000)::int2, g * 1000003 % 999983 - 500000, g * 40503 % 100, g % 3 = 0, chr(33 + g * 31 % 90)::"char", (g * 37 % 101 - 50) / 7.0, (g * 73 % 211 - 100) / 3.0, date '2020-01-01' + g * 97 % 400 - 200, time '00:00' + g * 977 % 1440 * interval '1 minute', timestamp '1999-12-31 23:00' + g * 311 % 97 * interval '1 hour', timestamptz '2000-01-01 00:00+00' - g * 173 % 89 * interval '1 second', md5(g::text)::uuid, decode(md5((g % 40)::text), 'hex'), (g * 59 % 301 - 150) * 10 ^ (g % 9 - 4), 'x' || md5((g * 3 % 50)::text), left(md5(g::text), g % 9), rpad(chr(97 + g % 26), g % 5), md5(g::text)::name, chr(65 + g * 5 % 58) || g % 4, chr(122 - g % 26) FROM generate_series(1, 120) g;
INSERT INTO m (id) VALUES (200), (201), (202), (203);
INSERT INTO m (id, i8, f4, f8, d, ts, tz, n, by, tx, bp, vc) VALUES (210, -9223372036854775808, 'NaN', 'NaN', 'infinity', 'infinity', '-infinity', 'NaN', '\x', '', '', ''), (211, 9223372036854775807, '-Infinity', 'Infinity', '-infinity', '-infinity', 'infinity', 'Infinity', '\x00', 'a', 'a ', 'é'), (212, 0, '-0', '-0', '0001-01-01 BC', '4713-01-01 BC', '294276-01-01', '-Infinity', '\x0000', 'a b', 'ab', 'ä'), (213, 1, '0', '0', '5874897-01-01', '294276-01-01', '4713-01-01 BC', '0.00000', '\x0001', 'Z', 'A', '€'), (214, -1, '1e-40', '5e-324', '2000-01-01', '2000-01-01', '2000-01-01 00:00+00', '-0.0', '\xff', '~', '~', E'\u0001'), (215, 2, '-1e-40', '-5e-324', '2000-01-02', '2000-01-02', '2000-01-02 00:00+00', '123456789012345678901234567890.000100', '\xff00', E'\uffff', 'zz', '𐀀');
SELECT id, i2 FROM m ORDER BY i2, id;
SELECT id, i2 FROM m ORDER BY i2 DESC NULLS LAST, id DESC;
SELECT id, i8 FROM m ORDER BY i8 NULLS FIRST, id;
SELECT id, i8 FROM m ORDER BY i8 DESC, id;
SELECT id FROM m ORDER BY o, b DESC, ch NULLS FIRST, id;
SELECT id, ch FROM m ORDER BY ch DESC NULLS LAST, id;
SELECT id, f4 FROM m ORDER BY f4, id;
SELECT id, f4 FROM m ORDER BY f4 DESC, id;
SELECT id, f8 FROM m ORDER BY f8 NULLS FIRST, id;
SELECT id, f8 FROM m ORDER BY f8 DESC NULLS LAST, id;
SELECT id, d FROM m ORDER BY d, id;
SELECT id FROM m ORDER BY d DESC, t NULLS FIRST, id;
SELECT id, t FROM m ORDER BY t DESC, id;
SELECT id, ts FROM m ORDER BY ts, id;
SELECT id, ts FROM m ORDER BY ts DESC NULLS LAST, id;
SELECT id, tz FROM m ORDER BY tz NULLS FIRST, id;
SELECT id, u FROM m ORDER BY u DESC, id;
SELECT id, by FROM m ORDER BY by, id;
SELECT id, by FROM m ORDER BY by DESC, id DESC;
SELECT id, n FROM m ORDER BY n, id;
SELECT id, n FROM m ORDER BY n DESC, id;
SELECT id, tx FROM m ORDER BY tx, id;
SELECT id, tx FROM m ORDER BY tx DESC NULLS LAST, id;
SELECT id, vc FROM m ORDER BY vc, id;
SELECT id, bp || '|' FROM m ORDER BY bp, id;
SELECT id, bp FROM m ORDER BY bp DESC, id;
SELECT id, nm FROM m ORDER BY nm, id;
SELECT id, tc FROM m ORDER BY tc, td DESC, id;
SELECT id FROM m ORDER BY vc COLLATE "C" DESC, id;
-- Keys that are expressions, numbers of columns, aliases, or not given at all; ties in any order.
SELECT id, -i8 AS x FROM m WHERE i8 > 100000 ORDER BY x, 1;
SELECT * FROM m ORDER BY 1 LIMIT 3;
SELECT i2 % 5 FROM m ORDER BY 1;
SELECT b FROM m ORDER BY b NULLS FIRST, i2 % 2;
SELECT id FROM m ORDER BY n * i2, id;
SELECT id FROM m ORDER BY i8 + 3000000000, id LIMIT 5;
SELECT id FROM m ORDER BY abs(i2), CASE WHEN b THEN i2 END, id;
SELECT id, tz::date FROM m WHERE isfinite(tz) ORDER BY ts::date DESC, tz::date, id;
SELECT id, i8 FROM m ORDER BY i8::numeric DESC, id LIMIT 9;
SELECT id, 'x' AS i2, i2 AS "Two Words" FROM m ORDER BY "Two Words", id LIMIT 4;
SELECT id AS loxo_c2, i2 AS loxo_c1 FROM m ORDER BY loxo_c1, loxo_c2 LIMIT 4;
SELECT m, id FROM m ORDER BY id DESC LIMIT 2;
SELECT id, row(i2, b) FROM m ORDER BY id LIMIT 2;
-- What the home node has to sort.
SELECT id FROM m ORDER BY lower(tx), id LIMIT 7;
SELECT id FROM m ORDER BY ts - timestamp '2000-01-01', id LIMIT 7;
SELECT id FROM m ORDER BY i2 USING >, id LIMIT 7;
SELECT id FROM m WHERE id < 100 ORDER BY id FETCH FIRST 3 ROWS WITH TIES;
SELECT DISTINCT i2 % 4, b FROM m ORDER BY 1, 2;
SELECT id, x FROM (SELECT id, NULL AS x FROM m) q ORDER BY x, id LIMIT 3;
SELECT x FROM (SELECT id AS x FROM m UNION ALL SELECT f8 FROM m) q ORDER BY x LIMIT 9;
SELECT id FROM m UNION ALL SELECT i2 FROM m ORDER BY 1 LIMIT 9;
-- LIMIT and OFFSET.
SELECT id FROM m ORDER BY id LIMIT 5 OFFSET 118;
SELECT id FROM m ORDER BY id OFFSET 125;
SELECT id FROM m ORDER BY id LIMIT ALL OFFSET 127;
SELECT id FROM m ORDER BY id LIMIT NULL OFFSET NULL;
SELECT id FROM m ORDER BY id LIMIT 0;
SELECT id, tx FROM m LIMIT 0;
SELECT id FROM m ORDER BY id LIMIT 3 OFFSET 1000;
SELECT id FROM m ORDER BY id LIMIT 9223372036854775807 OFFSET 128;
SELECT id FROM m ORDER BY id LIMIT 2 + 1 OFFSET (SELECT 4);
SELECT id FROM m ORDER BY id LIMIT -1;
SELECT count(*) FROM (SELECT id FROM m LIMIT 17) q;
-- params: 3
SELECT id FROM m ORDER BY i8 DESC NULLS LAST LIMIT $1;
-- params: 3 | 4
SELECT id FROM m ORDER BY i8 DESC NULLS LAST LIMIT $1 OFFSET $2;
-- params: \N | 126
SELECT id FROM m ORDER BY id LIMIT $1 OFFSET $2;
-- params: 2 | \N
SELECT id FROM m ORDER BY id LIMIT $1 OFFSET $2;
-- params: 9223372036854775807 | 126
SELECT id FROM m ORDER BY id LIMIT $1 OFFSET $2;
-- params: -1
SELECT id FROM m ORDER BY id LIMIT $1;
-- params: 1 | -2
SELECT id FROM m ORDER BY id LIMIT $1 OFFSET $2;
-- params: 40 | 6
SELECT id, $1::int + id FROM m WHERE id > $1 ORDER BY i2, id LIMIT $2;
PREPARE page(int, int) AS SELECT id, tx FROM m ORDER BY tx, id LIMIT $2 OFFSET $1;
EXECUTE page(10, 3);
EXECUTE page(0, 2);
EXECUTE page(NULL, NULL);
-- Groups, joins and windows that are whole on each node.
CREATE TABLE l (id int, k int, w text) /*dist: hash(id) | hash(w) | replication | roundrobin*/;
INSERT INTO l SELECT g % 60, g, 'w' || g % 10 FROM generate_series(1, 300) g;
SELECT id, count(*) AS c, sum(k) FROM l GROUP BY id ORDER BY c DESC, sum(k), id LIMIT 20;
SELECT id, max(k) FROM l GROUP BY id HAVING max(k) > 250 ORDER BY max(k) DESC;
SELECT l.id, m.i2, l.k FROM l JOIN m ON m.id = l.id WHERE l.k % 7 = 0 ORDER BY m.i2 DESC, l.k;
SELECT id, m.i2, l.k FROM l JOIN m USING (id) WHERE l.k % 9 = 0 ORDER BY id DESC, k;
SELECT id, k, row_number() OVER (PARTITION BY id ORDER BY k) AS r FROM l WHERE id < 9 ORDER BY r DESC, k;
SELECT DISTINCT id, w FROM l WHERE id < 20 ORDER BY w DESC, id;
WITH q AS (SELECT id, k FROM l WHERE k < 50) SELECT q.id, q.k FROM q ORDER BY q.k DESC LIMIT 4;
SELECT id, (SELECT max(i8) FROM m WHERE m.id = l.id) AS x FROM l WHERE k < 30 ORDER BY x, id;
-- Empty nodes, no rows, no columns.
CREATE TABLE e (id int, v text) /*dist: hash(id) | hash(v) | replication | roundrobin*/;
SELECT * FROM e ORDER BY v, id LIMIT 3;
-- ordered
COPY (SELECT * FROM e ORDER BY id) TO STDOUT (FORMAT csv, HEADER);
INSERT INTO e VALUES (1, 'one');
SELECT * FROM e ORDER BY v, id;
SELECT FROM e ORDER BY id;
-- A block that has written, with its own changes; one that keeps its snapshot; READ ONLY.
BEGIN;
UPDATE m SET i2 = 2000 - i2 WHERE id BETWEEN 5 AND 9;
SELECT id, i2 FROM m ORDER BY i2 DESC NULLS LAST, id LIMIT 6;
-- ordered
COPY (SELECT id, i2 FROM m ORDER BY i2 DESC NULLS LAST, id LIMIT 6) TO STDOUT;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT id, i2 FROM m ORDER BY i2 DESC NULLS LAST, id LIMIT 3;
DECLARE c CURSOR FOR SELECT id, i2 FROM m ORDER BY i2 DESC NULLS LAST, id;
FETCH 3 FROM c;
MOVE 100 IN c;
FETCH ALL FROM c;
COMMIT;
-- An error of one node, early, late, or behind the limit.
SELECT 1 / (id - 60) FROM m ORDER BY id;
SELECT 1 / (id - 215) FROM m ORDER BY id;
SELECT id FROM m ORDER BY 1 / (id - 60);
SELECT nope FROM m ORDER BY id;
SELECT id FROM m ORDER BY nope;
SELECT id FROM m ORDER BY 7;
-- ordered
COPY (SELECT 1 / (id - 60) FROM m ORDER BY id) TO STDOUT;
-- COPY TO: every format; keys of many columns, with NULLs.
-- ordered
COPY (SELECT id, i8, tx FROM m ORDER BY i8 DESC, id) TO STDOUT;
-- ordered
COPY (SELECT id, n, vc, by FROM m ORDER BY n NULLS FIRST, vc DESC, by, id) TO STDOUT (NULL '', DELIMITER '|');
-- ordered
COPY (SELECT id, vc, f8 FROM m ORDER BY f8 DESC, id) TO STDOUT (FORMAT csv, HEADER);
-- ordered
COPY (SELECT id AS "a,b", vc AS "c""d" FROM m ORDER BY vc, id) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *);
-- ordered
COPY (SELECT id, vc FROM m ORDER BY vc DESC, id LIMIT 9 OFFSET 2) TO STDOUT (FORMAT csv, FORCE_QUOTE (vc), NULL 'n', QUOTE '''', DELIMITER ';');
-- ordered
COPY (SELECT id, vc FROM m ORDER BY vc, id LIMIT 5) TO STDOUT (FORMAT csv, DELIMITER 'a');
-- ordered
COPY (SELECT id, vc FROM m ORDER BY vc, id LIMIT 5) TO STDOUT (FORMAT csv, QUOTE 'x', FORCE_QUOTE *);
-- ordered
COPY (SELECT id, vc FROM m ORDER BY vc, id LIMIT 5) TO STDOUT (DELIMITER '_');
-- ordered
COPY (SELECT vc FROM m ORDER BY vc DESC, id) TO STDOUT (FORMAT csv);
-- ordered
COPY (SELECT vc FROM m ORDER BY vc DESC, id) TO STDOUT (HEADER);
-- ordered
COPY (SELECT id, i2, tx, n FROM m ORDER BY n, d DESC, id) TO STDOUT (FORMAT binary);
-- ordered
COPY (SELECT id FROM m WHERE id < 0 ORDER BY id) TO STDOUT (FORMAT binary);
-- ordered
COPY (SELECT id, vc FROM m ORDER BY id LIMIT 4) TO STDOUT (ENCODING 'LATIN1');
COPY (SELECT id FROM e LIMIT 3) TO STDOUT (HEADER);
-- ordered
COPY (SELECT id, vc FROM m ORDER BY id) TO STDOUT (FORMAT csv, FORCE_QUOTE (loxo_keys));
SET client_encoding = 'LATIN1';
-- ordered
COPY (SELECT id, tx FROM m WHERE id < 50 ORDER BY tx, id) TO STDOUT (FORMAT csv);
SELECT id, tx FROM m WHERE id < 50 ORDER BY tx DESC, id;
-- A text that means other characters here than in the servers.
-- refused
SELECT 'é', count(*) FROM m;
-- refused
SELECT 'é';
RESET client_encoding;
-- Functions that give several rows are called when the rows are in order: theirs stay in their own.
CREATE TABLE lists (id int, grp int, a int[], j jsonb) /*dist: hash(id) | roundrobin | hash(id)*/;
INSERT INTO lists SELECT g, g % 7, ARRAY[3, 1, 2, g % 4], '{"b": 1, "a": [1, 0]}' FROM generate_series(1, 300) g;
CREATE FUNCTION counted_down(n int) RETURNS SETOF int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN NEXT n; RETURN NEXT 2; RETURN NEXT 1; END $$;
SELECT id, unnest(a) FROM lists ORDER BY id LIMIT 10;
SELECT id, unnest(a) FROM lists ORDER BY id;
SELECT unnest(a) AS u, id FROM lists ORDER BY id DESC OFFSET 2 LIMIT 7;
SELECT id, unnest(a), jsonb_object_keys(j) FROM lists ORDER BY id LIMIT 9;
SELECT id, counted_down(id) FROM lists ORDER BY id LIMIT 8;
SELECT id, unnest(a) AS u FROM lists ORDER BY u DESC, id LIMIT 5;
SELECT grp, count(*), unnest(ARRAY[9, 8, 7]) FROM lists GROUP BY grp ORDER BY grp LIMIT 5;
SELECT id, count(*), generate_series(3, 1, -1) FROM lists GROUP BY id ORDER BY id LIMIT 5;
SELECT x.id, unnest(x.a) FROM lists x JOIN lists y ON y.id = x.id + 1 ORDER BY x.id LIMIT 9;
SELECT x.id, unnest(x.a) FROM lists x JOIN lists y ON y.id = x.grp ORDER BY x.id LIMIT 9;
SELECT id, (SELECT max(u) FROM unnest(a) u) FROM lists ORDER BY id LIMIT 3;
SELECT id, e FROM lists, unnest(a) WITH ORDINALITY AS x (e, n) ORDER BY id, n LIMIT 6;
SELECT * FROM (SELECT id, unnest(a) AS u FROM lists ORDER BY id LIMIT 6) q;
SELECT string_agg(u::text, ',') FROM (SELECT unnest(a) AS u FROM lists ORDER BY id LIMIT 9) q;
BEGIN;
DECLARE listed CURSOR FOR SELECT id, unnest(a) FROM lists ORDER BY id;
FETCH 9 FROM listed;
ROLLBACK;
CREATE TEMP TABLE kept AS SELECT row_number() OVER () AS n, id, u FROM (SELECT id, unnest(a) AS u FROM lists ORDER BY id LIMIT 9) q;
SELECT * FROM kept ORDER BY n;
DROP TABLE kept;
-- Volatile functions in the output are called of the rows that LIMIT leaves, at most as many on each node.
CREATE FUNCTION only_first(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i > 3 THEN RAISE 'called for %', i; END IF; RETURN -i; END $$;
CREATE TABLE few (id int, k int) /*dist: hash(id)*/;
INSERT INTO few SELECT g, CASE WHEN g <= 3 THEN g ELSE g + 100 END FROM generate_series(1, 200) g;
SELECT k, only_first(0) FROM few ORDER BY k LIMIT 3;
SELECT k, only_first(1), id FROM few ORDER BY k OFFSET 1 LIMIT 2;
SELECT DISTINCT k FROM few ORDER BY k DESC LIMIT 3;
SELECT id, k FROM few ORDER BY k DESC, id LIMIT 3;
SELECT k + 1 AS k, id FROM few ORDER BY k DESC LIMIT 2;
SELECT id AS k, k AS id FROM few ORDER BY few.k DESC LIMIT 2;
SELECT id, max(k) FROM few GROUP BY id ORDER BY max(k) DESC LIMIT 2;
-- Where they are sorted by, or told apart, they are called before.
SELECT DISTINCT unnest(a) AS u FROM lists ORDER BY u DESC LIMIT 3;
SELECT DISTINCT unnest(a) AS u FROM lists ORDER BY u;
SELECT id, unnest(a) AS u FROM lists ORDER BY 2, 1 LIMIT 5;
SELECT id, unnest(a) AS u FROM lists ORDER BY unnest(a) DESC, id LIMIT 5;
SELECT unnest(a) AS id, id AS x FROM lists ORDER BY id DESC, x LIMIT 5;
