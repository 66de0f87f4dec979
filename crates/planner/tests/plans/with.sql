WITH d AS (DELETE FROM orders WHERE o_custkey = 3 RETURNING *) SELECT * FROM d
----
Scatter (write) to [0 1 2]
  WITH d AS (DELETE FROM orders WHERE o_custkey = 3 RETURNING *) SELECT * FROM d

WITH d AS (DELETE FROM orders WHERE o_custkey = 3 RETURNING *) SELECT count(*) FROM d
----
SequencedCtes over [0 1 2]
  loxo_w1
    Scatter (write) to [0 1 2]
      DELETE FROM orders WHERE o_custkey = 3 RETURNING *
  main, on copies
    Gather on 0
      SELECT count(*) FROM loxo_w1 d

WITH d AS (DELETE FROM orders WHERE o_orderkey = 3 RETURNING *) SELECT count(*) FROM d
----
Forward (write) to 1
  WITH d AS (DELETE FROM orders WHERE o_orderkey = 3 RETURNING *) SELECT count(*) FROM d

WITH d AS (DELETE FROM orders WHERE o_custkey = 3) SELECT 1
----
SequencedCtes over [0 1 2]
  main
    Forward to 0
      SELECT 1
  unread
    Scatter (write) to [0 1 2]
      DELETE FROM orders WHERE o_custkey = 3

WITH d AS (UPDATE orders SET o_total = 1 RETURNING o_orderkey, o_custkey) INSERT INTO orders (o_orderkey, o_custkey) SELECT * FROM d
----
Scatter (write) to [0 1 2]
  WITH d AS (UPDATE orders SET o_total = 1 RETURNING o_orderkey, o_custkey) INSERT INTO orders (o_orderkey, o_custkey) SELECT * FROM d

WITH d AS (DELETE FROM orders WHERE o_orderkey = 3 RETURNING *) SELECT * FROM d JOIN orders o ON o.o_custkey = d.o_custkey
----
SequencedCtes over [0 1 2]
  loxo_w1
    Forward (write) to 1
      DELETE FROM orders WHERE o_orderkey = 3 RETURNING *
  main, on copies
    Gather on 0
      SELECT * FROM loxo_w1 d JOIN loxo_w2_g1 o ON o.o_custkey = d.o_custkey
      loxo_w2_g1 from [0 1 2]
        SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders o

WITH i AS (INSERT INTO accounts (a_name) VALUES ('x') RETURNING a_id) INSERT INTO orders (o_orderkey) SELECT a_id FROM i
----
SequencedCtes over [0 1 2]
  loxo_w1
    InsertStaged into public.accounts by way of 0
      INSERT INTO loxo_stage (a_name) VALUES ('x')
      stage: CREATE TEMP TABLE loxo_stage (a_id bigint DEFAULT nextval('public.accounts_a_id_seq'::regclass), a_name text) ON COMMIT DROP
      route: hash of column 0 Int8 over [0 1 2]
      tail: RETURNING a_id
  main, on copies
    InsertStaged into public.orders by way of 0
      INSERT INTO loxo_stage (o_orderkey) SELECT a_id FROM loxo_w1 i
      stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
      route: hash of column 0 Int8 over [0 1 2]

WITH old AS (SELECT o_orderkey FROM orders ORDER BY o_date LIMIT 5) DELETE FROM orders USING old WHERE old.o_orderkey = orders.o_orderkey
----
StagedDml public.orders by way of 0
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_date FROM public.orders
  loxo_t0 from [0]
    SELECT o_orderkey, o_date, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders
  loxo_t1 from [1]
    SELECT o_orderkey, o_date, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders
  loxo_t2 from [2]
    SELECT o_orderkey, o_date, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid) ON COMMIT DROP
  Delete: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid) WITH old AS (SELECT o_orderkey FROM loxo_g1 orders ORDER BY o_date LIMIT 5) SELECT DISTINCT ON (orders.loxo_node, orders.loxo_table, orders.loxo_ctid) 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders, old WHERE old.o_orderkey = orders.o_orderkey
  route: hash of NULL Int8 over [0 1 2]

WITH old AS (SELECT o_orderkey AS k FROM orders ORDER BY o_date LIMIT 5), d AS (DELETE FROM orders USING old WHERE k = o_orderkey), i AS (INSERT INTO accounts (a_id) SELECT k FROM old) SELECT 1
----
SequencedCtes over [0 1 2]
  main
    Forward to 0
      SELECT 1
  loxo_w1
    Gather on 0
      WITH old AS (SELECT o_orderkey AS k FROM loxo_g1 orders ORDER BY o_date LIMIT 5) SELECT * FROM old
      loxo_g1 from [0 1 2]
        SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders
  unread, on copies
    InsertStaged into public.accounts by way of 0
      INSERT INTO loxo_stage (a_id) SELECT k FROM loxo_w1 old
      stage: CREATE TEMP TABLE loxo_stage (a_id bigint DEFAULT nextval('public.accounts_a_id_seq'::regclass), a_name text) ON COMMIT DROP
      route: hash of column 0 Int8 over [0 1 2]
  unread, on copies
    StagedDml public.orders by way of 0
      loxo_w2_t0 from [0]
        SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders
      loxo_w2_t1 from [1]
        SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders
      loxo_w2_t2 from [2]
        SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders
      stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid) ON COMMIT DROP
      Delete: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid) SELECT DISTINCT ON (orders.loxo_node, orders.loxo_table, orders.loxo_ctid) 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid FROM ((SELECT * FROM loxo_w2_t0 UNION ALL SELECT * FROM loxo_w2_t1) UNION ALL SELECT * FROM loxo_w2_t2) orders, loxo_w1 old WHERE k = o_orderkey
      route: hash of NULL Int8 over [0 1 2]

WITH x AS (INSERT INTO orders (o_orderkey) VALUES (1) RETURNING o_orderkey) INSERT INTO orders (o_orderkey) VALUES (2) ON CONFLICT (o_orderkey) DO UPDATE SET o_total = 3
----
SequencedCtes over [0 1 2]
  main
    Forward (write) to 0
      INSERT INTO orders (o_orderkey) VALUES (2) ON CONFLICT (o_orderkey) DO UPDATE SET o_total = 3
  unread
    Forward (write) to 2
      INSERT INTO orders (o_orderkey) VALUES (1) RETURNING o_orderkey

WITH d AS (SELECT 1), x AS (DELETE FROM orders RETURNING 1) SELECT * FROM (WITH d AS (SELECT 2) SELECT * FROM d) s
----
ERROR 0A000 the WITH item "d", defined twice, beside data changes, is not supported on distributed tables
  hint: Rename one of them.

SELECT count_orders()
----
Routine
  count_orders()
  then SELECT $1::bigint AS count_orders

SELECT harmless(), count_orders() + 1 AS more FROM nation
----
ERROR 0A000 function count_orders(), which reads table "orders", is not supported on distributed tables
  hint: Put the function's query into the statement, or call it once, by itself or in FROM.

SELECT * FROM count_orders() AS c (n)
----
Routine
  count_orders()
  then SELECT * FROM (SELECT $1::bigint AS int8) c(n)

UPDATE orders SET o_custkey = count_orders() WHERE o_orderkey = 1
----
ERROR 0A000 function count_orders(), which reads table "orders", is not supported on distributed tables
  hint: Put the function's query into the statement, or call it once, by itself or in FROM.

UPDATE big_orders SET o_total = o_total + 1
----
Scatter (write) to [0 1 2]
  UPDATE big_orders SET o_total = o_total + 1

UPDATE big_orders SET o_total = 5 WHERE o_orderkey = 3 RETURNING *
----
Forward (write) to 1
  UPDATE big_orders SET o_total = 5 WHERE o_orderkey = 3 RETURNING *

DELETE FROM big_orders WHERE o_total < 2000
----
Scatter (write) to [0 1 2]
  DELETE FROM big_orders WHERE o_total < 2000

INSERT INTO big_orders VALUES (7, 1500), (8, 1600)
----
Forward (write) to 2
  INSERT INTO big_orders VALUES (7, 1500), (8, 1600)

UPDATE big_orders SET o_custkey = 1
----
ERROR 0A000 this change of view "big_orders" is not supported on distributed tables
  detail: Column "o_custkey" is no column of its table.
  hint: Change the table under the view.

WITH d AS (DELETE FROM big_orders RETURNING *) SELECT count(*) FROM d
----
ERROR 0A000 a change of view "big_orders" beside others in WITH is not supported on distributed tables
  hint: Change the table under the view.

