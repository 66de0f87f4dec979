-- Reduced from statements that nobody here wrote.
CREATE TABLE acc (id int, owner text, bal numeric) /*dist: hash(id) | replication | roundrobin*/;
CREATE TABLE hist (id int, acc int, delta numeric) /*dist: hash(id) | hash(acc) | roundrobin*/;
INSERT INTO acc SELECT g, 'o' || g % 5, g * 10 FROM generate_series(1, 30) g;
INSERT INTO hist SELECT g, g % 40, g * 2.5 FROM generate_series(1, 60) g;
-- A column with the name of the table that is changed.
UPDATE acc SET bal = bal + 1 WHERE id IN (SELECT acc FROM hist WHERE delta > 100);
UPDATE acc SET bal = bal + h.d FROM (SELECT acc, sum(delta) d FROM hist GROUP BY acc) h WHERE h.acc = acc.id AND acc.id < 5 RETURNING acc.id, acc.bal;
UPDATE acc SET bal = (SELECT count(*) FROM hist WHERE acc = 7 OR hist.acc = acc.id) WHERE id = 7;
DELETE FROM acc WHERE id > 25 AND EXISTS (SELECT 1 FROM hist JOIN (SELECT max(acc) top FROM hist) x ON acc = top - acc.id);
SELECT id, bal FROM acc ORDER BY id;
SELECT sum(delta) FROM hist;
-- Temporary tables, changed by rows of others.
CREATE TEMP TABLE seen AS SELECT id, bal FROM acc;
DELETE FROM seen WHERE id IN (SELECT acc FROM hist WHERE delta < 30);
UPDATE seen SET bal = acc.bal + 0.5 FROM acc WHERE acc.id = seen.id AND acc.owner = 'o2' RETURNING seen.id, acc.owner;
UPDATE seen SET bal = (SELECT max(delta) FROM hist WHERE acc = seen.id) WHERE id % 2 = 0;
DELETE FROM seen USING hist WHERE hist.acc = seen.id AND hist.delta > 145;
SELECT id, bal FROM seen ORDER BY id;
BEGIN;
INSERT INTO hist VALUES (1000, 12, 1);
DELETE FROM seen WHERE id = (SELECT acc FROM hist WHERE hist.id = 1000);
SELECT count(*) FROM seen;
ROLLBACK;
SELECT count(*) FROM seen;
-- Aggregates and operators of the user's, beside functions that read tables.
CREATE FUNCTION reader() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM hist';
CREATE FUNCTION writer() RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO hist VALUES (0, 0, 0); END';
CREATE AGGREGATE product (numeric) (SFUNC = numeric_mul, STYPE = numeric, INITCOND = '1');
CREATE FUNCTION longer(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN length($1) >= length($2) THEN $1 ELSE $2 END';
CREATE AGGREGATE longest (text) (SFUNC = longer, STYPE = text);
CREATE FUNCTION near(numeric, numeric) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT abs($1 - $2) < 6';
CREATE OPERATOR ~~~ (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = near);
SELECT owner, product(id % 3 + 1) FROM acc WHERE id < 20 GROUP BY owner ORDER BY owner;
SELECT longest(owner || repeat('x', id)) FROM acc WHERE id < 20;
SELECT a.id, h.id FROM acc a JOIN hist h ON a.bal ~~~ h.delta WHERE a.id < 20 ORDER BY 1, 2;
CREATE FUNCTION counted(numeric, text) RETURNS numeric LANGUAGE sql AS 'SELECT $1 + count(*) FROM hist WHERE id < 3';
CREATE AGGREGATE counts (text) (SFUNC = counted, STYPE = numeric, INITCOND = '0');
-- refused
SELECT counts(owner) FROM acc;
-- Functions whose rows are a table's, or that are called for each row.
CREATE FUNCTION rich(least numeric) RETURNS SETOF acc LANGUAGE sql STABLE AS 'SELECT * FROM acc WHERE bal > least';
CREATE FUNCTION changes_of(who int) RETURNS TABLE (number int, amount numeric) LANGUAGE sql STABLE AS 'SELECT id, delta FROM hist WHERE acc = who';
CREATE FUNCTION how_many(d int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM hist WHERE acc = d; RETURN n; END $$;
CREATE FUNCTION one_of(d int) RETURNS numeric LANGUAGE plpgsql STABLE AS $$ DECLARE x numeric; BEGIN SELECT max(delta) INTO x FROM hist WHERE acc = d; RETURN x; END; $$;
SELECT id, owner FROM rich(150) WHERE id < 20 ORDER BY id;
SELECT r.owner, count(*) FROM rich(30) r JOIN hist ON hist.acc = r.id GROUP BY 1 ORDER BY 1;
SELECT a.id, c.number, c.amount FROM acc a, changes_of(a.id) c WHERE a.id < 6 ORDER BY 1, 2;
SELECT a.id, c.number FROM acc a LEFT JOIN LATERAL changes_of(a.id + 33) AS c ON true WHERE a.id < 12 ORDER BY 1, 2;
SELECT a.id, how_many(a.id), one_of(a.id) FROM acc a WHERE a.id < 12 ORDER BY 1;
-- The columns of a function's row.
CREATE FUNCTION two(a int, OUT b int, OUT c text) LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN b := a + 1; c := 'c' || a; END $$;
SELECT id, (two(id)).* FROM acc ORDER BY id LIMIT 3;
SELECT DISTINCT (two(id % 3)).* FROM acc ORDER BY 1;
-- Several settings at once, of any value; a text that only names the function.
SELECT set_config('my.a', 'it''s', false), set_config('my.b', 'x' || 1, false) AS second, 5 AS five;
-- params: last
SELECT set_config('my.c', $1, false);
SELECT current_setting('my.a'), current_setting('my.b'), current_setting('my.c'), count(*) FROM hist;
SELECT id FROM hist WHERE current_setting('my.b') = 'x1' AND id < 4 ORDER BY id;
SELECT set_config(name, '77s', false) FROM pg_settings WHERE name = 'lock_timeout';
SHOW lock_timeout;
BEGIN;
SELECT set_config('my.a', 'inside', true), set_config('my.b', 'stays', false);
SELECT id, current_setting('my.a') FROM hist WHERE id < 3 ORDER BY id;
COMMIT;
SELECT current_setting('my.a'), current_setting('my.b');
INSERT INTO acc VALUES (900, 'called set_config()', 0) RETURNING owner;
SELECT set_config('my.a', owner, false) FROM acc WHERE id = 3;
-- A temporary table takes the rows of a distributed one.
CREATE TABLE seen (k int, v text, n int) /*dist: hash(k) | hash(n) | replication | roundrobin*/;
INSERT INTO seen SELECT g, 'v' || g, g % 4 FROM generate_series(1, 12) g;
CREATE TEMP TABLE known AS SELECT k, v FROM seen WHERE k % 3 = 0;
MERGE INTO known USING seen ON known.k = seen.k WHEN MATCHED AND seen.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = seen.v || '!' WHEN NOT MATCHED AND seen.k > 6 THEN INSERT VALUES (seen.k, seen.v);
MERGE INTO known USING (SELECT n, max(k) AS k FROM seen WHERE k < 9 GROUP BY n) s ON known.k = s.k WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (-s.k, 'new ' || s.n);
SELECT * FROM known ORDER BY k;
DROP TABLE known;
