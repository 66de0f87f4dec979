-- Functions that give sets in a select list: PostgreSQL makes equal calls once, but where each is all of an output column.
CREATE TABLE job (id int PRIMARY KEY, what text) /*dist: hash(id) | replication*/;
CREATE TABLE done (id int, what text) /*dist: hash(id)*/;
CREATE TABLE src (n int) /*dist: hash(n)*/;
INSERT INTO job SELECT i, 'w' || i FROM generate_series(1, 30) i;
INSERT INTO src VALUES (1), (2);
CREATE FUNCTION pop(n int) RETURNS SETOF job LANGUAGE sql AS $$ DELETE FROM job WHERE id IN (SELECT id FROM job ORDER BY id LIMIT n) RETURNING * $$;
CREATE FUNCTION log(x int) RETURNS TABLE (a int, b text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO done VALUES (x, 'log'); RETURN QUERY SELECT j.id, j.what FROM job j WHERE j.id = x; END $$;
CREATE FUNCTION ws(x int) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO done VALUES (x, 'ws'); RETURN QUERY SELECT x; RETURN QUERY SELECT x + 10; END $$;
CREATE FUNCTION one(x int) RETURNS job LANGUAGE plpgsql AS $$ DECLARE r job; BEGIN INSERT INTO done VALUES (x, 'one'); SELECT * INTO r FROM job WHERE id = x; RETURN r; END $$;

SELECT (pop(1)).*;
SELECT count(*), min(id) FROM job;
INSERT INTO done SELECT (pop(1)).*;
SELECT * FROM done;
SELECT (pop(1)).what, (pop(1)).id;
SELECT count(*), min(id) FROM job;
SELECT (log(10)).*;
SELECT (log(11)).a, (log(12)).a, (log(11)).b;
SELECT ws(1) + 1, ws(1) + 2;
SELECT ws(2) + 1, ws(2);
SELECT ws(3), ws(3);
SELECT abs(ws(4)), ws(4);
SELECT n, ws(n) + 1, ws(n) + 2 FROM src WHERE n = 1;
SELECT (one(20)).*;
SELECT x.* FROM (SELECT (log(13)).*) x;
SELECT what, count(*) FROM done GROUP BY what ORDER BY what;
CREATE FUNCTION taken(OUT i int, OUT w text) LANGUAGE plpgsql AS $$ BEGIN SELECT (pop(1)).* INTO i, w; END $$;
SELECT * FROM taken();
SELECT count(*), min(id) FROM job;
PREPARE p AS SELECT (pop($1)).*;
EXECUTE p(1);
EXECUTE p(1);
SELECT count(*), min(id) FROM job;

-- Beside a condition with calls, too, each output column has its own.
CREATE FUNCTION ok(x int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN INSERT INTO done VALUES (x, 'ok'); RETURN true; END $$;
CREATE FUNCTION w(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO done VALUES (x, 'w'); RETURN x; END $$;
TRUNCATE done;
SELECT w(n), w(n) FROM src WHERE ok(n);
SELECT ws(n), ws(n) FROM src WHERE ok(n);
SELECT w(n), w(n) FROM src WHERE ok(n) ORDER BY 1;
SELECT DISTINCT w(n), w(n) FROM src WHERE ok(n);
SELECT what, count(*) FROM done GROUP BY what ORDER BY what;
