-- What views call without saying so, where they are read or refreshed with their owners' rights: casts, policies, indexes, types.
CREATE SCHEMA e2e_behind;
CREATE ROLE e2e_low;
CREATE ROLE e2e_reader;
GRANT ALL ON SCHEMA e2e_behind TO e2e_low, e2e_reader;
SET search_path = e2e_behind;
CREATE TABLE secret (k int, s text) /*dist: hash(k) | replication | roundrobin*/;
INSERT INTO secret VALUES (1, 'top secret');

SET SESSION AUTHORIZATION e2e_low;
CREATE TABLE t (k int, v int) /*dist: hash(k) | roundrobin | hash(v)*/;
CREATE TABLE plain (k int, v int) /*dist: hash(k) | roundrobin | hash(v)*/;
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4);
INSERT INTO plain SELECT * FROM t;
CREATE FUNCTION low_c(t) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'as ' || current_user; END $$;
CREATE CAST (t AS text) WITH FUNCTION low_c(t);
CREATE MATERIALIZED VIEW m_cast AS SELECT t::text AS x FROM t WITH NO DATA;
CREATE MATERIALIZED VIEW m_whole AS SELECT (t.*)::text AS x FROM t WITH NO DATA;
CREATE MATERIALIZED VIEW m_array AS SELECT ARRAY[t]::text[] AS x FROM t WITH NO DATA;
CREATE MATERIALIZED VIEW m_plain AS SELECT v % 2 AS o, count(*) AS n, min(v)::text AS x FROM plain GROUP BY 1 WITH NO DATA;
CREATE VIEW between AS SELECT t::text AS x FROM t;
CREATE MATERIALIZED VIEW m_between AS SELECT x FROM between WITH NO DATA;
-- A cast that is there only after the view.
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE moods (k int, m mood) /*dist: hash(k) | roundrobin | hash(k)*/;
INSERT INTO moods VALUES (1, 'sad'), (2, 'glad');
CREATE MATERIALIZED VIEW m_later AS SELECT m::text AS x FROM moods WITH NO DATA;
CREATE FUNCTION low_mood(mood) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'as ' || current_user; END $$;
CREATE CAST (mood AS text) WITH FUNCTION low_mood(mood);
-- Composite types, domains.
CREATE TYPE pair AS (a int, b int);
CREATE FUNCTION low_pair(pair) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN $1.a; END $$;
CREATE CAST (pair AS int) WITH FUNCTION low_pair(pair) AS IMPLICIT;
CREATE MATERIALIZED VIEW m_pair AS SELECT abs(ROW(k, v)::pair) AS x FROM plain WITH NO DATA;
CREATE FUNCTION low_ok(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$;
CREATE DOMAIN few AS int CHECK (low_ok(VALUE));
CREATE MATERIALIZED VIEW m_domain AS SELECT (k::few)::int AS x FROM plain WITH NO DATA;
CREATE TABLE guarded (k int, v int) /*dist: hash(k) | roundrobin | hash(v)*/;
INSERT INTO guarded SELECT * FROM plain;
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
ALTER TABLE guarded FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON guarded USING (low_ok(k));
CREATE MATERIALIZED VIEW m_policy AS SELECT count(*) AS n FROM guarded WITH NO DATA;
-- What is computed when a query is planned.
CREATE FUNCTION low_i(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1; END $$;
CREATE TABLE indexed (k int, v int) /*dist: hash(k) | roundrobin | hash(v)*/;
INSERT INTO indexed SELECT * FROM plain;
CREATE INDEX ON indexed (v) WHERE low_i(1) = v;
CREATE MATERIALIZED VIEW m_index AS SELECT count(*) AS n FROM indexed WHERE v = 1 WITH NO DATA;
RESET SESSION AUTHORIZATION;

REFRESH MATERIALIZED VIEW m_plain;
SELECT * FROM m_plain ORDER BY 1;
-- refused
REFRESH MATERIALIZED VIEW m_cast;
-- refused
REFRESH MATERIALIZED VIEW m_whole;
-- refused
REFRESH MATERIALIZED VIEW m_array;
-- refused
REFRESH MATERIALIZED VIEW m_between;
-- refused
REFRESH MATERIALIZED VIEW m_later;
-- refused
REFRESH MATERIALIZED VIEW m_pair;
-- refused
REFRESH MATERIALIZED VIEW m_domain;
-- refused
REFRESH MATERIALIZED VIEW m_policy;
-- refused
REFRESH MATERIALIZED VIEW m_index;
DROP MATERIALIZED VIEW m_cast, m_whole, m_array, m_between, m_later, m_pair, m_domain, m_policy, m_index;

-- A view that is read ahead, as its owner.
GRANT SELECT ON t TO e2e_reader;
SET SESSION AUTHORIZATION e2e_reader;
CREATE TABLE hidden (k int, s text) /*dist: hash(s) | roundrobin | hash(s)*/;
INSERT INTO hidden VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE VIEW shown AS SELECT t::text AS x, count(*) AS n FROM t JOIN hidden AS h ON h.k = t.v GROUP BY 1;
CREATE VIEW counted AS SELECT t.k % 2 AS x, count(*) AS n FROM t JOIN hidden AS h ON h.k = t.v GROUP BY 1;
GRANT SELECT ON shown, counted TO e2e_low;
SET SESSION AUTHORIZATION e2e_low;
-- refused
SELECT * FROM shown ORDER BY 1;
-- refused
SELECT * FROM counted ORDER BY 1;
DROP CAST (t AS text) CASCADE;
SELECT * FROM counted ORDER BY 1;
RESET SESSION AUTHORIZATION;
DROP SCHEMA e2e_behind CASCADE;
DROP ROLE e2e_low, e2e_reader;
