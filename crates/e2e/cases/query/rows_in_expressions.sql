-- Rows of tables as a whole within expressions, where the rows have come from several nodes.
CREATE TABLE a (id int, k int, s text) /*dist: hash(id) | roundrobin | replication*/;
CREATE TABLE b (bid int, ak int, w numeric) /*dist: hash(bid) | replication | roundrobin*/;
INSERT INTO a VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 1, 'z');
INSERT INTO b VALUES (1, 2, 1.5), (2, 3, 2), (3, 1, 3), (4, NULL, 4);
CREATE FUNCTION fa(a) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).s || '?' $$;
CREATE FUNCTION fp(a) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1.s || '?'; END $$;
CREATE VIEW va AS SELECT k, count(*) AS c FROM a GROUP BY k;
SELECT CASE WHEN b.w > 2 THEN a END, b.bid FROM b LEFT JOIN a ON a.id = b.ak ORDER BY b.bid;
SELECT to_jsonb(CASE WHEN b.w > 1 THEN a END) FROM b LEFT JOIN a ON a.id = b.ak ORDER BY b.bid;
SELECT coalesce(a, ROW(0, 0, '-')::a) FROM b LEFT JOIN a ON a.id = b.ak ORDER BY b.bid;
SELECT CASE WHEN va.c > 1 THEN va END FROM va ORDER BY va.k;
SELECT max(fa(a)), min(fp(a)) FROM b JOIN a ON a.id = b.ak;
SELECT b.bid FROM a JOIN b ON a.k = b.ak WHERE fp(a) > 'x' ORDER BY 1;
SELECT a.fa, bid FROM a JOIN b ON a.id = b.ak ORDER BY bid;
SELECT array_agg(a ORDER BY id) || ROW(0, 0, 'n')::a FROM a;
SELECT array_agg(a ORDER BY id) @> ARRAY[ROW(2, 2, 'y')::a] FROM a;
SELECT id, lag(a, 1, ROW(0, 0, 'n')::a) OVER (ORDER BY id) FROM a ORDER BY id;
SELECT count(a), count(b), count(CASE WHEN a IS NULL THEN 1 END) FROM b LEFT JOIN a ON a.id = b.ak;
SELECT a IS NOT DISTINCT FROM NULL, b.bid FROM b LEFT JOIN a ON a.id = b.ak ORDER BY b.bid;
SELECT x.s, y.s FROM a x JOIN a y ON x.k = y.k AND x < y ORDER BY 1, 2;
SELECT row_to_json(a), json_agg(b ORDER BY bid) FROM a JOIN b ON b.ak = a.id GROUP BY a.id, a.* ORDER BY a.id;
-- Into columns of the type.
CREATE TABLE sink (w a, n int, ws a[]) /*dist: hash(n) | replication*/;
INSERT INTO sink (n, ws) SELECT k + 50, array_agg(a ORDER BY id) FROM a GROUP BY k;
INSERT INTO sink (n) VALUES (1), (2);
UPDATE sink SET ws = (SELECT array_agg(a ORDER BY id) FROM a WHERE a.k = sink.n) WHERE n < 50;
UPDATE sink SET ws = ARRAY[a] FROM a JOIN b ON b.ak = a.id WHERE b.bid = n + 50;
SELECT * FROM sink ORDER BY n;

-- A row goes as a whole to the variable of a FOREACH, and field by field to a list.
CREATE TYPE ln AS (art text, q int);
DO $$ DECLARE l ln; BEGIN PERFORM count(*) FROM a;
  FOREACH l IN ARRAY ARRAY[('a', 3), ('b', 4), NULL]::ln[] LOOP RAISE NOTICE '% | % | %', l, l.art, l.q; END LOOP; END $$;
DO $$ DECLARE p text; n int; BEGIN PERFORM count(*) FROM a;
  FOREACH p, n IN ARRAY ARRAY[('a', 3), ('b', 4)]::ln[] LOOP RAISE NOTICE '% | %', p, n; END LOOP; END $$;
DO $$ DECLARE r record; BEGIN PERFORM count(*) FROM a;
  FOREACH r IN ARRAY ARRAY[('a', 3), ('b', 4)]::ln[] LOOP RAISE NOTICE '% | %', r.art, r.q; END LOOP; END $$;
DO $$ DECLARE e int; BEGIN PERFORM count(*) FROM a;
  FOREACH e IN ARRAY '{}'::int[] LOOP RAISE NOTICE '%', e; END LOOP; RAISE NOTICE '% %', e, FOUND; END $$;

-- A constant that names a function does not call it.
CREATE FUNCTION reads() RETURNS int LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT * FROM a LOOP NULL; END LOOP; RETURN 1; END $$;
CREATE FUNCTION writes() RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM a WHERE id = 99; RETURN 1; END $$;
SELECT 'reads'::regproc, 'writes()'::regprocedure;
SELECT prosrc FROM pg_proc WHERE oid = 'writes'::regproc;
SELECT pg_get_functiondef('reads'::regproc);
SELECT obj_description('reads'::regproc, 'pg_proc');
SELECT reads(), 'reads'::regproc;

CREATE TABLE parted (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
-- refused
ALTER TABLE parted DETACH PARTITION part_1 CONCURRENTLY;
