-- Tables that nobody placed lose their key, get another type for it, or join a parent; those that a clause placed do not.
CREATE TABLE lost (a int, b text, c int) /*dist: default*/;
INSERT INTO lost SELECT g, 'b' || g % 7, g * 2 FROM generate_series(1, 60) g;
ALTER TABLE lost DROP COLUMN a;
SELECT count(*), sum(c), count(DISTINCT b) FROM lost;
SELECT * FROM lost WHERE c < 12;
UPDATE lost SET c = c + 1 WHERE b = 'b3';
SELECT sum(c) FROM lost;
CREATE UNIQUE INDEX lost_c ON lost (c);
INSERT INTO lost VALUES ('x', 2);
ALTER TABLE lost DROP COLUMN b, ADD COLUMN d int UNIQUE;
INSERT INTO lost VALUES (1000, 1), (1001, 1);
SELECT count(*), sum(c), count(d) FROM lost;
DROP TABLE lost;

-- Both at once: the new key needs all rows in one place.
CREATE TABLE swap (a int, b int) /*dist: default*/;
INSERT INTO swap SELECT g, g FROM generate_series(1, 40) g;
ALTER TABLE swap DROP COLUMN a, ADD PRIMARY KEY (b);
INSERT INTO swap VALUES (7);
SELECT count(*) FROM swap;
DROP TABLE swap;

-- By CASCADE from a key that others refer to.
CREATE TABLE master (id int PRIMARY KEY, v int) /*dist: default*/;
CREATE TABLE slave (id int REFERENCES master, w int) /*dist: default*/;
INSERT INTO master SELECT g, g FROM generate_series(1, 20) g;
INSERT INTO slave SELECT g, g FROM generate_series(1, 20) g;
ALTER TABLE master DROP COLUMN id CASCADE;
INSERT INTO slave VALUES (99, 99);
SELECT sum(v) FROM master;
SELECT count(*), sum(id) FROM slave;
DROP TABLE master, slave;

-- Another type.
CREATE TABLE retyped (a int, b int) /*dist: default*/;
INSERT INTO retyped SELECT g, g % 5 FROM generate_series(1, 50) g;
ALTER TABLE retyped ALTER COLUMN a TYPE text USING 'k' || a;
INSERT INTO retyped VALUES ('k1', 5);
SELECT count(*) FROM retyped WHERE a = 'k1';
SELECT b, count(*) FROM retyped GROUP BY b;
SELECT count(*) FROM retyped x JOIN retyped y ON x.a = y.a;
DROP TABLE retyped;
CREATE TABLE keyed (a int PRIMARY KEY, b int) /*dist: default*/;
INSERT INTO keyed SELECT g, g FROM generate_series(1, 50) g;
ALTER TABLE keyed ALTER COLUMN a TYPE varchar(10);
INSERT INTO keyed VALUES ('50', 1);
ALTER TABLE keyed ALTER COLUMN a TYPE int USING 1;
SELECT count(*), min(a), max(a) FROM keyed;
DROP TABLE keyed;

-- ATTACH and INHERIT.
CREATE TABLE parent (a int, b int, c int) PARTITION BY RANGE (b) /*dist: hash(a) | replication*/;
CREATE TABLE first PARTITION OF parent FOR VALUES FROM (0) TO (100);
CREATE TABLE second (c int, gone int, b int NOT NULL, a int) /*dist: default*/;
INSERT INTO second (a, b, c) SELECT g, 100 + g, g FROM generate_series(1, 50) g;
ALTER TABLE second DROP COLUMN gone;
ALTER TABLE parent ATTACH PARTITION second FOR VALUES FROM (100) TO (200);
INSERT INTO parent SELECT g, g * 3, g FROM generate_series(1, 60) g;
SELECT count(*), sum(a), sum(b), sum(c) FROM parent;
SELECT * FROM parent WHERE a = 17;
SELECT count(*) FROM parent x JOIN parent y USING (a);
CREATE TABLE third (b int, c int, a int) PARTITION BY LIST (c) /*dist: default*/;
CREATE TABLE third_one PARTITION OF third FOR VALUES IN (1, 2, 3);
CREATE TABLE third_rest PARTITION OF third DEFAULT;
INSERT INTO third (a, b, c) SELECT g, 200 + g, g FROM generate_series(1, 30) g;
ALTER TABLE parent ATTACH PARTITION third FOR VALUES FROM (200) TO (300);
SELECT * FROM parent WHERE a = 2;
SELECT count(*) FROM third_rest JOIN first USING (a);
ALTER TABLE parent DETACH PARTITION third;
SELECT count(*), sum(a) FROM third;
DROP TABLE parent, third;
CREATE TABLE below (n int, m int) /*dist: default*/;
INSERT INTO below SELECT g, -g FROM generate_series(1, 30) g;
CREATE TABLE above (m int) /*dist: hash(m) | replication*/;
INSERT INTO above SELECT g FROM generate_series(1, 10) g;
ALTER TABLE below INHERIT above;
SELECT count(*), sum(m) FROM above;
SELECT count(*), sum(m) FROM ONLY above;
SELECT * FROM above WHERE m = -8;
UPDATE below SET n = 0 WHERE m = -8;
SELECT * FROM below WHERE m = -8;
ALTER TABLE below NO INHERIT above;
SELECT count(*) FROM above;
DROP TABLE above, below;

-- Several parents, and a diamond.
CREATE TABLE p1 (k int, a int) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE p2 (k int, b int) /*dist: hash(k) | replication | roundrobin*/;
-- refused: mixed
CREATE TABLE kid (c int) INHERITS (p1, p2);
INSERT INTO p1 SELECT g, g FROM generate_series(1, 10) g;
INSERT INTO p2 SELECT g, g FROM generate_series(11, 20) g;
CREATE TABLE only_p1 (c int) INHERITS (p1);
INSERT INTO only_p1 SELECT g, g, g FROM generate_series(31, 40) g;
SELECT count(*), sum(k), sum(a) FROM p1;
SELECT count(*), sum(k), sum(b) FROM p2;
DROP TABLE p1, p2 CASCADE;
CREATE TABLE top (k int, a int) /*dist: hash(k) | replication | roundrobin*/;
CREATE TABLE left_one (b int) INHERITS (top);
CREATE TABLE right_one (c int) INHERITS (top);
CREATE TABLE bottom () INHERITS (left_one, right_one);
INSERT INTO bottom SELECT g, g, g, g FROM generate_series(1, 25) g;
INSERT INTO left_one SELECT g, g, g FROM generate_series(26, 30) g;
SELECT count(*), sum(k) FROM top;
SELECT count(*), sum(k) FROM left_one;
SELECT count(*), sum(k) FROM right_one;
UPDATE top SET a = a + 1 WHERE k < 10;
SELECT sum(a) FROM right_one;
DELETE FROM left_one WHERE k % 2 = 0;
SELECT count(*), sum(a) FROM top;
SELECT t.k, b.c FROM top t JOIN bottom b USING (k);
ALTER TABLE bottom NO INHERIT left_one;
SELECT count(*) FROM left_one;
DROP TABLE top CASCADE;

-- A child of parents that lie in different ways.
CREATE TABLE by_a (a int, b int) /*dist: default*/;
CREATE TABLE by_b (b int, c int) /*dist: default*/;
INSERT INTO by_a SELECT g, g FROM generate_series(1, 10) g;
INSERT INTO by_b SELECT g, g FROM generate_series(5, 15) g;
CREATE TABLE of_both (d int) INHERITS (by_a, by_b);
INSERT INTO of_both SELECT g, g, g, g FROM generate_series(20, 25) g;
SELECT count(*), sum(a), sum(b) FROM by_a;
SELECT tableoid::regclass, count(*), sum(c) FROM by_b GROUP BY 1 ORDER BY 1;
UPDATE by_b SET c = 0 WHERE b = 21;
SELECT a, b, c FROM of_both WHERE b = 21;

-- Nor is anything else done in the place of an UPDATE that triggers follow.
CREATE TABLE changes_seen (what text);
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO changes_seen VALUES (concat(TG_LEVEL, ' ', TG_OP)); RETURN NULL; END $$;
CREATE TABLE watched (k int, v int);
INSERT INTO watched SELECT g, g FROM generate_series(1, 9) g;
CREATE TRIGGER once AFTER UPDATE ON watched FOR EACH STATEMENT EXECUTE FUNCTION note_change();
UPDATE watched SET k = k + 10;
SELECT * FROM watched ORDER BY k;
CREATE TABLE watched_rows (k int, v int);
INSERT INTO watched_rows SELECT g, g FROM generate_series(1, 9) g;
CREATE TRIGGER each AFTER UPDATE ON watched_rows FOR EACH ROW EXECUTE FUNCTION note_change();
UPDATE watched_rows SET k = k + 10 WHERE v < 4 RETURNING k;
SELECT * FROM watched_rows ORDER BY k;
SELECT what, count(*) FROM changes_seen GROUP BY what ORDER BY what;
CREATE TABLE watched_too (k int, v int);
INSERT INTO watched_too SELECT g, g FROM generate_series(1, 9) g;
CREATE TRIGGER before BEFORE UPDATE ON watched_too FOR EACH STATEMENT EXECUTE FUNCTION note_change();
CREATE VIEW watched_view AS SELECT k AS key, v FROM watched_too WHERE v > 0 WITH CHECK OPTION;
-- refused
UPDATE watched_view SET key = key + 10 WHERE v < 4;
CREATE TABLE watched_in_with (k int, v int);
INSERT INTO watched_in_with SELECT g, g FROM generate_series(1, 9) g;
CREATE FUNCTION leave_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER each BEFORE UPDATE ON watched_in_with FOR EACH ROW EXECUTE FUNCTION leave_it();
WITH gone AS (DELETE FROM watched WHERE v = 1 RETURNING v) UPDATE watched_in_with SET k = k + 10 + (SELECT v FROM gone);
SELECT * FROM watched_in_with ORDER BY k;
CREATE TABLE watched_by_rule (k int, v int);
CREATE TRIGGER once AFTER UPDATE ON watched_by_rule FOR EACH STATEMENT EXECUTE FUNCTION note_change();
INSERT INTO watched_by_rule SELECT g, g FROM generate_series(1, 9) g;
CREATE RULE push AS ON UPDATE TO watched_in_with DO ALSO UPDATE watched_by_rule SET k = k + 100 WHERE v = old.v;
UPDATE watched_in_with SET v = v WHERE v < 3;
SELECT * FROM watched_by_rule ORDER BY k;

-- A partition with unique keys of its own takes the table that it joins along, with what is below.
CREATE TABLE job (id uuid DEFAULT gen_random_uuid(), name text NOT NULL, single text, state int DEFAULT 0) PARTITION BY LIST (name) /*dist: default*/;
ALTER TABLE job ADD PRIMARY KEY (name, id);
CREATE TABLE job_mail (LIKE job INCLUDING DEFAULTS) /*dist: default*/;
ALTER TABLE job_mail ADD PRIMARY KEY (name, id);
INSERT INTO job_mail (name, single) SELECT 'mail', 's' || g FROM generate_series(1, 20) g;
ALTER TABLE job ATTACH PARTITION job_mail FOR VALUES IN ('mail');
CREATE TABLE job_once (LIKE job INCLUDING DEFAULTS) /*dist: default*/;
ALTER TABLE job_once ADD PRIMARY KEY (name, id);
CREATE UNIQUE INDEX job_once_single ON job_once (name, COALESCE(single, '')) WHERE state = 0;
ALTER TABLE job_once ADD CONSTRAINT named CHECK (name = 'once');
INSERT INTO job_once (name, single) VALUES ('once', 'a'), ('once', NULL);
ALTER TABLE job ATTACH PARTITION job_once FOR VALUES IN ('once');
INSERT INTO job (name, single) VALUES ('once', 'b'), ('mail', 'b');
INSERT INTO job (name, single) VALUES ('once', 'a');
INSERT INTO job (name) VALUES ('once');
SELECT tableoid::regclass, count(*), count(DISTINCT id), count(DISTINCT single) FROM job GROUP BY 1 ORDER BY 1;
UPDATE job SET state = 1 WHERE single = 'a' RETURNING name, single;
INSERT INTO job (name, single) VALUES ('once', 'a') RETURNING name, state;
DELETE FROM job WHERE name = 'mail' AND single < 's2';
SELECT name, count(*) FROM job GROUP BY name ORDER BY name;
DROP TABLE job;
CREATE TABLE heap (a int, b int) /*dist: hash(a)*/;
CREATE TABLE heaped (a int, b int UNIQUE) /*dist: default*/;
-- refused
ALTER TABLE heaped INHERIT heap;
DROP TABLE heap, heaped;
