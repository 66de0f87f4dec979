-- What a role may do that owns nothing: rights on columns, on views alone, and policies, whatever way the rows take.
CREATE SCHEMA e2e_rights;
SET search_path = e2e_rights;
CREATE ROLE e2e_own;
CREATE ROLE e2e_low;
CREATE ROLE e2e_mid;
GRANT USAGE ON SCHEMA e2e_rights TO e2e_own, e2e_low, e2e_mid;
CREATE TABLE emp (id int, dept int, name text, pay int) /*dist: hash(id) | replication | roundrobin*/;
CREATE TABLE dept (no int PRIMARY KEY, title text) /*dist: replication | hash(no) | replication*/;
CREATE TABLE bonus (who int, amount int) /*dist: hash(amount) | hash(amount) | replication*/;
CREATE TABLE seen (id serial, who int, what text DEFAULT 'none') /*dist: hash(who) | replication | roundrobin*/;
INSERT INTO emp SELECT g, g % 4, 'e' || g, g * 10 FROM generate_series(1, 24) g;
INSERT INTO dept SELECT g, 'd' || g FROM generate_series(0, 3) g;
INSERT INTO bonus SELECT g, 100 - g FROM generate_series(1, 24) g;
ALTER TABLE emp OWNER TO e2e_own;
ALTER TABLE dept OWNER TO e2e_own;
ALTER TABLE bonus OWNER TO e2e_own;
ALTER TABLE seen OWNER TO e2e_own;
CREATE VIEW plain AS SELECT id, dept, name FROM emp WHERE pay < 200;
CREATE VIEW guarded WITH (security_barrier) AS SELECT id, dept, name FROM emp WHERE pay < 200;
CREATE VIEW guarded_on WITH (security_barrier = on) AS SELECT id, name FROM emp WHERE dept = 1;
CREATE VIEW staff AS SELECT e.id, e.name, d.title FROM emp e JOIN dept d ON d.no = e.dept;
CREATE VIEW over_plain AS SELECT id, upper(name) AS name FROM plain WHERE dept <> 2;
ALTER VIEW plain OWNER TO e2e_own;
ALTER VIEW guarded OWNER TO e2e_own;
ALTER VIEW guarded_on OWNER TO e2e_own;
ALTER VIEW staff OWNER TO e2e_own;
ALTER VIEW over_plain OWNER TO e2e_own;
GRANT SELECT ON plain, guarded, guarded_on, over_plain TO e2e_low;
GRANT SELECT (who), INSERT ON bonus TO e2e_low;
CREATE FUNCTION peek(int, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE COST 0.0001
    AS $$ BEGIN RAISE NOTICE 'seen %', $2; RETURN true; END $$;

SET SESSION AUTHORIZATION e2e_low;
-- The view alone, gathered in every way.
SELECT count(*), min(name), max(id) FROM plain;
SELECT id, name FROM plain WHERE dept = 3 ORDER BY id;
SELECT * FROM plain ORDER BY name DESC LIMIT 3;
SELECT dept, count(*) FROM plain GROUP BY dept ORDER BY dept;
SELECT DISTINCT dept FROM plain ORDER BY dept;
SELECT a.id, b.id FROM plain a JOIN plain b ON a.dept = b.id ORDER BY 1, 2;
SELECT name FROM plain WHERE id IN (SELECT who FROM bonus) ORDER BY name;
SELECT name FROM plain p WHERE EXISTS (SELECT FROM guarded g WHERE g.dept = p.id) ORDER BY name;
SELECT p.name, (SELECT count(*) FROM guarded g WHERE g.dept = p.id) FROM plain p ORDER BY p.id;
SELECT id, rank() OVER (ORDER BY name) FROM plain ORDER BY id;
SELECT id FROM plain EXCEPT SELECT id FROM guarded ORDER BY id;
SELECT id FROM plain UNION SELECT who FROM bonus ORDER BY id;
WITH p AS (SELECT * FROM plain) SELECT count(*) FROM p a, p b WHERE a.id = b.dept;
SELECT count(*) FROM over_plain;
SELECT * FROM over_plain ORDER BY name LIMIT 2;
SELECT count(*) FROM plain p FULL JOIN guarded g ON p.dept = g.id;
SELECT count(*) FROM plain LEFT JOIN LATERAL (SELECT g.id FROM guarded g WHERE g.dept = plain.id) l ON true;
SELECT array_agg(p.id ORDER BY p.id) FROM plain p, guarded_on g WHERE p.dept = g.id % 4;
SELECT p FROM plain p WHERE id = 1;
SELECT id FROM plain WHERE id = 7;
INSERT INTO bonus SELECT id, dept FROM plain WHERE id = 5;
INSERT INTO bonus SELECT p.id, g.id FROM plain p JOIN guarded g ON p.dept = g.id WHERE p.id < 3;
BEGIN;
INSERT INTO bonus (who, amount) VALUES (77, 77);
SELECT count(*) FROM plain p JOIN bonus b ON b.who = p.dept;
SELECT count(*) FROM bonus;
ROLLBACK;
-- What he may not.
SELECT count(*) FROM emp;
SELECT pay FROM emp WHERE id = 1;
SELECT count(*) FROM staff;
SELECT count(*) FROM staff a JOIN staff b ON a.id = b.id + 1;
SELECT amount FROM bonus;
SELECT count(*) FROM plain p, bonus b WHERE b.amount = p.id;
SELECT e.id FROM emp e JOIN plain p ON p.dept = e.id;
SELECT * FROM bonus;
DELETE FROM bonus;
UPDATE bonus SET amount = 0;
TRUNCATE bonus;
-- A cheap function of his sees no row that a guarded view hides.
-- ordered
SELECT id FROM guarded WHERE id = 21 AND peek(id, name);
SELECT count(*) FROM guarded WHERE id > 20 AND peek(id, name);
SELECT count(*) FROM guarded g JOIN bonus b ON b.who = g.dept WHERE g.id > 20 AND peek(g.id, g.name);
SELECT count(*) FROM guarded_on WHERE name = 'e2' AND peek(id, name);
RESET SESSION AUTHORIZATION;

-- Rights on columns.
GRANT SELECT (id, dept), UPDATE (name) ON emp TO e2e_mid;
GRANT SELECT ON dept TO e2e_mid;
GRANT INSERT (who) ON seen TO e2e_mid;
GRANT USAGE ON SEQUENCE seen_id_seq TO e2e_mid;
GRANT SELECT (who), UPDATE (amount) ON bonus TO e2e_mid;
SET SESSION AUTHORIZATION e2e_mid;
SELECT id, dept FROM emp ORDER BY id LIMIT 2;
SELECT count(*) FROM emp;
SELECT * FROM emp;
SELECT name FROM emp;
SELECT dept, count(id) FROM emp GROUP BY dept ORDER BY dept;
SELECT e.id, d.title FROM emp e JOIN dept d ON d.no = e.dept WHERE e.id < 4 ORDER BY 1;
SELECT a.id FROM emp a JOIN emp b ON a.dept = b.id ORDER BY 1;
UPDATE emp SET name = 'x' WHERE id = 3;
UPDATE emp SET name = 'y' WHERE dept = 2;
UPDATE emp SET name = 'z';
-- refused: mixed | v2
UPDATE emp SET name = d.title FROM dept d WHERE d.no = emp.dept;
-- refused: mixed | v1 | v2
UPDATE emp SET name = d.title || b.who FROM dept d, bonus b WHERE d.no = emp.dept AND b.who = emp.id;
-- refused: v1 | v2
UPDATE emp SET name = (SELECT count(*) FROM bonus b WHERE b.who > emp.id)::text;
-- refused: mixed | v1 | v2
UPDATE emp SET name = (SELECT max(title) FROM dept WHERE no = emp.dept) WHERE id IN (SELECT who FROM bonus);
UPDATE emp SET name = 'w' WHERE id = 4 RETURNING id, dept;
UPDATE emp SET name = 'w' WHERE id = 4 RETURNING name;
UPDATE emp SET pay = 1;
UPDATE emp SET pay = 1 FROM dept d WHERE d.no = emp.dept;
UPDATE emp SET name = name || 'x';
UPDATE emp SET name = 'q' WHERE pay > 100;
-- refused: v1 | v2
UPDATE bonus SET amount = 5;
-- refused: v1 | v2
UPDATE bonus SET amount = who WHERE who = 4;
-- refused
UPDATE bonus SET amount = e.dept FROM emp e WHERE e.id = bonus.who;
DELETE FROM emp WHERE id = 1;
INSERT INTO seen (who) VALUES (1), (2);
INSERT INTO seen (who) SELECT id FROM emp WHERE dept = 1;
INSERT INTO seen (who) SELECT a.id FROM emp a JOIN emp b ON a.dept = b.id;
INSERT INTO seen (who, what) VALUES (3, 'x');
INSERT INTO seen (who, what) SELECT id, 'x' FROM emp;
INSERT INTO seen VALUES (DEFAULT, 9);
INSERT INTO seen (who) VALUES (4) RETURNING id;
SELECT count(*) FROM seen;
RESET SESSION AUTHORIZATION;
SELECT who, what, count(*) FROM seen GROUP BY 1, 2 ORDER BY 1;
SELECT id, name FROM emp ORDER BY id;
SELECT who, amount FROM bonus ORDER BY who, amount;

-- Policies: those of the view's owner, whoever reads it; and rows that a role puts in.
CREATE TABLE note (id int, who text, body text) /*dist: hash(id) | replication | roundrobin*/;
INSERT INTO note SELECT g, CASE g % 3 WHEN 0 THEN 'e2e_own' WHEN 1 THEN 'e2e_low' ELSE 'e2e_mid' END, 'n' || g FROM generate_series(1, 12) g;
ALTER TABLE note ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON note FOR SELECT TO e2e_low, e2e_mid USING (who = current_user);
CREATE POLICY own_new ON note FOR INSERT TO e2e_low, e2e_mid WITH CHECK (who = current_user);
CREATE POLICY late ON note FOR SELECT TO e2e_own USING (id > 6);
CREATE VIEW notes AS SELECT * FROM note;
CREATE VIEW note_count AS SELECT who, count(*) AS n FROM note GROUP BY who;
ALTER VIEW notes OWNER TO e2e_own;
ALTER VIEW note_count OWNER TO e2e_own;
GRANT SELECT, INSERT ON note TO e2e_low, e2e_mid, e2e_own;
GRANT SELECT ON notes TO e2e_low;
GRANT SELECT ON note_count TO e2e_low;
SET SESSION AUTHORIZATION e2e_low;
SELECT count(*) FROM note;
SELECT id FROM notes ORDER BY id;
SELECT count(*) FROM notes a JOIN notes b ON a.id = b.id + 1;
SELECT a.id, b.id FROM notes a JOIN note b ON a.id = b.id + 2 ORDER BY 1, 2;
SELECT sum(n) FROM note_count;
SELECT * FROM note_count ORDER BY who;
INSERT INTO note VALUES (20, 'e2e_low', 'a'), (21, 'e2e_low', 'b');
INSERT INTO note SELECT id + 30, 'e2e_low', 'c' FROM note;
INSERT INTO note SELECT a.id + 60, 'e2e_low', 'c' FROM note a JOIN note b ON a.id = b.id + 3;
INSERT INTO note SELECT a.id + 60, 'e2e_mid', 'c' FROM note a JOIN note b ON a.id = b.id + 3;
INSERT INTO note SELECT id + 90, 'e2e_mid', 'c' FROM note;
INSERT INTO note VALUES (22, 'e2e_mid', 'a');
SELECT count(*) FROM note;
RESET SESSION AUTHORIZATION;
SELECT * FROM note ORDER BY id, body;
DROP VIEW notes, note_count, over_plain, staff, guarded_on, guarded, plain;
DROP TABLE note, seen, bonus, dept, emp;
DROP FUNCTION peek(int, text);
DROP SCHEMA e2e_rights;
DROP ROLE e2e_own, e2e_low, e2e_mid;
