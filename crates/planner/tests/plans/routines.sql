DO $$ BEGIN UPDATE orders SET o_total = 0; END $$
----
Routine
  this block

DO $$ BEGIN RAISE NOTICE 'nothing to read'; END $$
----
Forward (write) to 0
  DO $$ BEGIN RAISE NOTICE 'nothing to read'; END $$

SELECT public.dynamic() AS dynamic
----
Routine
  dynamic()
  then SELECT $1::bigint AS dynamic

SELECT (public.dynamic() + 1) AS a, 'x'::text
----
Routine
  dynamic()
  then SELECT $1::bigint + 1 AS a, 'x'::text AS "?column?"

SELECT x.d, o.o_total FROM (public.dynamic() x(d) JOIN public.orders o ON ((o.o_orderkey = x.d)))
----
Routine
  dynamic()
  then SELECT x.d AS d, o.o_total AS o_total FROM (SELECT $1::bigint AS int8) x(d) JOIN public.orders o ON o.o_orderkey = x.d

INSERT INTO public.nation (n_key, n_name) VALUES (public.dynamic(), 'x'::text)
----
Routine
  dynamic()
  then INSERT INTO public.nation (n_key, n_name) VALUES ($1::bigint, 'x'::text)

SELECT public.dynamic() AS dynamic FROM public.orders
----
Routine
  SELECT 1 AS c0 FROM public.orders
  for each SELECT public.dynamic() AS c
  then SELECT loxo_r.loxo_c1::loxo_type_of_slot_1_ AS dynamic FROM ROWS FROM (pg_catalog.unnest($2::pg_catalog.text[]) ) loxo_r(loxo_c1)

SELECT CASE WHEN (public.dynamic() > 1) THEN 2 ELSE NULL::integer END AS "case"
----
Routine
  SELECT 1 AS c0
  for each SELECT public.dynamic() AS c
  then SELECT CASE WHEN loxo_r.loxo_c1::loxo_type_of_slot_1_ > 1 THEN 2 ELSE NULL::int END AS "case" FROM ROWS FROM (pg_catalog.unnest($2::pg_catalog.text[]) ) loxo_r(loxo_c1)

SELECT (SELECT public.dynamic() AS dynamic) AS dynamic
----
Routine
  SELECT public.dynamic() AS dynamic
  then SELECT (SELECT * FROM loxo_locked_1) AS dynamic

SELECT public.dynamic() AS dynamic LIMIT 0
----
Routine
  SELECT 1 AS c0 LIMIT 0
  for each SELECT public.dynamic() AS c
  then SELECT loxo_r.loxo_c1::loxo_type_of_slot_1_ AS dynamic FROM ROWS FROM (pg_catalog.unnest($2::pg_catalog.text[]) ) loxo_r(loxo_c1)

SELECT EXISTS (SELECT public.dynamic() AS dynamic FROM public.orders) AS "exists"
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT DISTINCT 0 AS loxo_none FROM public.orders
  Forward to 0
    SELECT EXISTS (SELECT FROM loxo_x1 orders) AS "exists"

WITH c AS (SELECT public.dynamic() AS d) SELECT 1 AS "?column?"
----
Forward to 0
  SELECT 1 AS "?column?"

