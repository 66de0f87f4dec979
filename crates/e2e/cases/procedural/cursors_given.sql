-- Functions and blocks that use a cursor which somebody else has opened.
CREATE TABLE t (id int, v int) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO t SELECT g, g FROM generate_series(1, 8) g;
CREATE FUNCTION fetched(c refcursor) RETURNS int LANGUAGE plpgsql AS $$ DECLARE x int; BEGIN FETCH c INTO x; RETURN x; END $$;
CREATE FUNCTION closed(c refcursor) RETURNS text LANGUAGE plpgsql AS $$ BEGIN MOVE c; CLOSE c; RETURN c; END $$;
CREATE FUNCTION opened(OUT c refcursor) LANGUAGE plpgsql AS $$ BEGIN c := 'mine'; OPEN c FOR SELECT id FROM t ORDER BY id DESC; END $$;
BEGIN;
DECLARE q CURSOR FOR SELECT id FROM t ORDER BY id;
SELECT fetched('q');
SELECT fetched('q');
FETCH q;
DO $$ DECLARE c refcursor := 'q'; x int; BEGIN FETCH c INTO x; RAISE NOTICE '%', x; END $$;
SELECT opened();
SELECT fetched('mine'), fetched('mine');
SELECT closed('q');
FETCH q;
ROLLBACK;
BEGIN;
DECLARE q CURSOR FOR SELECT id FROM t WHERE id = 1;
SELECT fetched('q');
COMMIT;
-- One of its own.
CREATE FUNCTION own() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c refcursor; x int; BEGIN OPEN c FOR SELECT 7; FETCH c INTO x; CLOSE c; RETURN x; END $$;
SELECT id, own() FROM t WHERE id < 3 ORDER BY id;
