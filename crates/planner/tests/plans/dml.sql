INSERT INTO orders VALUES (1, 2, '2020-01-01', 3.5)
----
Forward (write) to 2
  INSERT INTO orders VALUES (1, 2, '2020-01-01', 3.5)

INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (2, 3), (3, 4), (4, 4)
----
InsertSplit
  on 0: INSERT INTO orders (o_orderkey, o_custkey) VALUES (2, 3)
  on 1: INSERT INTO orders (o_orderkey, o_custkey) VALUES (3, 4), (4, 4)
  on 2: INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2)

INSERT INTO orders (o_custkey) VALUES (2)
----
Forward (write) to 0
  INSERT INTO orders (o_custkey) VALUES (2)

INSERT INTO orders (o_orderkey) VALUES ($1)
----
Forward (write) to 1
  INSERT INTO orders (o_orderkey) VALUES ($1)

INSERT INTO orders (o_orderkey) VALUES ($2)
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) VALUES ($2)
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO orders (o_orderkey) VALUES (1 + 1) RETURNING o_orderkey
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) VALUES (1 + 1)
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]
  tail: RETURNING o_orderkey

INSERT INTO orders (o_orderkey) VALUES (1) ON CONFLICT (o_orderkey) DO UPDATE SET o_total = excluded.o_total
----
Forward (write) to 2
  INSERT INTO orders (o_orderkey) VALUES (1) ON CONFLICT (o_orderkey) DO UPDATE SET o_total = excluded.o_total

INSERT INTO orders (o_orderkey) VALUES (1) ON CONFLICT (o_orderkey) DO UPDATE SET o_orderkey = 2
----
ERROR 0A000 a change of distribution column "o_orderkey" of table "orders" is not supported on distributed tables
  hint: The row would have to move: DELETE it and INSERT it again.

INSERT INTO accounts (a_name) VALUES ('x') RETURNING a_id
----
Routine
  nextval('public.accounts_a_id_seq'::regclass), 1 times
  then INSERT INTO accounts (a_name, a_id) VALUES ('x', $1) RETURNING a_id

INSERT INTO accounts (a_id, a_name) VALUES (5, 'x')
----
Forward (write) to 0
  INSERT INTO accounts (a_id, a_name) VALUES (5, 'x')

INSERT INTO accounts (a_id, a_name) VALUES (DEFAULT, 'x'), (DEFAULT, 'y') ON CONFLICT DO NOTHING
----
Routine
  nextval('public.accounts_a_id_seq'::regclass), 2 times
  then INSERT INTO accounts (a_id, a_name) VALUES ($1, 'x'), ($2, 'y') ON CONFLICT DO NOTHING

INSERT INTO accounts DEFAULT VALUES
----
Routine
  nextval('public.accounts_a_id_seq'::regclass), 1 times
  then INSERT INTO accounts (a_id) VALUES ($1)

INSERT INTO nation VALUES (1, 'a')
----
Replicate to [0 1 2]
  INSERT INTO nation VALUES (1, 'a')

INSERT INTO nation VALUES (1, now()::text)
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) VALUES (1, now()::text)
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO nation SELECT n_key + 1, n_name FROM nation
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) SELECT n_key + 1, n_name FROM nation
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO nation SELECT c_nation, c_name FROM customer
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) SELECT * FROM loxo_g1
  loxo_g1 from
    ExchangePlan over [0 1 2]
      Scatter to [0 1 2]
        SELECT c_nation, c_name FROM customer
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]
  or straight: COPY public.nation (n_key, n_name) FROM STDIN (FORMAT binary)

INSERT INTO events VALUES (1, 'a'), (2, 'b')
----
Forward (write) to any of [0 1 2]
  INSERT INTO events VALUES (1, 'a'), (2, 'b')

INSERT INTO events SELECT o_orderkey, 'x' FROM orders
----
Scatter (write) to [0 1 2]
  INSERT INTO events SELECT o_orderkey, 'x' FROM orders

INSERT INTO orders (o_orderkey, o_total) SELECT l_orderkey, sum(l_price) FROM lineitem GROUP BY l_orderkey
----
Scatter (write) to [0 1 2]
  INSERT INTO orders (o_orderkey, o_total) SELECT l_orderkey, sum(l_price) FROM lineitem GROUP BY l_orderkey

INSERT INTO orders (o_orderkey, o_total) SELECT l_partkey, sum(l_price) FROM lineitem GROUP BY l_partkey
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey, o_total) SELECT loxo_c1 AS l_partkey, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT l_partkey AS loxo_c1, sum(l_price) AS loxo_c2 FROM lineitem GROUP BY 1
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO orders (o_orderkey) SELECT generate_series(1, 10)
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) SELECT generate_series(1, 10)
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO orders (o_orderkey) SELECT n_key FROM nation
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) SELECT n_key FROM nation
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO scratch SELECT o_orderkey FROM orders
----
Gather (write) on 0
  INSERT INTO scratch SELECT * FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT o_orderkey FROM orders

INSERT INTO scratch VALUES (1)
----
Forward (write) to 0
  INSERT INTO scratch VALUES (1)

INSERT INTO big_orders VALUES (1, 2)
----
Forward (write) to 2
  INSERT INTO big_orders VALUES (1, 2)

INSERT INTO modded VALUES (4097, 'x')
----
Forward (write) to 1
  INSERT INTO modded VALUES (4097, 'x')

WITH x AS (SELECT l_partkey AS k FROM lineitem) INSERT INTO orders (o_orderkey) SELECT k FROM x
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) SELECT * FROM loxo_g1
  loxo_g1 from
    ExchangePlan over [0 1 2]
      Scatter to [0 1 2]
        WITH x AS (SELECT l_partkey AS k FROM lineitem) SELECT k FROM x
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]
  or straight: COPY public.orders (o_orderkey) FROM STDIN (FORMAT binary)

UPDATE orders SET o_total = o_total + 1 WHERE o_orderkey = 5
----
Forward (write) to 0
  UPDATE orders SET o_total = o_total + 1 WHERE o_orderkey = 5

UPDATE orders SET o_total = 0
----
Scatter (write) to [0 1 2]
  UPDATE orders SET o_total = 0

UPDATE orders SET o_orderkey = 5
----
StagedDml public.orders by way of 0
  loxo_t0 from [0]
    SELECT o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders
  loxo_t1 from [1]
    SELECT o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders
  loxo_t2 from [2]
    SELECT o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  Update { columns: [0], moves: true }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, o_orderkey, o_custkey, o_date, o_total) SELECT 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid, 5, orders.o_custkey, orders.o_date, orders.o_total FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders
  route: hash of column 0 Int8 over [0 1 2]

UPDATE orders SET o_total = l.l_price FROM lineitem l WHERE l.l_orderkey = o_orderkey RETURNING *
----
Scatter (write) to [0 1 2]
  UPDATE orders SET o_total = l.l_price FROM lineitem l WHERE l.l_orderkey = o_orderkey RETURNING *

UPDATE orders SET o_total = c.c_nation FROM customer c WHERE c.c_custkey = o_custkey
----
StagedDml public.orders by way of 0
  loxo_g2 from [0 1 2]
    SELECT c_custkey, c_nation FROM public.customer c
  loxo_t0 from [0]
    SELECT o_custkey, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders
  loxo_t1 from [1]
    SELECT o_custkey, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders
  loxo_t2 from [2]
    SELECT o_custkey, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_total numeric(15,2)) ON COMMIT DROP
  Update { columns: [0], moves: false }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, o_total) SELECT DISTINCT ON (orders.loxo_node, orders.loxo_table, orders.loxo_ctid) 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid, c.c_nation FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders, loxo_g2 c WHERE c.c_custkey = o_custkey
  route: hash of NULL Int8 over [0 1 2]

UPDATE nation SET n_name = 'x'
----
Replicate to [0 1 2]
  UPDATE nation SET n_name = 'x'

UPDATE nation SET n_name = (SELECT max(c_name) FROM customer)
----
FirstCopy, rows to [1 2]
  StagedDml public.nation by way of 0
    loxo_g1 from [0 1 2]
      SELECT c_name FROM public.customer
    loxo_t0 from [0]
      SELECT 0 AS loxo_none, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.nation
    stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, n_name text) ON COMMIT DROP
    Update { columns: [0], moves: false }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, n_name) SELECT 0, nation.loxo_node, nation.loxo_table, nation.loxo_ctid, (SELECT max(c_name) FROM loxo_g1 customer) FROM (SELECT * FROM loxo_t0) nation
    route: all of [0]

UPDATE nation SET n_name = random()::text
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE nation SET n_name = random()::text

UPDATE orders SET o_total = (SELECT sum(l_price) FROM lineitem WHERE l_orderkey = o_orderkey)
----
Scatter (write) to [0 1 2]
  UPDATE orders SET o_total = (SELECT sum(l_price) FROM lineitem WHERE l_orderkey = o_orderkey)

DELETE FROM orders WHERE o_orderkey = $1
----
Forward (write) to 1
  DELETE FROM orders WHERE o_orderkey = $1

DELETE FROM orders USING nation WHERE o_custkey = n_key
----
Scatter (write) to [0 1 2]
  DELETE FROM orders USING nation WHERE o_custkey = n_key

DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE o_total < 0)
----
Scatter (write) to [0 1 2]
  DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE o_total < 0)

DELETE FROM lineitem WHERE l_partkey IN (SELECT o_orderkey FROM orders)
----
StagedDml public.lineitem by way of 0
  loxo_g2 from [0 1 2]
    SELECT o_orderkey FROM public.orders
  loxo_t0 from [0]
    SELECT l_partkey, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.lineitem
  loxo_t1 from [1]
    SELECT l_partkey, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.lineitem
  loxo_t2 from [2]
    SELECT l_partkey, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.lineitem
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid) ON COMMIT DROP
  Delete: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid) SELECT 0, lineitem.loxo_node, lineitem.loxo_table, lineitem.loxo_ctid FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) lineitem WHERE l_partkey IN (SELECT o_orderkey FROM loxo_g2 orders)
  route: hash of NULL Int8 over [0 1 2]

DELETE FROM nation WHERE n_key = 1
----
Replicate to [0 1 2]
  DELETE FROM nation WHERE n_key = 1

DELETE FROM scratch
----
Forward (write) to 0
  DELETE FROM scratch

MERGE INTO orders USING lineitem ON o_orderkey = l_orderkey WHEN MATCHED THEN UPDATE SET o_total = l_price
----
Scatter (write) to [0 1 2]
  MERGE INTO orders USING lineitem ON o_orderkey = l_orderkey WHEN MATCHED THEN UPDATE SET o_total = l_price

MERGE INTO orders USING nation ON o_orderkey = n_key WHEN NOT MATCHED THEN INSERT (o_orderkey) VALUES (n_key)
----
StagedDml public.orders by way of 0
  loxo_t0 from [0]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders
  loxo_t1 from [1]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders
  loxo_t2 from [2]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  Insert: INSERT INTO loxo_stage (loxo_action, o_orderkey) SELECT 0, n_key FROM nation LEFT JOIN ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders ON o_orderkey = n_key WHERE orders.loxo_node IS NULL
  route: hash of column 0 Int8 over [0 1 2]

COPY orders FROM STDIN (FORMAT csv, HEADER)
----
CopyFrom public.orders (o_orderkey, o_custkey, o_date, o_total)
  route: hash of column 0 Int8 over [0 1 2]

COPY accounts (a_name) FROM '/tmp/x'
----
CopyFrom public.accounts (a_name)
  route: hash of NULL Int8 over [0 1 2]
  stage: CREATE TEMP TABLE loxo_stage (a_id bigint DEFAULT nextval('public.accounts_a_id_seq'::regclass), a_name text) ON COMMIT DROP

COPY orders TO STDOUT
----
CopyTo from [0 1 2]: public.orders

COPY nation (n_key) TO STDOUT
----
CopyTo from any of [0 1 2]: public.nation (n_key)

COPY (SELECT * FROM orders) TO STDOUT
----
CopyTo from [0 1 2]: (SELECT * FROM orders)

COPY (SELECT count(*) FROM orders) TO STDOUT
----
CopyTo
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM orders

COPY scratch FROM STDIN
----
CopyHome on 0: scratch

EXPLAIN (ANALYZE, COSTS off) SELECT * FROM orders WHERE o_orderkey = 7
----
Explain (analyze)
  Forward to 2
    SELECT * FROM orders WHERE o_orderkey = 7

DECLARE c CURSOR FOR SELECT * FROM orders
----
DeclareCursor
  Scatter to [0 1 2]
    SELECT * FROM orders

BEGIN; SET x = 1; COMMIT
----
Session
Session
Session

UPDATE people SET x_weight = (SELECT avg(x_weight) FROM people)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE people SET x_weight = (SELECT avg(x_weight) FROM people)

UPDATE people SET x_age = (SELECT avg(x_age) FROM people)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE people SET x_age = (SELECT avg(x_age) FROM people)

UPDATE people SET x_name = (SELECT string_agg(n_name, ',' ORDER BY n_key) FROM nation)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE people SET x_name = (SELECT string_agg(n_name, ',' ORDER BY n_key) FROM nation)

UPDATE people SET x_name = (SELECT string_agg(n_name, ',' ORDER BY n_name) FROM nation)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE people SET x_name = (SELECT string_agg(n_name, ',' ORDER BY n_name) FROM nation)

UPDATE people SET x_age = (SELECT max(n) FROM (SELECT sum(n_key) OVER (ORDER BY n_name ROWS 1 PRECEDING) AS n FROM nation) s)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE people SET x_age = (SELECT max(n) FROM (SELECT sum(n_key) OVER (ORDER BY n_name ROWS 1 PRECEDING) AS n FROM nation) s)

UPDATE orders SET o_orderkey = $2, o_total = 0 WHERE o_total > 1 AND $2 = o_orderkey
----
Scatter (write) to [0 1 2]
  UPDATE orders SET o_orderkey = $2, o_total = 0 WHERE o_total > 1 AND $2 = o_orderkey

UPDATE orders SET o_orderkey = '5'::mine WHERE o_orderkey = '5'::mine
----
StagedDml public.orders by way of 0
  loxo_t0 from [0]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders WHERE o_orderkey = '5'::mine
  loxo_t1 from [1]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders WHERE o_orderkey = '5'::mine
  loxo_t2 from [2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders WHERE o_orderkey = '5'::mine
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  Update { columns: [0], moves: true }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, o_orderkey, o_custkey, o_date, o_total) SELECT 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid, '5'::mine, orders.o_custkey, orders.o_date, orders.o_total FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders WHERE o_orderkey = '5'::mine
  route: hash of column 0 Int8 over [0 1 2]

UPDATE orders SET o_orderkey = 5 WHERE o_orderkey = 5 OR o_total = 0
----
StagedDml public.orders by way of 0
  loxo_t0 from [0]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders WHERE o_orderkey = 5 OR o_total = 0
  loxo_t1 from [1]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders WHERE o_orderkey = 5 OR o_total = 0
  loxo_t2 from [2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders WHERE o_orderkey = 5 OR o_total = 0
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  Update { columns: [0], moves: true }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, o_orderkey, o_custkey, o_date, o_total) SELECT 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid, 5, orders.o_custkey, orders.o_date, orders.o_total FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders WHERE o_orderkey = 5 OR o_total = 0
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO nation SELECT 5, n_name FROM nation WHERE n_key = (SELECT max(x_age) FROM people)
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) SELECT 5, n_name FROM nation WHERE n_key = (SELECT max(x_age) FROM people)
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO people (x_key, x_age) SELECT 5, sum(n_key) FROM nation
----
InsertStaged into public.people by way of 0
  INSERT INTO loxo_stage (x_key, x_age) SELECT 5, sum(n_key) FROM nation
  stage: CREATE TEMP TABLE loxo_stage (x_key bigint, x_name text, x_age integer, x_weight double precision) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO people (x_key, x_weight) SELECT 5, sum(x_weight) FROM people
----
InsertStaged into public.people by way of 0
  INSERT INTO loxo_stage (x_key, x_weight) SELECT 5, sum(x_weight) FROM people
  stage: CREATE TEMP TABLE loxo_stage (x_key bigint, x_name text, x_age integer, x_weight double precision) ON COMMIT DROP
  route: all of [0 1 2]

