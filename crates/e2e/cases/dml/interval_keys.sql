-- Keys of type interval beside types of users: such rows travel as text, whose lengths of time are read without asking PostgreSQL.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN span AS interval CHECK (VALUE > '-100 years');
CREATE TABLE waits (k interval PRIMARY KEY, m mood, several mood[]) /*dist: hash(k)*/;
CREATE TABLE spans (k span PRIMARY KEY, m mood) /*dist: hash(k)*/;
CREATE TABLE source (n int PRIMARY KEY, m mood) /*dist: hash(n) | replication*/;
INSERT INTO source SELECT g, (ARRAY['sad', 'ok', 'happy']::mood[])[g % 3 + 1] FROM generate_series(1, 30) g;

INSERT INTO waits VALUES ('3 hours 10 min', 'ok', '{sad}');
INSERT INTO waits VALUES ('1 day', 'sad', NULL), ('P1Y2M3DT4H5M6.5S', 'ok', '{ok,happy}'), ('-2 mons 1 day -00:00:00.000001', 'happy', '{}');
INSERT INTO waits SELECT make_interval(mins => n, secs => n * 0.37), m, ARRAY[m] FROM source;
INSERT INTO waits SELECT make_interval(years => n, months => -n, days => -3 * n, hours => 100 * n), m, ARRAY[m, m] FROM source;
INSERT INTO spans SELECT n * interval '1 month 2 hours', m FROM source;
SELECT count(*), sum(k), count(m) FROM waits;
SELECT k, m, several FROM waits WHERE k = '3:10:00';
SELECT k, m FROM waits WHERE k IN ('24 hours', '1 year 2 mons 3 days 04:05:06.5') ORDER BY k;
SELECT k, m FROM spans WHERE k = '2 mons 4 hours';
-- One length of time in other words.
INSERT INTO waits VALUES ('24 hours', 'ok', NULL);
INSERT INTO waits SELECT '190 minutes'::interval, m, NULL FROM source WHERE n = 1;
INSERT INTO waits SELECT '190 minutes'::interval, m, NULL FROM source WHERE n = 1 ON CONFLICT (k) DO UPDATE SET m = EXCLUDED.m RETURNING *;
UPDATE spans SET k = k + interval '1 day' WHERE m = 'ok';
SELECT count(*), sum(k) FROM spans;
SELECT k, m FROM spans WHERE k = '1 day 1 mon 02:00:00';
DELETE FROM waits WHERE k IN (SELECT make_interval(mins => n, secs => n * 0.37) FROM source WHERE n < 5);
SELECT count(*) FROM waits;
-- However the session shows them.
SET intervalstyle = 'sql_standard';
INSERT INTO waits SELECT make_interval(days => n, hours => -n), m, NULL FROM source;
INSERT INTO waits VALUES ('-1 02:03:04', 'ok', NULL);
SELECT k, m FROM waits WHERE k = interval '-1 02:03:04';
SET intervalstyle = 'postgres_verbose';
INSERT INTO waits SELECT make_interval(days => n, mins => -n), m, NULL FROM source;
INSERT INTO waits VALUES ('@ 5 hours 3 mins ago', 'ok', NULL);
SELECT k, m FROM waits WHERE k = '-05:03:00';
RESET intervalstyle;
SELECT count(*), sum(k) FROM waits;
SELECT count(*) FROM waits a JOIN waits b ON a.k = b.k;
BEGIN;
UPDATE waits SET k = k * 2, m = 'happy' WHERE k > '25 years';
SELECT count(*), max(k) FROM waits;
ROLLBACK;
