-- Changing a distribution key moves the row or is refused: never a row in the wrong place.
CREATE TABLE t (k int, v text) /*dist: hash(k) | replication | roundrobin*/;
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 10) g;
UPDATE t SET k = k + 100;
SELECT * FROM t ORDER BY k;
UPDATE t SET k = 1 WHERE k = 101;
SELECT v FROM t WHERE k = 1;
SELECT count(*) FROM t WHERE k > 100;
UPDATE t SET v = 'the key stays' WHERE k = 1;
SELECT v FROM t WHERE k = 1;

-- A row that stays on its node is changed where it is, whatever looks on; one that would leave it is refused then.
CREATE TABLE seen (id int PRIMARY KEY, v text) /*dist: hash(id)*/;
INSERT INTO seen SELECT g, 'v' || g FROM generate_series(1, 12) g;
CREATE TABLE refers (seen_id int REFERENCES seen ON UPDATE CASCADE, n int) /*dist: hash(seen_id)*/;
INSERT INTO refers SELECT g % 12 + 1, g FROM generate_series(1, 30) g;
UPDATE seen SET id = 5, v = 'the same key' WHERE id = 5;
UPDATE seen SET id = abs(id), v = upper(v) WHERE id > 6 RETURNING id, v;
UPDATE seen SET id = id + 100;
SELECT s.id, s.v, count(*), sum(r.n) FROM seen s JOIN refers r ON r.seen_id = s.id GROUP BY s.id ORDER BY s.id;
CREATE FUNCTION note_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := concat(OLD.id, '>', NEW.id, ' ', NEW.v); RETURN NEW; END $$;
CREATE TABLE noted (id int, v text) /*dist: hash(id) | roundrobin*/;
INSERT INTO noted SELECT g, 'v' || g FROM generate_series(1, 12) g;
CREATE TRIGGER note BEFORE UPDATE OF id ON noted FOR EACH ROW EXECUTE FUNCTION note_key();
UPDATE noted SET id = abs(id) WHERE id % 2 = 0;
UPDATE noted SET v = 'no trigger' WHERE id = 4;
-- refused: v1 | v3
UPDATE noted SET id = id + 100 WHERE id % 2 = 1;
SELECT v FROM noted WHERE id % 2 = 0 ORDER BY id;
CREATE TABLE elder (k int, v text) /*dist: hash(k) | replication*/;
CREATE TABLE younger (w int) INHERITS (elder);
INSERT INTO elder SELECT g, 'e' || g FROM generate_series(1, 8) g;
INSERT INTO younger SELECT g, 'y' || g, g FROM generate_series(5, 12) g;
UPDATE elder SET k = abs(k), v = v || '!' WHERE k > 3;
UPDATE ONLY elder SET k = k + 100, v = v || '?' WHERE k > 6 RETURNING *;
UPDATE younger SET k = 6, w = 0 WHERE k = 6;
SELECT tableoid::regclass, k, v FROM elder ORDER BY k, v;
CREATE TABLE ranged (k int, v text) PARTITION BY RANGE (k) /*dist: hash(k) | replication*/;
CREATE TABLE ranged_low PARTITION OF ranged FOR VALUES FROM (0) TO (100);
INSERT INTO ranged SELECT g, 'r' || g FROM generate_series(1, 8) g;
UPDATE ranged_low SET k = abs(k), v = v || '!' RETURNING *;
