SELECT * FROM orders ORDER BY o_orderkey
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_custkey, loxo_m.loxo_c3 AS o_date, loxo_m.loxo_c4 AS o_total FROM (SELECT orders.o_orderkey AS loxo_c1, orders.o_custkey AS loxo_c2, orders.o_date AS loxo_c3, orders.o_total AS loxo_c4 FROM orders) loxo_m ORDER BY loxo_m.loxo_c1

SELECT o_custkey AS c FROM orders WHERE o_total > 5 ORDER BY o_total DESC, 1, o_date DESC NULLS LAST LIMIT 10 OFFSET 5
----
Merge from [0 1 2] by numeric desc, integer, integer desc nulls last limit 10 offset 5
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c2), pg_catalog.int8send(loxo_m.loxo_c1), pg_catalog.date_send(loxo_m.loxo_c3), loxo_m.loxo_c1 AS c FROM (SELECT o_custkey AS loxo_c1, o_total AS loxo_c2, o_date AS loxo_c3 FROM orders WHERE o_total > 5) loxo_m ORDER BY loxo_m.loxo_c2 DESC, loxo_m.loxo_c1, loxo_m.loxo_c3 DESC NULLS LAST LIMIT 15

SELECT o_orderkey FROM orders ORDER BY o_orderkey LIMIT $1 OFFSET $2
----
Merge from [0 1 2] by integer limit $1 offset $2
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT o_orderkey AS loxo_c1 FROM orders) loxo_m ORDER BY loxo_m.loxo_c1 LIMIT LEAST($1::bigint::numeric + COALESCE($2::bigint, 0), 9223372036854775807)

SELECT o_orderkey FROM orders ORDER BY o_orderkey LIMIT $1
----
Merge from [0 1 2] by integer limit $1
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT o_orderkey AS loxo_c1 FROM orders) loxo_m ORDER BY loxo_m.loxo_c1 LIMIT $1::bigint

SELECT o_orderkey FROM orders LIMIT 7
----
Merge from [0 1 2] limit 7
  SELECT loxo_m.loxo_c1 AS o_orderkey FROM (SELECT o_orderkey AS loxo_c1 FROM orders) loxo_m LIMIT 7

SELECT o_orderkey FROM orders ORDER BY o_orderkey LIMIT ALL OFFSET 3
----
Merge from [0 1 2] by integer offset 3
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey FROM (SELECT o_orderkey AS loxo_c1 FROM orders) loxo_m ORDER BY loxo_m.loxo_c1

SELECT l_flag, l_tax * 2 AS t FROM lineitem ORDER BY l_flag NULLS FIRST, l_tax
----
Merge from [0 1 2] by bytes nulls first, float
  SELECT pg_catalog.convert_to(loxo_m.loxo_c1::text, pg_catalog.getdatabaseencoding()), pg_catalog.float8send(loxo_m.loxo_c3), loxo_m.loxo_c1 AS l_flag, loxo_m.loxo_c2 AS t FROM (SELECT l_flag AS loxo_c1, l_tax * 2 AS loxo_c2, l_tax AS loxo_c3 FROM lineitem) loxo_m ORDER BY loxo_m.loxo_c1 NULLS FIRST, loxo_m.loxo_c3

SELECT l_orderkey, count(*) AS n FROM lineitem GROUP BY l_orderkey ORDER BY n DESC, l_orderkey LIMIT 3
----
Merge from [0 1 2] by integer desc, integer limit 3
  SELECT pg_catalog.int8send(loxo_m.loxo_c2), pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS l_orderkey, loxo_m.loxo_c2 AS n FROM (SELECT l_orderkey AS loxo_c1, count(*) AS loxo_c2 FROM lineitem GROUP BY l_orderkey) loxo_m ORDER BY loxo_m.loxo_c2 DESC, loxo_m.loxo_c1 LIMIT 3

SELECT DISTINCT o_orderkey, o_total FROM orders ORDER BY o_total
----
Merge from [0 1 2] by numeric
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_total FROM (SELECT DISTINCT o_orderkey AS loxo_c1, o_total AS loxo_c2 FROM orders) loxo_m ORDER BY loxo_m.loxo_c2

SELECT o_orderkey, l_quantity FROM orders JOIN lineitem ON o_orderkey = l_orderkey ORDER BY o_total * l_quantity, o_date::timestamp
----
Merge from [0 1 2] by numeric, integer
  SELECT pg_catalog.numeric_send(loxo_m.loxo_c3), pg_catalog.timestamp_send(loxo_m.loxo_c4), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS l_quantity FROM (SELECT o_orderkey AS loxo_c1, l_quantity AS loxo_c2, o_total * l_quantity AS loxo_c3, o_date::timestamp AS loxo_c4 FROM orders JOIN lineitem ON o_orderkey = l_orderkey) loxo_m ORDER BY loxo_m.loxo_c3, loxo_m.loxo_c4

SELECT random() AS r, o_orderkey FROM orders ORDER BY o_orderkey
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c2), loxo_m.loxo_c1 AS r, loxo_m.loxo_c2 AS o_orderkey FROM (SELECT random() AS loxo_c1, o_orderkey AS loxo_c2 FROM orders) loxo_m ORDER BY loxo_m.loxo_c2

COPY (SELECT o_orderkey, o_date FROM orders ORDER BY o_date DESC, o_orderkey) TO STDOUT
----
CopyTo
  Merge from [0 1 2] by integer desc, integer
    SELECT pg_catalog.date_send(loxo_m.loxo_c2), pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS o_date FROM (SELECT o_orderkey AS loxo_c1, o_date AS loxo_c2 FROM orders) loxo_m ORDER BY loxo_m.loxo_c2 DESC, loxo_m.loxo_c1

-- The order of these is only for a datanode to know, or the rows are not final there.
SELECT e_id FROM events ORDER BY lower(e_text)
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c2
  loxo_g1 from [0 1 2]
    SELECT e_id AS loxo_c1, lower(e_text) AS loxo_c2 FROM events

SELECT e_id FROM events ORDER BY e_text COLLATE "de_DE"
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c2
  loxo_g1 from [0 1 2]
    SELECT e_id AS loxo_c1, e_text COLLATE "de_DE" AS loxo_c2 FROM events

SELECT e_id FROM events ORDER BY e_text COLLATE "C" DESC
----
Merge from [0 1 2] by bytes desc
  SELECT pg_catalog.convert_to(loxo_m.loxo_c2::text, pg_catalog.getdatabaseencoding()), loxo_m.loxo_c1 AS e_id FROM (SELECT e_id AS loxo_c1, e_text COLLATE "C" AS loxo_c2 FROM events) loxo_m ORDER BY loxo_m.loxo_c2 DESC

SELECT e_id FROM events ORDER BY e_id USING >
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c1 USING >
  loxo_g1 from [0 1 2]
    SELECT e_id AS loxo_c1 FROM events

SELECT e_id FROM events ORDER BY e_id FETCH FIRST 3 ROWS WITH TIES
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c1 FETCH FIRST 3 ROWS WITH TIES
  loxo_g1 from [0 1 2]
    SELECT e_id AS loxo_c1 FROM events

SELECT e_id FROM events ORDER BY e_id LIMIT 1 + 1
----
Gather on 0
  SELECT loxo_c1 AS e_id FROM loxo_g1 ORDER BY loxo_c1 LIMIT 1 + 1
  loxo_g1 from [0 1 2]
    SELECT e_id AS loxo_c1 FROM events ORDER BY 1 LIMIT 1 + 1

SELECT DISTINCT e_text FROM events ORDER BY e_text
----
Gather on 0
  SELECT DISTINCT loxo_c1 AS e_text FROM loxo_g1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT DISTINCT e_text AS loxo_c1 FROM events

SELECT x FROM (SELECT o_orderkey AS x FROM orders UNION ALL SELECT l_tax FROM lineitem) q ORDER BY x
----
Gather on 0
  SELECT loxo_c1 AS x FROM loxo_g1 ORDER BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT x AS loxo_c1 FROM (SELECT o_orderkey AS x FROM orders UNION ALL SELECT l_tax FROM lineitem) q

SELECT x FROM (SELECT o_orderkey AS x FROM orders UNION ALL SELECT l_orderkey FROM lineitem) q ORDER BY x
----
Merge from [0 1 2] by integer
  SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS x FROM (SELECT x AS loxo_c1 FROM (SELECT o_orderkey AS x FROM orders UNION ALL SELECT l_orderkey FROM lineitem) q) loxo_m ORDER BY loxo_m.loxo_c1

SELECT o_orderkey, x FROM (SELECT o_orderkey, NULL AS x FROM orders) q ORDER BY x
----
Gather on 0
  SELECT loxo_c1 AS o_orderkey, loxo_c2 AS x FROM loxo_g1 ORDER BY loxo_c2
  loxo_g1 from [0 1 2]
    SELECT o_orderkey AS loxo_c1, x AS loxo_c2 FROM (SELECT o_orderkey, NULL AS x FROM orders) q

SELECT o_orderkey FROM orders ORDER BY o_orderkey FOR UPDATE
----
Locked
  Merge from [0 1 2] by integer
    SELECT pg_catalog.int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS o_orderkey, loxo_m.loxo_c2 AS loxo_place_1 FROM (SELECT o_orderkey AS loxo_c1, pg_catalog.concat_ws(' ', (SELECT node_id::pg_catalog.text FROM loxo.identity), orders.ctid, orders.xmin) AS loxo_c2 FROM orders) loxo_m ORDER BY loxo_m.loxo_c1
  rows of public.orders: SELECT pg_catalog.concat_ws(' ', loxo_l.ctid, loxo_l.xmin) FROM public.orders AS loxo_l WHERE loxo_l.ctid = ANY ('{…}'::pg_catalog.tid[]) FOR UPDATE OF loxo_l

INSERT INTO scratch SELECT o_orderkey FROM orders ORDER BY o_orderkey LIMIT 3
----
Gather (write) on 0
  INSERT INTO scratch SELECT loxo_c1 AS o_orderkey FROM loxo_g1 ORDER BY loxo_c1 LIMIT 3
  loxo_g1 from [0 1 2]
    SELECT o_orderkey AS loxo_c1 FROM orders ORDER BY 1 LIMIT 3

