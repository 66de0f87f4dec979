SELECT 1
----
Forward to 0
  SELECT 1

SELECT * FROM nation WHERE n_key = 3
----
Forward to any of [0 1 2]
  SELECT * FROM nation WHERE n_key = 3

SELECT * FROM orders WHERE o_orderkey = 7
----
Forward to 2
  SELECT * FROM orders WHERE o_orderkey = 7

SELECT * FROM orders WHERE o_orderkey = $1
----
Forward to 1
  SELECT * FROM orders WHERE o_orderkey = $1

SELECT * FROM orders WHERE o_orderkey = $2
----
Scatter to [0 1 2]
  SELECT * FROM orders WHERE o_orderkey = $2

SELECT * FROM orders WHERE o_orderkey IN (1, 2, 3)
----
Scatter to [0 1 2]
  SELECT * FROM orders WHERE o_orderkey IN (1, 2, 3)

SELECT * FROM orders
----
Scatter to [0 1 2]
  SELECT * FROM orders

SELECT o.*, l.l_price FROM orders o JOIN lineitem l ON l.l_orderkey = o.o_orderkey WHERE o.o_total > 10
----
Scatter to [0 1 2]
  SELECT o.*, l.l_price FROM orders o JOIN lineitem l ON l.l_orderkey = o.o_orderkey WHERE o.o_total > 10

SELECT * FROM orders, lineitem, nation WHERE o_orderkey = l_orderkey AND n_key = 3
----
Scatter to [0 1 2]
  SELECT * FROM orders, lineitem, nation WHERE o_orderkey = l_orderkey AND n_key = 3

SELECT * FROM orders o JOIN customer c ON c.c_custkey = o.o_custkey WHERE c.c_name LIKE 'A%' AND o.o_date >= date '1994-01-01' AND o.o_date < date '1994-01-01' + interval '1 year'
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders o WHERE o.o_date >= '1994-01-01'::date AND o.o_date < '1994-01-01'::date + '1 year'::interval
  Scatter to [0 1 2]
    SELECT * FROM loxo_x1 o JOIN customer c ON c.c_custkey = o.o_custkey WHERE c.c_name LIKE 'A%'

SELECT * FROM customer c LEFT JOIN nation n ON n.n_key = c.c_nation
----
Scatter to [0 1 2]
  SELECT * FROM customer c LEFT JOIN nation n ON n.n_key = c.c_nation

SELECT * FROM nation n LEFT JOIN customer c ON n.n_key = c.c_nation
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT c_custkey, c_name, c_nation FROM public.customer c
  Forward to 0
    SELECT * FROM nation n LEFT JOIN loxo_x1 c ON n.n_key = c.c_nation

SELECT * FROM orders o LEFT JOIN lineitem l ON l.l_orderkey = o.o_orderkey AND l.l_tax > 0
----
Scatter to [0 1 2]
  SELECT * FROM orders o LEFT JOIN lineitem l ON l.l_orderkey = o.o_orderkey AND l.l_tax > 0

SELECT * FROM orders o FULL JOIN lineitem l ON l.l_orderkey = o.o_orderkey
----
Scatter to [0 1 2]
  SELECT * FROM orders o FULL JOIN lineitem l ON l.l_orderkey = o.o_orderkey

SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM lineitem l WHERE l.l_orderkey = o.o_orderkey AND l.l_flag = 'R')
----
Scatter to [0 1 2]
  SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM lineitem l WHERE l.l_orderkey = o.o_orderkey AND l.l_flag = 'R')

SELECT * FROM orders o WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
----
Scatter to [0 1 2]
  SELECT * FROM orders o WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)

SELECT * FROM orders o WHERE o_orderkey NOT IN (SELECT l_orderkey FROM lineitem)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT l_orderkey FROM lineitem
  Scatter to [0 1 2]
    SELECT * FROM orders o WHERE NOT o_orderkey IN (SELECT loxo_c1 AS l_orderkey FROM loxo_x1)

SELECT * FROM orders o WHERE o_custkey IN (SELECT c_custkey FROM customer WHERE c_nation = 3)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders o
  Scatter to [0 1 2]
    SELECT * FROM loxo_x1 o WHERE o_custkey IN (SELECT c_custkey FROM customer WHERE c_nation = 3)

SELECT * FROM orders o WHERE o_total > (SELECT avg(l_price) FROM lineitem l WHERE l.l_orderkey = o.o_orderkey)
----
Scatter to [0 1 2]
  SELECT * FROM orders o WHERE o_total > (SELECT avg(l_price) FROM lineitem l WHERE l.l_orderkey = o.o_orderkey)

SELECT * FROM customer WHERE c_nation IN (SELECT n_key FROM nation)
----
Scatter to [0 1 2]
  SELECT * FROM customer WHERE c_nation IN (SELECT n_key FROM nation)

SELECT l_orderkey, sum(l_tax), avg(l_tax) FROM lineitem GROUP BY l_orderkey HAVING count(*) > 3
----
Scatter to [0 1 2]
  SELECT l_orderkey, sum(l_tax), avg(l_tax) FROM lineitem GROUP BY l_orderkey HAVING count(*) > 3

SELECT DISTINCT l_orderkey, l_flag FROM lineitem
----
Scatter to [0 1 2]
  SELECT DISTINCT l_orderkey, l_flag FROM lineitem

SELECT l_orderkey, rank() OVER (PARTITION BY l_orderkey ORDER BY l_price) FROM lineitem
----
Scatter to [0 1 2]
  SELECT l_orderkey, rank() OVER (PARTITION BY l_orderkey ORDER BY l_price) FROM lineitem

WITH o AS (SELECT * FROM orders WHERE o_total > 5) SELECT * FROM o JOIN lineitem ON l_orderkey = o_orderkey
----
Scatter to [0 1 2]
  WITH o AS (SELECT * FROM orders WHERE o_total > 5) SELECT * FROM o JOIN lineitem ON l_orderkey = o_orderkey

SELECT * FROM big_orders WHERE o_orderkey = 7
----
Forward to 2
  SELECT * FROM big_orders WHERE o_orderkey = 7

SELECT o_orderkey FROM orders UNION ALL SELECT l_orderkey FROM lineitem
----
Scatter to [0 1 2]
  SELECT o_orderkey FROM orders UNION ALL SELECT l_orderkey FROM lineitem

SELECT o_orderkey FROM orders UNION SELECT l_orderkey FROM lineitem
----
Scatter to [0 1 2]
  SELECT o_orderkey FROM orders UNION SELECT l_orderkey FROM lineitem

SELECT o_orderkey FROM orders UNION ALL SELECT n_key FROM nation
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o_orderkey FROM public.orders
  Forward to 0
    SELECT o_orderkey FROM loxo_x1 orders UNION ALL SELECT n_key FROM nation

SELECT n_key FROM nation UNION SELECT 1
----
Forward to any of [0 1 2]
  SELECT n_key FROM nation UNION SELECT 1

SELECT * FROM pairs WHERE p_a = 1 AND p_b = 'x'
----
Forward to 2
  SELECT * FROM pairs WHERE p_a = 1 AND p_b = 'x'

SELECT * FROM pairs WHERE p_a = 1
----
Scatter to [0 1 2]
  SELECT * FROM pairs WHERE p_a = 1

SELECT * FROM modded WHERE m_id = 4097
----
Forward to 1
  SELECT * FROM modded WHERE m_id = 4097

SELECT * FROM subset JOIN orders ON o_custkey = s_key
----
ExchangePlan over [0 1 2]
  loxo_x1 from [1] to node 0
    SELECT s_key, s_name FROM public.subset
  loxo_x2 from [0 1 2] to node 0
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders
  Forward to 0
    SELECT * FROM loxo_x1 subset JOIN loxo_x2 orders ON o_custkey = s_key

SELECT * FROM subset
----
Forward to any of [1 2]
  SELECT * FROM subset

SELECT * FROM pg_class
----
Forward to 0
  SELECT * FROM pg_class

SELECT o_date FROM orders WHERE o_orderkey = 5 FOR UPDATE
----
Forward (write) to 0
  SELECT o_date FROM orders WHERE o_orderkey = 5 FOR UPDATE

SELECT * FROM orders FOR UPDATE
----
Locked
  Scatter to [0 1 2]
    SELECT *, pg_catalog.concat_ws(' ', (SELECT node_id::pg_catalog.text FROM loxo.identity), orders.ctid, orders.xmin) AS loxo_place_1 FROM orders
  rows of public.orders: SELECT pg_catalog.concat_ws(' ', loxo_l.ctid, loxo_l.xmin) FROM public.orders AS loxo_l WHERE loxo_l.ctid = ANY ('{…}'::pg_catalog.tid[]) FOR UPDATE OF loxo_l

SELECT * FROM nation FOR UPDATE
----
Forward (write) to 0
  SELECT * FROM nation FOR UPDATE

SELECT * FROM orders ORDER BY o_total FOR UPDATE
----
Locked
  Merge from [0 1 2] by numeric
    SELECT pg_catalog.numeric_send(loxo_m.loxo_c4), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_custkey, loxo_m.loxo_c3 AS o_date, loxo_m.loxo_c4 AS o_total, loxo_m.loxo_c5 AS loxo_place_1 FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2, orders.o_date AS loxo_c3, orders.o_total AS loxo_c4, pg_catalog.concat_ws(' ', (SELECT node_id::pg_catalog.text FROM loxo.identity), orders.ctid, orders.xmin) AS loxo_c5 FROM orders) loxo_m ORDER BY loxo_m.loxo_c4
  rows of public.orders: SELECT pg_catalog.concat_ws(' ', loxo_l.ctid, loxo_l.xmin) FROM public.orders AS loxo_l WHERE loxo_l.ctid = ANY ('{…}'::pg_catalog.tid[]) FOR UPDATE OF loxo_l

SELECT nextval('s') FROM orders
----
Gather (write) on 0
  SELECT nextval('s') FROM loxo_g1 orders
  loxo_g1 from [0 1 2]
    SELECT 0 AS loxo_none FROM public.orders

SELECT count_orders()
----
Routine
  count_orders()
  then SELECT $1::bigint AS count_orders

SELECT count_nations(), o_orderkey FROM orders
----
Scatter to [0 1 2]
  SELECT count_nations(), o_orderkey FROM orders

SELECT harmless() FROM orders
----
Scatter to [0 1 2]
  SELECT harmless() FROM orders

SELECT dynamic()
----
Routine
  dynamic()
  then SELECT $1::bigint AS dynamic

SELECT * FROM scratch JOIN orders ON o_orderkey = scratch.id
----
Gather on 0
  SELECT * FROM scratch JOIN loxo_g1 orders ON o_orderkey = scratch.id
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders

SELECT * FROM orders o, LATERAL (SELECT * FROM lineitem l WHERE l.l_orderkey = o.o_orderkey ORDER BY l_price LIMIT 1) x
----
Scatter to [0 1 2]
  SELECT * FROM orders o, LATERAL (SELECT * FROM lineitem l WHERE l.l_orderkey = o.o_orderkey ORDER BY l_price LIMIT 1) x

SELECT random() FROM orders
----
Scatter to [0 1 2]
  SELECT random() FROM orders

SELECT * FROM orders JOIN lineitem ON o_orderkey = l_orderkey JOIN (SELECT l_orderkey AS k, count(*) FROM lineitem GROUP BY l_orderkey) s ON s.k = o_orderkey
----
Scatter to [0 1 2]
  SELECT * FROM orders JOIN lineitem ON o_orderkey = l_orderkey JOIN (SELECT l_orderkey AS k, count(*) FROM lineitem GROUP BY l_orderkey) s ON s.k = o_orderkey

SELECT * FROM orders JOIN big_orders USING (o_orderkey) ORDER BY o_date
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders
  loxo_x2 from [0 1 2] to node 0
    SELECT o_orderkey, o_total FROM public.big_orders
  Forward to 0
    SELECT * FROM loxo_x1 orders JOIN loxo_x2 big_orders USING (o_orderkey) ORDER BY o_date

VALUES (1), (2)
----
Forward to 0
  VALUES (1), (2)

SELECT ctid FROM orders WHERE o_orderkey = 1
----
Forward to 2
  SELECT ctid FROM orders WHERE o_orderkey = 1

SELECT o.ctid FROM orders o JOIN customer c ON c_custkey = o_custkey
----
ERROR 0A000 system column "ctid" in this query is not supported on distributed tables
  detail: The rows must be gathered: a join of tables that are not co-located.
  hint: Leave the system column out.

SELECT pg_total_relation_size('orders')
----
Gather on 0
  SELECT (SELECT pg_catalog.sum(size)::bigint FROM loxo_g1) AS pg_total_relation_size
  loxo_g1 from [0 1 2]
    SELECT pg_total_relation_size('orders') AS size

WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t
----
Forward to 0
  WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t

WITH RECURSIVE t(n) AS (SELECT o_orderkey FROM orders UNION SELECT o_custkey FROM orders JOIN t ON o_orderkey = n) SELECT * FROM t
----
Gather on 0
  WITH RECURSIVE t(n) AS (SELECT o_orderkey FROM loxo_g1 orders UNION SELECT o_custkey FROM loxo_g1 orders JOIN t ON o_orderkey = n) SELECT * FROM t
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders

SELECT o_custkey FROM orders GROUP BY o_custkey ORDER BY count(*) DESC, o_custkey LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_custkey FROM loxo_g1 GROUP BY loxo_c1 ORDER BY COALESCE(sum(loxo_c2), 0)::bigint DESC, o_custkey LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, count(*) AS loxo_c2 FROM orders GROUP BY 1

SELECT c_custkey, count(o_orderkey) FROM customer LEFT JOIN orders ON c_custkey = o_orderkey AND o_total > 100 GROUP BY c_custkey ORDER BY 1
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS c_custkey, loxo_m.loxo_c2 AS count FROM (SELECT c_custkey AS loxo_c1, count(o_orderkey) AS loxo_c2 FROM customer LEFT JOIN orders ON c_custkey = o_orderkey AND o_total > 100 GROUP BY c_custkey) loxo_m ORDER BY loxo_m.loxo_c1

SELECT n_name, count(*), sum(o_total) FROM orders LEFT JOIN nation ON n_key = o_custkey GROUP BY n_name ORDER BY n_name NULLS FIRST
----
Gather on 0
  SELECT loxo_c1 AS n_name, COALESCE(sum(loxo_c2), 0)::bigint AS count, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY loxo_c1 ORDER BY n_name NULLS FIRST
  loxo_g1 from [0 1 2]
    SELECT n_name AS loxo_c1, count(*) AS loxo_c2, sum(o_total) AS loxo_c3 FROM orders LEFT JOIN nation ON n_key = o_custkey GROUP BY 1

SELECT o_date, sum(s) FROM (SELECT o_date, o_orderkey, sum(l_price) AS s FROM orders JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_date, o_orderkey) q GROUP BY o_date ORDER BY 1
----
Gather on 0
  SELECT loxo_c1 AS o_date, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1 ORDER BY 1
  loxo_g1 from [0 1 2]
    SELECT o_date AS loxo_c1, sum(s) AS loxo_c2 FROM (SELECT o_date, o_orderkey, sum(l_price) AS s FROM orders JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_date, o_orderkey) q GROUP BY 1

SELECT extract(year FROM o_date) AS y, sum(CASE WHEN o_custkey = 3 THEN o_total ELSE 0 END) / sum(o_total) FROM orders GROUP BY y ORDER BY y
----
Gather on 0
  SELECT loxo_c1 AS y, sum(loxo_c2)::loxo_type_of_1_2 / sum(loxo_c3)::loxo_type_of_1_3 AS "?column?" FROM loxo_g1 GROUP BY loxo_c1 ORDER BY y
  loxo_g1 from [0 1 2]
    SELECT extract ('year' FROM o_date) AS loxo_c1, sum(CASE WHEN o_custkey = 3 THEN o_total ELSE 0 END) AS loxo_c2, sum(o_total) AS loxo_c3 FROM orders GROUP BY 1

SELECT o_orderkey FROM orders WHERE o_orderkey = 3 OR o_orderkey = 4 ORDER BY 1
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT o_orderkey AS loxo_c1 FROM orders WHERE o_orderkey = 3 OR o_orderkey = 4) loxo_m ORDER BY loxo_m.loxo_c1

SELECT a.o_orderkey, b.l_flag FROM orders a LEFT JOIN lineitem b ON a.o_orderkey = b.l_orderkey WHERE a.o_orderkey = 9
----
Forward to 1
  SELECT a.o_orderkey, b.l_flag FROM orders a LEFT JOIN lineitem b ON a.o_orderkey = b.l_orderkey WHERE a.o_orderkey = 9

SELECT DISTINCT c_nation FROM customer ORDER BY c_nation NULLS FIRST LIMIT 2
----
Gather on 0
  SELECT DISTINCT loxo_c1 AS c_nation FROM loxo_g1 ORDER BY loxo_c1 NULLS FIRST LIMIT 2
  loxo_g1 from [0 1 2]
    SELECT DISTINCT c_nation AS loxo_c1 FROM customer ORDER BY 1 NULLS FIRST LIMIT 2

SELECT x.o_custkey, y.o_custkey FROM orders x JOIN orders y ON x.o_orderkey = y.o_orderkey AND x.o_total > 2 ORDER BY 1, 2 LIMIT 4
----
Merge from [0 1 2] by integer, integer limit 4
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), pg_catalog.int8send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS o_custkey, loxo_m.loxo_c2 AS o_custkey FROM (SELECT x.o_custkey AS loxo_c1, y.o_custkey AS loxo_c2 FROM orders x JOIN orders y ON x.o_orderkey = y.o_orderkey AND x.o_total > 2) loxo_m ORDER BY loxo_m.loxo_c1, loxo_m.loxo_c2 LIMIT 4

SELECT max(o_total) - min(o_total), count(*) FROM orders WHERE o_orderkey < 0
----
Gather on 0
  SELECT max(loxo_c1) - min(loxo_c2) AS "?column?", COALESCE(sum(loxo_c3), 0)::bigint AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT max(o_total) AS loxo_c1, min(o_total) AS loxo_c2, count(*) AS loxo_c3 FROM orders WHERE o_orderkey < 0

SELECT o_custkey, avg(o_total) FROM orders GROUP BY o_custkey HAVING avg(o_total) > 1000 ORDER BY avg(o_total) DESC, 1
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, sum(loxo_c2)::numeric / sum(loxo_c3) AS avg FROM loxo_g1 GROUP BY loxo_c1 HAVING sum(loxo_c2)::numeric / sum(loxo_c3) > 1000 ORDER BY sum(loxo_c2)::numeric / sum(loxo_c3) DESC, 1
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, sum(o_total) AS loxo_c2, count(o_total) AS loxo_c3 FROM orders GROUP BY 1

SELECT count(*) FROM orders o WHERE NOT EXISTS (SELECT FROM lineitem WHERE l_orderkey = o.o_orderkey)
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(*) AS loxo_c1 FROM orders o WHERE NOT EXISTS (SELECT FROM lineitem WHERE l_orderkey = o.o_orderkey)

SELECT c_name FROM customer WHERE c_custkey IN (SELECT o_custkey FROM orders GROUP BY o_custkey HAVING count(*) > 2) ORDER BY c_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey FROM public.orders
  Gather on 0
    SELECT loxo_c1 AS c_name FROM loxo_g1 ORDER BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT c_name AS loxo_c1 FROM customer WHERE c_custkey IN (SELECT o_custkey FROM loxo_x1 orders GROUP BY o_custkey HAVING count(*) > 2)

SELECT o_orderkey, row_number() OVER w FROM orders WINDOW w AS (PARTITION BY o_custkey ORDER BY o_orderkey) ORDER BY 1, 2
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey, row_number() OVER w AS row_number FROM loxo_g1 WINDOW w AS (PARTITION BY loxo_c2 ORDER BY loxo_c1) ORDER BY 1, 2
  loxo_g1 from [0 1 2]
    SELECT o_orderkey AS loxo_c1, o_custkey AS loxo_c2 FROM orders

SELECT sum(n) FROM (SELECT count(*) AS n FROM lineitem GROUP BY l_orderkey) s
----
Gather on 0
  SELECT sum(loxo_c1)::loxo_type_of_1_1 AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT sum(n) AS loxo_c1 FROM (SELECT count(*) AS n FROM lineitem GROUP BY l_orderkey) s

SELECT array_agg(DISTINCT l_flag ORDER BY l_flag) FROM lineitem
----
Gather on 0
  SELECT array_agg(DISTINCT loxo_c1 ORDER BY loxo_c1) AS array_agg FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT l_flag AS loxo_c1 FROM lineitem

