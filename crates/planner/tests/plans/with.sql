WITH d AS (DELETE FROM public.orders WHERE (orders.o_custkey = 3) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total) SELECT d.o_orderkey, d.o_custkey, d.o_date, d.o_total FROM d
----
Scatter (write) to [0 1 2]
  WITH d AS (DELETE FROM public.orders WHERE (orders.o_custkey = 3) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total) SELECT d.o_orderkey, d.o_custkey, d.o_date, d.o_total FROM d

WITH d AS (DELETE FROM public.orders WHERE (orders.o_custkey = 3) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total) SELECT count(*) AS count FROM d
----
SequencedCtes over [0 1 2]
  loxo_w1
    Scatter (write) to [0 1 2]
      DELETE FROM public.orders WHERE orders.o_custkey = 3 RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total
  main, on copies
    Gather on 0
      SELECT count(*) AS count FROM loxo_w1 d

WITH d AS (DELETE FROM public.orders WHERE (orders.o_orderkey = 3) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total) SELECT count(*) AS count FROM d
----
Forward (write) to 1
  WITH d AS (DELETE FROM public.orders WHERE (orders.o_orderkey = 3) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total) SELECT count(*) AS count FROM d

WITH d AS (DELETE FROM public.orders WHERE (orders.o_custkey = 3)) SELECT 1
----
SequencedCtes over [0 1 2]
  main
    Forward to 0
      SELECT 1 AS "?column?"
  unread
    Scatter (write) to [0 1 2]
      DELETE FROM public.orders WHERE orders.o_custkey = 3

WITH d AS (UPDATE public.orders orders_1 SET o_total = 1 RETURNING orders_1.o_orderkey, orders_1.o_custkey) INSERT INTO public.orders (o_orderkey, o_custkey) SELECT d.o_orderkey, d.o_custkey FROM d
----
Scatter (write) to [0 1 2]
  WITH d AS (UPDATE public.orders orders_1 SET o_total = 1 RETURNING orders_1.o_orderkey, orders_1.o_custkey) INSERT INTO public.orders (o_orderkey, o_custkey) SELECT d.o_orderkey, d.o_custkey FROM d

WITH d AS (DELETE FROM public.orders WHERE (orders.o_orderkey = 3) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total) SELECT d.o_orderkey, d.o_custkey, d.o_date, d.o_total, o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM (d JOIN public.orders o ON ((o.o_custkey = d.o_custkey)))
----
SequencedCtes over [0 1 2]
  loxo_w1
    Forward (write) to 1
      DELETE FROM public.orders WHERE orders.o_orderkey = 3 RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total
  main, on copies
    Gather on 0
      SELECT d.o_orderkey, d.o_custkey, d.o_date, d.o_total, o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM loxo_w1 d JOIN loxo_w2_g1 o ON o.o_custkey = d.o_custkey
      loxo_w2_g1 from [0 1 2]
        SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders o

WITH i AS (INSERT INTO public.accounts (a_name) VALUES ('x'::text) RETURNING accounts.a_id) INSERT INTO public.orders (o_orderkey) SELECT i.a_id FROM i
----
SequencedCtes over [0 1 2]
  loxo_w1
    InsertStaged into public.accounts by way of 0
      INSERT INTO loxo_stage (a_name) VALUES ('x'::text)
      stage: CREATE TEMP TABLE loxo_stage (a_id bigint DEFAULT nextval('public.accounts_a_id_seq'::regclass), a_name text) ON COMMIT DROP
      route: hash of column 0 Int8 over [0 1 2]
      tail: RETURNING accounts.a_id
  main, on copies
    InsertStaged into public.orders by way of 0
      INSERT INTO loxo_stage (o_orderkey) SELECT i.a_id FROM loxo_w1 i
      stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
      route: hash of column 0 Int8 over [0 1 2]

WITH old AS (SELECT orders_1.o_orderkey FROM public.orders orders_1 ORDER BY orders_1.o_date LIMIT 5) DELETE FROM public.orders USING old WHERE (old.o_orderkey = orders.o_orderkey)
----
StagedDml public.orders by way of 0
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_date FROM public.orders orders_1
  loxo_t0 from [0]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders
  loxo_t1 from [1]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders
  loxo_t2 from [2]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid) ON COMMIT DROP
  Delete: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid) WITH old AS (SELECT orders_1.o_orderkey FROM loxo_g1 orders_1 ORDER BY orders_1.o_date LIMIT 5) SELECT DISTINCT ON (orders.loxo_node, orders.loxo_table, orders.loxo_ctid) 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders, old WHERE old.o_orderkey = orders.o_orderkey
  route: hash of NULL Int8 over [0 1 2]

WITH old AS (SELECT orders.o_orderkey AS k FROM public.orders ORDER BY orders.o_date LIMIT 5), d AS (DELETE FROM public.orders USING old WHERE (old.k = orders.o_orderkey)), i AS (INSERT INTO public.accounts (a_id) SELECT old.k FROM old) SELECT 1
----
SequencedCtes over [0 1 2]
  main
    Forward to 0
      SELECT 1 AS "?column?"
  loxo_w1
    Gather on 0
      WITH old AS (SELECT orders.o_orderkey AS k FROM loxo_g1 orders ORDER BY orders.o_date LIMIT 5) SELECT * FROM old
      loxo_g1 from [0 1 2]
        SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders
  unread, on copies
    InsertStaged into public.accounts by way of 0
      INSERT INTO loxo_stage (a_id) SELECT old.k FROM loxo_w1 old
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
      Delete: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid) SELECT DISTINCT ON (orders.loxo_node, orders.loxo_table, orders.loxo_ctid) 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid FROM ((SELECT * FROM loxo_w2_t0 UNION ALL SELECT * FROM loxo_w2_t1) UNION ALL SELECT * FROM loxo_w2_t2) orders, loxo_w1 old WHERE old.k = orders.o_orderkey
      route: hash of NULL Int8 over [0 1 2]

WITH x AS (INSERT INTO public.orders AS orders_1 (o_orderkey) VALUES (1) RETURNING orders_1.o_orderkey) INSERT INTO public.orders (o_orderkey) VALUES (2) ON CONFLICT(o_orderkey) DO UPDATE SET o_total = 3
----
SequencedCtes over [0 1 2]
  main
    Forward (write) to 0
      INSERT INTO public.orders (o_orderkey) VALUES (2) ON CONFLICT (o_orderkey) DO UPDATE SET o_total = 3
  unread
    Forward (write) to 2
      INSERT INTO public.orders AS orders_1 (o_orderkey) VALUES (1) RETURNING orders_1.o_orderkey

WITH d AS (SELECT 1 AS "?column?"), x AS (DELETE FROM public.orders RETURNING 1 AS "?column?") SELECT s."?column?" FROM (WITH d AS (SELECT 2 AS "?column?") SELECT d."?column?" FROM d) s
----
ERROR 0A000 the WITH item "d", defined twice, beside data changes, is not supported on distributed tables
  hint: Rename one of them.

SELECT public.count_orders() AS count_orders
----
Routine
  count_orders()
  then SELECT $1::bigint AS count_orders

SELECT public.harmless() AS harmless, (public.count_orders() + 1) AS more FROM public.nation
----
Routine
  SELECT public.harmless() AS c0 FROM public.nation
  for each SELECT public.count_orders() AS c
  then SELECT loxo_r.loxo_c0::loxo_type_of_slot_0_ AS harmless, loxo_r.loxo_c1::loxo_type_of_slot_1_ + 1 AS more FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]) , pg_catalog.unnest($2::pg_catalog.text[]) ) loxo_r(loxo_c0, loxo_c1)

SELECT c.n FROM public.count_orders() c(n)
----
Routine
  count_orders()
  then SELECT c.n AS n FROM (SELECT $1::bigint AS int8) c(n)

UPDATE public.orders SET o_custkey = public.count_orders() WHERE (orders.o_orderkey = 1)
----
ERROR 0A000 function count_orders(), which reads table "orders", is not supported on distributed tables
  hint: Put the function's query into the statement, or call it once, by itself or in FROM.

UPDATE public.big_orders SET o_total = (big_orders.o_total + (1)::numeric)
----
Scatter (write) to [0 1 2]
  UPDATE public.big_orders SET o_total = (big_orders.o_total + (1)::numeric)

UPDATE public.big_orders SET o_total = 5 WHERE (big_orders.o_orderkey = 3) RETURNING big_orders.o_orderkey, big_orders.o_total
----
Forward (write) to 1
  UPDATE public.big_orders SET o_total = 5 WHERE (big_orders.o_orderkey = 3) RETURNING big_orders.o_orderkey, big_orders.o_total

DELETE FROM public.big_orders WHERE (big_orders.o_total < (2000)::numeric)
----
Scatter (write) to [0 1 2]
  DELETE FROM public.big_orders WHERE (big_orders.o_total < (2000)::numeric)

INSERT INTO public.big_orders (o_orderkey, o_total) VALUES (7,1500), (8,1600)
----
Forward (write) to 2
  INSERT INTO public.big_orders (o_orderkey, o_total) VALUES (7,1500), (8,1600)

UPDATE public.big_orders SET o_custkey = 1
----
ERROR 0A000 this change of view "big_orders" is not supported on distributed tables
  detail: Column "o_custkey" is no column of its table.
  hint: Change the table under the view.

WITH d AS (DELETE FROM public.big_orders RETURNING big_orders.o_orderkey, big_orders.o_total) SELECT count(*) AS count FROM d
----
ERROR 0A000 a change of view "big_orders" beside others in WITH is not supported on distributed tables
  hint: Change the table under the view.

