-- Sub-selects in ON CONFLICT DO UPDATE over rows of several nodes: those that refer to nothing outside themselves.
CREATE TABLE cust (id int PRIMARY KEY, name text, n bigint DEFAULT 0) /*dist: hash(id) | replication | modulo(id) | hash(id)*/;
CREATE TABLE ord (id int, cust int, total int) /*dist: hash(id) | roundrobin | hash(id) | replication*/;
INSERT INTO cust SELECT g, 'c' || g FROM generate_series(1, 20) g;
INSERT INTO ord SELECT g, g % 20 + 1, g * 10 FROM generate_series(1, 100) g;
INSERT INTO cust VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT count(*) FROM ord);
INSERT INTO cust VALUES (2, 'x'), (30, 'new'), (3, 'y') ON CONFLICT (id) DO UPDATE SET n = (SELECT max(n) FROM cust) + 1, name = excluded.name RETURNING *;
INSERT INTO cust VALUES (4, 'x') ON CONFLICT (id) DO UPDATE SET (name, n) = (SELECT max(name), sum(n) FROM cust) RETURNING *;
INSERT INTO cust VALUES (4, 'x'), (5, 'x') ON CONFLICT (id) DO UPDATE SET n = -1 WHERE cust.id = ANY (SELECT o.cust FROM ord o WHERE o.total = 30) RETURNING id, n;
INSERT INTO cust VALUES (6, 'x'), (7, 'x') ON CONFLICT (id) DO UPDATE SET n = -2 WHERE cust.id IN (SELECT o.cust FROM ord o WHERE o.total = 50) RETURNING id, (SELECT count(*) FROM ord);
INSERT INTO cust VALUES (8, 'x') ON CONFLICT (id) DO UPDATE SET n = CASE WHEN EXISTS (SELECT FROM ord WHERE total > 990) THEN 8 ELSE 9 END RETURNING *;
INSERT INTO cust SELECT id, name || '!' FROM cust WHERE id < 5 ON CONFLICT (id) DO UPDATE SET name = excluded.name, n = cust.n + (SELECT min(total) FROM ord);
WITH s AS (SELECT count(*) AS c FROM ord) INSERT INTO cust VALUES (9, 'z') ON CONFLICT (id) DO UPDATE SET n = (SELECT c FROM s) RETURNING n;
WITH s AS (SELECT 10 AS id, sum(total) AS c FROM ord) INSERT INTO cust SELECT id, 's', c FROM s ON CONFLICT (id) DO UPDATE SET n = (SELECT c FROM s) + excluded.n RETURNING *;
-- params: 11 | 500
INSERT INTO cust VALUES ($1::int, 'p') ON CONFLICT (id) DO UPDATE SET n = (SELECT count(*) FROM ord WHERE total > $2::int) RETURNING *;
INSERT INTO cust VALUES (12, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT total FROM ord ORDER BY total DESC LIMIT 1 OFFSET 3) RETURNING *;
INSERT INTO cust VALUES (12, 'x') ON CONFLICT (id) DO UPDATE SET name = (SELECT string_agg(total::text, ',' ORDER BY total) FROM ord WHERE cust = 3) RETURNING *;
-- No row.
INSERT INTO cust VALUES (13, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT total FROM ord WHERE total < 0) RETURNING *;
-- Nothing is met, so PostgreSQL computes nothing.
INSERT INTO cust VALUES (100, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT total FROM ord) RETURNING *;
-- refused: mixed | v1 | v2 | v3
INSERT INTO cust VALUES (101, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT sum(1 / (total - 10)) FROM ord) RETURNING *;
-- refused: mixed | v1 | v2 | v3
INSERT INTO cust VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT sum(1 / (total - 10)) FROM ord) RETURNING *;
INSERT INTO cust VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT total FROM ord) RETURNING *;
-- Of the row that is met, or of the new one.
-- refused: mixed | v1 | v2 | v3
INSERT INTO cust VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT count(*) FROM ord WHERE ord.cust = excluded.id) RETURNING *;
-- refused: mixed | v1 | v2 | v3
INSERT INTO cust VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT count(*) FROM ord WHERE ord.cust = cust.id) RETURNING *;
-- Functions.
CREATE FUNCTION orders() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM ord';
CREATE SEQUENCE s;
-- refused
INSERT INTO cust VALUES (200, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT nextval('s') FROM ord LIMIT 1) RETURNING *;
SELECT nextval('s');
-- refused: v4
INSERT INTO cust VALUES (14, 'x') ON CONFLICT (id) DO UPDATE SET n = (SELECT orders() FROM ord LIMIT 1) RETURNING *;
-- In a body, and by a prepared statement.
DO $$ BEGIN INSERT INTO cust VALUES (15, 'd') ON CONFLICT (id) DO UPDATE SET n = (SELECT count(*) + 7 FROM ord); END $$;
PREPARE p(int) AS INSERT INTO cust VALUES ($1, 'q') ON CONFLICT (id) DO UPDATE SET n = (SELECT count(*) FROM ord WHERE total > $1 * 10);
EXECUTE p(16);
EXECUTE p(17);
DELETE FROM ord WHERE id > 50;
EXECUTE p(18);
EXECUTE p(201);
SELECT * FROM cust ORDER BY id;
