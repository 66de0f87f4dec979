SELECT count(*) AS count FROM public.lineitem
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(*) AS loxo_c1 FROM public.lineitem

SELECT lineitem.l_flag, sum(lineitem.l_quantity) AS sum, sum((lineitem.l_quantity * ((1)::numeric - lineitem.l_price))) AS x, avg(lineitem.l_quantity) AS avg, count(*) AS count, min(lineitem.l_shipdate) AS min FROM public.lineitem WHERE (lineitem.l_shipdate <= '1998-09-02'::date) GROUP BY lineitem.l_flag ORDER BY lineitem.l_flag
----
Gather on 0
  SELECT loxo_c1 AS l_flag, sum(loxo_c2)::loxo_type_of_1_2 AS sum, sum(loxo_c3)::loxo_type_of_1_3 AS x, sum(loxo_c2)::numeric / sum(loxo_c4) AS avg, COALESCE(sum(loxo_c5), 0)::bigint AS count, min(loxo_c6) AS min FROM loxo_g1 GROUP BY loxo_c1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT lineitem.l_flag AS loxo_c1, sum(lineitem.l_quantity) AS loxo_c2, sum(lineitem.l_quantity * (1::numeric - lineitem.l_price)) AS loxo_c3, count(lineitem.l_quantity) AS loxo_c4, count(*) AS loxo_c5, min(lineitem.l_shipdate) AS loxo_c6 FROM public.lineitem WHERE lineitem.l_shipdate <= '1998-09-02'::date GROUP BY 1

SELECT sum(lineitem.l_tax) AS sum FROM public.lineitem
----
Gather on 0
  SELECT sum(loxo_c1) AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT lineitem.l_tax AS loxo_c1 FROM public.lineitem

SELECT lineitem.l_flag, (sum(lineitem.l_tax) + (1)::double precision) AS s FROM public.lineitem GROUP BY lineitem.l_flag HAVING (count(*) > 1) ORDER BY (sum(lineitem.l_tax) + (1)::double precision) DESC
----
Gather on 0
  SELECT loxo_c1 AS l_flag, sum(loxo_c2) + 1::double precision AS s FROM loxo_g1 GROUP BY loxo_c1 HAVING count(*) > 1 ORDER BY sum(loxo_c2) + 1::double precision DESC
  loxo_g1 from [0 1 2]
    SELECT lineitem.l_flag AS loxo_c1, lineitem.l_tax AS loxo_c2 FROM public.lineitem

SELECT count(DISTINCT lineitem.l_partkey) AS count FROM public.lineitem
----
Gather on 0
  SELECT count(DISTINCT loxo_c1) AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT lineitem.l_partkey AS loxo_c1 FROM public.lineitem

SELECT (count(*) FILTER (WHERE (lineitem.l_tax > (0)::double precision)) * 2) FROM public.lineitem
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint * 2 AS "?column?" FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(*) FILTER (WHERE lineitem.l_tax > 0::double precision) AS loxo_c1 FROM public.lineitem

SELECT string_agg(lineitem.l_flag, ','::text ORDER BY lineitem.l_price) AS string_agg FROM public.lineitem WHERE (lineitem.l_partkey = 3)
----
Gather on 0
  SELECT string_agg(loxo_c1, ','::text ORDER BY loxo_c2) AS string_agg FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT lineitem.l_flag AS loxo_c1, lineitem.l_price AS loxo_c2 FROM public.lineitem WHERE lineitem.l_partkey = 3

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders ORDER BY orders.o_total DESC NULLS LAST, orders.o_orderkey OFFSET 5 LIMIT 10
----
Merge from [0 1 2] by numeric desc nulls last, integer limit 10 offset 5
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c4), pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_custkey, loxo_m.loxo_c3 AS o_date, loxo_m.loxo_c4 AS o_total FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2, orders.o_date AS loxo_c3, orders.o_total AS loxo_c4 FROM public.orders ORDER BY 4 DESC NULLS LAST, 1 LIMIT 15) loxo_m

SELECT orders.o_orderkey FROM public.orders ORDER BY (orders.o_date + 1) LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY loxo_c2 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT orders.o_orderkey AS loxo_c1, orders.o_date + 1 AS loxo_c2 FROM public.orders ORDER BY 2 LIMIT 3

SELECT orders.o_orderkey AS k FROM public.orders ORDER BY orders.o_orderkey FETCH FIRST (3) ROWS WITH TIES
----
Gather on 0
  SELECT loxo_c1 AS k FROM loxo_g1 ORDER BY loxo_c1 FETCH FIRST 3 ROWS WITH TIES
  loxo_g1 from [0 1 2]
    SELECT orders.o_orderkey AS loxo_c1 FROM public.orders

SELECT orders.o_custkey FROM public.orders LIMIT 5
----
Merge from [0 1 2] limit 5
  SELECT loxo_m.loxo_c1 AS o_custkey FROM (SELECT orders.o_custkey AS loxo_c1 FROM public.orders LIMIT 5) loxo_m

SELECT DISTINCT orders.o_custkey FROM public.orders ORDER BY orders.o_custkey
----
Gather on 0
  SELECT DISTINCT loxo_c1 AS o_custkey FROM loxo_g1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT DISTINCT orders.o_custkey AS loxo_c1 FROM public.orders

SELECT DISTINCT ON (orders.o_custkey) orders.o_custkey, orders.o_total FROM public.orders ORDER BY orders.o_custkey, orders.o_total DESC
----
Gather on 0
  SELECT DISTINCT ON (loxo_c1) loxo_c1 AS o_custkey, loxo_c2 AS o_total FROM loxo_g1 ORDER BY loxo_c1, loxo_c2 DESC
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, orders.o_total AS loxo_c2 FROM public.orders

SELECT orders.o_custkey, count(*) AS n FROM public.orders GROUP BY orders.o_custkey ORDER BY (count(*)) DESC, orders.o_custkey LIMIT 10
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, COALESCE(sum(loxo_c2), 0)::bigint AS n FROM loxo_g1 GROUP BY loxo_c1 ORDER BY COALESCE(sum(loxo_c2), 0)::bigint DESC, loxo_c1 LIMIT 10
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, count(*) AS loxo_c2 FROM public.orders GROUP BY 1

SELECT date_trunc('month'::text, (orders.o_date)::timestamp with time zone) AS m, max(orders.o_total) AS max FROM public.orders GROUP BY (date_trunc('month'::text, (orders.o_date)::timestamp with time zone)) ORDER BY (date_trunc('month'::text, (orders.o_date)::timestamp with time zone))
----
Gather on 0
  SELECT loxo_c1 AS m, max(loxo_c2) AS max FROM loxo_g1 GROUP BY loxo_c1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT date_trunc('month'::text, orders.o_date::timestamp with time zone) AS loxo_c1, max(orders.o_total) AS loxo_c2 FROM public.orders GROUP BY 1

SELECT orders.o_custkey, orders.o_date, sum(orders.o_total) AS sum FROM public.orders GROUP BY GROUPING SETS ((orders.o_custkey), (orders.o_date), ())
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, loxo_c2 AS o_date, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY GROUPING SETS (loxo_c1, loxo_c2, ())
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, orders.o_date AS loxo_c2, sum(orders.o_total) AS loxo_c3 FROM public.orders GROUP BY 1, 2

SELECT orders.o_orderkey, orders.o_date, count(lineitem.l_orderkey) AS count FROM (public.orders LEFT JOIN public.lineitem ON ((lineitem.l_orderkey = orders.o_orderkey))) GROUP BY orders.o_orderkey ORDER BY (count(lineitem.l_orderkey))
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c3), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_date, loxo_m.loxo_c3 AS count FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_date AS loxo_c2, count(lineitem.l_orderkey) AS loxo_c3 FROM public.orders LEFT JOIN public.lineitem ON lineitem.l_orderkey = orders.o_orderkey GROUP BY orders.o_orderkey ORDER BY 3) loxo_m

SELECT customer.c_custkey, customer.c_name, sum(orders.o_total) AS sum FROM (public.customer JOIN public.orders ON ((orders.o_custkey = customer.c_custkey))) GROUP BY customer.c_custkey
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT customer.c_custkey, customer.c_name, sum(orders.o_total) AS sum FROM public.customer JOIN loxo_x1 orders ON orders.o_custkey = customer.c_custkey GROUP BY customer.c_custkey

SELECT orders.o_custkey, rank() OVER (ORDER BY orders.o_total) AS rank FROM public.orders
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, rank() OVER (ORDER BY loxo_c2) AS rank FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, orders.o_total AS loxo_c2 FROM public.orders

SELECT orders.o_custkey, sum(sum(orders.o_total)) OVER (ORDER BY orders.o_custkey) AS sum FROM public.orders GROUP BY orders.o_custkey
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, sum(sum(loxo_c2)::loxo_type_of_1_2) OVER (ORDER BY loxo_c1) AS sum FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, sum(orders.o_total) AS loxo_c2 FROM public.orders GROUP BY 1

SELECT (sum(orders.o_total) / (count(*))::numeric) AS mean, ('x'::text || (max(orders.o_date))::text) FROM public.orders HAVING (sum(orders.o_total) > (0)::numeric)
----
Gather on 0
  SELECT sum(loxo_c1)::loxo_type_of_1_1 / COALESCE(sum(loxo_c2), 0)::bigint::numeric AS mean, 'x'::text || max(loxo_c3)::text AS "?column?" FROM loxo_g1 HAVING sum(loxo_c1)::loxo_type_of_1_1 > 0::numeric
  loxo_g1 from [0 1 2]
    SELECT sum(orders.o_total) AS loxo_c1, count(*) AS loxo_c2, max(orders.o_date) AS loxo_c3 FROM public.orders

SELECT ((SELECT count(*) AS count FROM public.orders) + (SELECT count(*) AS count FROM public.lineitem))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT count(*) AS loxo_c1 FROM public.orders
  loxo_x2 from [0] to node 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_x1
  loxo_x3 from [0 1 2] to node 0
    SELECT count(*) AS loxo_c1 FROM public.lineitem
  loxo_x4 from [0] to node 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_x3
  Forward to 0
    SELECT (SELECT loxo_c1 AS count FROM loxo_x2) + (SELECT loxo_c1 AS count FROM loxo_x4) AS "?column?"

SELECT nation.n_name, sum(orders.o_total) AS sum FROM public.nation, public.customer, public.orders WHERE ((nation.n_key = customer.c_nation) AND (customer.c_custkey = orders.o_custkey) AND (nation.n_name = 'FRANCE'::text)) GROUP BY nation.n_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Gather on 0
    SELECT loxo_c1 AS n_name, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT nation.n_name AS loxo_c1, sum(orders.o_total) AS loxo_c2 FROM public.nation, public.customer, loxo_x1 orders WHERE nation.n_key = customer.c_nation AND customer.c_custkey = orders.o_custkey AND nation.n_name = 'FRANCE'::text GROUP BY 1

SELECT orders.o_orderkey FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem ORDER BY 1 LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY 1 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT * FROM (SELECT orders.o_orderkey FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem) loxo_q(loxo_c1)

-- describe: o_orderkey 20
SELECT orders.o_orderkey FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem ORDER BY 1 LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY 1 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT * FROM (SELECT orders.o_orderkey FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem) loxo_q(loxo_c1)

SELECT array_agg(s.x) AS array_agg FROM (SELECT orders.o_total AS x FROM public.orders ORDER BY orders.o_total) s
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT orders.o_total AS loxo_c1 FROM public.orders
  loxo_x2 from [0] to node 0
    SELECT loxo_c1 AS x FROM loxo_x1 ORDER BY loxo_c1
  Forward to 0
    SELECT array_agg(s.x) AS array_agg FROM (SELECT loxo_c1 AS x FROM loxo_x2) s

SELECT o.*::public.orders AS o FROM public.orders o ORDER BY o.o_total
----
Merge from [0 1 2] by numeric
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS o FROM (SELECT CASE WHEN o.* IS DISTINCT FROM NULL THEN ROW(o.o_orderkey, o.o_custkey, o.o_date, o.o_total)::public.orders END AS loxo_c1, o.o_total AS loxo_c2 FROM public.orders o ORDER BY 2) loxo_m

SELECT orders.o_total FROM (public.orders JOIN public.customer ON ((orders.o_custkey = customer.c_custkey)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT orders.o_total FROM loxo_x1 orders JOIN public.customer ON orders.o_custkey = customer.c_custkey

WITH orders AS (SELECT orders_1.o_orderkey, orders_1.o_custkey, orders_1.o_date, orders_1.o_total FROM public.orders orders_1) SELECT count(*) AS count FROM orders, public.customer
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT orders_1.o_orderkey, orders_1.o_custkey, orders_1.o_date, orders_1.o_total FROM public.orders orders_1
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      WITH orders AS (SELECT loxo_c1 AS o_orderkey, loxo_c2 AS o_custkey, loxo_c3 AS o_date, loxo_c4 AS o_total FROM loxo_x1) SELECT count(*) AS loxo_c1 FROM orders, public.customer

SELECT avg(orders.o_total) AS avg, stddev(orders.o_total) AS stddev FROM public.orders
----
Gather on 0
  SELECT avg(loxo_c1) AS avg, stddev(loxo_c1) AS stddev FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT orders.o_total AS loxo_c1 FROM public.orders

SELECT count(*) AS count FROM public.orders WHERE (orders.o_total > (SELECT avg(orders_1.o_total) AS avg FROM public.orders orders_1))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT sum(orders_1.o_total) AS loxo_c1, count(orders_1.o_total) AS loxo_c2 FROM public.orders orders_1
  loxo_x2 from [0] to all of [0 1 2]
    SELECT sum(loxo_c1)::numeric / sum(loxo_c2) AS avg FROM loxo_x1
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM public.orders WHERE orders.o_total > (SELECT loxo_c1 AS avg FROM loxo_x2)

SELECT bool_or((lineitem.l_tax > (0)::double precision)) AS bool_or, bit_and(lineitem.l_partkey) AS bit_and FROM public.lineitem
----
Gather on 0
  SELECT bool_or(loxo_c1) AS bool_or, bit_and(loxo_c2) AS bit_and FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT bool_or(lineitem.l_tax > 0::double precision) AS loxo_c1, bit_and(lineitem.l_partkey) AS loxo_c2 FROM public.lineitem

SELECT big_orders.o_total FROM (public.big_orders JOIN public.customer ON ((customer.c_custkey = (big_orders.o_orderkey % (10)::bigint))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT c_custkey FROM public.customer
  Scatter to [0 1 2]
    SELECT big_orders.o_total FROM public.big_orders JOIN loxo_x1 customer ON customer.c_custkey = big_orders.o_orderkey % 10::bigint

SELECT (((2)::numeric / avg(lineitem.l_quantity)) - ((3)::numeric - avg(lineitem.l_partkey))) FROM public.lineitem
----
Gather on 0
  SELECT 2::numeric / (sum(loxo_c1)::numeric / sum(loxo_c2)) - (3::numeric - sum(loxo_c3)::numeric / sum(loxo_c4)) AS "?column?" FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT sum(lineitem.l_quantity) AS loxo_c1, count(lineitem.l_quantity) AS loxo_c2, sum(lineitem.l_partkey) AS loxo_c3, count(lineitem.l_partkey) AS loxo_c4 FROM public.lineitem

SELECT orders.o_custkey, orders.o_date, orders.o_total, GROUPING(orders.o_custkey) AS "grouping" FROM public.orders GROUP BY GROUPING SETS ((orders.o_custkey, orders.o_date), (orders.o_total)), orders.o_orderkey
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, loxo_c2 AS o_date, loxo_c3 AS o_total, GROUPING(loxo_c1) AS "grouping" FROM loxo_g1 GROUP BY GROUPING SETS ((loxo_c1, loxo_c2), loxo_c3), loxo_c4
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, orders.o_date AS loxo_c2, orders.o_total AS loxo_c3, orders.o_orderkey AS loxo_c4 FROM public.orders GROUP BY 1, 2, 3, 4

SELECT orders.o_custkey, count(*) AS count FROM public.orders GROUP BY ROLLUP(orders.o_custkey, orders.o_date)
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, COALESCE(sum(loxo_c3), 0)::bigint AS count FROM loxo_g1 GROUP BY ROLLUP (loxo_c1, loxo_c2)
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, orders.o_date AS loxo_c2, count(*) AS loxo_c3 FROM public.orders GROUP BY 1, 2

SELECT EXTRACT(year FROM orders.o_date) AS y, orders.o_custkey, count(*) AS count, sum(orders.o_total) AS sum, avg(orders.o_total) AS avg, GROUPING(orders.o_custkey) AS "grouping" FROM public.orders GROUP BY ROLLUP((EXTRACT(year FROM orders.o_date)), orders.o_custkey) HAVING (count(*) > 1) ORDER BY (EXTRACT(year FROM orders.o_date)), orders.o_custkey
----
Gather on 0
  SELECT loxo_c1 AS y, loxo_c2 AS o_custkey, COALESCE(sum(loxo_c3), 0)::bigint AS count, sum(loxo_c4)::loxo_type_of_1_4 AS sum, sum(loxo_c4)::numeric / sum(loxo_c5) AS avg, GROUPING(loxo_c2) AS "grouping" FROM loxo_g1 GROUP BY ROLLUP (loxo_c1, loxo_c2) HAVING COALESCE(sum(loxo_c3), 0)::bigint > 1 ORDER BY loxo_c1, loxo_c2
  loxo_g1 from [0 1 2]
    SELECT extract ('year' FROM orders.o_date) AS loxo_c1, orders.o_custkey AS loxo_c2, count(*) AS loxo_c3, sum(orders.o_total) AS loxo_c4, count(orders.o_total) AS loxo_c5 FROM public.orders GROUP BY 1, 2

SELECT orders.o_custkey, count(DISTINCT orders.o_orderkey) AS count FROM public.orders GROUP BY GROUPING SETS ((orders.o_custkey), ())
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, count(DISTINCT loxo_c2) AS count FROM loxo_g1 GROUP BY GROUPING SETS (loxo_c1, ())
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, orders.o_orderkey AS loxo_c2 FROM public.orders

SELECT orders.o_orderkey, orders.o_total, count(*) AS count FROM public.orders GROUP BY GROUPING SETS ((orders.o_orderkey, orders.o_date), (orders.o_orderkey)), orders.o_total
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey, loxo_c3 AS o_total, COALESCE(sum(loxo_c4), 0)::bigint AS count FROM loxo_g1 GROUP BY GROUPING SETS ((loxo_c1, loxo_c2), loxo_c1), loxo_c3
  loxo_g1 from [0 1 2]
    SELECT orders.o_orderkey AS loxo_c1, orders.o_date AS loxo_c2, orders.o_total AS loxo_c3, count(*) AS loxo_c4 FROM public.orders GROUP BY 1, 2, 3

SELECT (o.o_custkey % (2)::bigint), count(*) AS count FROM public.orders o GROUP BY (o.o_custkey % (2)::bigint)
----
Gather on 0
  SELECT loxo_c1 AS "?column?", COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT o.o_custkey % 2::bigint AS loxo_c1, count(*) AS loxo_c2 FROM public.orders o GROUP BY 1

SELECT (o.o_custkey % (2)::bigint), count(*) AS count FROM public.orders o GROUP BY (o.o_custkey % (2)::bigint)
----
Gather on 0
  SELECT loxo_c1 AS "?column?", COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT o.o_custkey % 2::bigint AS loxo_c1, count(*) AS loxo_c2 FROM public.orders o GROUP BY 1

SELECT o.tableoid, o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o
----
Gather on 0
  SELECT o.loxo_tableoid::pg_catalog.oid AS tableoid, o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM loxo_g1 o
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid::pg_catalog.regclass AS loxo_tableoid FROM public.orders o

SELECT c.relname, n.n_key, n.n_name, o.o_total, (o.tableoid)::regclass AS tableoid FROM public.orders o, public.nation n, pg_class c WHERE ((o.tableoid = c.oid) AND (n.tableoid <> c.oid) AND (o.o_total > (5)::numeric))
----
Gather on 0
  SELECT c.relname, n.n_key, n.n_name, o.o_total, o.loxo_tableoid::pg_catalog.oid::regclass AS tableoid FROM loxo_g1 o, public.nation n, pg_class c WHERE o.loxo_tableoid::pg_catalog.oid = c.oid AND n.tableoid <> c.oid AND o.o_total > 5::numeric
  loxo_g1 from [0 1 2]
    SELECT o_total, tableoid::pg_catalog.regclass AS loxo_tableoid FROM public.orders o WHERE o.o_total > 5::numeric

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, c.oid, c.relname, c.relnamespace, c.reltype, c.reloftype, c.relowner, c.relam, c.relfilenode, c.reltablespace, c.relpages, c.reltuples, c.relallvisible, c.reltoastrelid, c.relhasindex, c.relisshared, c.relpersistence, c.relkind, c.relnatts, c.relchecks, c.relhasrules, c.relhastriggers, c.relhassubclass, c.relrowsecurity, c.relforcerowsecurity, c.relispopulated, c.relreplident, c.relispartition, c.relrewrite, c.relfrozenxid, c.relminmxid, c.relacl, c.reloptions, c.relpartbound FROM (public.orders o JOIN pg_class c ON ((o.tableoid = c.oid)))
----
Gather on 0
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, c.oid, c.relname, c.relnamespace, c.reltype, c.reloftype, c.relowner, c.relam, c.relfilenode, c.reltablespace, c.relpages, c.reltuples, c.relallvisible, c.reltoastrelid, c.relhasindex, c.relisshared, c.relpersistence, c.relkind, c.relnatts, c.relchecks, c.relhasrules, c.relhastriggers, c.relhassubclass, c.relrowsecurity, c.relforcerowsecurity, c.relispopulated, c.relreplident, c.relispartition, c.relrewrite, c.relfrozenxid, c.relminmxid, c.relacl, c.reloptions, c.relpartbound FROM loxo_g1 o JOIN pg_class c ON o.loxo_tableoid::pg_catalog.oid = c.oid
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total, tableoid::pg_catalog.regclass AS loxo_tableoid FROM public.orders o

SELECT o.tableoid, o.*::public.orders AS o FROM public.orders o
----
ERROR 0A000 system column "tableoid" in this query is not supported on distributed tables
  detail: A table has another object id on each datanode, and a row as a whole, or a star, would show more than its columns.
  hint: Write tableoid::regclass, in a query of one table.

SELECT o.tableoid, o.ctid FROM public.orders o
----
ERROR 0A000 system column "ctid" in this query is not supported on distributed tables
  detail: The rows must be gathered: a table has another object id on each datanode.
  hint: Leave the system column out.

SELECT q.o_orderkey FROM ( SELECT o.o_orderkey, o.o_total FROM public.orders o) q ORDER BY q.* DESC
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o.o_orderkey, o.o_total FROM public.orders o
  Forward to 0
    SELECT q.o_orderkey FROM (SELECT loxo_c1 AS o_orderkey, loxo_c2 AS o_total FROM loxo_x1) q ORDER BY q.* DESC

SELECT q.*::record AS q FROM ( SELECT o.o_orderkey, o.o_total FROM public.orders o) q ORDER BY q.*
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o.o_orderkey, o.o_total FROM public.orders o
  Forward to 0
    SELECT q.*::record AS q FROM (SELECT loxo_c1 AS o_orderkey, loxo_c2 AS o_total FROM loxo_x1) q ORDER BY q.*

SELECT q.*::record AS q FROM ( SELECT o.o_orderkey, o.o_total FROM public.orders o) q ORDER BY q.o_total LIMIT 5
----
Merge from [0 1 2] by numeric limit 5
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS q FROM (SELECT q.*::record AS loxo_c1, q.o_total AS loxo_c2 FROM (SELECT o.o_orderkey, o.o_total FROM public.orders o) q ORDER BY 2 LIMIT 5) loxo_m

SELECT DISTINCT q.*::record AS q FROM ( SELECT o.o_custkey, o.o_total FROM public.orders o) q
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o.o_custkey, o.o_total FROM public.orders o
  Forward to 0
    SELECT DISTINCT q.*::record AS q FROM (SELECT loxo_c1 AS o_custkey, loxo_c2 AS o_total FROM loxo_x1) q

SELECT q.*::record AS q, count(*) AS count FROM ( SELECT o.o_custkey, o.o_total FROM public.orders o) q GROUP BY q.*
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o.o_custkey, o.o_total FROM public.orders o
  Forward to 0
    SELECT q.*::record AS q, count(*) AS count FROM (SELECT loxo_c1 AS o_custkey, loxo_c2 AS o_total FROM loxo_x1) q GROUP BY q.*

SELECT max(q.o_total) AS max FROM ( SELECT o.o_custkey, o.o_total FROM public.orders o) q GROUP BY ROLLUP(q.*, q.o_total)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o.o_custkey, o.o_total FROM public.orders o
  Forward to 0
    SELECT max(q.o_total) AS max FROM (SELECT loxo_c1 AS o_custkey, loxo_c2 AS o_total FROM loxo_x1) q GROUP BY ROLLUP (q.*, q.o_total)

WITH q AS ( SELECT o.o_orderkey, o.o_total FROM public.orders o) SELECT q.o_total FROM q ORDER BY q.*
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o.o_orderkey, o.o_total FROM public.orders o
  Forward to 0
    WITH q AS (SELECT loxo_c1 AS o_orderkey, loxo_c2 AS o_total FROM loxo_x1) SELECT q.o_total FROM q ORDER BY q.*

SELECT q.*::record AS q FROM ( SELECT o.o_orderkey FROM public.orders o) q UNION ALL SELECT ROW(l.l_orderkey) AS "row" FROM public.lineitem l ORDER BY 1
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o.o_orderkey FROM public.orders o
  loxo_x2 from [0 1 2] to node 0
    SELECT l_orderkey FROM public.lineitem l
  Forward to 0
    SELECT q.*::record AS q FROM (SELECT loxo_c1 AS o_orderkey FROM loxo_x1) q UNION ALL SELECT ROW(l.l_orderkey) AS "row" FROM loxo_x2 l ORDER BY 1

SELECT o.o_orderkey FROM public.orders o ORDER BY ROW(7, o.o_total)
----
Merge from [0 1 2] by numeric
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT o.o_orderkey AS loxo_c1, o.o_total AS loxo_c2 FROM public.orders o ORDER BY 2) loxo_m

SELECT ROW(7, o.o_custkey) AS "row", count(*) AS count FROM public.orders o GROUP BY (ROW(7, o.o_custkey))
----
Gather on 0
  SELECT ROW(7, loxo_c1) AS "row", COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT o.o_custkey AS loxo_c1, count(*) AS loxo_c2 FROM public.orders o GROUP BY 1

SELECT s.*::public.nation AS s, count(*) AS count FROM public.orders o, LATERAL unnest(ARRAY[ROW(1, 'x')::public.nation]) s(n_key, n_name) GROUP BY s.* ORDER BY s.*
----
Gather on 0
  SELECT loxo_c1 AS s, COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT CASE WHEN s.* IS DISTINCT FROM NULL THEN ROW(s.n_key, s.n_name)::public.nation END AS loxo_c1, count(*) AS loxo_c2 FROM public.orders o, LATERAL unnest(ARRAY[ROW(1, 'x')::public.nation]) s(n_key, n_name) GROUP BY 1

