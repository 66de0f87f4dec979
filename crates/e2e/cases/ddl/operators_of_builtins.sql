-- Operators and aggregates of users over PostgreSQL's own functions: those that compute work, those that do more are called by their name.
CREATE TABLE two (id int, t text, at timestamptz) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO two SELECT g, 'a' || g, '2024-01-01 00:00:00+00'::timestamptz + g * interval '1 day' FROM generate_series(1, 7) g;
CREATE OPERATOR %% (leftarg = int, rightarg = int, function = int4pl);
CREATE OPERATOR +^ (leftarg = timestamptz, rightarg = interval, function = timestamptz_pl_interval);
CREATE AGGREGATE joined(text) (sfunc = textcat, stype = text, initcond = '');
CREATE AGGREGATE most(int) (sfunc = int4larger, stype = int);
SELECT sum(id %% 1), most(id), length(joined(t)) FROM two;
SELECT id, at +^ '1 day' FROM two ORDER BY id;
SELECT most(id) FROM two WHERE id %% 1 < 5;

CREATE OPERATOR @@> (leftarg = tsquery, rightarg = text, function = ts_rewrite);
CREATE OPERATOR !&! (rightarg = bigint, function = pg_advisory_lock);
CREATE OPERATOR !&? (rightarg = regclass, function = pg_total_relation_size);
CREATE AGGREGATE rewritten(text) (sfunc = ts_rewrite, stype = tsquery, initcond = 'a');
CREATE AGGREGATE settings(text, bool) (sfunc = set_config, stype = text, initcond = 'application_name');
-- refused
-- refused
SELECT 'a'::tsquery @@> 'select ''a''::tsquery, (''c''||count(*))::tsquery from two';
-- refused
SELECT !&! 12345::bigint;
-- refused
SELECT count(*) FROM two WHERE (!&! id::bigint) IS NULL;
-- refused
SELECT !&? 'two'::regclass > 0;
-- refused
SELECT rewritten('select ''a''::tsquery, ''b''::tsquery') FROM two;
-- refused
SELECT settings('x', false);
-- refused
INSERT INTO two (t) VALUES (('a'::tsquery @@> 'select ''a''::tsquery, ''b''::tsquery')::text), ('b');
-- refused
UPDATE two SET t = ('a'::tsquery @@> 'select ''a''::tsquery, ''b''::tsquery')::text;
SELECT count(*) FROM two;
