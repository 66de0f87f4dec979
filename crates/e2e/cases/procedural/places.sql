-- Assignments to places inside values, in bodies that the coordinator runs.
CREATE TYPE c1 AS (x int, arr int[]);
CREATE TYPE c2 AS (c c1, n text);
CREATE TABLE t (id int, k c2, j jsonb) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO t VALUES (1, ROW(ROW(1, '{1}'), 'n'), '{"a": {"b": 1}}');
CREATE TABLE lg (n int, x text) /*dist: hash(n) | roundrobin*/;

-- Keys of a jsonb; what is missing is made, and gaps in arrays are filled.
DO $$ DECLARE j jsonb := '{}'; n int; i int := 3; s text := 'key'; z jsonb; BEGIN
  SELECT count(*) INTO n FROM t;
  j['b'] := '5'; INSERT INTO lg VALUES (1, j);
  j['a']['b'] := to_jsonb(n); INSERT INTO lg VALUES (2, j);
  j['l'][i]['v'] := '"it''s \\ here"'; INSERT INTO lg VALUES (3, j);
  j['l']['1'] := '{"q": null}'; INSERT INTO lg VALUES (4, j);
  j['l'][-1]['w'] := 'true'; INSERT INTO lg VALUES (5, j);
  j[s || n] := NULL; INSERT INTO lg VALUES (6, j);
  z['x'][1] := '1'; INSERT INTO lg VALUES (7, z);
  z := '[]'; z[i] := j['a']; INSERT INTO lg VALUES (8, z);
END $$;
SELECT * FROM lg ORDER BY n, x;
DO $$ DECLARE j jsonb := '{"a": 1}'; n int; BEGIN SELECT count(*) INTO n FROM t; j['a']['b'] := '1'; END $$;
DO $$ DECLARE j jsonb := '{"a": 1}'; n int; BEGIN SELECT count(*) INTO n FROM t; j[NULL] := '1'; END $$;
DO $$ DECLARE j jsonb := '[1]'; n int; BEGIN SELECT count(*) INTO n FROM t; j[-2] := '1'; END $$;
DO $$ DECLARE j jsonb := '{}'; n int; BEGIN SELECT count(*) INTO n FROM t; j[1.5] := '1'; END $$;
DO $$ DECLARE j jsonb := '{}'; n int; BEGIN SELECT count(*) INTO n FROM t; j['a'] := 'no json'; END $$;
DO $$ DECLARE j jsonb := '{}'; n int; BEGIN SELECT count(*) INTO n FROM t; j['a':'b'] := '1'; END $$;
DO $$ DECLARE r record; BEGIN
  SELECT id, j INTO r FROM t;
  r.j['z'] := '7'; r.j['a']['c'] := to_jsonb(r.id);
  UPDATE t SET j = r.j;
END $$;
SELECT id, j FROM t;
DO $$ DECLARE a jsonb[]; r t; n int; BEGIN
  DELETE FROM lg;
  a[2]['v'] := '1'; INSERT INTO lg VALUES (1, a::text);
  SELECT * INTO r FROM t;
  r.j['a'] := NULL; INSERT INTO lg VALUES (2, r::text);
END $$;
SELECT * FROM lg ORDER BY n, x;

-- Fields of fields.
DO $$ DECLARE r t; BEGIN SELECT * INTO r FROM t; r.k.n := 'w'; UPDATE t SET k = r.k; END $$;
SELECT k FROM t;
DO $$ DECLARE v c2; n int; w c2 := NULL; BEGIN
  DELETE FROM lg;
  SELECT count(*) INTO n FROM t;
  v.c.x := n; v.c.arr[2] := n; INSERT INTO lg VALUES (1, v::text);
  v.c.arr[4] := n + (v.c).x; v.n := 'it''s, "so"'; INSERT INTO lg VALUES (2, v::text);
  v.c := ROW(3, '{3}'); INSERT INTO lg VALUES (3, v::text);
  w.c.x := '12'; INSERT INTO lg VALUES (4, w::text);
  v.c.x := NULL; INSERT INTO lg VALUES (5, v::text);
  v.c.arr[2:3] := '{8,9}'; INSERT INTO lg VALUES (6, v::text);
END $$;
SELECT * FROM lg ORDER BY n, x;
DO $$ DECLARE r record; BEGIN
  SELECT * INTO r FROM t;
  r.k.c.x := r.id + 41; r.k.c.arr[3] := (r.k).c.x; r.k.n := (r.k).n || (r.k).c.arr[1];
  UPDATE t SET k = r.k;
END $$;
SELECT k, (k).c.x FROM t;
DO $$ <<o>> DECLARE v c2; n int; BEGIN
  DELETE FROM lg; SELECT count(*) INTO n FROM t;
  o.v.c.x := 5; o.v.n := 'o'; o.v.c.arr := '{4}'; INSERT INTO lg VALUES (1, v::text);
  DECLARE v c2; BEGIN v.c.x := 6; o.v.c.x := (v.c).x + 1; INSERT INTO lg VALUES (2, v::text), (3, o.v::text); END;
END $$;
SELECT * FROM lg ORDER BY n, x;
DO $$ DECLARE v c2; n int; BEGIN SELECT count(*) INTO n FROM t; v.c.nope := 1; END $$;
DO $$ DECLARE v c2; n int; BEGIN SELECT count(*) INTO n FROM t; v.nope.x := 1; END $$;
DO $$ DECLARE v c2; n int; BEGIN SELECT count(*) INTO n FROM t; v.n.x := 1; END $$;
DO $$ DECLARE v c2; n int; BEGIN SELECT count(*) INTO n FROM t; v.c.x := 'word'; END $$;
DO $$ DECLARE v CONSTANT c2 := NULL; n int; BEGIN SELECT count(*) INTO n FROM t; v.c.x := 1; END $$;
DO $$ DECLARE r record; n int; BEGIN SELECT count(*) INTO n FROM t; r.k.n := 1; END $$;
DO $$ DECLARE v c2; n int; BEGIN SELECT count(*) INTO n FROM t; n := v.c.x; END $$;

-- Arrays of composites, slices, and arrays that have subscripts of other types.
DO $$ DECLARE a c1[]; b int[] := '{1,2,3,4}'; m int[]; n bigint; g point := '(1,2)'; h point; s smallint := 2; BEGIN
  DELETE FROM lg; SELECT count(*) INTO n FROM t;
  a[1].x := n; a[2].arr[n] := 7; INSERT INTO lg VALUES (1, a::text);
  b[n:s] := '{9,8}'; INSERT INTO lg VALUES (2, b::text);
  b[3:] := '{7,6}'; b['1'] := 0; INSERT INTO lg VALUES (3, b::text);
  m[s][n] := 1; INSERT INTO lg VALUES (4, m::text);
  g[0] := 5; INSERT INTO lg VALUES (5, g::text);
  h[0] := 5; INSERT INTO lg VALUES (6, h::text);
  b[0:0] := '{-1}'; INSERT INTO lg VALUES (7, b::text);
END $$;
SELECT * FROM lg ORDER BY n, x;
DO $$ DECLARE a int[]; n int; BEGIN SELECT count(*) INTO n FROM t; a[NULL] := 1; END $$;
DO $$ DECLARE a int[]; n int; BEGIN SELECT count(*) INTO n FROM t; a['x'] := 1; END $$;
DO $$ DECLARE a int[]; n int; BEGIN SELECT count(*) INTO n FROM t; n[1] := 1; END $$;
DO $$ DECLARE v c2; n int; BEGIN SELECT count(*) INTO n FROM t; v[1] := 1; END $$;
DO $$ DECLARE a int[]; n int; BEGIN SELECT count(*) INTO n FROM t; a[1:2] := '{1}'; END $$;

-- The row of a trigger.
CREATE FUNCTION before_t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  NEW.k.c.x := (SELECT count(*) FROM lg); NEW.j['n'] := to_jsonb((NEW.k).n); RETURN NEW;
END $$;
CREATE TRIGGER before_t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION before_t();
INSERT INTO t VALUES (2, ROW(NULL, 'two'), '{}'), (3, NULL, NULL);
SELECT * FROM t ORDER BY id;
