-- Changes through views of one table.
CREATE TABLE t (id int, grp int, v text, n int DEFAULT 5) /*dist: hash(id) | modulo(grp) | replication | roundrobin*/;
CREATE TABLE o (id int, w text) /*dist: hash(id) | hash(w) | replication | roundrobin*/;
CREATE VIEW plain AS SELECT id, v FROM t;
CREATE VIEW part AS SELECT id, grp, v, n FROM t WHERE grp < 3;
CREATE VIEW named AS SELECT id AS number, v AS word, grp, upper(v) AS loud FROM t;
CREATE VIEW checked AS SELECT * FROM t WHERE grp = 1 WITH CHECK OPTION;
CREATE VIEW above AS SELECT id, v FROM part WHERE id > 3;
CREATE VIEW grouped AS SELECT grp, count(*) AS n FROM t GROUP BY grp;
INSERT INTO t SELECT g, g % 5, 'v' || g FROM generate_series(1, 20) g;
INSERT INTO o SELECT g, 'w' || g FROM generate_series(1, 9) g;
INSERT INTO plain VALUES (21, 'one'), (22, 'two'), (23, 'three');
INSERT INTO plain (v, id) VALUES ('turned', 24) RETURNING *;
INSERT INTO plain SELECT id + 30, w FROM o WHERE id > 7 RETURNING v;
INSERT INTO named (number, word) VALUES (41, 'named') RETURNING number, word, grp;
INSERT INTO part VALUES (42, 4, 'beyond the view') RETURNING id, n;
INSERT INTO named (loud) VALUES ('X');
UPDATE plain SET v = v || '!' WHERE id = 3 RETURNING *;
UPDATE part SET v = 'part', n = n + id WHERE n = 5 RETURNING id, v, n;
UPDATE part SET grp = 4 WHERE id = 6;
UPDATE named SET word = word || number WHERE number < 4 RETURNING number, word;
-- refused: v3
UPDATE plain AS p SET v = p.v || o.w FROM o WHERE o.id = p.id AND o.id < 3 RETURNING p.id, p.v;
UPDATE above SET v = 'above' WHERE id < 9 RETURNING id;
UPDATE plain SET grp = 1;
UPDATE plain SET v = 'x' WHERE grp = 1;
UPDATE grouped SET n = 1;
DELETE FROM above WHERE id = 7 RETURNING *;
DELETE FROM part WHERE v = 'nothing';
-- refused: mixed | v2 | v4
DELETE FROM part AS p USING o WHERE o.id = p.id AND o.w = 'w5' RETURNING p.id, o.w;
DELETE FROM named WHERE number = 41 RETURNING word;
-- params: 8 | eight
UPDATE above SET v = $2 WHERE id = $1 RETURNING *;
UPDATE checked SET v = 'checked' WHERE id = 11 RETURNING id, v;
INSERT INTO checked (id, grp, v) VALUES (50, 1, 'in');
INSERT INTO checked (id, grp, v) VALUES (51, 2, 'out');
SELECT * FROM t ORDER BY id, v;
