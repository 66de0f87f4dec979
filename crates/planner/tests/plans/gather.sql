SELECT count(*) FROM lineitem
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(*) AS loxo_c1 FROM lineitem

SELECT l_flag, sum(l_quantity), sum(l_quantity * (1 - l_price)) AS x, avg(l_quantity), count(*), min(l_shipdate) FROM lineitem WHERE l_shipdate <= date '1998-09-02' GROUP BY l_flag ORDER BY l_flag
----
Gather on 0
  SELECT loxo_c1 AS l_flag, sum(loxo_c2)::loxo_type_of_1_2 AS sum, sum(loxo_c3)::loxo_type_of_1_3 AS x, sum(loxo_c2)::numeric / sum(loxo_c4) AS avg, COALESCE(sum(loxo_c5), 0)::bigint AS count, min(loxo_c6) AS min FROM loxo_g1 GROUP BY loxo_c1 ORDER BY l_flag
  loxo_g1 from [0 1 2]
    SELECT l_flag AS loxo_c1, sum(l_quantity) AS loxo_c2, sum(l_quantity * (1 - l_price)) AS loxo_c3, count(l_quantity) AS loxo_c4, count(*) AS loxo_c5, min(l_shipdate) AS loxo_c6 FROM lineitem WHERE l_shipdate <= '1998-09-02'::date GROUP BY 1

SELECT sum(l_tax) FROM lineitem
----
Gather on 0
  SELECT sum(loxo_c1) AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT l_tax AS loxo_c1 FROM lineitem

SELECT l_flag, sum(l_tax) + 1 AS s FROM lineitem GROUP BY l_flag HAVING count(*) > 1 ORDER BY 2 DESC
----
Gather on 0
  SELECT loxo_c1 AS l_flag, sum(loxo_c2) + 1 AS s FROM loxo_g1 GROUP BY loxo_c1 HAVING count(*) > 1 ORDER BY 2 DESC
  loxo_g1 from [0 1 2]
    SELECT l_flag AS loxo_c1, l_tax AS loxo_c2 FROM lineitem

SELECT count(DISTINCT l_partkey) FROM lineitem
----
Gather on 0
  SELECT count(DISTINCT loxo_c1) AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT l_partkey AS loxo_c1 FROM lineitem

SELECT count(*) FILTER (WHERE l_tax > 0) * 2 FROM lineitem
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint * 2 AS "?column?" FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(*) FILTER (WHERE l_tax > 0) AS loxo_c1 FROM lineitem

SELECT string_agg(l_flag, ',' ORDER BY l_price) FROM lineitem WHERE l_partkey = 3
----
Gather on 0
  SELECT string_agg(loxo_c1, ',' ORDER BY loxo_c2) AS string_agg FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT l_flag AS loxo_c1, l_price AS loxo_c2 FROM lineitem WHERE l_partkey = 3

SELECT * FROM orders ORDER BY o_total DESC NULLS LAST, o_orderkey LIMIT 10 OFFSET 5
----
Merge from [0 1 2] by numeric desc nulls last, integer limit 10 offset 5
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c4), pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_custkey, loxo_m.loxo_c3 AS o_date, loxo_m.loxo_c4 AS o_total FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2, orders.o_date AS loxo_c3, orders.o_total AS loxo_c4 FROM orders) loxo_m ORDER BY loxo_m.loxo_c4 DESC NULLS LAST, loxo_m.loxo_c1 LIMIT 15

SELECT o_orderkey FROM orders ORDER BY o_date + 1 LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY loxo_c2 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT o_orderkey AS loxo_c1, o_date + 1 AS loxo_c2 FROM orders ORDER BY 2 LIMIT 3

SELECT o_orderkey AS k FROM orders ORDER BY k FETCH FIRST 3 ROWS WITH TIES
----
Gather on 0
  SELECT loxo_c1 AS k FROM loxo_g1 ORDER BY loxo_c1 FETCH FIRST 3 ROWS WITH TIES
  loxo_g1 from [0 1 2]
    SELECT o_orderkey AS loxo_c1 FROM orders

SELECT o_custkey FROM orders LIMIT 5
----
Merge from [0 1 2] limit 5
  SELECT loxo_m.loxo_c1 AS o_custkey FROM (SELECT o_custkey AS loxo_c1 FROM orders) loxo_m LIMIT 5

SELECT DISTINCT o_custkey FROM orders ORDER BY o_custkey
----
Gather on 0
  SELECT DISTINCT loxo_c1 AS o_custkey FROM loxo_g1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT DISTINCT o_custkey AS loxo_c1 FROM orders

SELECT DISTINCT ON (o_custkey) o_custkey, o_total FROM orders ORDER BY o_custkey, o_total DESC
----
Gather on 0
  SELECT DISTINCT ON (loxo_c1) loxo_c1 AS o_custkey, loxo_c2 AS o_total FROM loxo_g1 ORDER BY o_custkey, o_total DESC
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, o_total AS loxo_c2 FROM orders

SELECT o_custkey, count(*) AS n FROM orders GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, COALESCE(sum(loxo_c2), 0)::bigint AS n FROM loxo_g1 GROUP BY loxo_c1 ORDER BY n DESC, 1 LIMIT 10
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, count(*) AS loxo_c2 FROM orders GROUP BY 1

SELECT date_trunc('month', o_date) AS m, max(o_total) FROM orders GROUP BY m ORDER BY m
----
Gather on 0
  SELECT loxo_c1 AS m, max(loxo_c2) AS max FROM loxo_g1 GROUP BY loxo_c1 ORDER BY m
  loxo_g1 from [0 1 2]
    SELECT date_trunc('month', o_date) AS loxo_c1, max(o_total) AS loxo_c2 FROM orders GROUP BY 1

SELECT o_custkey, o_date, sum(o_total) FROM orders GROUP BY GROUPING SETS ((o_custkey), (o_date), ())
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, loxo_c2 AS o_date, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY GROUPING SETS (loxo_c1, loxo_c2, ())
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, o_date AS loxo_c2, sum(o_total) AS loxo_c3 FROM orders GROUP BY 1, 2

SELECT o_orderkey, o_date, count(l_orderkey) FROM orders LEFT JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_orderkey ORDER BY 3
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c3), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_date, loxo_m.loxo_c3 AS count FROM (SELECT o_orderkey AS loxo_c1, o_date AS loxo_c2, count(l_orderkey) AS loxo_c3 FROM orders LEFT JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_orderkey) loxo_m ORDER BY loxo_m.loxo_c3

SELECT c_custkey, c_name, sum(o_total) FROM customer JOIN orders ON o_custkey = c_custkey GROUP BY c_custkey
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT c_custkey, c_name, sum(o_total) FROM customer JOIN loxo_x1 orders ON o_custkey = c_custkey GROUP BY c_custkey

SELECT o_custkey, rank() OVER (ORDER BY o_total) FROM orders
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, rank() OVER (ORDER BY loxo_c2) AS rank FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, o_total AS loxo_c2 FROM orders

SELECT o_custkey, sum(sum(o_total)) OVER (ORDER BY o_custkey) FROM orders GROUP BY o_custkey
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, sum(sum(loxo_c2)::loxo_type_of_1_2) OVER (ORDER BY loxo_c1) AS sum FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, sum(o_total) AS loxo_c2 FROM orders GROUP BY 1

SELECT sum(o_total) / count(*) AS mean, 'x' || max(o_date)::text FROM orders HAVING sum(o_total) > 0
----
Gather on 0
  SELECT sum(loxo_c1)::loxo_type_of_1_1 / COALESCE(sum(loxo_c2), 0)::bigint AS mean, 'x' || max(loxo_c3)::text AS "?column?" FROM loxo_g1 HAVING sum(loxo_c1)::loxo_type_of_1_1 > 0
  loxo_g1 from [0 1 2]
    SELECT sum(o_total) AS loxo_c1, count(*) AS loxo_c2, max(o_date) AS loxo_c3 FROM orders

SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM lineitem)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT count(*) AS loxo_c1 FROM orders
  loxo_x2 from [0] to node 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_x1
  loxo_x3 from [0 1 2] to node 0
    SELECT count(*) AS loxo_c1 FROM lineitem
  loxo_x4 from [0] to node 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_x3
  Forward to 0
    SELECT (SELECT loxo_c1 AS count FROM loxo_x2) + (SELECT loxo_c1 AS count FROM loxo_x4)

SELECT n_name, sum(o_total) FROM nation, customer, orders WHERE n_key = c_nation AND c_custkey = o_custkey AND n_name = 'FRANCE' GROUP BY n_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Gather on 0
    SELECT loxo_c1 AS n_name, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT n_name AS loxo_c1, sum(o_total) AS loxo_c2 FROM nation, customer, loxo_x1 orders WHERE n_key = c_nation AND c_custkey = o_custkey AND n_name = 'FRANCE' GROUP BY 1

SELECT o_orderkey FROM orders UNION ALL SELECT l_orderkey FROM lineitem ORDER BY 1 LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY 1 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT * FROM (SELECT o_orderkey FROM orders UNION ALL SELECT l_orderkey FROM lineitem) loxo_q(loxo_c1)

-- describe: o_orderkey 20
SELECT o_orderkey FROM orders UNION ALL SELECT l_orderkey FROM lineitem ORDER BY 1 LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY 1 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT * FROM (SELECT o_orderkey FROM orders UNION ALL SELECT l_orderkey FROM lineitem) loxo_q(loxo_c1)

SELECT array_agg(x) FROM (SELECT o_total AS x FROM orders ORDER BY o_total) s
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o_total AS loxo_c1 FROM orders
  loxo_x2 from [0] to node 0
    SELECT loxo_c1 AS x FROM loxo_x1 ORDER BY loxo_c1
  Forward to 0
    SELECT array_agg(x) FROM (SELECT loxo_c1 AS x FROM loxo_x2) s

SELECT o FROM orders o ORDER BY o_total
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders o
  Forward to 0
    SELECT o FROM loxo_x1 o ORDER BY o_total

SELECT public.orders.o_total FROM public.orders JOIN public.customer ON orders.o_custkey = customer.c_custkey
----
Gather on 0
  SELECT orders.o_total FROM loxo_g1 orders JOIN loxo_g2 customer ON orders.o_custkey = customer.c_custkey
  loxo_g1 from [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  loxo_g2 from [0 1 2]
    SELECT c_custkey FROM public.customer

WITH orders AS (SELECT * FROM orders) SELECT count(*) FROM orders, customer
----
ERROR 0A000 the WITH item "orders", named like a table, is not supported on distributed tables
  detail: The rows must be gathered: a join of tables that are not co-located.
  hint: Rename the WITH item.

SELECT avg(o_total), stddev(o_total) FROM orders
----
Gather on 0
  SELECT avg(loxo_c1) AS avg, stddev(loxo_c1) AS stddev FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT o_total AS loxo_c1 FROM orders

SELECT count(*) FROM orders WHERE o_total > (SELECT avg(o_total) FROM orders)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT sum(o_total) AS loxo_c1, count(o_total) AS loxo_c2 FROM orders
  loxo_x2 from [0] to all of [0 1 2]
    SELECT sum(loxo_c1)::numeric / sum(loxo_c2) AS avg FROM loxo_x1
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM orders WHERE o_total > (SELECT loxo_c1 AS avg FROM loxo_x2)

SELECT bool_or(l_tax > 0), bit_and(l_partkey) FROM lineitem
----
Gather on 0
  SELECT bool_or(loxo_c1) AS bool_or, bit_and(loxo_c2) AS bit_and FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT bool_or(l_tax > 0) AS loxo_c1, bit_and(l_partkey) AS loxo_c2 FROM lineitem

SELECT big_orders.o_total FROM big_orders JOIN customer ON c_custkey = big_orders.o_orderkey % 10
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT c_custkey FROM public.customer
  Scatter to [0 1 2]
    SELECT big_orders.o_total FROM big_orders JOIN loxo_x1 customer ON c_custkey = big_orders.o_orderkey % 10

SELECT 2 / avg(l_quantity) - (3 - avg(l_partkey)) FROM lineitem
----
Gather on 0
  SELECT 2 / (sum(loxo_c1)::numeric / sum(loxo_c2)) - (3 - sum(loxo_c3)::numeric / sum(loxo_c4)) AS "?column?" FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT sum(l_quantity) AS loxo_c1, count(l_quantity) AS loxo_c2, sum(l_partkey) AS loxo_c3, count(l_partkey) AS loxo_c4 FROM lineitem

SELECT o_custkey, o_date, o_total, grouping(o_custkey) FROM orders GROUP BY GROUPING SETS ((o_custkey, o_date), (o_total)), o_orderkey
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, loxo_c2 AS o_date, loxo_c3 AS o_total, GROUPING(loxo_c1) AS "grouping" FROM loxo_g1 GROUP BY GROUPING SETS ((loxo_c1, loxo_c2), loxo_c3), loxo_c4
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, o_date AS loxo_c2, o_total AS loxo_c3, o_orderkey AS loxo_c4 FROM orders GROUP BY 1, 2, 3, 4

SELECT o_custkey, count(*) FROM orders GROUP BY ROLLUP (o_custkey, o_date)
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, COALESCE(sum(loxo_c3), 0)::bigint AS count FROM loxo_g1 GROUP BY ROLLUP (loxo_c1, loxo_c2)
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, o_date AS loxo_c2, count(*) AS loxo_c3 FROM orders GROUP BY 1, 2

SELECT extract(year FROM o_date) AS y, o_custkey, count(*), sum(o_total), avg(o_total), grouping(o_custkey) FROM orders GROUP BY ROLLUP (y, o_custkey) HAVING count(*) > 1 ORDER BY 1, 2
----
Gather on 0
  SELECT loxo_c1 AS y, loxo_c2 AS o_custkey, COALESCE(sum(loxo_c3), 0)::bigint AS count, sum(loxo_c4)::loxo_type_of_1_4 AS sum, sum(loxo_c4)::numeric / sum(loxo_c5) AS avg, GROUPING(loxo_c2) AS "grouping" FROM loxo_g1 GROUP BY ROLLUP (y, loxo_c2) HAVING COALESCE(sum(loxo_c3), 0)::bigint > 1 ORDER BY 1, 2
  loxo_g1 from [0 1 2]
    SELECT extract ('year' FROM o_date) AS loxo_c1, o_custkey AS loxo_c2, count(*) AS loxo_c3, sum(o_total) AS loxo_c4, count(o_total) AS loxo_c5 FROM orders GROUP BY 1, 2

SELECT o_custkey, count(DISTINCT o_orderkey) FROM orders GROUP BY GROUPING SETS (1, ())
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, count(DISTINCT loxo_c2) AS count FROM loxo_g1 GROUP BY GROUPING SETS (1, ())
  loxo_g1 from [0 1 2]
    SELECT o_custkey AS loxo_c1, o_orderkey AS loxo_c2 FROM orders

SELECT o_orderkey, o_total, count(*) FROM orders GROUP BY GROUPING SETS ((o_orderkey, o_date), o_orderkey), o_total
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey, loxo_c3 AS o_total, COALESCE(sum(loxo_c4), 0)::bigint AS count FROM loxo_g1 GROUP BY GROUPING SETS ((loxo_c1, loxo_c2), loxo_c1), loxo_c3
  loxo_g1 from [0 1 2]
    SELECT o_orderkey AS loxo_c1, o_date AS loxo_c2, o_total AS loxo_c3, count(*) AS loxo_c4 FROM orders GROUP BY 1, 2, 3

SELECT o_custkey % 2, count(*) FROM orders o GROUP BY o.o_custkey % 2
----
Gather on 0
  SELECT loxo_c1 AS "?column?", COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT o.o_custkey % 2 AS loxo_c1, count(*) AS loxo_c2 FROM orders o GROUP BY 1

SELECT o_custkey % 2, count(*) FROM orders o GROUP BY o.o_custkey % 2
----
Gather on 0
  SELECT loxo_c1 AS "?column?", COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT o.o_custkey % 2 AS loxo_c1, count(*) AS loxo_c2 FROM orders o GROUP BY 1

SELECT o.tableoid, o.* FROM orders o
----
Gather on 0
  SELECT o.loxo_tableoid::pg_catalog.oid AS tableoid, o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM loxo_g1 o
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid::pg_catalog.regclass AS loxo_tableoid FROM public.orders o

SELECT c.relname, n.*, o.o_total, o.tableoid::regclass FROM orders o, nation n, pg_catalog.pg_class c WHERE o.tableoid = c.oid AND n.tableoid <> c.oid AND o_total > 5
----
Gather on 0
  SELECT c.relname, n.*, o.o_total, o.loxo_tableoid::pg_catalog.oid::regclass AS tableoid FROM loxo_g1 o, nation n, pg_catalog.pg_class c WHERE o.loxo_tableoid::pg_catalog.oid = c.oid AND n.tableoid <> c.oid AND o_total > 5
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid::pg_catalog.regclass AS loxo_tableoid FROM public.orders o WHERE o_total > 5

SELECT * FROM orders o JOIN pg_catalog.pg_class c ON o.tableoid = c.oid
----
ERROR 0A000 system column "tableoid" in this query is not supported on distributed tables
  detail: A table has another object id on each datanode, and a row as a whole, or a star, would show more than its columns.
  hint: Write tableoid::regclass, in a query of one table.

SELECT tableoid, o FROM orders o
----
ERROR 0A000 system column "tableoid" in this query is not supported on distributed tables
  detail: A table has another object id on each datanode, and a row as a whole, or a star, would show more than its columns.
  hint: Write tableoid::regclass, in a query of one table.

SELECT tableoid, ctid FROM orders o
----
ERROR 0A000 system column "ctid" in this query is not supported on distributed tables
  detail: The rows must be gathered: a table has another object id on each datanode.
  hint: Leave the system column out.

