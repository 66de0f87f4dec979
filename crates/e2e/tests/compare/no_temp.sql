-- Run as a role that may make no temp tables: see no_temp.rs.
SELECT has_database_privilege(current_database(), 'TEMP');
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN percent AS numeric(5,2) NOT NULL CHECK (value BETWEEN 0 AND 100);
CREATE DOMAIN label AS text COLLATE "C";
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE big (id int PRIMARY KEY, grp int, name varchar(12), code char(3), c text COLLATE "C", ci text COLLATE caseless,
    m mood, p pair, share percent, l label, d numeric(8,2), b bit(3), t timestamp(0), i interval day to second(2), a int[])
    /*dist: hash(id) | hash(id) | replication */;
CREATE TABLE few (k int, "Wörd" text, w text COLLATE "POSIX", n int) /*dist: roundrobin | hash(n) | roundrobin */;
CREATE TABLE rep (k int PRIMARY KEY, v text) /*dist: replication */;
INSERT INTO big SELECT g, g % 7, 'n' || g, 'c' || g % 10, chr(65 + g % 5 + g % 2 * 32), chr(65 + g % 5 + g % 2 * 32),
    (ARRAY['sad', 'ok', 'happy'])[1 + g % 3]::mood, ROW(g, 'p' || g)::pair, g % 100, 'l' || g % 4, g * 1.25, (g % 8)::bit(3),
    '2024-01-01'::timestamp + g * interval '1 hour', g * interval '1 minute', ARRAY[g, g + 1] FROM generate_series(1, 120) g;
INSERT INTO few SELECT g, 'w' || g, chr(97 + g % 6), g % 9 FROM generate_series(1, 40) g;
INSERT INTO rep SELECT g, 'r' || g FROM generate_series(1, 12) g;

-- Gathered: all types, collations, names that come twice, no columns at all, keys, parameters.
SELECT b.*, f.* FROM big b JOIN few f ON b.grp = f.n AND b.d > f.k * 20 ORDER BY b.id, f.k LIMIT 20;
SELECT c, count(*), min(c), max(ci) FROM big b JOIN few f ON b.grp = f.n WHERE f.k < b.d GROUP BY c ORDER BY c;
SELECT ci COLLATE "C" < 'a' AS upper, ci = 'b' AS is_b, count(*) FROM big b JOIN few f ON b.grp = f.n GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(DISTINCT ci), count(DISTINCT c) FROM big b JOIN few f ON b.grp = f.n AND f.k <> b.id;
SELECT x.ci = y.ci, count(*) FROM big x, big y WHERE x.grp = y.grp + 1 AND x.share < 20 AND y.share < 20 GROUP BY 1 ORDER BY 1;
SELECT max(l), max(l) < 'l', m, avg(share) FROM big b JOIN few f ON b.grp = f.n AND f.k > 1 GROUP BY m ORDER BY m;
SELECT p, (p).b, a, b, t, i FROM big x WHERE EXISTS (SELECT FROM few f WHERE f.n = x.grp AND f.k = x.id) ORDER BY id;
SELECT b.id, b.name, b.share, count(*) FROM big b JOIN few f ON b.grp = f.n GROUP BY b.id HAVING count(*) > 4 ORDER BY b.id LIMIT 7;
SELECT id, (SELECT string_agg("Wörd", ',' ORDER BY k) FROM few f WHERE f.n = b.grp) FROM big b ORDER BY id LIMIT 9;
SELECT f."Wörd", g."Wörd" FROM few f JOIN few g ON f.k = g.n ORDER BY 1, 2 LIMIT 8;
SELECT count(*) FROM (SELECT FROM big b JOIN few f ON b.grp = f.n) s;
SELECT id, rank() OVER (PARTITION BY grp ORDER BY d DESC), lag(c) OVER (ORDER BY id) FROM big ORDER BY id LIMIT 10;
SELECT f.w || b.c FROM big b JOIN few f ON b.grp = f.n AND b.id < 9 ORDER BY 1;
WITH RECURSIVE s AS (SELECT k FROM few WHERE k = 1 UNION SELECT b.grp FROM s JOIN big b ON b.id = s.k + 1) SELECT * FROM s ORDER BY 1;
SELECT id FROM big INTERSECT SELECT n FROM few ORDER BY 1;
SELECT grp, r.v, count(*) FROM big b LEFT JOIN rep r ON r.k = b.grp JOIN few USING (k) GROUP BY ROLLUP (1, 2) ORDER BY 1, 2;
-- params: 3 | wx
SELECT b.id, $2 || f."Wörd" FROM big b JOIN few f ON b.grp = f.n WHERE f.k = $1::int ORDER BY 1, 2;
-- params: 17
SELECT count(*), $1 FROM big b JOIN few f ON b.grp = f.n AND b.id > $1::int;

CREATE FUNCTION is_known(a int) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT EXISTS (SELECT 1 FROM rep WHERE k = a)';
CREATE DOMAIN known AS int CHECK (is_known(value));
SELECT (k % 3 + 1)::known, n FROM few ORDER BY k;
SELECT (k % 3 + 1)::known AS k3, count(*) FROM few GROUP BY 1 ORDER BY 1;

-- Changes.
WITH gone AS (DELETE FROM few WHERE k > 36 RETURNING k, "Wörd", w), more AS (INSERT INTO few SELECT k + 100, "Wörd", w, k FROM gone RETURNING *)
SELECT m.*, b.name FROM more m JOIN big b ON b.id = m.n ORDER BY m.k;
WITH up AS (UPDATE big SET d = d + 1 WHERE grp = 3 RETURNING id, p, m, share, ci) SELECT u.*, f.k FROM up u JOIN few f ON f.n = u.id ORDER BY 1, f.k;
UPDATE big SET name = f."Wörd", m = 'ok' FROM few f WHERE f.n = big.grp AND f.k = big.id RETURNING id, name, m, f.w;
UPDATE big SET id = id + 1000 FROM few f WHERE f.k = big.id AND f.n = 2 RETURNING big.id, grp;
DELETE FROM big USING few f WHERE f.k = big.grp AND f.n > 4 RETURNING id;
MERGE INTO few USING (SELECT grp, count(*) AS c FROM big GROUP BY grp) s ON few.n = s.grp AND few.k < 20
    WHEN MATCHED AND s.c > 15 THEN UPDATE SET "Wörd" = 'm' || s.c, n = few.n + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.grp + 200, 'new', 'x', s.c);
SELECT * FROM few ORDER BY k;
CREATE TABLE made (no serial, big int GENERATED ALWAYS AS IDENTITY, k int NOT NULL CHECK (k < 5000), twice int GENERATED ALWAYS AS (k * 2) STORED,
    note text DEFAULT 'none', moody mood DEFAULT 'sad') /*dist: hash(k) | roundrobin | replication */;
CREATE TABLE turned (twice int GENERATED ALWAYS AS (k * 2) STORED, k int, no serial) /*dist: hash(k) | roundrobin | replication */;
INSERT INTO turned (k) SELECT DISTINCT n FROM few ORDER BY n RETURNING *;
INSERT INTO turned VALUES (DEFAULT, 77), (DEFAULT, 78);
SELECT * FROM turned ORDER BY k;
INSERT INTO made (k) SELECT n FROM few WHERE k < 10 ORDER BY k RETURNING no, twice, note, moody;
INSERT INTO made (k, note) SELECT b.id, f."Wörd" FROM big b JOIN few f ON b.grp = f.n AND f.k < 5 ORDER BY b.id, f.k;
INSERT INTO made (k, note) VALUES (1, DEFAULT), (2, 'two'), (NULL, 'three');
INSERT INTO made (k, note) VALUES (1, DEFAULT), (2, 'two'), (5001, 'three');
SELECT count(*), count(DISTINCT no), sum(twice), min(note), max(moody) FROM made;
COPY made (k, note) FROM STDIN;
7	seven
8	eight
\.
COPY made (k, note) FROM STDIN;
9	nine
\N	ten
\.
COPY made (k, note) FROM STDIN;
9	nine
7000	ten
\.
COPY made (note, k) FROM STDIN WHERE k > 10;
eleven	11
ten	10
\.
SELECT k, twice, note, moody FROM made WHERE k BETWEEN 7 AND 11 ORDER BY k, note;
COPY (SELECT b.id, f."Wörd" FROM big b JOIN few f ON b.grp = f.n AND f.k < 3 ORDER BY 1, 2) TO STDOUT;
CREATE TABLE kept AS SELECT b.id, b.c, b.ci, b.share, f."Wörd" FROM big b JOIN few f ON b.grp = f.n WHERE f.k < 4;
SELECT id, c, ci, share, "Wörd" FROM kept ORDER BY id, c, "Wörd" LIMIT 5;
CREATE MATERIALIZED VIEW seen AS SELECT b.grp, count(*) AS c FROM big b JOIN few f ON b.grp = f.n GROUP BY b.grp;
REFRESH MATERIALIZED VIEW seen;
SELECT * FROM seen ORDER BY grp;

-- Blocks: what has changed is seen, cursors, savepoints, snapshots, READ ONLY.
BEGIN;
UPDATE big SET d = 0 WHERE id < 10;
SELECT count(*), sum(d) FROM big b JOIN few f ON b.grp = f.n AND f.k < b.id;
DECLARE rows SCROLL CURSOR FOR SELECT b.id, b.ci, b.share, f."Wörd" FROM big b JOIN few f ON b.grp = f.n ORDER BY 1, f.k;
FETCH 3 FROM rows;
SAVEPOINT s;
DECLARE more CURSOR FOR SELECT x.id, y.id FROM big x JOIN big y ON x.grp = y.id ORDER BY 1, 2;
FETCH 2 FROM more;
ROLLBACK TO s;
FETCH BACKWARD 1 FROM rows;
DECLARE returned CURSOR FOR SELECT f.w, count(*) FROM big b JOIN few f ON b.grp = f.n GROUP BY 1 ORDER BY 1;
FETCH ALL FROM returned;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(d) FROM big b JOIN few f ON b.grp = f.n AND f.k < b.id;
INSERT INTO few VALUES (300, 'late', 'z', 3);
SELECT count(*), sum(d) FROM big b JOIN few f ON b.grp = f.n AND f.k > b.id;
UPDATE big SET grp = f.n FROM few f WHERE f.k = 300 AND big.id = 50;
ROLLBACK;
BEGIN READ ONLY;
SELECT count(*), sum(d) FROM big b JOIN few f ON b.grp = f.n AND f.k < b.id;
DECLARE rows CURSOR FOR SELECT b.id, b.ci, b.share, f."Wörd" FROM big b JOIN few f ON b.grp = f.n ORDER BY 1, f.k;
FETCH 3 FROM rows;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(d) FROM big b JOIN few f ON b.grp = f.n AND f.k < b.id;
COMMIT;
DECLARE held CURSOR WITH HOLD FOR SELECT b.id, f.k FROM big b JOIN few f ON b.grp = f.n ORDER BY 1, 2;
FETCH 2 FROM held;
CLOSE held;
PREPARE q (int) AS SELECT count(*), max(c) FROM big b JOIN few f ON b.grp = f.n AND f.k > $1;
EXECUTE q (3);
EXECUTE q (30);
DEALLOCATE q;

-- Routines, triggers with rows of statements, views with INSTEAD OF.
CREATE FUNCTION joined(of int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE found bigint; r record;
BEGIN
    SELECT count(*) INTO found FROM big b JOIN few f ON b.grp = f.n AND f.k < of;
    FOR r IN SELECT b.id FROM big b JOIN few f ON b.grp = f.n AND f.k = 1 ORDER BY 1 LIMIT 2 LOOP
        found := found + r.id;
    END LOOP;
    RETURN found;
END $$;
SELECT joined(7);
CREATE TABLE log (what text, n bigint, least text) /*dist: roundrobin | hash(n) | replication */;
CREATE FUNCTION note_few() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log SELECT TG_OP, count(*), min(c.w) FROM changed c JOIN big b ON b.grp = c.n;
    RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT ON few REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_few();
INSERT INTO few SELECT g, 'w' || g, chr(97 + g % 6), g % 9 FROM generate_series(400, 420) g;
SELECT * FROM log;
CREATE VIEW shown AS SELECT id, name, ci, l FROM big;
CREATE FUNCTION change_shown() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (TG_OP || coalesce(OLD.name, '-'), coalesce(NEW.id, 0), NEW.ci);
    RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER changes INSTEAD OF INSERT OR UPDATE OR DELETE ON shown FOR EACH ROW EXECUTE FUNCTION change_shown();
ALTER VIEW shown ALTER name SET DEFAULT 'nobody';
INSERT INTO shown (id, l) VALUES (1, 'five'), (2, 'six') RETURNING id, name;
UPDATE shown SET ci = 'x' WHERE id BETWEEN 20 AND 22 RETURNING id, ci;
DELETE FROM shown WHERE id = 30;
SELECT * FROM log ORDER BY what, n;

-- What is refused on one server is refused here.
CREATE TEMP TABLE own (a int);
SELECT * INTO TEMP own FROM few;
CREATE TEMP VIEW own AS SELECT 1;
CREATE FUNCTION pg_temp.own() RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT * FROM pg_temp.loxo_g1;

-- Beside a sequence, inside a block.
CREATE TABLE counted (k serial, id int GENERATED ALWAYS AS IDENTITY, n int) /*dist: hash(n) | roundrobin | replication */;
BEGIN;
INSERT INTO counted (n) VALUES (3);
INSERT INTO counted (n) SELECT g FROM generate_series(4, 9) g RETURNING *;
COMMIT;
SELECT * FROM counted ORDER BY k;
