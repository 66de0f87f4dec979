-- Functions that write rows, in a sub-select that refers to nothing outside itself: PostgreSQL runs it once, if a row gets there.
CREATE TYPE spec AS (name text, rank int);
CREATE TABLE jobs (id bigserial PRIMARY KEY, name text, rank int) /*dist: replication | replication | default*/;
CREATE TABLE events (id bigserial PRIMARY KEY, job_id bigint) /*dist: hash(id) | replication | default*/;
CREATE TABLE defers (id bigserial PRIMARY KEY, task text, at int, job_id bigint REFERENCES jobs) /*dist: replication | hash(id) | default*/;
CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO events (job_id) VALUES (NEW.id); RETURN NEW; END $$;
CREATE TRIGGER told AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION told();
CREATE FUNCTION put(specs spec[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE ids bigint[];
BEGIN
  WITH made AS (INSERT INTO jobs (name, rank) SELECT (s).name, (s).rank FROM unnest(specs) AS s RETURNING id)
  SELECT array_agg(id ORDER BY id) FROM made INTO ids;
  RETURN ids;
END $$;
CREATE FUNCTION one(what text) RETURNS bigint LANGUAGE sql AS $$ INSERT INTO jobs (name) VALUES (what) RETURNING id $$;

-- In VALUES.
INSERT INTO defers (task, at, job_id) VALUES ('a', 1, (SELECT one('a'))) RETURNING id, task, job_id;
-- params: b
INSERT INTO defers (task, at, job_id) VALUES ($1, 2, (SELECT one($1))) RETURNING job_id;
INSERT INTO defers (task, at, job_id) VALUES ('c', 3, (SELECT one('c'))), ('d', 4, (SELECT unnest(put(ARRAY[('d', 4)::spec])))) RETURNING task, job_id;
INSERT INTO defers (id, task, job_id) VALUES (1, 'e', (SELECT one('e'))) ON CONFLICT (id) DO NOTHING;
SELECT id, name, rank FROM jobs ORDER BY id;

-- In SET: once for all rows, and not if there are none.
UPDATE defers SET job_id = (SELECT one('f')) WHERE at > 1;
SELECT id, task, job_id FROM defers ORDER BY id;
UPDATE defers SET job_id = (SELECT one('g')) WHERE at > 100;
UPDATE defers SET job_id = (SELECT unnest(put(ARRAY[('h', 7)::spec]))) WHERE id = 1 RETURNING id, job_id;
UPDATE defers SET job_id = CASE WHEN at > 2 THEN (SELECT one('i')) ELSE job_id END, task = upper(task) WHERE at < 3;
UPDATE defers SET job_id = coalesce(job_id, (SELECT one('j')));
UPDATE defers SET at = at + (SELECT coalesce((SELECT cardinality(put(ARRAY[('k', 8)::spec, ('l', 9)::spec]))), 0));
-- ordered
SELECT id, task, at, job_id FROM defers ORDER BY id;
SELECT id, name, rank FROM jobs ORDER BY id;
SELECT job_id FROM events ORDER BY job_id;
UPDATE defers SET task = (SELECT one('m') FROM generate_series(1, 2)) WHERE id = 1;
UPDATE defers SET job_id = (SELECT one('n') WHERE false) WHERE id = 1 RETURNING job_id;
UPDATE defers SET job_id = (SELECT max(one(x)) FROM unnest(ARRAY['o', 'p']) AS x) WHERE id = 2 RETURNING job_id;

-- In a function.
CREATE FUNCTION defer(what text, moment int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE made bigint; job bigint;
BEGIN
  INSERT INTO defers (task, at) VALUES (what, moment) RETURNING id INTO made;
  UPDATE defers SET job_id = (SELECT unnest(put(ARRAY[ROW(what, moment)::spec]))) WHERE id = made RETURNING job_id INTO job;
  DELETE FROM defers USING (SELECT id FROM defers WHERE task = what AND at < moment ORDER BY id FOR UPDATE) AS old WHERE defers.id = old.id;
  RETURN job;
END $$;
SELECT defer('q', 5);
SELECT defer('q', 6);
SELECT task, at, job_id FROM defers WHERE task = 'q';

-- In WHERE it depends on PostgreSQL's plan whether, and when, it is run.
-- refused
DELETE FROM defers WHERE at = (SELECT 6 + one('r') * 0);
-- refused
UPDATE defers SET at = 0 WHERE task = 'A' AND job_id < (SELECT one('s')) RETURNING task;
-- refused
DELETE FROM defers WHERE at > 3 OR job_id IS NULL OR (SELECT one('u')) < 0;
SELECT name FROM jobs WHERE name ~ '^(u|v|x|aa)' ORDER BY name;

-- refused
SELECT count(*) FROM defers GROUP BY at HAVING max(id) = (SELECT one('t'));
-- In the order of the table's columns.
UPDATE defers SET job_id = (SELECT one('u2')), at = (SELECT 1 + 0 * one('u1')) WHERE id = 1;
INSERT INTO defers (at, task) VALUES ((NOT (SELECT one('u3')) > 1)::int, 'not'), (1, 'not');
-- refused
WITH d AS (UPDATE defers SET at = (SELECT one('u4')) WHERE id > 1000 RETURNING 1) SELECT 1;

-- In a select list, and where only some rows get there.
SELECT (SELECT one('v')) IS NOT NULL AS made, count(*) OVER () FROM events WHERE job_id < 3;
SELECT (SELECT one('w')) FROM events WHERE job_id < 0;
SELECT job_id < 3 AND (SELECT one('x')) > 0 AS both FROM events WHERE job_id < 5 ORDER BY job_id;
-- refused
SELECT job_id FROM events WHERE job_id < 3 AND job_id < (SELECT one('y')) ORDER BY job_id;
SELECT false AND (SELECT one('z')) > 0;
SELECT true OR (SELECT one('z')) > 0, EXISTS (SELECT 1 FROM jobs WHERE name = 'z');
INSERT INTO defers (task, job_id) SELECT 'row', (SELECT one('aa')) FROM generate_series(1, 3);
SELECT count(*), count(DISTINCT job_id) FROM defers WHERE task = 'row';
SELECT name FROM jobs WHERE name ~ '^(u|v|x|aa)' ORDER BY name;

-- What the function changes, the statement reads.
-- refused
UPDATE jobs SET rank = (SELECT one('bb'));
UPDATE defers SET job_id = (SELECT one('cc')) WHERE job_id IN (SELECT id FROM jobs);
-- refused
UPDATE defers SET job_id = 1 WHERE (SELECT one('dd')) < 0;
SELECT EXISTS (SELECT one('ee')) FROM events;
SELECT count(*) FROM jobs WHERE length(name) = 2;
