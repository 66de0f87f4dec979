-- Defaults, conditions, generated columns and policies that would read one node's rows, or ask one server, are refused when they are made, whatever leads there.
CREATE TABLE aliases (id int PRIMARY KEY, t tsquery, s tsquery) /*dist: hash(id) | replication*/;
INSERT INTO aliases VALUES (1, 'a', 'b'), (2, 'c', 'd'), (3, 'e', 'f'), (4, 'g', 'h');
CREATE SEQUENCE numbers;
CREATE TABLE items (k int PRIMARY KEY, q tsquery, n bigint DEFAULT nextval('numbers'), size int) /*dist: hash(k) | replication*/;
CREATE OPERATOR @@> (leftarg = tsquery, rightarg = text, function = ts_rewrite);
CREATE AGGREGATE rewritten(text) (sfunc = ts_rewrite, stype = tsquery, initcond = 'a');
CREATE CAST (oid AS bytea) WITH FUNCTION lo_get(oid);
CREATE FUNCTION pages(regclass) RETURNS bigint LANGUAGE internal IMMUTABLE STRICT AS 'pg_total_relation_size';

-- By name, in CREATE TABLE.
-- refused
CREATE TABLE of_default (k int PRIMARY KEY, q tsquery DEFAULT ts_rewrite('a & c & e'::tsquery, 'SELECT t, s FROM aliases'));
-- refused
CREATE TABLE of_check (k int PRIMARY KEY, CHECK (length(query_to_xml('SELECT id FROM aliases', true, true, '')::text) > k));
-- refused
CREATE TABLE of_size (k int PRIMARY KEY, CHECK (pg_total_relation_size('aliases') > k));
-- refused
CREATE TABLE of_statistics (k int PRIMARY KEY, CHECK (pg_stat_get_live_tuples('aliases'::regclass) < 1000));
-- refused
CREATE TABLE of_sequence (k int PRIMARY KEY, CHECK (nextval('numbers') > 0));
-- refused
CREATE TABLE of_parts (k int, q tsquery DEFAULT ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases')) PARTITION BY RANGE (k);
-- refused
CREATE TABLE of_generated (k int PRIMARY KEY, size bigint GENERATED ALWAYS AS (pages('aliases') + k) STORED);
SELECT count(*) FROM pg_class WHERE relname LIKE 'of\_%';

-- By a user's operator, cast and function.
-- refused
CREATE TABLE of_operator (k int PRIMARY KEY, q tsquery DEFAULT 'a & c & e'::tsquery @@> 'SELECT t, s FROM aliases');
-- refused
CREATE TABLE of_operator (k int PRIMARY KEY CHECK (('a'::tsquery @@> 'SELECT t, s FROM aliases') IS NOT NULL));
-- refused
CREATE TABLE of_cast (k int PRIMARY KEY, large oid, CHECK (length(large::bytea) > 0));
-- refused
CREATE INDEX ON items ((k + pages('aliases')));
-- refused
CREATE INDEX ON items (k) WHERE pages('aliases') > 0;

-- ALTER TABLE.
-- refused
ALTER TABLE items ALTER COLUMN q SET DEFAULT ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases');
-- refused
ALTER TABLE items ALTER COLUMN q SET DEFAULT 'a'::tsquery @@> 'SELECT t, s FROM aliases';
-- refused
ALTER TABLE items ADD COLUMN r tsquery DEFAULT 'a'::tsquery @@> 'SELECT t, s FROM aliases';
-- refused
ALTER TABLE items ADD CHECK (q <> ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases'));
-- refused
ALTER TABLE items ADD CONSTRAINT later CHECK (q <> ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases')) NOT VALID;
-- refused
CREATE POLICY seen ON items USING (('a'::tsquery @@> 'SELECT t, s FROM aliases') IS NOT NULL);
-- refused
CREATE POLICY seen ON items USING ((SELECT rewritten('SELECT t, s FROM aliases') FROM (VALUES (1)) v) IS NOT NULL);
-- refused
CREATE TRIGGER told BEFORE UPDATE ON items FOR EACH ROW WHEN (NEW.q <> ts_rewrite(OLD.q, 'SELECT t, s FROM aliases'))
  EXECUTE FUNCTION suppress_redundant_updates_trigger();

-- Domains.
-- refused
CREATE DOMAIN rewritten_query AS tsquery DEFAULT ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases');
-- refused
CREATE DOMAIN rewritten_query AS tsquery CHECK (VALUE <> ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases'));
CREATE DOMAIN plain_query AS tsquery CHECK (numnode(VALUE) > 0);
-- refused
ALTER DOMAIN plain_query SET DEFAULT 'a'::tsquery @@> 'SELECT t, s FROM aliases';
-- refused
ALTER DOMAIN plain_query ADD CHECK (VALUE <> ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases'));

-- Temporary tables are on one node.
-- refused
CREATE TEMP TABLE kept (k int, q tsquery DEFAULT ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases'));
CREATE TEMP TABLE kept (k int, q tsquery DEFAULT 'a');
-- refused
ALTER TABLE kept ADD CHECK (q <> ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases'));
INSERT INTO kept (k) VALUES (1);
SELECT * FROM kept;

-- In a block nothing is left of what was refused.
BEGIN;
ALTER TABLE items ADD COLUMN more int DEFAULT 5;
SAVEPOINT s;
-- refused
ALTER TABLE items ALTER COLUMN q SET DEFAULT ts_rewrite('a'::tsquery, 'SELECT t, s FROM aliases');
ROLLBACK TO s;
COMMIT;

-- What computes, draws from a sequence, or reads the clock and the settings, is as it was.
CREATE TABLE fine (k int PRIMARY KEY, n bigint DEFAULT nextval('numbers'), q tsquery DEFAULT ts_rewrite('a & c'::tsquery, 'a'::tsquery, 'b'::tsquery),
  d date DEFAULT current_date, who name DEFAULT current_user, u text DEFAULT md5(random()::text), at timestamptz DEFAULT now(),
  w text DEFAULT to_char(timestamp '2024-01-01', 'YYYY'), v tsvector GENERATED ALWAYS AS (to_tsvector('english', 'words of ' || k)) STORED,
  CHECK (at <= clock_timestamp() + interval '1 day'), CHECK (pg_column_size(q) < 1000), CHECK (has_table_privilege('aliases', 'SELECT')),
  CHECK (lpad(w, 6) <> w), CHECK (pg_typeof(k) = 'integer'::regtype));
CREATE INDEX ON fine ((lower(w))) WHERE k > 0;
INSERT INTO fine (k) VALUES (1), (2), (3);
SELECT k, n, q, w, v FROM fine ORDER BY k;
ALTER TABLE fine ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fine USING (who = current_user AND current_setting('application_name') IS NOT NULL);
SELECT count(*) FROM fine;
INSERT INTO items (k) VALUES (1), (2), (3);
SELECT k, q, n, more FROM items ORDER BY k;
CREATE TABLE alike (LIKE items INCLUDING ALL);
INSERT INTO alike (k) VALUES (4);
SELECT count(*) FROM alike;
