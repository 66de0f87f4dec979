-- What PostgreSQL's regression files met.
CREATE TABLE target (tid int, balance int, note text DEFAULT 'none') /*dist: hash(tid) | replication*/;
CREATE TABLE source (tid int, delta int, balance int) /*dist: hash(tid) | roundrobin*/;
INSERT INTO target VALUES (1, 100), (2, 200), (3, 300);
INSERT INTO source SELECT g, g * 10, g FROM generate_series(2, 6) g;
-- Where no row of the target is, names are the source's.
MERGE INTO target t USING source s ON t.tid = s.tid WHEN MATCHED AND s.tid > 2 THEN UPDATE SET balance = t.balance + delta WHEN NOT MATCHED AND tid < 6 THEN INSERT (balance, tid) VALUES (balance + delta, tid);
MERGE INTO target USING (SELECT * FROM source WHERE delta > 50) AS s ON target.tid = s.tid WHEN NOT MATCHED THEN INSERT VALUES (tid, balance * 2, 'b' || balance);
SELECT * FROM target ORDER BY tid;
-- Prepared statements inside others.
PREPARE some_rows (int, text) AS SELECT tid, balance, $2 AS word, $1 + 1 AS more FROM target WHERE tid > $1;
CREATE TABLE picked AS EXECUTE some_rows(3, 'it''s');
CREATE TABLE IF NOT EXISTS picked AS EXECUTE some_rows(1, NULL);
CREATE TABLE unpicked (a, b, c, d) AS EXECUTE some_rows(1 + 1, 'x') WITH NO DATA;
CREATE TEMP TABLE picked_too AS EXECUTE some_rows(4, NULL);
SELECT * FROM picked ORDER BY tid;
SELECT count(*) FROM unpicked;
SELECT * FROM picked_too ORDER BY tid;
CREATE TABLE wrong AS EXECUTE some_rows(1);
CREATE TABLE wrong AS EXECUTE nothing;
DEALLOCATE some_rows;
PREPARE changing AS DELETE FROM target WHERE tid = 100;
CREATE TABLE wrong AS EXECUTE changing;
-- What is defined over materialized views.
CREATE MATERIALIZED VIEW sums AS SELECT tid % 2 AS odd, sum(balance) AS total FROM target GROUP BY 1;
CREATE VIEW over_sums AS SELECT odd, total + 1 AS more FROM sums;
CREATE MATERIALIZED VIEW second AS SELECT max(more) AS m FROM over_sums;
CREATE UNIQUE INDEX ON sums (odd);
COMMENT ON MATERIALIZED VIEW sums IS 'sums';
GRANT SELECT ON sums TO PUBLIC;
SELECT * FROM over_sums ORDER BY odd;
SELECT t.tid, o.more FROM target t JOIN over_sums o ON o.odd = t.tid % 2 ORDER BY t.tid;
UPDATE target SET balance = 0 WHERE tid = 1;
REFRESH MATERIALIZED VIEW CONCURRENTLY sums;
REFRESH MATERIALIZED VIEW second;
SELECT * FROM over_sums ORDER BY odd;
SELECT * FROM second;
ALTER MATERIALIZED VIEW sums RENAME COLUMN total TO whole;
ALTER MATERIALIZED VIEW sums RENAME TO wholes;
CREATE SCHEMA elsewhere_of_views;
ALTER MATERIALIZED VIEW second SET SCHEMA elsewhere_of_views;
SELECT * FROM elsewhere_of_views.second;
DROP MATERIALIZED VIEW wholes;
DROP MATERIALIZED VIEW wholes CASCADE;
DROP SCHEMA elsewhere_of_views CASCADE;
SELECT * FROM over_sums;
-- Views of tables with identity columns.
CREATE TABLE counted (id int GENERATED ALWAYS AS IDENTITY, note text) /*dist: hash(id) | roundrobin*/;
CREATE VIEW counted_view AS SELECT * FROM counted;
INSERT INTO counted_view DEFAULT VALUES;
INSERT INTO counted_view DEFAULT VALUES RETURNING *;
INSERT INTO counted_view (note) VALUES ('x');
SELECT * FROM counted_view ORDER BY id;
-- Names that look like a system catalog's.
CREATE TABLE pg_of_mine (id int PRIMARY KEY, v text);
INSERT INTO pg_of_mine VALUES (1, 'one'), (2, 'two');
UPDATE pg_of_mine SET v = v || id;
SELECT * FROM pg_of_mine ORDER BY id;
DROP TABLE pg_of_mine;
-- Tablespaces.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE e2e_space LOCATION '';
CREATE TABLESPACE e2e_space LOCATION '';
CREATE TABLESPACE e2e_other LOCATION 'relative';
ALTER TABLESPACE e2e_space SET (random_page_cost = 2);
CREATE TABLE spaced (id int PRIMARY KEY, v text) TABLESPACE e2e_space /*dist: hash(id) | replication*/;
INSERT INTO spaced SELECT g, 'v' || g FROM generate_series(1, 10) g;
CREATE TABLE spaced_too TABLESPACE e2e_space AS SELECT * FROM spaced;
SELECT relname, spcname, spcoptions FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace WHERE spcname = 'e2e_space' AND relkind = 'r' ORDER BY 1;
DROP TABLESPACE e2e_space;
ALTER TABLE spaced SET TABLESPACE pg_default;
ALTER TABLESPACE e2e_space RENAME TO e2e_renamed;
DROP TABLE spaced_too;
SELECT count(*) FROM spaced;
DROP TABLESPACE e2e_renamed;
