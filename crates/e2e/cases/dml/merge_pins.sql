-- ON leaves no row of the source out where rows that match nothing are inserted: what it says of keys is no place for the statement.
CREATE TABLE ct (a text, n int) /*dist: hash(n) | replication | roundrobin*/;
CREATE TABLE cu (a text, n int) /*dist: replication | hash(n) | replication*/;
INSERT INTO ct VALUES ('b', 4), ('b', 5), (NULL, 6), ('d', 1), ('e', 2), ('f', 3);
INSERT INTO cu VALUES ('b', 1), ('c', 2);
MERGE INTO cu USING ct ON ct.a = cu.a AND ct.n = 5 WHEN MATCHED THEN UPDATE SET a = cu.a || '*' WHEN NOT MATCHED THEN INSERT VALUES (ct.a || '!', ct.n + 1000);
SELECT * FROM cu ORDER BY n, a;
MERGE INTO cu USING ct ON ct.n = cu.n AND cu.n = 1 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (ct.a || '?', ct.n + 2000);
SELECT * FROM cu ORDER BY n, a;
MERGE INTO cu USING (SELECT * FROM ct) s ON s.n = cu.n AND s.n IN (3, 6) AND s.n = 2 WHEN NOT MATCHED AND s.n > 2 THEN INSERT VALUES (s.a, s.n + 3000);
SELECT * FROM cu ORDER BY n, a;
-- params: 5
MERGE INTO cu USING ct ON ct.a = cu.a AND ct.n = $1 WHEN NOT MATCHED THEN INSERT VALUES (ct.a, ct.n + 4000) WHEN MATCHED THEN DO NOTHING;
SELECT count(*), sum(n) FROM cu;
MERGE INTO cu USING ct ON false WHEN NOT MATCHED THEN INSERT VALUES (ct.a, ct.n + 5000);
SELECT count(*), sum(n) FROM cu;
MERGE INTO cu USING (SELECT * FROM ct WHERE n = 5) s ON s.n + 4000 = cu.n WHEN MATCHED THEN UPDATE SET a = 'five' WHEN NOT MATCHED THEN INSERT VALUES ('none', 0);
SELECT a, n FROM cu WHERE n IN (0, 4005) ORDER BY n;
MERGE INTO cu USING ct ON ct.n = 5 AND cu.n = 4005 WHEN MATCHED THEN UPDATE SET a = cu.a || ct.n;
SELECT a FROM cu WHERE n = 4005;
CREATE TEMP TABLE tt (id int, v text);
INSERT INTO tt SELECT g, 'a' FROM generate_series(1, 6) g;
MERGE INTO tt USING ct ON tt.id = ct.n AND ct.n = 5 WHEN NOT MATCHED THEN INSERT VALUES (ct.n * 100, ct.a) WHEN MATCHED THEN DELETE;
SELECT * FROM tt ORDER BY id;
MERGE INTO ct USING cu ON ct.n = cu.n AND ct.n = 2 AND EXISTS (SELECT 1 FROM ct x WHERE x.n = 2) WHEN NOT MATCHED AND cu.n < 3000 THEN INSERT VALUES (cu.a, cu.n + 10000);
SELECT count(*), sum(n) FROM ct;
-- Conditions of WHEN behind one that holds, or of rows that are not met, are not evaluated.
CREATE TABLE mm (k int PRIMARY KEY, v int) /*dist: hash(k) | hash(k) | replication*/;
CREATE TABLE ms (k int, v int) /*dist: hash(k) | hash(v) | roundrobin*/;
INSERT INTO mm VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO ms VALUES (2, 20), (3, 30), (4, 40);
MERGE INTO mm USING (SELECT 999 AS k) s ON s.k = mm.k WHEN MATCHED AND (SELECT 1 / count(*) FROM ms WHERE k < 0) > 0 THEN DELETE WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k);
MERGE INTO mm USING ms ON ms.v = mm.k * 10 WHEN MATCHED AND true THEN UPDATE SET v = ms.v WHEN MATCHED AND (SELECT 1 / count(*) FROM ms WHERE k < 0) > 0 THEN DELETE;
MERGE INTO mm USING ms ON ms.k = mm.k AND ms.v < 40 WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED AND ms.k = 4 THEN INSERT VALUES (ms.k, ms.v) WHEN NOT MATCHED AND (SELECT count(*)::int / 0 FROM ms) > 0 THEN INSERT VALUES (5, 5);
MERGE INTO mm USING ms ON ms.v = mm.v WHEN MATCHED AND mm.k > (SELECT min(k) FROM ms) THEN DELETE WHEN MATCHED AND NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED AND false THEN INSERT VALUES (6, 6);
MERGE INTO mm USING ms ON ms.v = mm.v WHEN NOT MATCHED AND ms.k > 3 OR ms.k < 0 THEN INSERT VALUES (ms.k + 100, ms.v) WHEN MATCHED THEN DELETE WHEN MATCHED AND mm.k / 0 > 1 THEN UPDATE SET v = 1;
SELECT * FROM mm ORDER BY k;
