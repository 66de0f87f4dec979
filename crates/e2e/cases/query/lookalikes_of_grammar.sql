-- What PostgreSQL's grammar ties to a bare name, where somebody has an object of that name.
CREATE SCHEMA e2e_lg;
CREATE SCHEMA e2e_lg_other;
SET search_path = e2e_lg;
CREATE TABLE t (k int PRIMARY KEY, v int, s text, x xml) /*dist: hash(k) | replication*/;
INSERT INTO t SELECT i, i % 3, 'abc' || i, ('<r><c>' || i || '</c></r>')::xml FROM generate_series(1, 6) i;
CREATE FUNCTION e2e_lg_other.unnest(point) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION e2e_lg_other.count(point) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION e2e_lg_other.substring(point) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION e2e_lg_other.percentile_cont(point) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION e2e_lg_other.json_to_recordset(point) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION e2e_lg_other.row_number(point) RETURNS int LANGUAGE sql AS 'SELECT 1';

-- Several arrays.
SELECT k, a, b FROM t, unnest(ARRAY[1, 2], ARRAY['x', 'y']) u(a, b) WHERE k < 3 ORDER BY 1, 2;
SELECT k, u.* FROM t, unnest(ARRAY[1, 2], ARRAY['x', 'y', 'z']) WITH ORDINALITY u WHERE k < 3 ORDER BY 1, 4;
SELECT k, unnest.* FROM t, unnest(ARRAY[k, 2], ARRAY['x']) WHERE k < 3 ORDER BY 1, 2;
SELECT k, u.* FROM t, ROWS FROM (unnest(ARRAY[k, 2], ARRAY['x']), generate_series(1, 3)) WITH ORDINALITY u(a, b, c, o) WHERE k < 3 ORDER BY 1, 5;
SELECT k, u.* FROM t, ROWS FROM (unnest(ARRAY[k, 2]), unnest(ARRAY['x'])) u WHERE k < 3 ORDER BY 1, 2;
SELECT t.k, l.n FROM t, LATERAL (SELECT count(b) AS n FROM unnest(ARRAY[t.k, 2], ARRAY['x', t.s]) u(a, b)) l ORDER BY 1;
SELECT k, (SELECT string_agg(b, ',' ORDER BY a) FROM unnest(ARRAY[k, 2], ARRAY['x', s]) u(a, b)) FROM t ORDER BY 1;
INSERT INTO t SELECT a, a, b FROM unnest(ARRAY[11, 12, 13, 14], ARRAY['p', 'q']) u(a, b);
UPDATE t SET v = b FROM unnest(ARRAY[11, 12], ARRAY[7, 8]) u(a, b) WHERE k = a;
DELETE FROM t USING unnest(ARRAY[13, 14], ARRAY[7, 8]) u(a, b) WHERE k = a;
SELECT k, v, s FROM t WHERE k > 10 ORDER BY 1;
CREATE VIEW w AS SELECT k, count(*) OVER (PARTITION BY v) AS n, a, b FROM t, unnest(ARRAY[1, 2], ARRAY['x', 'y']) u(a, b) WHERE k < 4;
SELECT * FROM w ORDER BY 1, 3;
SELECT count(*), b FROM w JOIN t ON t.v = w.a GROUP BY b ORDER BY b;

-- Others.
SELECT count(*), count(DISTINCT v), percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM t;
SELECT k, substring(s from 2 for 1), substring(s from 'b(.)'), row_number() OVER (ORDER BY k) FROM t ORDER BY k;
SELECT k, r.* FROM t, json_to_recordset('[{"a": 1, "b": "x"}]') AS r(a int, b text) WHERE k < 3 ORDER BY 1;

-- Types.
CREATE DOMAIN e2e_lg_other.text AS int;
SET search_path = e2e_lg_other, pg_catalog, e2e_lg;
SELECT k, q.y FROM t, xmltable('/r' PASSING x COLUMNS y pg_catalog.text PATH 'c') q ORDER BY 1;
SELECT k, xmlserialize(CONTENT x AS pg_catalog.text) FROM t ORDER BY 1;
SELECT k, r.* FROM t, json_to_recordset('[{"a": 1, "b": "x"}]') AS r(a int, b pg_catalog.text) WHERE k < 3 ORDER BY 1;
RESET search_path;
DROP SCHEMA e2e_lg, e2e_lg_other CASCADE;
