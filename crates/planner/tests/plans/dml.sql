INSERT INTO public.orders (o_orderkey, o_custkey, o_date, o_total) VALUES (1, 2, '2020-01-01'::date, 3.5)
----
Forward (write) to 2
  INSERT INTO public.orders (o_orderkey, o_custkey, o_date, o_total) VALUES (1, 2, '2020-01-01'::date, 3.5)

INSERT INTO public.orders (o_orderkey, o_custkey) VALUES (1,2), (2,3), (3,4), (4,4)
----
InsertSplit
  on 0: INSERT INTO public.orders (o_orderkey, o_custkey) VALUES (2, 3)
  on 1: INSERT INTO public.orders (o_orderkey, o_custkey) VALUES (3, 4), (4, 4)
  on 2: INSERT INTO public.orders (o_orderkey, o_custkey) VALUES (1, 2)

INSERT INTO public.orders (o_custkey) VALUES (2)
----
Forward (write) to 0
  INSERT INTO public.orders (o_custkey) VALUES (2)

INSERT INTO public.orders (o_orderkey) VALUES ($1)
----
Forward (write) to 1
  INSERT INTO public.orders (o_orderkey) VALUES ($1)

INSERT INTO public.orders (o_orderkey) VALUES ($2)
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) VALUES ($2)
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO public.orders (o_orderkey) VALUES ((1 + 1)) RETURNING orders.o_orderkey
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) VALUES (1 + 1)
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]
  tail: RETURNING orders.o_orderkey

INSERT INTO public.orders (o_orderkey) VALUES (1) ON CONFLICT(o_orderkey) DO UPDATE SET o_total = excluded.o_total
----
Forward (write) to 2
  INSERT INTO public.orders (o_orderkey) VALUES (1) ON CONFLICT(o_orderkey) DO UPDATE SET o_total = excluded.o_total

INSERT INTO public.orders (o_orderkey) VALUES (1) ON CONFLICT(o_orderkey) DO UPDATE SET o_orderkey = 2
----
ERROR 0A000 a change of distribution column "o_orderkey" of table "orders" is not supported on distributed tables
  hint: The row would have to move: DELETE it and INSERT it again.

INSERT INTO public.accounts (a_name) VALUES ('x'::text) RETURNING accounts.a_id
----
Routine
  nextval('public.accounts_a_id_seq'::regclass), 1 times
  then INSERT INTO public.accounts (a_name, a_id) VALUES ('x'::text, $1) RETURNING accounts.a_id

INSERT INTO public.accounts (a_id, a_name) VALUES (5, 'x'::text)
----
Forward (write) to 0
  INSERT INTO public.accounts (a_id, a_name) VALUES (5, 'x'::text)

INSERT INTO public.accounts (a_id, a_name) VALUES (DEFAULT,'x'::text), (DEFAULT,'y'::text) ON CONFLICT DO NOTHING
----
Routine
  nextval('public.accounts_a_id_seq'::regclass), 2 times
  then INSERT INTO public.accounts (a_id, a_name) VALUES ($1, 'x'::text), ($2, 'y'::text) ON CONFLICT DO NOTHING

INSERT INTO public.accounts DEFAULT VALUES
----
Routine
  nextval('public.accounts_a_id_seq'::regclass), 1 times
  then INSERT INTO public.accounts (a_id) VALUES ($1)

INSERT INTO public.nation (n_key, n_name) VALUES (1, 'a'::text)
----
Replicate to [0 1 2]
  INSERT INTO public.nation (n_key, n_name) VALUES (1, 'a'::text)

INSERT INTO public.nation (n_key, n_name) VALUES (1, (now())::text)
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) VALUES (1, now()::text)
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO public.nation (n_key, n_name) SELECT (nation_1.n_key + 1), nation_1.n_name FROM public.nation nation_1
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) SELECT nation_1.n_key + 1 AS "?column?", nation_1.n_name FROM public.nation nation_1
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO public.nation (n_key, n_name) SELECT customer.c_nation, customer.c_name FROM public.customer
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) SELECT * FROM loxo_g1
  loxo_g1 from
    ExchangePlan over [0 1 2]
      Scatter to [0 1 2]
        SELECT customer.c_nation, customer.c_name FROM public.customer
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]
  or straight: COPY public.nation (n_key, n_name) FROM STDIN (FORMAT binary)

INSERT INTO public.events (e_id, e_text) VALUES (1,'a'::text), (2,'b'::text)
----
Forward (write) to any of [0 1 2]
  INSERT INTO public.events (e_id, e_text) VALUES (1,'a'::text), (2,'b'::text)

INSERT INTO public.events (e_id, e_text) SELECT orders.o_orderkey, 'x' FROM public.orders
----
Scatter (write) to [0 1 2]
  INSERT INTO public.events (e_id, e_text) SELECT orders.o_orderkey, 'x' FROM public.orders

INSERT INTO public.orders (o_orderkey, o_total) SELECT lineitem.l_orderkey, sum(lineitem.l_price) AS sum FROM public.lineitem GROUP BY lineitem.l_orderkey
----
Scatter (write) to [0 1 2]
  INSERT INTO public.orders (o_orderkey, o_total) SELECT lineitem.l_orderkey, sum(lineitem.l_price) AS sum FROM public.lineitem GROUP BY lineitem.l_orderkey

INSERT INTO public.orders (o_orderkey, o_total) SELECT lineitem.l_partkey, sum(lineitem.l_price) AS sum FROM public.lineitem GROUP BY lineitem.l_partkey
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey, o_total) SELECT loxo_c1 AS l_partkey, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT lineitem.l_partkey AS loxo_c1, sum(lineitem.l_price) AS loxo_c2 FROM public.lineitem GROUP BY 1
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO public.orders (o_orderkey) SELECT generate_series(1, 10) AS generate_series
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) SELECT generate_series(1, 10) AS generate_series
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO public.orders (o_orderkey) SELECT nation.n_key FROM public.nation
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) SELECT nation.n_key FROM public.nation
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO scratch (id) SELECT orders.o_orderkey FROM public.orders
----
Gather (write) on 0
  INSERT INTO scratch (id) SELECT * FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT orders.o_orderkey FROM public.orders

INSERT INTO scratch (id) VALUES (1)
----
Forward (write) to 0
  INSERT INTO scratch (id) VALUES (1)

INSERT INTO public.big_orders (o_orderkey, o_total) VALUES (1, 2)
----
Forward (write) to 2
  INSERT INTO public.big_orders (o_orderkey, o_total) VALUES (1, 2)

INSERT INTO public.modded (m_id, m_text) VALUES (4097, 'x'::text)
----
Forward (write) to 1
  INSERT INTO public.modded (m_id, m_text) VALUES (4097, 'x'::text)

WITH x AS (SELECT lineitem.l_partkey AS k FROM public.lineitem) INSERT INTO public.orders (o_orderkey) SELECT x.k FROM x
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey) SELECT * FROM loxo_g1
  loxo_g1 from
    ExchangePlan over [0 1 2]
      Scatter to [0 1 2]
        WITH x AS (SELECT lineitem.l_partkey AS k FROM public.lineitem) SELECT x.k FROM x
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]
  or straight: COPY public.orders (o_orderkey) FROM STDIN (FORMAT binary)

UPDATE public.orders SET o_total = (orders.o_total + (1)::numeric) WHERE (orders.o_orderkey = 5)
----
Forward (write) to 0
  UPDATE public.orders SET o_total = (orders.o_total + (1)::numeric) WHERE (orders.o_orderkey = 5)

UPDATE public.orders SET o_total = 0
----
Scatter (write) to [0 1 2]
  UPDATE public.orders SET o_total = 0

UPDATE public.orders SET o_orderkey = 5
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

UPDATE public.orders SET o_total = l.l_price FROM public.lineitem l WHERE (l.l_orderkey = orders.o_orderkey) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag
----
Scatter (write) to [0 1 2]
  UPDATE public.orders SET o_total = l.l_price FROM public.lineitem l WHERE (l.l_orderkey = orders.o_orderkey) RETURNING orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag

UPDATE public.orders SET o_total = c.c_nation FROM public.customer c WHERE (c.c_custkey = orders.o_custkey)
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
  Update { columns: [0], moves: false }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, o_total) SELECT DISTINCT ON (orders.loxo_node, orders.loxo_table, orders.loxo_ctid) 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid, c.c_nation FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders, loxo_g2 c WHERE c.c_custkey = orders.o_custkey
  route: hash of NULL Int8 over [0 1 2]

UPDATE public.nation SET n_name = 'x'::text
----
Replicate to [0 1 2]
  UPDATE public.nation SET n_name = 'x'::text

UPDATE public.nation SET n_name = (SELECT max(customer.c_name) AS max FROM public.customer)
----
FirstCopy, rows to [1 2]
  StagedDml public.nation by way of 0
    loxo_g1 from [0 1 2]
      SELECT c_name FROM public.customer
    loxo_t0 from [0]
      SELECT 0 AS loxo_none, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.nation
    stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, n_name text) ON COMMIT DROP
    Update { columns: [0], moves: false }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, n_name) SELECT 0, nation.loxo_node, nation.loxo_table, nation.loxo_ctid, (SELECT max(customer.c_name) AS max FROM loxo_g1 customer) FROM (SELECT * FROM loxo_t0) nation
    route: all of [0]

UPDATE public.nation SET n_name = (random())::text
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE public.nation SET n_name = (random())::text

UPDATE public.orders SET o_total = (SELECT sum(lineitem.l_price) AS sum FROM public.lineitem WHERE (lineitem.l_orderkey = orders.o_orderkey))
----
Scatter (write) to [0 1 2]
  UPDATE public.orders SET o_total = (SELECT sum(lineitem.l_price) AS sum FROM public.lineitem WHERE (lineitem.l_orderkey = orders.o_orderkey))

DELETE FROM public.orders WHERE (orders.o_orderkey = $1)
----
Forward (write) to 1
  DELETE FROM public.orders WHERE (orders.o_orderkey = $1)

DELETE FROM public.orders USING public.nation WHERE (orders.o_custkey = nation.n_key)
----
Scatter (write) to [0 1 2]
  DELETE FROM public.orders USING public.nation WHERE (orders.o_custkey = nation.n_key)

DELETE FROM public.lineitem WHERE (lineitem.l_orderkey IN (SELECT orders.o_orderkey FROM public.orders WHERE (orders.o_total < (0)::numeric)))
----
Scatter (write) to [0 1 2]
  DELETE FROM public.lineitem WHERE (lineitem.l_orderkey IN (SELECT orders.o_orderkey FROM public.orders WHERE (orders.o_total < (0)::numeric)))

DELETE FROM public.lineitem WHERE (lineitem.l_partkey IN (SELECT orders.o_orderkey FROM public.orders))
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
  Delete: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid) SELECT 0, lineitem.loxo_node, lineitem.loxo_table, lineitem.loxo_ctid FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) lineitem WHERE lineitem.l_partkey IN (SELECT orders.o_orderkey FROM loxo_g2 orders)
  route: hash of NULL Int8 over [0 1 2]

DELETE FROM public.nation WHERE (nation.n_key = 1)
----
Replicate to [0 1 2]
  DELETE FROM public.nation WHERE (nation.n_key = 1)

DELETE FROM scratch
----
Forward (write) to 0
  DELETE FROM scratch

MERGE INTO public.orders USING public.lineitem ON (orders.o_orderkey = lineitem.l_orderkey) WHEN MATCHED THEN UPDATE SET o_total = lineitem.l_price
----
Scatter (write) to [0 1 2]
  MERGE INTO public.orders USING public.lineitem ON (orders.o_orderkey = lineitem.l_orderkey) WHEN MATCHED THEN UPDATE SET o_total = lineitem.l_price

MERGE INTO public.orders USING public.nation ON (orders.o_orderkey = nation.n_key) WHEN NOT MATCHED THEN INSERT (o_orderkey) VALUES (nation.n_key)
----
StagedDml public.orders by way of 0
  loxo_t0 from [0]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders
  loxo_t1 from [1]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders
  loxo_t2 from [2]
    SELECT o_orderkey, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  Insert: INSERT INTO loxo_stage (loxo_action, o_orderkey) SELECT 0, nation.n_key FROM public.nation LEFT JOIN ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders ON orders.o_orderkey = nation.n_key WHERE orders.loxo_node IS NULL
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

COPY (SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders) TO STDOUT
----
CopyTo from [0 1 2]: (SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders)

COPY (SELECT count(*) AS count FROM public.orders) TO STDOUT
----
CopyTo
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM public.orders

COPY scratch FROM STDIN
----
CopyHome on 0: scratch

EXPLAIN (ANALYZE, COSTS off) SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = 7)
----
Explain (analyze)
  Forward to 2
    SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = 7)

DECLARE c CURSOR FOR SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders
----
DeclareCursor
  Scatter to [0 1 2]
    SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders

BEGIN; SET x = 1; COMMIT
----
Session
Session
Session

UPDATE public.people SET x_weight = (SELECT avg(people_1.x_weight) AS avg FROM public.people people_1)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE public.people SET x_weight = (SELECT avg(people_1.x_weight) AS avg FROM public.people people_1)

UPDATE public.people SET x_age = (SELECT avg(people_1.x_age) AS avg FROM public.people people_1)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE public.people SET x_age = (SELECT avg(people_1.x_age) AS avg FROM public.people people_1)

UPDATE public.people SET x_name = (SELECT string_agg(nation.n_name, ','::text ORDER BY nation.n_key) AS string_agg FROM public.nation)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE public.people SET x_name = (SELECT string_agg(nation.n_name, ','::text ORDER BY nation.n_key) AS string_agg FROM public.nation)

UPDATE public.people SET x_name = (SELECT string_agg(nation.n_name, ','::text ORDER BY nation.n_name) AS string_agg FROM public.nation)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE public.people SET x_name = (SELECT string_agg(nation.n_name, ','::text ORDER BY nation.n_name) AS string_agg FROM public.nation)

UPDATE public.people SET x_age = (SELECT max(s.n) AS max FROM (SELECT sum(nation.n_key) OVER (ORDER BY nation.n_name ROWS 1 PRECEDING) AS n FROM public.nation) s)
----
FirstCopy, rows to [1 2]
  Forward (write) to 0
    UPDATE public.people SET x_age = (SELECT max(s.n) AS max FROM (SELECT sum(nation.n_key) OVER (ORDER BY nation.n_name ROWS 1 PRECEDING) AS n FROM public.nation) s)

UPDATE public.orders SET o_orderkey = $2, o_total = 0 WHERE ((orders.o_total > (1)::numeric) AND ($2 = orders.o_orderkey))
----
Scatter (write) to [0 1 2]
  UPDATE public.orders SET o_orderkey = $2, o_total = 0 WHERE ((orders.o_total > (1)::numeric) AND ($2 = orders.o_orderkey))

UPDATE public.orders SET o_orderkey = '5'::public.mine WHERE (orders.o_orderkey = '5'::public.mine)
----
StagedDml public.orders by way of 0
  loxo_t0 from [0]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders WHERE orders.o_orderkey = '5'::public.mine
  loxo_t1 from [1]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders WHERE orders.o_orderkey = '5'::public.mine
  loxo_t2 from [2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders WHERE orders.o_orderkey = '5'::public.mine
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  Update { columns: [0], moves: true }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, o_orderkey, o_custkey, o_date, o_total) SELECT 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid, '5'::public.mine, orders.o_custkey, orders.o_date, orders.o_total FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders WHERE orders.o_orderkey = '5'::public.mine
  route: hash of column 0 Int8 over [0 1 2]

UPDATE public.orders SET o_orderkey = 5 WHERE ((orders.o_orderkey = 5) OR (orders.o_total = (0)::numeric))
----
StagedDml public.orders by way of 0
  loxo_t0 from [0]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 0 AS loxo_node FROM public.orders WHERE orders.o_orderkey = 5 OR orders.o_total = 0::numeric
  loxo_t1 from [1]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 1 AS loxo_node FROM public.orders WHERE orders.o_orderkey = 5 OR orders.o_total = 0::numeric
  loxo_t2 from [2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid AS loxo_table, ctid AS loxo_ctid, 2 AS loxo_node FROM public.orders WHERE orders.o_orderkey = 5 OR orders.o_total = 0::numeric
  stage: CREATE TEMP TABLE loxo_stage (loxo_action pg_catalog.int4, loxo_node pg_catalog.int4, loxo_table pg_catalog.oid, loxo_ctid pg_catalog.tid, o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  Update { columns: [0], moves: true }: INSERT INTO loxo_stage (loxo_action, loxo_node, loxo_table, loxo_ctid, o_orderkey, o_custkey, o_date, o_total) SELECT 0, orders.loxo_node, orders.loxo_table, orders.loxo_ctid, 5, orders.o_custkey, orders.o_date, orders.o_total FROM ((SELECT * FROM loxo_t0 UNION ALL SELECT * FROM loxo_t1) UNION ALL SELECT * FROM loxo_t2) orders WHERE orders.o_orderkey = 5 OR orders.o_total = 0::numeric
  route: hash of column 0 Int8 over [0 1 2]

INSERT INTO public.nation (n_key, n_name) SELECT 5, nation_1.n_name FROM public.nation nation_1 WHERE (nation_1.n_key = (SELECT max(people.x_age) AS max FROM public.people))
----
InsertStaged into public.nation by way of 0
  INSERT INTO loxo_stage (n_key, n_name) SELECT 5 AS "?column?", nation_1.n_name FROM public.nation nation_1 WHERE nation_1.n_key = (SELECT max(people.x_age) AS max FROM public.people)
  stage: CREATE TEMP TABLE loxo_stage (n_key integer, n_name text) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO public.people (x_key, x_age) SELECT 5, sum(nation.n_key) AS sum FROM public.nation
----
InsertStaged into public.people by way of 0
  INSERT INTO loxo_stage (x_key, x_age) SELECT 5 AS "?column?", sum(nation.n_key) AS sum FROM public.nation
  stage: CREATE TEMP TABLE loxo_stage (x_key bigint, x_name text, x_age integer, x_weight double precision) ON COMMIT DROP
  route: all of [0 1 2]

INSERT INTO public.people (x_key, x_weight) SELECT 5, sum(people_1.x_weight) AS sum FROM public.people people_1
----
InsertStaged into public.people by way of 0
  INSERT INTO loxo_stage (x_key, x_weight) SELECT 5 AS "?column?", sum(people_1.x_weight) AS sum FROM public.people people_1
  stage: CREATE TEMP TABLE loxo_stage (x_key bigint, x_name text, x_age integer, x_weight double precision) ON COMMIT DROP
  route: all of [0 1 2]

UPDATE public.orders SET o_total = (0)::numeric WHERE (((orders.o_orderkey = 7) AND (orders.o_custkey = 1)) OR ((7 = orders.o_orderkey) AND (orders.o_custkey = 2)))
----
Forward (write) to 2
  UPDATE public.orders SET o_total = (0)::numeric WHERE (((orders.o_orderkey = 7) AND (orders.o_custkey = 1)) OR ((7 = orders.o_orderkey) AND (orders.o_custkey = 2)))

