-- Data changes in WITH: all parts see the tables as they were, and of each other only what RETURNING gives.
CREATE TABLE q (id int, grp int, v text, n numeric(10,2) DEFAULT 1) /*dist: hash(id) | modulo(grp) | replication | roundrobin*/;
CREATE TABLE a (id int, grp int, v text, at text DEFAULT 'then') /*dist: hash(id) | hash(grp) | replication | hash(v)*/;
CREATE TABLE l (what text, n int, more float8) /*dist: roundrobin | hash(n) | hash(what) | replication*/;
INSERT INTO q SELECT g, g % 4, 'v' || g FROM generate_series(1, 24) g;
INSERT INTO a SELECT g, g % 3, 'a' || g FROM generate_series(1, 9) g;
-- Moves.
WITH d AS (DELETE FROM q WHERE grp = 1 RETURNING id, grp, v) INSERT INTO a (id, grp, v) SELECT * FROM d;
WITH d AS (DELETE FROM q WHERE id = 2 RETURNING *) INSERT INTO a (id, grp, v) SELECT id, grp, v FROM d RETURNING *;
WITH d (x, y) AS (DELETE FROM a WHERE v LIKE 'v%' AND id > 9 RETURNING v, id) INSERT INTO l SELECT x, y, y / 4.0 FROM d RETURNING what, n, more;
SELECT * FROM q ORDER BY id;
SELECT * FROM a ORDER BY id, v;
SELECT * FROM l ORDER BY n;
-- The main query sees rows as they were.
WITH u AS (UPDATE q SET v = v || '+', n = n * 2 WHERE id < 8 RETURNING id, v) SELECT u.v, q.v, q.n FROM u JOIN q USING (id) ORDER BY u.id;
WITH u AS (UPDATE q SET v = 'new' WHERE id = 3) SELECT v FROM q WHERE id = 3;
WITH i AS (INSERT INTO q VALUES (100, 0, 'hundred'), (101, 1, 'more') RETURNING *) SELECT count(*), (SELECT count(*) FROM i) FROM q;
WITH d AS (DELETE FROM q WHERE id > 99 RETURNING id) SELECT sum(id), (SELECT max(id) FROM q), (SELECT min(id) FROM d WHERE id > 100) FROM d;
SELECT count(*), max(id) FROM q;
-- Run whether they are read or not; one row is changed once.
WITH one AS (INSERT INTO l VALUES ('one', 1)), two AS (INSERT INTO l VALUES ('two', 2) RETURNING n) SELECT 'nothing' WHERE false;
SELECT what, n FROM l WHERE what IN ('one', 'two') ORDER BY n;
WITH u AS (UPDATE q SET v = 'by with' WHERE id = 4 RETURNING 1) UPDATE q SET v = v || '!' WHERE id IN (4, 5);
SELECT id, v FROM q WHERE id IN (4, 5) ORDER BY id;
WITH u AS (UPDATE q SET v = 'first' WHERE id = 6 RETURNING id) DELETE FROM q USING u WHERE q.id = u.id;
SELECT v FROM q WHERE id = 6;
-- Chains: each reads the one before it.
WITH x AS (UPDATE q SET grp = grp WHERE id BETWEEN 7 AND 12 RETURNING id, grp, v),
     y AS (INSERT INTO a (id, grp, v) SELECT id + 50, grp, v FROM x WHERE id % 2 = 0 RETURNING id, at),
     z AS (INSERT INTO l SELECT at, id FROM y RETURNING *)
SELECT what, n, (SELECT count(*) FROM x) FROM z ORDER BY n;
WITH x AS (DELETE FROM a WHERE id > 50 RETURNING id - 50 AS id, v) UPDATE q SET v = 'back ' || x.v FROM x WHERE x.id = q.id RETURNING q.id, q.v;
WITH x AS (INSERT INTO l VALUES ('key', 7), ('key', 8) RETURNING n) DELETE FROM q WHERE id IN (SELECT n FROM x) RETURNING *;
-- A query that several parts read is evaluated once; so is one with a recursion.
WITH few AS (SELECT id, v FROM q WHERE id > 15 ORDER BY id LIMIT 3),
     gone AS (DELETE FROM q USING few WHERE few.id = q.id RETURNING q.id),
     kept AS (INSERT INTO a (id, v) SELECT id, v FROM few RETURNING id)
SELECT (SELECT count(*) FROM gone), (SELECT string_agg(id::text, ',' ORDER BY id) FROM kept), (SELECT count(*) FROM few);
WITH RECURSIVE down AS (SELECT 3 AS i UNION ALL SELECT i - 1 FROM down WHERE i > 1),
     i AS (INSERT INTO l SELECT 'down', i FROM down RETURNING n),
     j AS (INSERT INTO l SELECT 'again', i FROM down RETURNING n)
SELECT (SELECT count(*) FROM down), (SELECT sum(n) FROM i), (SELECT count(*) FROM j);
WITH unread AS (SELECT 1 / 0), d AS (DELETE FROM l WHERE what IN ('down', 'again') RETURNING n) SELECT count(*) FROM d;
-- Aliases, set operations, sub-selects in FROM, expressions, NULLs.
WITH d AS (DELETE FROM a WHERE id IS NULL OR id = 1 RETURNING id, NULL::text AS nothing, upper(v) || at AS u) SELECT x.* FROM d AS x (i, j) UNION ALL SELECT 0, NULL, v FROM a WHERE id = 3 ORDER BY 1, 3;
WITH d AS (UPDATE a SET v = NULL WHERE id = 2 RETURNING v, v, id) SELECT * FROM (SELECT count(v), count(*) FROM d AS d (p, v, r)) s;
-- params: 17 | seventeen
WITH i AS (INSERT INTO q (id, grp, v) VALUES ($1, 1, $2) RETURNING *) SELECT id + $1, v FROM i;
-- params: 1
WITH d AS (DELETE FROM q WHERE grp = $1 RETURNING id) INSERT INTO l (what, n) SELECT 'p' || $1, id FROM d;
SELECT what, count(*), sum(n) FROM l GROUP BY what ORDER BY what;
-- In blocks, and what fails is taken back.
BEGIN;
WITH i AS (INSERT INTO q (id, grp, v) VALUES (300, 2, 'b') RETURNING id) INSERT INTO l SELECT 'block', id FROM i;
WITH d AS (DELETE FROM q WHERE id >= 300 RETURNING id) SELECT d.id, l.what FROM d JOIN l ON l.n = d.id;
SAVEPOINT s;
WITH d AS (DELETE FROM q RETURNING id) SELECT 1 / (count(*) - count(*)) FROM d;
ROLLBACK TO s;
WITH d AS (DELETE FROM l WHERE what = 'block' RETURNING n) SELECT n FROM d;
COMMIT;
SELECT count(*) FROM q;
BEGIN ISOLATION LEVEL REPEATABLE READ;
WITH d AS (DELETE FROM a RETURNING id, v) INSERT INTO l SELECT v, id FROM d;
ROLLBACK;
SELECT count(*) FROM a;
-- What PostgreSQL does not take.
WITH d AS (DELETE FROM q) SELECT * FROM d;
WITH d AS (DELETE FROM nope RETURNING *) SELECT * FROM d;
WITH d AS (DELETE FROM q RETURNING nope) SELECT * FROM d;
SELECT * FROM (WITH d AS (DELETE FROM q RETURNING *) SELECT * FROM d) s;
WITH d AS (UPDATE q SET id = 'x' RETURNING *) SELECT * FROM d;
BEGIN;
DECLARE c CURSOR FOR WITH d AS (DELETE FROM q RETURNING *) SELECT * FROM d;
ROLLBACK;
SELECT * FROM q ORDER BY id;
-- Foreign keys are checked at the end: the order of the parts does not matter.
CREATE TABLE p (id int PRIMARY KEY, name text) /*dist: hash(id) | replication*/;
CREATE TABLE c (pid int REFERENCES p, what text) /*dist: hash(pid) | hash(what)*/;
INSERT INTO p VALUES (1, 'one'), (2, 'two');
INSERT INTO c VALUES (1, 'a'), (1, 'b'), (2, 'c');
WITH x AS (DELETE FROM c WHERE pid < 3) DELETE FROM p WHERE id < 3 RETURNING *;
WITH x AS (INSERT INTO c VALUES (5, 'five'), (6, 'six') RETURNING what) INSERT INTO p VALUES (5, 'p5'), (6, 'p6');
SELECT * FROM p JOIN c ON id = pid ORDER BY what;
WITH x AS (INSERT INTO p VALUES (7, 'seven') RETURNING id) INSERT INTO c SELECT id, 'of ' || id FROM x RETURNING *;
WITH x AS (INSERT INTO c VALUES (99, 'none')) SELECT 1;
-- Jobs taken from a queue: what one item reads, two change; alone and in a block.
CREATE TABLE jobs (id int PRIMARY KEY, queue int, free boolean DEFAULT true, taken_by text) /*dist: hash(id) | replication | default*/;
CREATE TABLE queues (id int PRIMARY KEY, free boolean DEFAULT true, taken_by text) /*dist: hash(id) | replication | default*/;
INSERT INTO jobs SELECT g, CASE WHEN g > 3 THEN g END FROM generate_series(1, 12) g;
INSERT INTO queues SELECT g FROM generate_series(1, 12) g;
WITH j AS (SELECT id, queue FROM jobs WHERE free AND (queue IS NULL OR queue IN (SELECT id FROM queues WHERE free FOR UPDATE SKIP LOCKED)) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED), q AS (UPDATE queues SET taken_by = 'a' FROM j WHERE queues.id = j.queue) UPDATE jobs SET free = false, taken_by = 'a' FROM j WHERE jobs.id = j.id RETURNING jobs.id, jobs.taken_by;
BEGIN;
WITH j AS (SELECT id, queue FROM jobs WHERE free AND (queue IS NULL OR queue IN (SELECT id FROM queues WHERE free FOR UPDATE SKIP LOCKED)) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED), q AS (UPDATE queues SET taken_by = 'b' FROM j WHERE queues.id = j.queue) UPDATE jobs SET free = false, taken_by = 'b' FROM j WHERE jobs.id = j.id RETURNING jobs.id, jobs.taken_by;
WITH j AS (SELECT id, queue FROM jobs WHERE free AND id > 5 ORDER BY id LIMIT 1), q AS (UPDATE queues SET taken_by = 'c' FROM j WHERE queues.id = j.queue) UPDATE jobs SET free = false, taken_by = 'c' FROM j WHERE jobs.id = j.id RETURNING jobs.id, jobs.taken_by;
WITH j AS (SELECT id, queue FROM jobs WHERE free AND id > 7 ORDER BY id LIMIT 1), q AS (UPDATE queues SET taken_by = 'd' FROM j WHERE queues.id = j.queue RETURNING queues.id) UPDATE jobs SET free = false, taken_by = 'd' FROM j, q WHERE jobs.id = j.id RETURNING jobs.id, jobs.taken_by;
COMMIT;
-- params: e | {9,10}
WITH j AS (SELECT id, queue FROM jobs WHERE free AND id = ANY ($2::int[]) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED), q AS (UPDATE queues SET taken_by = $1::text FROM j WHERE queues.id = j.queue) UPDATE jobs SET free = false, taken_by = $1::text FROM j WHERE jobs.id = j.id RETURNING jobs.id, jobs.taken_by;
BEGIN;
-- params: f | {9,10}
WITH j AS (SELECT id, queue FROM jobs WHERE free AND id = ANY ($2::int[]) ORDER BY id LIMIT 1 FOR UPDATE), q AS (UPDATE queues SET taken_by = $1::text FROM j WHERE queues.id = j.queue RETURNING queues.id) UPDATE jobs SET free = false, taken_by = 'f' FROM j, q WHERE jobs.id = j.id RETURNING jobs.id, jobs.taken_by;
-- params: g | {11,12}
WITH j AS (SELECT id, queue FROM jobs WHERE free AND id = ANY ($2::int[]) ORDER BY id LIMIT 1) UPDATE jobs SET free = false, taken_by = $1::text FROM j WHERE jobs.id = j.id RETURNING jobs.id, jobs.taken_by;
COMMIT;
SELECT * FROM jobs ORDER BY id;
SELECT * FROM queues ORDER BY id;
