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
