-- What job queues and other applications do with functions: jobs are made by functions that call each other, of the same name
-- too, with WITH that changes rows, and taken in LATERAL with SKIP LOCKED.
CREATE TYPE spec AS (name text, rank int);
CREATE TABLE jobs (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, rank int, state text DEFAULT 'new') /*dist: replication | hash(id) | default*/;
CREATE TABLE told (n int) /*dist: roundrobin | replication | hash(n)*/;

-- A WITH that changes rows is all of a body.
CREATE FUNCTION put(specs spec[]) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE ids int[];
BEGIN
  WITH made AS (INSERT INTO jobs (name, rank) SELECT (s).name, (s).rank FROM unnest(specs) AS s RETURNING id)
  SELECT array_agg(id ORDER BY id) FROM made INTO ids;
  RETURN ids;
END $$;
SELECT put(ARRAY[('a', 1), ('b', 2)]::spec[]);
SELECT unnest(put(ARRAY[('c', 3)]::spec[])) AS id;
SELECT * FROM put(ARRAY[('d', 4)::spec]) LIMIT 1;

CREATE FUNCTION tell(count int) RETURNS SETOF int LANGUAGE sql AS $$
  WITH made AS (INSERT INTO told SELECT * FROM generate_series(1, count) RETURNING n) SELECT n FROM made ORDER BY n $$;
SELECT * FROM tell(2);
SELECT tell(1);
CREATE FUNCTION forget(what int) RETURNS SETOF told LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY WITH gone AS (DELETE FROM told WHERE n = what RETURNING *) SELECT * FROM gone;
END $$;
SELECT * FROM forget(2);
SELECT count(*) FROM (SELECT forget(1)) AS gone;
SELECT count(*) FROM told;
SELECT * FROM jobs ORDER BY id;

-- Values of types of one's own, which nothing but the call mentions.
-- params: {"(e,5)","(f,6)"}
SELECT put($1);
-- params: 7 | {"(g,7)"}
SELECT $1::int AS n, put($2);
-- params: {"(h,8)"} | {"(i,9)"}
SELECT put($1), put($2::spec[]);
CREATE FUNCTION log_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM put(ARRAY[(to_jsonb(NEW)->>'n', NEW.n)::spec]);
  RETURN NULL;
END $$;
CREATE TRIGGER log_job AFTER INSERT ON told FOR EACH ROW EXECUTE FUNCTION log_job();
INSERT INTO told VALUES (41);

-- Functions of one name, which take as many arguments and call each other.
CREATE FUNCTION send(name text, rank int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN RETURN (put(ARRAY[(name, rank)::spec]))[1]; END $$;
CREATE FUNCTION send(name text, rank text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN RETURN send(name, rank::int + 100); END $$;
CREATE FUNCTION send(name text) RETURNS SETOF int LANGUAGE sql AS $$ SELECT * FROM send(name, '20') $$;
SELECT send('j', 10) > 0;
SELECT send('k', '11'::text) > 0;
SELECT count(*) FROM send('l');
SELECT send('m', 12) > 0, send('n', '13'::text) > 0;
SELECT send(n::text, n) > 0 FROM told WHERE n > 40;
DO $$ BEGIN PERFORM send('o', '14'::text); PERFORM send('p'); END $$;

-- A call in a sub-select of COALESCE.
CREATE TABLE marks (id int PRIMARY KEY, n int) /*dist: hash(id) | replication | default*/;
INSERT INTO marks VALUES (1, 0), (2, 0);
UPDATE marks SET n = (SELECT coalesce((SELECT cardinality(put(ARRAY[('q', 15)::spec])) + 6), 0)) WHERE id = 1;
SELECT * FROM marks ORDER BY id;
SELECT name, rank, state FROM jobs ORDER BY id;

-- What statements of a body are told about by the server.
CREATE FUNCTION prepare() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  CREATE TABLE IF NOT EXISTS jobs (id int);
  EXECUTE 'DROP TABLE IF EXISTS nothing_of_the_kind';
END $$;
SELECT prepare();
DO $$ BEGIN PERFORM prepare(); END $$;

-- Jobs are taken by the kind.
CREATE TABLE queue (id int PRIMARY KEY, kind text UNIQUE, due int) /*dist: replication | replication | default*/;
INSERT INTO queue SELECT g, 'k' || g, g % 4 FROM generate_series(1, 12) AS g;
WITH kinds AS (SELECT unnest(ARRAY['k3', 'k5', 'k7', 'k0']) AS kind),
next AS (SELECT j.id FROM kinds CROSS JOIN LATERAL
  (SELECT q.id, q.due FROM queue q WHERE q.kind = kinds.kind AND q.due > 0 ORDER BY q.id LIMIT 1 FOR UPDATE SKIP LOCKED) j ORDER BY j.due, j.id LIMIT 2),
taken AS (UPDATE queue SET due = -1 WHERE id IN (SELECT id FROM next) RETURNING id, kind)
SELECT * FROM taken ORDER BY id;
SELECT * FROM queue ORDER BY id;
