SELECT 1
----
Forward to 0
  SELECT 1

SELECT nation.n_key, nation.n_name FROM public.nation WHERE (nation.n_key = 3)
----
Forward to any of [0 1 2]
  SELECT nation.n_key, nation.n_name FROM public.nation WHERE (nation.n_key = 3)

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = 7)
----
Forward to 2
  SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = 7)

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = $1)
----
Forward to 1
  SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = $1)

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = $2)
----
Scatter to [0 1 2]
  SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = $2)

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = ANY (ARRAY[(1)::bigint, (2)::bigint, (3)::bigint]))
----
Scatter to [0 1 2]
  SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_orderkey = ANY (ARRAY[(1)::bigint, (2)::bigint, (3)::bigint]))

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders
----
Scatter to [0 1 2]
  SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, l.l_price FROM (public.orders o JOIN public.lineitem l ON ((l.l_orderkey = o.o_orderkey))) WHERE (o.o_total > (10)::numeric)
----
Scatter to [0 1 2]
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, l.l_price FROM (public.orders o JOIN public.lineitem l ON ((l.l_orderkey = o.o_orderkey))) WHERE (o.o_total > (10)::numeric)

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, lineitem.l_orderkey, lineitem.l_partkey, lineitem.l_quantity, lineitem.l_price, lineitem.l_tax, lineitem.l_shipdate, lineitem.l_flag, nation.n_key, nation.n_name FROM public.orders, public.lineitem, public.nation WHERE ((orders.o_orderkey = lineitem.l_orderkey) AND (nation.n_key = 3))
----
Scatter to [0 1 2]
  SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, lineitem.l_orderkey, lineitem.l_partkey, lineitem.l_quantity, lineitem.l_price, lineitem.l_tax, lineitem.l_shipdate, lineitem.l_flag, nation.n_key, nation.n_name FROM public.orders, public.lineitem, public.nation WHERE ((orders.o_orderkey = lineitem.l_orderkey) AND (nation.n_key = 3))

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, c.c_custkey, c.c_name, c.c_nation FROM (public.orders o JOIN public.customer c ON ((c.c_custkey = o.o_custkey))) WHERE ((c.c_name ~~ 'A%'::text) AND (o.o_date >= '1994-01-01'::date) AND (o.o_date < ('1994-01-01'::date + '1 year'::interval)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders o WHERE o.o_date >= '1994-01-01'::date AND o.o_date < '1994-01-01'::date + '1 year'::interval
  Scatter to [0 1 2]
    SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, c.c_custkey, c.c_name, c.c_nation FROM loxo_x1 o JOIN public.customer c ON c.c_custkey = o.o_custkey WHERE c.c_name ~~ 'A%'::text

SELECT c.c_custkey, c.c_name, c.c_nation, n.n_key, n.n_name FROM (public.customer c LEFT JOIN public.nation n ON ((n.n_key = c.c_nation)))
----
Scatter to [0 1 2]
  SELECT c.c_custkey, c.c_name, c.c_nation, n.n_key, n.n_name FROM (public.customer c LEFT JOIN public.nation n ON ((n.n_key = c.c_nation)))

SELECT n.n_key, n.n_name, c.c_custkey, c.c_name, c.c_nation FROM (public.nation n LEFT JOIN public.customer c ON ((n.n_key = c.c_nation)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT c_custkey, c_name, c_nation FROM public.customer c
  Forward to 0
    SELECT n.n_key, n.n_name, c.c_custkey, c.c_name, c.c_nation FROM public.nation n LEFT JOIN loxo_x1 c ON n.n_key = c.c_nation

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag FROM (public.orders o LEFT JOIN public.lineitem l ON (((l.l_orderkey = o.o_orderkey) AND (l.l_tax > (0)::double precision))))
----
Scatter to [0 1 2]
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag FROM (public.orders o LEFT JOIN public.lineitem l ON (((l.l_orderkey = o.o_orderkey) AND (l.l_tax > (0)::double precision))))

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag FROM (public.orders o FULL JOIN public.lineitem l ON ((l.l_orderkey = o.o_orderkey)))
----
Scatter to [0 1 2]
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag FROM (public.orders o FULL JOIN public.lineitem l ON ((l.l_orderkey = o.o_orderkey)))

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (EXISTS (SELECT 1 FROM public.lineitem l WHERE ((l.l_orderkey = o.o_orderkey) AND (l.l_flag = 'R'::text))))
----
Scatter to [0 1 2]
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (EXISTS (SELECT 1 FROM public.lineitem l WHERE ((l.l_orderkey = o.o_orderkey) AND (l.l_flag = 'R'::text))))

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (o.o_orderkey IN (SELECT lineitem.l_orderkey FROM public.lineitem GROUP BY lineitem.l_orderkey HAVING (sum(lineitem.l_quantity) > (300)::numeric)))
----
Scatter to [0 1 2]
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (o.o_orderkey IN (SELECT lineitem.l_orderkey FROM public.lineitem GROUP BY lineitem.l_orderkey HAVING (sum(lineitem.l_quantity) > (300)::numeric)))

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (NOT (o.o_orderkey IN (SELECT lineitem.l_orderkey FROM public.lineitem)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT lineitem.l_orderkey FROM public.lineitem
  Scatter to [0 1 2]
    SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE NOT o.o_orderkey IN (SELECT loxo_c1 AS l_orderkey FROM loxo_x1)

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (o.o_custkey IN (SELECT customer.c_custkey FROM public.customer WHERE (customer.c_nation = 3)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders o
  Scatter to [0 1 2]
    SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM loxo_x1 o WHERE o.o_custkey IN (SELECT customer.c_custkey FROM public.customer WHERE customer.c_nation = 3)

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (o.o_total > (SELECT avg(l.l_price) AS avg FROM public.lineitem l WHERE (l.l_orderkey = o.o_orderkey)))
----
Scatter to [0 1 2]
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total FROM public.orders o WHERE (o.o_total > (SELECT avg(l.l_price) AS avg FROM public.lineitem l WHERE (l.l_orderkey = o.o_orderkey)))

SELECT customer.c_custkey, customer.c_name, customer.c_nation FROM public.customer WHERE (customer.c_nation IN (SELECT nation.n_key FROM public.nation))
----
Scatter to [0 1 2]
  SELECT customer.c_custkey, customer.c_name, customer.c_nation FROM public.customer WHERE (customer.c_nation IN (SELECT nation.n_key FROM public.nation))

SELECT lineitem.l_orderkey, sum(lineitem.l_tax) AS sum, avg(lineitem.l_tax) AS avg FROM public.lineitem GROUP BY lineitem.l_orderkey HAVING (count(*) > 3)
----
Scatter to [0 1 2]
  SELECT lineitem.l_orderkey, sum(lineitem.l_tax) AS sum, avg(lineitem.l_tax) AS avg FROM public.lineitem GROUP BY lineitem.l_orderkey HAVING (count(*) > 3)

SELECT DISTINCT lineitem.l_orderkey, lineitem.l_flag FROM public.lineitem
----
Scatter to [0 1 2]
  SELECT DISTINCT lineitem.l_orderkey, lineitem.l_flag FROM public.lineitem

SELECT lineitem.l_orderkey, rank() OVER (PARTITION BY lineitem.l_orderkey ORDER BY lineitem.l_price) AS rank FROM public.lineitem
----
Scatter to [0 1 2]
  SELECT lineitem.l_orderkey, rank() OVER (PARTITION BY lineitem.l_orderkey ORDER BY lineitem.l_price) AS rank FROM public.lineitem

WITH o AS (SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_total > (5)::numeric)) SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, lineitem.l_orderkey, lineitem.l_partkey, lineitem.l_quantity, lineitem.l_price, lineitem.l_tax, lineitem.l_shipdate, lineitem.l_flag FROM (o JOIN public.lineitem ON ((lineitem.l_orderkey = o.o_orderkey)))
----
Scatter to [0 1 2]
  WITH o AS (SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders WHERE (orders.o_total > (5)::numeric)) SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, lineitem.l_orderkey, lineitem.l_partkey, lineitem.l_quantity, lineitem.l_price, lineitem.l_tax, lineitem.l_shipdate, lineitem.l_flag FROM (o JOIN public.lineitem ON ((lineitem.l_orderkey = o.o_orderkey)))

SELECT big_orders.o_orderkey, big_orders.o_total FROM public.big_orders WHERE (big_orders.o_orderkey = 7)
----
Forward to 2
  SELECT big_orders.o_orderkey, big_orders.o_total FROM public.big_orders WHERE (big_orders.o_orderkey = 7)

SELECT orders.o_orderkey FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem
----
Scatter to [0 1 2]
  SELECT orders.o_orderkey FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem

SELECT orders.o_orderkey FROM public.orders UNION SELECT lineitem.l_orderkey FROM public.lineitem
----
Scatter to [0 1 2]
  SELECT orders.o_orderkey FROM public.orders UNION SELECT lineitem.l_orderkey FROM public.lineitem

SELECT orders.o_orderkey FROM public.orders UNION ALL SELECT nation.n_key FROM public.nation
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o_orderkey FROM public.orders
  Forward to 0
    SELECT orders.o_orderkey FROM loxo_x1 orders UNION ALL SELECT nation.n_key FROM public.nation

SELECT nation.n_key FROM public.nation UNION SELECT 1
----
Forward to any of [0 1 2]
  SELECT nation.n_key FROM public.nation UNION SELECT 1

SELECT pairs.p_a, pairs.p_b, pairs.p_c FROM public.pairs WHERE ((pairs.p_a = 1) AND (pairs.p_b = 'x'::text))
----
Forward to 2
  SELECT pairs.p_a, pairs.p_b, pairs.p_c FROM public.pairs WHERE ((pairs.p_a = 1) AND (pairs.p_b = 'x'::text))

SELECT pairs.p_a, pairs.p_b, pairs.p_c FROM public.pairs WHERE (pairs.p_a = 1)
----
Scatter to [0 1 2]
  SELECT pairs.p_a, pairs.p_b, pairs.p_c FROM public.pairs WHERE (pairs.p_a = 1)

SELECT modded.m_id, modded.m_text FROM public.modded WHERE (modded.m_id = 4097)
----
Forward to 1
  SELECT modded.m_id, modded.m_text FROM public.modded WHERE (modded.m_id = 4097)

SELECT subset.s_key, subset.s_name, orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM (public.subset JOIN public.orders ON ((orders.o_custkey = subset.s_key)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [1] to node 0
    SELECT s_key, s_name FROM public.subset
  loxo_x2 from [0 1 2] to node 0
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders
  Forward to 0
    SELECT subset.s_key, subset.s_name, orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM loxo_x1 subset JOIN loxo_x2 orders ON orders.o_custkey = subset.s_key

SELECT subset.s_key, subset.s_name FROM public.subset
----
Forward to any of [1 2]
  SELECT subset.s_key, subset.s_name FROM public.subset

SELECT pg_class.oid, pg_class.relname, pg_class.relnamespace, pg_class.reltype, pg_class.reloftype, pg_class.relowner, pg_class.relam, pg_class.relfilenode, pg_class.reltablespace, pg_class.relpages, pg_class.reltuples, pg_class.relallvisible, pg_class.reltoastrelid, pg_class.relhasindex, pg_class.relisshared, pg_class.relpersistence, pg_class.relkind, pg_class.relnatts, pg_class.relchecks, pg_class.relhasrules, pg_class.relhastriggers, pg_class.relhassubclass, pg_class.relrowsecurity, pg_class.relforcerowsecurity, pg_class.relispopulated, pg_class.relreplident, pg_class.relispartition, pg_class.relrewrite, pg_class.relfrozenxid, pg_class.relminmxid, pg_class.relacl, pg_class.reloptions, pg_class.relpartbound FROM pg_class
----
Forward to 0
  SELECT pg_class.oid, pg_class.relname, pg_class.relnamespace, pg_class.reltype, pg_class.reloftype, pg_class.relowner, pg_class.relam, pg_class.relfilenode, pg_class.reltablespace, pg_class.relpages, pg_class.reltuples, pg_class.relallvisible, pg_class.reltoastrelid, pg_class.relhasindex, pg_class.relisshared, pg_class.relpersistence, pg_class.relkind, pg_class.relnatts, pg_class.relchecks, pg_class.relhasrules, pg_class.relhastriggers, pg_class.relhassubclass, pg_class.relrowsecurity, pg_class.relforcerowsecurity, pg_class.relispopulated, pg_class.relreplident, pg_class.relispartition, pg_class.relrewrite, pg_class.relfrozenxid, pg_class.relminmxid, pg_class.relacl, pg_class.reloptions, pg_class.relpartbound FROM (SELECT r.* FROM ONLY pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace LEFT JOIN (SELECT t.told, pg_catalog.jsonb_object_field_text(t.told, 'schemaname') AS schemaname, pg_catalog.jsonb_object_field_text(t.told, 'relname') AS relname FROM loxo.told_statistics('pg_class') AS t) AS s ON s.relname OPERATOR(pg_catalog.=) c.relname::pg_catalog.text AND s.schemaname OPERATOR(pg_catalog.=) n.nspname::pg_catalog.text CROSS JOIN LATERAL pg_catalog.jsonb_populate_record(c, coalesce(pg_catalog.jsonb_object_field(s.told, 'counts'), '{}'::pg_catalog.jsonb)) AS r WHERE c.relnamespace OPERATOR(pg_catalog.<>) 'loxo'::pg_catalog.regnamespace) AS pg_class

SELECT orders.o_date FROM public.orders WHERE (orders.o_orderkey = 5) FOR UPDATE OF orders
----
Forward (write) to 0
  SELECT orders.o_date FROM public.orders WHERE (orders.o_orderkey = 5) FOR UPDATE OF orders

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders FOR UPDATE OF orders
----
Locked
  Scatter to [0 1 2]
    SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, pg_catalog.concat_ws(' ', (SELECT node_id::pg_catalog.text FROM loxo.identity), orders.ctid, orders.xmin) AS loxo_place_1 FROM public.orders
  rows of public.orders: SELECT pg_catalog.concat_ws(' ', loxo_l.ctid, loxo_l.xmin) FROM public.orders AS loxo_l WHERE loxo_l.ctid = ANY ('{…}'::pg_catalog.tid[]) FOR UPDATE OF loxo_l

SELECT nation.n_key, nation.n_name FROM public.nation FOR UPDATE OF nation
----
Forward (write) to 0
  SELECT nation.n_key, nation.n_name FROM public.nation FOR UPDATE OF nation

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders ORDER BY orders.o_total FOR UPDATE OF orders
----
Locked
  Merge from [0 1 2] by numeric
    SELECT pg_catalog.numeric_send(loxo_m.loxo_c4), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_custkey, loxo_m.loxo_c3 AS o_date, loxo_m.loxo_c4 AS o_total, loxo_m.loxo_c5 AS loxo_place_1 FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2, orders.o_date AS loxo_c3, orders.o_total AS loxo_c4, pg_catalog.concat_ws(' ', (SELECT node_id::pg_catalog.text FROM loxo.identity), orders.ctid, orders.xmin) AS loxo_c5 FROM public.orders ORDER BY 4) loxo_m
  rows of public.orders: SELECT pg_catalog.concat_ws(' ', loxo_l.ctid, loxo_l.xmin) FROM public.orders AS loxo_l WHERE loxo_l.ctid = ANY ('{…}'::pg_catalog.tid[]) FOR UPDATE OF loxo_l

SELECT nextval('public.s'::regclass) AS nextval FROM public.orders
----
Gather (write) on 0
  SELECT nextval('public.s'::regclass) AS nextval FROM loxo_g1 orders
  loxo_g1 from [0 1 2]
    SELECT 0 AS loxo_none FROM public.orders

SELECT public.count_orders() AS count_orders
----
Routine
  count_orders()
  then SELECT $1::bigint AS count_orders

SELECT public.count_nations() AS count_nations, orders.o_orderkey FROM public.orders
----
Scatter to [0 1 2]
  SELECT public.count_nations() AS count_nations, orders.o_orderkey FROM public.orders

SELECT public.harmless() AS harmless FROM public.orders
----
Scatter to [0 1 2]
  SELECT public.harmless() AS harmless FROM public.orders

SELECT public.dynamic() AS dynamic
----
Routine
  dynamic()
  then SELECT $1::bigint AS dynamic

SELECT scratch.id, orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM (scratch JOIN public.orders ON ((orders.o_orderkey = scratch.id)))
----
Gather on 0
  SELECT scratch.id, orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM scratch JOIN loxo_g1 orders ON orders.o_orderkey = scratch.id
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey, o_date, o_total FROM public.orders

SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, x.l_orderkey, x.l_partkey, x.l_quantity, x.l_price, x.l_tax, x.l_shipdate, x.l_flag FROM public.orders o, LATERAL (SELECT l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag FROM public.lineitem l WHERE (l.l_orderkey = o.o_orderkey) ORDER BY l.l_price LIMIT 1) x
----
Scatter to [0 1 2]
  SELECT o.o_orderkey, o.o_custkey, o.o_date, o.o_total, x.l_orderkey, x.l_partkey, x.l_quantity, x.l_price, x.l_tax, x.l_shipdate, x.l_flag FROM public.orders o, LATERAL (SELECT l.l_orderkey, l.l_partkey, l.l_quantity, l.l_price, l.l_tax, l.l_shipdate, l.l_flag FROM public.lineitem l WHERE (l.l_orderkey = o.o_orderkey) ORDER BY l.l_price LIMIT 1) x

SELECT random() AS random FROM public.orders
----
Scatter to [0 1 2]
  SELECT random() AS random FROM public.orders

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, lineitem.l_orderkey, lineitem.l_partkey, lineitem.l_quantity, lineitem.l_price, lineitem.l_tax, lineitem.l_shipdate, lineitem.l_flag, s.k, s.count FROM ((public.orders JOIN public.lineitem ON ((orders.o_orderkey = lineitem.l_orderkey))) JOIN (SELECT lineitem_1.l_orderkey AS k, count(*) AS count FROM public.lineitem lineitem_1 GROUP BY lineitem_1.l_orderkey) s ON ((s.k = orders.o_orderkey)))
----
Scatter to [0 1 2]
  SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, lineitem.l_orderkey, lineitem.l_partkey, lineitem.l_quantity, lineitem.l_price, lineitem.l_tax, lineitem.l_shipdate, lineitem.l_flag, s.k, s.count FROM ((public.orders JOIN public.lineitem ON ((orders.o_orderkey = lineitem.l_orderkey))) JOIN (SELECT lineitem_1.l_orderkey AS k, count(*) AS count FROM public.lineitem lineitem_1 GROUP BY lineitem_1.l_orderkey) s ON ((s.k = orders.o_orderkey)))

SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total, big_orders.o_total FROM (public.orders JOIN public.big_orders USING (o_orderkey)) ORDER BY orders.o_date
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.date_send(loxo_m.loxo_c3), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_custkey, loxo_m.loxo_c3 AS o_date, loxo_m.loxo_c4 AS o_total, loxo_m.loxo_c5 AS o_total FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2, orders.o_date AS loxo_c3, orders.o_total AS loxo_c4, big_orders.o_total AS loxo_c5 FROM public.orders JOIN public.big_orders USING (o_orderkey) ORDER BY 3) loxo_m

VALUES (1), (2)
----
Forward to 0
  VALUES (1), (2)

SELECT orders.ctid FROM public.orders WHERE (orders.o_orderkey = 1)
----
Forward to 2
  SELECT orders.ctid FROM public.orders WHERE (orders.o_orderkey = 1)

SELECT o.ctid FROM (public.orders o JOIN public.customer c ON ((c.c_custkey = o.o_custkey)))
----
ERROR 0A000 system column "ctid" in this query is not supported on distributed tables
  detail: The rows must be gathered: a join of tables that are not co-located.
  hint: Leave the system column out.

SELECT pg_total_relation_size('public.orders'::regclass) AS pg_total_relation_size
----
Gather on 0
  SELECT (SELECT pg_catalog.sum(size)::bigint FROM loxo_g1) AS pg_total_relation_size
  loxo_g1 from [0 1 2]
    SELECT pg_total_relation_size('public.orders'::regclass) AS size

WITH RECURSIVE t(n) AS (SELECT 1 AS "?column?" UNION ALL SELECT (t_1.n + 1) FROM t t_1 WHERE (t_1.n < 5)) SELECT t.n FROM t
----
Forward to 0
  WITH RECURSIVE t(n) AS (SELECT 1 AS "?column?" UNION ALL SELECT (t_1.n + 1) FROM t t_1 WHERE (t_1.n < 5)) SELECT t.n FROM t

WITH RECURSIVE t(n) AS (SELECT orders.o_orderkey FROM public.orders UNION SELECT orders.o_custkey FROM (public.orders JOIN t t_1 ON ((orders.o_orderkey = t_1.n)))) SELECT t.n FROM t
----
Gather on 0
  WITH RECURSIVE t(n) AS (SELECT orders.o_orderkey FROM loxo_g1 orders UNION SELECT orders.o_custkey FROM loxo_g1 orders JOIN t t_1 ON orders.o_orderkey = t_1.n) SELECT t.n FROM t
  loxo_g1 from [0 1 2]
    SELECT o_orderkey, o_custkey FROM public.orders

SELECT orders.o_custkey FROM public.orders GROUP BY orders.o_custkey ORDER BY (count(*)) DESC, orders.o_custkey LIMIT 3
----
Gather on 0
  SELECT loxo_c1 AS o_custkey FROM loxo_g1 GROUP BY loxo_c1 ORDER BY COALESCE(sum(loxo_c2), 0)::bigint DESC, loxo_c1 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, count(*) AS loxo_c2 FROM public.orders GROUP BY 1

SELECT customer.c_custkey, count(orders.o_orderkey) AS count FROM (public.customer LEFT JOIN public.orders ON (((customer.c_custkey = orders.o_orderkey) AND (orders.o_total > (100)::numeric)))) GROUP BY customer.c_custkey ORDER BY customer.c_custkey
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS c_custkey, loxo_m.loxo_c2 AS count FROM (SELECT customer.c_custkey AS loxo_c1, count(orders.o_orderkey) AS loxo_c2 FROM public.customer LEFT JOIN public.orders ON customer.c_custkey = orders.o_orderkey AND orders.o_total > 100::numeric GROUP BY customer.c_custkey ORDER BY 1) loxo_m

SELECT nation.n_name, count(*) AS count, sum(orders.o_total) AS sum FROM (public.orders LEFT JOIN public.nation ON ((nation.n_key = orders.o_custkey))) GROUP BY nation.n_name ORDER BY nation.n_name NULLS FIRST
----
Gather on 0
  SELECT loxo_c1 AS n_name, COALESCE(sum(loxo_c2), 0)::bigint AS count, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY loxo_c1 ORDER BY loxo_c1 NULLS FIRST
  loxo_g1 from [0 1 2]
    SELECT nation.n_name AS loxo_c1, count(*) AS loxo_c2, sum(orders.o_total) AS loxo_c3 FROM public.orders LEFT JOIN public.nation ON nation.n_key = orders.o_custkey GROUP BY 1

SELECT q.o_date, sum(q.s) AS sum FROM (SELECT orders.o_date, orders.o_orderkey, sum(lineitem.l_price) AS s FROM (public.orders JOIN public.lineitem ON ((lineitem.l_orderkey = orders.o_orderkey))) GROUP BY orders.o_date, orders.o_orderkey) q GROUP BY q.o_date ORDER BY q.o_date
----
Gather on 0
  SELECT loxo_c1 AS o_date, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT q.o_date AS loxo_c1, sum(q.s) AS loxo_c2 FROM (SELECT orders.o_date, orders.o_orderkey, sum(lineitem.l_price) AS s FROM public.orders JOIN public.lineitem ON lineitem.l_orderkey = orders.o_orderkey GROUP BY orders.o_date, orders.o_orderkey) q GROUP BY 1

SELECT EXTRACT(year FROM orders.o_date) AS y, (sum(CASE WHEN (orders.o_custkey = 3) THEN orders.o_total ELSE (0)::numeric END) / sum(orders.o_total)) FROM public.orders GROUP BY (EXTRACT(year FROM orders.o_date)) ORDER BY (EXTRACT(year FROM orders.o_date))
----
Gather on 0
  SELECT loxo_c1 AS y, sum(loxo_c2)::loxo_type_of_1_2 / sum(loxo_c3)::loxo_type_of_1_3 AS "?column?" FROM loxo_g1 GROUP BY loxo_c1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT extract ('year' FROM orders.o_date) AS loxo_c1, sum(CASE WHEN orders.o_custkey = 3 THEN orders.o_total ELSE 0::numeric END) AS loxo_c2, sum(orders.o_total) AS loxo_c3 FROM public.orders GROUP BY 1

SELECT orders.o_orderkey FROM public.orders WHERE ((orders.o_orderkey = 3) OR (orders.o_orderkey = 4)) ORDER BY orders.o_orderkey
----
Forward to 1
  SELECT orders.o_orderkey FROM public.orders WHERE ((orders.o_orderkey = 3) OR (orders.o_orderkey = 4)) ORDER BY orders.o_orderkey

SELECT a.o_orderkey, b.l_flag FROM (public.orders a LEFT JOIN public.lineitem b ON ((a.o_orderkey = b.l_orderkey))) WHERE (a.o_orderkey = 9)
----
Forward to 1
  SELECT a.o_orderkey, b.l_flag FROM (public.orders a LEFT JOIN public.lineitem b ON ((a.o_orderkey = b.l_orderkey))) WHERE (a.o_orderkey = 9)

SELECT DISTINCT customer.c_nation FROM public.customer ORDER BY customer.c_nation NULLS FIRST LIMIT 2
----
Gather on 0
  SELECT DISTINCT loxo_c1 AS c_nation FROM loxo_g1 ORDER BY loxo_c1 NULLS FIRST LIMIT 2
  loxo_g1 from [0 1 2]
    SELECT DISTINCT customer.c_nation AS loxo_c1 FROM public.customer ORDER BY 1 NULLS FIRST LIMIT 2

SELECT x.o_custkey, y.o_custkey FROM (public.orders x JOIN public.orders y ON (((x.o_orderkey = y.o_orderkey) AND (x.o_total > (2)::numeric)))) ORDER BY x.o_custkey, y.o_custkey LIMIT 4
----
Merge from [0 1 2] by integer, integer limit 4
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), pg_catalog.int8send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS o_custkey, loxo_m.loxo_c2 AS o_custkey FROM (SELECT x.o_custkey AS loxo_c1, y.o_custkey AS loxo_c2 FROM public.orders x JOIN public.orders y ON x.o_orderkey = y.o_orderkey AND x.o_total > 2::numeric ORDER BY 1, 2 LIMIT 4) loxo_m

SELECT (max(orders.o_total) - min(orders.o_total)), count(*) AS count FROM public.orders WHERE (orders.o_orderkey < 0)
----
Gather on 0
  SELECT max(loxo_c1) - min(loxo_c2) AS "?column?", COALESCE(sum(loxo_c3), 0)::bigint AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT max(orders.o_total) AS loxo_c1, min(orders.o_total) AS loxo_c2, count(*) AS loxo_c3 FROM public.orders WHERE orders.o_orderkey < 0

SELECT orders.o_custkey, avg(orders.o_total) AS avg FROM public.orders GROUP BY orders.o_custkey HAVING (avg(orders.o_total) > (1000)::numeric) ORDER BY (avg(orders.o_total)) DESC, orders.o_custkey
----
Gather on 0
  SELECT loxo_c1 AS o_custkey, sum(loxo_c2)::numeric / sum(loxo_c3) AS avg FROM loxo_g1 GROUP BY loxo_c1 HAVING sum(loxo_c2)::numeric / sum(loxo_c3) > 1000::numeric ORDER BY sum(loxo_c2)::numeric / sum(loxo_c3) DESC, loxo_c1
  loxo_g1 from [0 1 2]
    SELECT orders.o_custkey AS loxo_c1, sum(orders.o_total) AS loxo_c2, count(orders.o_total) AS loxo_c3 FROM public.orders GROUP BY 1

SELECT count(*) AS count FROM public.orders o WHERE (NOT (EXISTS (SELECT FROM public.lineitem WHERE (lineitem.l_orderkey = o.o_orderkey))))
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(*) AS loxo_c1 FROM public.orders o WHERE NOT EXISTS (SELECT FROM public.lineitem WHERE lineitem.l_orderkey = o.o_orderkey)

SELECT customer.c_name FROM public.customer WHERE (customer.c_custkey IN (SELECT orders.o_custkey FROM public.orders GROUP BY orders.o_custkey HAVING (count(*) > 2))) ORDER BY customer.c_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey FROM public.orders
  Gather on 0
    SELECT loxo_c1 AS c_name FROM loxo_g1 ORDER BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT customer.c_name AS loxo_c1 FROM public.customer WHERE customer.c_custkey IN (SELECT orders.o_custkey FROM loxo_x1 orders GROUP BY orders.o_custkey HAVING count(*) > 2)

SELECT orders.o_orderkey, row_number() OVER w AS row_number FROM public.orders WINDOW w AS (PARTITION BY orders.o_custkey ORDER BY orders.o_orderkey) ORDER BY orders.o_orderkey, (row_number() OVER w)
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey, row_number() OVER "w" AS row_number FROM loxo_g1 WINDOW "w" AS (PARTITION BY loxo_c2 ORDER BY loxo_c1) ORDER BY loxo_c1, row_number() OVER "w"
  loxo_g1 from [0 1 2]
    SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2 FROM public.orders

SELECT sum(s.n) AS sum FROM (SELECT count(*) AS n FROM public.lineitem GROUP BY lineitem.l_orderkey) s
----
Gather on 0
  SELECT sum(loxo_c1)::loxo_type_of_1_1 AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT sum(s.n) AS loxo_c1 FROM (SELECT count(*) AS n FROM public.lineitem GROUP BY lineitem.l_orderkey) s

SELECT array_agg(DISTINCT lineitem.l_flag ORDER BY lineitem.l_flag) AS array_agg FROM public.lineitem
----
Gather on 0
  SELECT array_agg(DISTINCT loxo_c1 ORDER BY loxo_c1) AS array_agg FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT lineitem.l_flag AS loxo_c1 FROM public.lineitem

SELECT orders.o_total FROM public.orders WHERE (((orders.o_orderkey = 7) AND (orders.o_custkey = 1)) OR ((orders.o_orderkey = $1) AND (orders.o_custkey = 2)))
----
Scatter to [1 2]
  SELECT orders.o_total FROM public.orders WHERE (((orders.o_orderkey = 7) AND (orders.o_custkey = 1)) OR ((orders.o_orderkey = $1) AND (orders.o_custkey = 2)))

SELECT orders.o_total FROM public.orders WHERE ((orders.o_orderkey = 7) OR (orders.o_custkey = 2))
----
Scatter to [0 1 2]
  SELECT orders.o_total FROM public.orders WHERE ((orders.o_orderkey = 7) OR (orders.o_custkey = 2))

