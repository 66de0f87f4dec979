-- Keys, checks, foreign keys; every violation with its message and detail.
CREATE TABLE parent (id int PRIMARY KEY, name text NOT NULL) /*dist: hash(id) | replication | replication*/;
CREATE TABLE child (id int, parent_id int, note text CHECK (length(note) < 10), PRIMARY KEY (parent_id, id), FOREIGN KEY (parent_id) REFERENCES parent (id)) /*dist: hash(parent_id) | hash(parent_id) | replication*/;
INSERT INTO parent VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four');
INSERT INTO parent VALUES (1, 'again');
INSERT INTO parent VALUES (5, NULL);
INSERT INTO parent VALUES (NULL, 'x');
INSERT INTO parent (name) VALUES ('x');
INSERT INTO parent VALUES (7, 'seven'), (8, 'eight'), (7, 'seven again');
SELECT count(*) FROM parent;
INSERT INTO child VALUES (1, 1, 'a'), (2, 1, 'b'), (1, 2, NULL), (1, 3, 'd');
INSERT INTO child VALUES (1, 99, 'orphan');
INSERT INTO child VALUES (1, 1, 'dup');
INSERT INTO child VALUES (9, 1, 'much too long');
DELETE FROM parent WHERE id = 1;
DELETE FROM parent WHERE id = 4;
UPDATE parent SET name = NULL WHERE id = 2;
UPDATE parent SET name = upper(name) WHERE id = 2 RETURNING *;
UPDATE child SET note = 'far too long a note' WHERE parent_id = 1;
SELECT * FROM child ORDER BY parent_id, id;
SELECT p.name, count(c.id) FROM parent p LEFT JOIN child c ON c.parent_id = p.id GROUP BY p.name ORDER BY p.name;
DELETE FROM child WHERE parent_id = 3;
DELETE FROM parent WHERE id = 3 RETURNING id, name;
TRUNCATE parent;
TRUNCATE parent, child;
SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM child);
DROP TABLE parent;
DROP TABLE child;
DROP TABLE parent;
CREATE TABLE u (k int, a int, b text, UNIQUE (k, a), CONSTRAINT b_not_empty CHECK (b <> '')) /*dist: hash(k) | replication*/;
INSERT INTO u VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 1, 'z'), (NULL, 1, 'n'), (NULL, 1, 'n');
INSERT INTO u VALUES (1, 2, 'dup');
INSERT INTO u VALUES (3, 3, '');
INSERT INTO u VALUES (3, 3, NULL);
SELECT * FROM u ORDER BY k, a, b;
UPDATE u SET a = 1 WHERE k = 1 AND a = 2;
CREATE UNIQUE INDEX u_kb ON u (k, b);
INSERT INTO u VALUES (1, 5, 'x');
CREATE UNIQUE INDEX u_k ON u (k);
ALTER TABLE u ADD CONSTRAINT u_pk PRIMARY KEY (k, a);
DELETE FROM u WHERE k IS NULL;
ALTER TABLE u ADD CONSTRAINT u_pk PRIMARY KEY (k, a);
ALTER TABLE u ADD PRIMARY KEY (k);
INSERT INTO u VALUES (NULL, 1, 'q');
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'u'::regclass AND contype <> 'n' ORDER BY 1;
CREATE TABLE casc (id int PRIMARY KEY, up int REFERENCES casc (id) ON DELETE CASCADE) /*dist: replication*/;
INSERT INTO casc VALUES (1, NULL), (2, 1), (3, 2), (4, 1), (5, NULL);
DELETE FROM casc WHERE id = 2;
SELECT * FROM casc ORDER BY id;
DELETE FROM casc WHERE id = 1;
SELECT * FROM casc ORDER BY id;
CREATE TABLE lookup (code text PRIMARY KEY, label text) /*dist: replication*/;
CREATE TABLE fact (id int PRIMARY KEY, code text REFERENCES lookup) /*dist: hash(id) | replication*/;
INSERT INTO lookup VALUES ('a', 'A'), ('b', 'B');
INSERT INTO fact VALUES (1, 'a'), (2, 'b'), (3, NULL);
INSERT INTO fact VALUES (4, 'c');
SELECT f.id, l.label FROM fact f LEFT JOIN lookup l USING (code) ORDER BY 1;
-- A round robin table cannot have a unique key.
-- refused: v2
CREATE TABLE rr (a int UNIQUE) /*dist: hash(a) | roundrobin*/;
CREATE TABLE bad (a int REFERENCES nosuch (x));
CREATE TABLE bad (a int REFERENCES lookup (label));
CREATE TABLE bad (a int PRIMARY KEY, b int PRIMARY KEY);
CREATE TABLE bad (a int, PRIMARY KEY (zz));

-- Texts that are equal though their bytes are not: no key can be made of them, unless the table is replicated.
CREATE COLLATION any_case (provider = icu, locale = '@colStrength=secondary', deterministic = false);
CREATE TABLE words (w text COLLATE any_case);
INSERT INTO words VALUES ('a'), ('A'), ('b');
SELECT count(*) FROM words WHERE w = 'a';
SELECT count(DISTINCT w) FROM words;
CREATE UNIQUE INDEX ON words (w);
CREATE DOMAIN word AS text COLLATE any_case;
CREATE TABLE more_words (w word, n int);
INSERT INTO more_words VALUES ('x', 1), ('X', 2);
CREATE UNIQUE INDEX ON more_words (w);
CREATE TABLE copied AS SELECT w, lower(w) AS l FROM words;
SELECT count(*) FROM copied a JOIN words b ON a.w = b.w;
CREATE UNIQUE INDEX ON copied (w);
CREATE TABLE own (w text COLLATE any_case UNIQUE) /*dist: replication*/;
INSERT INTO own VALUES ('a');
INSERT INTO own VALUES ('A');

-- An action of a foreign key leaves a row on its node: it must not give it another key.
CREATE TABLE keeper (id int PRIMARY KEY, name text) /*dist: replication*/;
INSERT INTO keeper SELECT g, 'k' || g FROM generate_series(1, 6) g;
-- refused
CREATE TABLE pet (keeper_id int REFERENCES keeper ON DELETE SET NULL, n int) /*dist: hash(keeper_id)*/;
-- refused
CREATE TABLE pet (keeper_id int DEFAULT 1 REFERENCES keeper ON DELETE SET DEFAULT, n int) /*dist: hash(keeper_id)*/;
-- refused
CREATE TABLE pet (keeper_id int REFERENCES keeper ON UPDATE CASCADE, n int) /*dist: hash(keeper_id)*/;
CREATE TABLE pet (keeper_id int REFERENCES keeper ON DELETE SET NULL ON UPDATE CASCADE, n int) /*dist: default*/;
INSERT INTO pet SELECT g % 6 + 1, g FROM generate_series(1, 24) g;
DELETE FROM keeper WHERE id IN (1, 2);
UPDATE keeper SET id = id + 100 WHERE id IN (3, 4);
SELECT keeper_id, count(*), sum(n) FROM pet GROUP BY keeper_id ORDER BY keeper_id;
SELECT n FROM pet WHERE keeper_id = 103 ORDER BY n;
SELECT count(*) FROM pet WHERE keeper_id IS NULL;
CREATE TABLE house (id int PRIMARY KEY, city text) /*dist: default*/;
CREATE TABLE room (house_id int REFERENCES house ON DELETE SET NULL, n int) /*dist: default*/;
INSERT INTO house SELECT g, 'c' || g FROM generate_series(1, 8) g;
INSERT INTO room SELECT g % 8 + 1, g FROM generate_series(1, 24) g;
DELETE FROM house WHERE id % 2 = 0;
SELECT house_id, count(*), sum(n) FROM room GROUP BY house_id ORDER BY house_id;
CREATE TABLE tenant_user (tenant int, id int, PRIMARY KEY (tenant, id)) /*dist: hash(tenant)*/;
CREATE TABLE post (tenant int, n int, author int, FOREIGN KEY (tenant, author) REFERENCES tenant_user ON DELETE SET NULL (author)) /*dist: hash(tenant)*/;
INSERT INTO tenant_user SELECT g % 5, g FROM generate_series(1, 10) g;
INSERT INTO post SELECT g % 5, g, g FROM generate_series(1, 10) g;
DELETE FROM tenant_user WHERE id < 5;
SELECT * FROM post ORDER BY n;
-- refused
ALTER TABLE post ADD FOREIGN KEY (tenant) REFERENCES keeper ON DELETE SET NULL;
