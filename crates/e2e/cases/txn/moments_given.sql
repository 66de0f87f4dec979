-- 'now' and its kin in parameters are the block's moment on every node.
CREATE DOMAIN stamp AS timestamptz CHECK (VALUE > '2000-01-01');
CREATE TABLE m (k int PRIMARY KEY, at timestamptz, local timestamp, day date, t time, tz timetz, own stamp) /*dist: hash(k) | replication*/;
CREATE TABLE by_day (day date PRIMARY KEY, at timestamptz) /*dist: hash(day) | replication*/;
CREATE TABLE first_touched (k int PRIMARY KEY) /*dist: replication*/;
INSERT INTO first_touched VALUES (1);
-- params: now | now | today | now | now | now
INSERT INTO m SELECT g, $1, $2, $3, $4, $5, $6 FROM generate_series(1, 9) g;
SELECT count(*), count(DISTINCT at), count(DISTINCT local), count(DISTINCT day), count(DISTINCT t), count(DISTINCT tz) FROM m;
-- params: Now | 12:00 today | today | now | NOW | now
UPDATE m SET (at, local, day, t, tz, own) = ($1, $2, $3, $4, $5, $6);
SELECT count(*), count(DISTINCT at), count(DISTINCT local), count(DISTINCT day), count(DISTINCT t), count(DISTINCT tz), count(DISTINCT own) FROM m;
-- params: now
UPDATE m SET at = $1 WHERE k > 4;
SELECT count(DISTINCT at) FROM m;
-- params: now
UPDATE m SET at = $1, own = now();
SELECT count(DISTINCT at), bool_and(at = own) FROM m;
-- params: now
SELECT count(*) FROM m WHERE at < $1;
-- params: now
SELECT k, at < $1, now() = $1 FROM m WHERE k = 3;
-- params: {now,now}
UPDATE m SET at = ($1::timestamptz[])[1];
SELECT count(DISTINCT at) FROM m;
-- params: [2000-01-01,now]
UPDATE m SET at = upper($1::tstzrange);
SELECT count(DISTINCT at) FROM m;
-- params: [2000-01-01,infinity]
SELECT count(*) FROM m WHERE at <@ $1::tstzrange;
-- params: nowadays
SELECT count(*) FROM m WHERE at = $1;
-- params: today | 2000-01-01 00:00:00+00
INSERT INTO by_day VALUES ($1, $2);
-- params: today | now
UPDATE by_day SET at = $2 WHERE day = $1;
-- params: today
SELECT count(*) FROM by_day WHERE day = $1 AND at > '2000-01-01';
BEGIN;
SELECT count(*) FROM first_touched;
SELECT pg_sleep(0.05);
-- params: now | today
UPDATE m SET at = $1, day = $2;
SELECT count(*), count(DISTINCT at), bool_and(at = now()), bool_and(day = current_date) FROM m;
-- params: now
UPDATE m SET at = $1 WHERE k = 3;
-- params: now
UPDATE m SET at = $1 WHERE k = 4;
-- params: 50 | now
INSERT INTO m (k, at) VALUES ($1, $2);
-- params: 51 | now
INSERT INTO m (k, at) VALUES ($1, $2);
-- params: 52 | 2024-02-29T10:00:00Z
INSERT INTO m (k, at) VALUES ($1, $2);
-- params: 53 | now
INSERT INTO m (k, at) VALUES ($1, $2);
SELECT count(*), count(DISTINCT at), bool_and(at = now() OR k = 52) FROM m;
-- params: now
SELECT count(*) FROM m WHERE at = $1;
-- params: now
SELECT count(*) FROM m WHERE at = $1 AND k = 2;
-- params: now
SELECT count(*) FROM m WHERE at = $1 AND k = 3;
COMMIT;
BEGIN;
-- params: now
UPDATE m SET at = $1 WHERE k = 4;
SELECT pg_sleep(0.05);
-- params: now
UPDATE m SET at = $1 WHERE k = 5;
SELECT count(DISTINCT at), bool_and(at = now()) FROM m WHERE k IN (4, 5);
-- params: tomorrow at noon
UPDATE m SET at = $1 WHERE k = 5;
COMMIT;
SELECT count(DISTINCT at) FROM m WHERE k IN (4, 5);
