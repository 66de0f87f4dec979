SELECT orders.o_orderkey, orders.o_custkey, orders.o_date, orders.o_total FROM public.orders ORDER BY orders.o_orderkey
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_custkey, loxo_m.loxo_c3 AS o_date, loxo_m.loxo_c4 AS o_total FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2, orders.o_date AS loxo_c3, orders.o_total AS loxo_c4 FROM public.orders ORDER BY 1) loxo_m

SELECT orders.o_custkey AS c FROM public.orders WHERE (orders.o_total > (5)::numeric) ORDER BY orders.o_total DESC, orders.o_custkey, orders.o_date DESC NULLS LAST OFFSET 5 LIMIT 10
----
Merge from [0 1 2] by numeric desc, integer, integer desc nulls last limit 10 offset 5
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c2), pg_catalog.int8send(loxo_m.loxo_c1), pg_catalog.date_send(loxo_m.loxo_c3), loxo_m.loxo_c1 AS c FROM (SELECT orders.o_custkey AS loxo_c1, orders.o_total AS loxo_c2, orders.o_date AS loxo_c3 FROM public.orders WHERE orders.o_total > 5::numeric ORDER BY 2 DESC, 1, 3 DESC NULLS LAST LIMIT 15) loxo_m

SELECT orders.o_orderkey FROM public.orders ORDER BY orders.o_orderkey OFFSET $2 LIMIT $1
----
Merge from [0 1 2] by integer limit $1 offset $2
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT orders.o_orderkey AS loxo_c1 FROM public.orders ORDER BY 1 LIMIT LEAST($1::bigint::numeric + COALESCE($2::bigint, 0), 9223372036854775807)) loxo_m

SELECT orders.o_orderkey FROM public.orders ORDER BY orders.o_orderkey LIMIT $1
----
Merge from [0 1 2] by integer limit $1
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT orders.o_orderkey AS loxo_c1 FROM public.orders ORDER BY 1 LIMIT $1::bigint) loxo_m

SELECT orders.o_orderkey FROM public.orders LIMIT 7
----
Merge from [0 1 2] limit 7
  SELECT loxo_m.loxo_c1 AS o_orderkey FROM (SELECT orders.o_orderkey AS loxo_c1 FROM public.orders LIMIT 7) loxo_m

SELECT orders.o_orderkey FROM public.orders ORDER BY orders.o_orderkey OFFSET 3 LIMIT ALL
----
Merge from [0 1 2] by integer offset 3
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT orders.o_orderkey AS loxo_c1 FROM public.orders ORDER BY 1) loxo_m

SELECT lineitem.l_flag, (lineitem.l_tax * (2)::double precision) AS t FROM public.lineitem ORDER BY lineitem.l_flag NULLS FIRST, lineitem.l_tax
----
Merge from [0 1 2] by bytes nulls first, float
  SELECT pg_catalog.convert_to(loxo_m.loxo_c1::pg_catalog.text, pg_catalog.getdatabaseencoding()), pg_catalog.float8send(loxo_m.loxo_c3), loxo_m.loxo_c1 AS l_flag, loxo_m.loxo_c2 AS t FROM (SELECT lineitem.l_flag AS loxo_c1, lineitem.l_tax * 2::double precision AS loxo_c2, lineitem.l_tax AS loxo_c3 FROM public.lineitem ORDER BY 1 NULLS FIRST, 3) loxo_m

SELECT lineitem.l_orderkey, count(*) AS n FROM public.lineitem GROUP BY lineitem.l_orderkey ORDER BY (count(*)) DESC, lineitem.l_orderkey LIMIT 3
----
Merge from [0 1 2] by integer desc, integer limit 3
  SELECT pg_catalog.int8send(loxo_m.loxo_c2), pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS l_orderkey, loxo_m.loxo_c2 AS n FROM (SELECT lineitem.l_orderkey AS loxo_c1, count(*) AS loxo_c2 FROM public.lineitem GROUP BY lineitem.l_orderkey ORDER BY 2 DESC, 1 LIMIT 3) loxo_m

SELECT DISTINCT orders.o_orderkey, orders.o_total FROM public.orders ORDER BY orders.o_total
----
Merge from [0 1 2] by numeric
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_total FROM (SELECT DISTINCT orders.o_orderkey AS loxo_c1, orders.o_total AS loxo_c2 FROM public.orders ORDER BY 2) loxo_m

SELECT orders.o_orderkey, lineitem.l_quantity FROM (public.orders JOIN public.lineitem ON ((orders.o_orderkey = lineitem.l_orderkey))) ORDER BY (orders.o_total * lineitem.l_quantity), ((orders.o_date)::timestamp without time zone)
----
Merge from [0 1 2] by numeric, integer
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c3), pg_catalog.timestamp_send(loxo_m.loxo_c4), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS l_quantity FROM (SELECT orders.o_orderkey AS loxo_c1, lineitem.l_quantity AS loxo_c2, orders.o_total * lineitem.l_quantity AS loxo_c3, orders.o_date::timestamp AS loxo_c4 FROM public.orders JOIN public.lineitem ON orders.o_orderkey = lineitem.l_orderkey ORDER BY 3, 4) loxo_m

SELECT random() AS r, orders.o_orderkey FROM public.orders ORDER BY orders.o_orderkey
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS r, loxo_m.loxo_c2 AS o_orderkey FROM (SELECT random() AS loxo_c1, orders.o_orderkey AS loxo_c2 FROM public.orders ORDER BY 2) loxo_m

COPY (SELECT orders.o_orderkey, orders.o_date FROM public.orders ORDER BY orders.o_date DESC, orders.o_orderkey) TO STDOUT
----
CopyTo
  Merge from [0 1 2] by integer desc, integer
    SELECT pg_catalog.date_send(loxo_m.loxo_c2), pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_date FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_date AS loxo_c2 FROM public.orders ORDER BY 2 DESC, 1) loxo_m

-- The order of these is only for a datanode to know, or the rows are not final there.
SELECT events.e_id FROM public.events ORDER BY (lower(events.e_text))
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c2
  loxo_g1 from [0 1 2]
    SELECT events.e_id AS loxo_c1, lower(events.e_text) AS loxo_c2 FROM public.events

SELECT events.e_id FROM public.events ORDER BY (events.e_text COLLATE "de_DE")
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c2
  loxo_g1 from [0 1 2]
    SELECT events.e_id AS loxo_c1, events.e_text COLLATE "de_DE" AS loxo_c2 FROM public.events

SELECT events.e_id FROM public.events ORDER BY (events.e_text COLLATE "C") DESC
----
Merge from [0 1 2] by bytes desc
  SELECT pg_catalog.convert_to(loxo_m.loxo_c2::pg_catalog.text, pg_catalog.getdatabaseencoding()), loxo_m.loxo_c1 AS e_id FROM (SELECT events.e_id AS loxo_c1, events.e_text COLLATE "C" AS loxo_c2 FROM public.events ORDER BY 2 DESC) loxo_m

SELECT events.e_id FROM public.events ORDER BY events.e_id DESC
----
Merge from [0 1 2] by integer desc
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS e_id FROM (SELECT events.e_id AS loxo_c1 FROM public.events ORDER BY 1 DESC) loxo_m

SELECT events.e_id FROM public.events ORDER BY events.e_id FETCH FIRST (3) ROWS WITH TIES
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c1 FETCH FIRST 3 ROWS WITH TIES
  loxo_g1 from [0 1 2]
    SELECT events.e_id AS loxo_c1 FROM public.events

SELECT events.e_id FROM public.events ORDER BY events.e_id LIMIT (1 + 1)
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c1 LIMIT 1 + 1
  loxo_g1 from [0 1 2]
    SELECT events.e_id AS loxo_c1 FROM public.events ORDER BY 1 LIMIT 1 + 1

SELECT DISTINCT events.e_text FROM public.events ORDER BY events.e_text
----
Gather on 0
  SELECT DISTINCT loxo_c1 AS e_text FROM loxo_g1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT DISTINCT events.e_text AS loxo_c1 FROM public.events

SELECT q.x FROM (SELECT orders.o_orderkey AS x FROM public.orders UNION ALL SELECT lineitem.l_tax FROM public.lineitem) q ORDER BY q.x
----
Gather on 0
  SELECT loxo_c1 AS x FROM loxo_g1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT q.x AS loxo_c1 FROM (SELECT orders.o_orderkey AS x FROM public.orders UNION ALL SELECT lineitem.l_tax FROM public.lineitem) q

SELECT q.x FROM (SELECT orders.o_orderkey AS x FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem) q ORDER BY q.x
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS x FROM (SELECT q.x AS loxo_c1 FROM (SELECT orders.o_orderkey AS x FROM public.orders UNION ALL SELECT lineitem.l_orderkey FROM public.lineitem) q ORDER BY 1) loxo_m

SELECT q.o_orderkey, q.x FROM (SELECT orders.o_orderkey, NULL::text AS x FROM public.orders) q ORDER BY q.x
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey, loxo_c2 AS x FROM loxo_g1 ORDER BY loxo_c2
  loxo_g1 from [0 1 2]
    SELECT q.o_orderkey AS loxo_c1, q.x AS loxo_c2 FROM (SELECT orders.o_orderkey, NULL::text AS x FROM public.orders) q

SELECT orders.o_orderkey FROM public.orders ORDER BY orders.o_orderkey FOR UPDATE OF orders
----
Locked
  Merge from [0 1 2] by integer
    SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS loxo_place_1 FROM (SELECT orders.o_orderkey AS loxo_c1, pg_catalog.concat_ws(' ', (SELECT node_id::pg_catalog.text FROM loxo.identity), orders.ctid, orders.xmin) AS loxo_c2 FROM public.orders ORDER BY 1) loxo_m
  rows of public.orders: SELECT pg_catalog.concat_ws(' ', loxo_l.ctid, loxo_l.xmin) FROM public.orders AS loxo_l WHERE loxo_l.ctid = ANY ('{…}'::pg_catalog.tid[]) FOR UPDATE OF loxo_l

INSERT INTO scratch (id) SELECT orders.o_orderkey FROM public.orders ORDER BY orders.o_orderkey LIMIT 3
----
Gather (write) on 0
  INSERT INTO scratch (id) SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY loxo_c1 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT orders.o_orderkey AS loxo_c1 FROM public.orders ORDER BY 1 LIMIT 3

