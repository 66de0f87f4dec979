-- Keys that are in a list of rows, or pinned in each branch of an OR: the statement goes to the nodes of these keys alone.
CREATE TABLE stock (w int, i int, q int, PRIMARY KEY (w, i)) /*dist: hash(w)*/;
CREATE TABLE place (w int PRIMARY KEY, name text) /*dist: hash(w)*/;
INSERT INTO stock SELECT w, i, w * 100 + i FROM generate_series(1, 12) AS w, generate_series(1, 5) AS i;
INSERT INTO place SELECT w, 'place ' || w FROM generate_series(1, 12) AS w;

SELECT * FROM stock WHERE (w, i) IN ((3, 1), (3, 4), (3, 9)) ORDER BY i;
SELECT * FROM stock WHERE (w, i) IN ((3, 1), (7, 2), (11, 5), (40, 1)) ORDER BY w;
SELECT * FROM stock WHERE (i, w) IN ((1, 3), (2, 7), (5, NULL)) ORDER BY w;
SELECT * FROM stock WHERE (w, i) IN ((NULL, 1), (NULL, 2));
SELECT count(*) FROM stock WHERE (w, i) NOT IN ((3, 1), (7, 2));
SELECT * FROM stock WHERE (w, i) IN ((1 + 1, 2), (3, 1)) ORDER BY w;
SELECT * FROM stock WHERE (w + 0, i) IN ((2, 2), (3, 1)) ORDER BY w;
SELECT * FROM stock WHERE (w = 2 AND i = 1) OR (w = 9 AND q > 903) ORDER BY w, i;
SELECT * FROM stock WHERE (w = 2 AND i = 1) OR (9 = w AND q > 903) OR i = 100 ORDER BY w, i;
SELECT * FROM stock WHERE (w = 2 AND i = 1) OR i = 4 ORDER BY w, i;
SELECT * FROM stock WHERE w = 5 OR w = 6 AND i = 2 OR w = i ORDER BY w, i;
SELECT * FROM stock WHERE (w = 2 OR w = 3) AND (w = 3 OR w = 4) ORDER BY i;
SELECT * FROM stock WHERE (w, i) IN ((2.0, 1), (3.5, 1)) ORDER BY w;
SELECT * FROM stock WHERE (w, i) IN (('2', 1), ('3', 1)) ORDER BY w;
SELECT * FROM stock WHERE ROW(w, i) = ANY (ARRAY[ROW(2, 1), ROW(3, 1)]) ORDER BY w;
SELECT s.q, p.name FROM stock AS s JOIN place AS p USING (w) WHERE (w, i) IN ((4, 1), (8, 2)) ORDER BY q;
SELECT s.q, p.name FROM stock AS s JOIN place AS p ON s.w = p.w WHERE (p.w, s.i) IN ((4, 1), (8, 2)) ORDER BY q;
SELECT p.w, s.q FROM place AS p LEFT JOIN stock AS s ON s.w = p.w AND (s.w, s.i) IN ((4, 1), (8, 2)) ORDER BY p.w;
SELECT name FROM place AS p WHERE EXISTS (SELECT FROM stock AS s WHERE (s.w, s.i) IN ((p.w, 1), (3, 2))) ORDER BY p.w;

PREPARE few (int, int, int, int) AS SELECT * FROM stock WHERE (w, i) IN (($1, $2), ($3, $4)) ORDER BY w, i;
EXECUTE few (3, 1, 3, 2);
EXECUTE few (3, 1, 10, 2);
EXECUTE few (NULL, 1, 10, 2);
PREPARE change (int, int, int) AS UPDATE stock SET q = -q WHERE (w, i) IN (($1, $2), ($1, $3)) RETURNING *;
EXECUTE change (6, 1, 6);
EXECUTE change (7, 2, 3);

BEGIN;
SELECT q FROM stock WHERE (w, i) IN ((1, 1), (1, 2)) ORDER BY i FOR UPDATE;
SELECT q FROM stock WHERE (w, i) IN ((1, 1), (12, 2)) ORDER BY w FOR UPDATE;
UPDATE stock SET q = 0 WHERE (w, i) IN ((1, 1), (12, 2));
DELETE FROM stock WHERE (w, i) IN ((2, 1), (2, 2), (5, 5));
SELECT count(*), sum(q) FROM stock;
COMMIT;
SELECT w, count(*), sum(q) FROM stock GROUP BY w ORDER BY w;
