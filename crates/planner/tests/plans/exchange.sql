SELECT customer.c_name, orders.o_total FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT customer.c_name, orders.o_total FROM public.customer JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey

SELECT customer.c_name, count(*) AS count, sum(orders.o_total) AS sum FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey))) WHERE ((customer.c_nation = 3) AND (orders.o_date < '1995-01-01'::date)) GROUP BY customer.c_name ORDER BY (count(*)) DESC LIMIT 5
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders WHERE orders.o_date < '1995-01-01'::date
  Gather on 0
    SELECT loxo_c1 AS c_name, COALESCE(sum(loxo_c2), 0)::bigint AS count, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY loxo_c1 ORDER BY COALESCE(sum(loxo_c2), 0)::bigint DESC LIMIT 5
    loxo_g1 from [0 1 2]
      SELECT customer.c_name AS loxo_c1, count(*) AS loxo_c2, sum(orders.o_total) AS loxo_c3 FROM public.customer JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey WHERE customer.c_nation = 3 GROUP BY 1

SELECT l.l_flag, c.c_name FROM public.lineitem l, public.orders o, public.customer c WHERE ((l.l_orderkey = o.o_orderkey) AND (o.o_custkey = c.c_custkey) AND (c.c_name = 'x'::text))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT c_custkey, c_name FROM public.customer c WHERE c.c_name = 'x'::text
  Scatter to [0 1 2]
    SELECT l.l_flag, c.c_name FROM public.lineitem l, public.orders o, loxo_x1 c WHERE l.l_orderkey = o.o_orderkey AND o.o_custkey = c.c_custkey

SELECT nation.n_name, count(customer.c_custkey) AS count FROM (public.nation LEFT JOIN public.customer ON (((nation.n_key = customer.c_nation) AND (customer.c_name ~~ 'a%'::text)))) GROUP BY nation.n_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT c_custkey, c_nation FROM public.customer WHERE customer.c_name ~~ 'a%'::text
  Forward to 0
    SELECT nation.n_name, count(customer.c_custkey) AS count FROM public.nation LEFT JOIN loxo_x1 customer ON nation.n_key = customer.c_nation GROUP BY nation.n_name

SELECT customer.c_name, orders.o_total FROM (public.customer LEFT JOIN public.orders ON ((customer.c_custkey = orders.o_custkey))) WHERE (customer.c_nation = 1)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT customer.c_name, orders.o_total FROM public.customer LEFT JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey WHERE customer.c_nation = 1

SELECT customer.c_name, orders.o_total FROM (public.customer FULL JOIN public.orders ON ((customer.c_custkey = orders.o_custkey)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT customer.c_name, orders.o_total FROM public.customer FULL JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey

SELECT customer.c_name FROM public.customer WHERE (EXISTS (SELECT 1 FROM public.orders WHERE ((orders.o_custkey = customer.c_custkey) AND (orders.o_total > (10)::numeric))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT DISTINCT o_custkey FROM public.orders WHERE orders.o_total > 10::numeric
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE EXISTS (SELECT 1 AS "?column?" FROM loxo_x1 orders WHERE orders.o_custkey = customer.c_custkey)

SELECT customer.c_name FROM public.customer WHERE (NOT (EXISTS (SELECT 1 FROM public.orders WHERE (orders.o_custkey = customer.c_custkey))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT DISTINCT o_custkey FROM public.orders
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE NOT EXISTS (SELECT 1 AS "?column?" FROM loxo_x1 orders WHERE orders.o_custkey = customer.c_custkey)

SELECT customer.c_name FROM public.customer WHERE (customer.c_custkey IN (SELECT orders.o_custkey FROM public.orders WHERE (orders.o_date > '2000-01-01'::date)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT orders.o_custkey FROM public.orders WHERE orders.o_date > '2000-01-01'::date
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE customer.c_custkey IN (SELECT loxo_c1 AS o_custkey FROM loxo_x1)

SELECT customer.c_name FROM public.customer WHERE (NOT (customer.c_custkey IN (SELECT orders.o_custkey FROM public.orders)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT orders.o_custkey FROM public.orders
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE NOT customer.c_custkey IN (SELECT loxo_c1 AS o_custkey FROM loxo_x1)

SELECT sum(lineitem.l_price) AS sum FROM public.lineitem, public.customer WHERE ((customer.c_custkey = lineitem.l_partkey) AND (customer.c_name = 'x'::text) AND (lineitem.l_quantity < (SELECT (0.2 * avg(lineitem_1.l_quantity)) FROM public.lineitem lineitem_1 WHERE (lineitem_1.l_partkey = customer.c_custkey))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_quantity, l_price FROM public.lineitem
  loxo_x2 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_quantity FROM public.lineitem lineitem_1
    then CREATE INDEX ON loxo_x2 (l_partkey)
  Gather on 0
    SELECT sum(loxo_c1)::loxo_type_of_1_1 AS sum FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT sum(lineitem.l_price) AS loxo_c1 FROM loxo_x1 lineitem, public.customer WHERE customer.c_custkey = lineitem.l_partkey AND customer.c_name = 'x'::text AND lineitem.l_quantity < (SELECT 0.2 * avg(lineitem_1.l_quantity) AS "?column?" FROM loxo_x2 lineitem_1 WHERE lineitem_1.l_partkey = customer.c_custkey)

SELECT orders.o_custkey, sum(orders.o_total) AS sum FROM public.orders GROUP BY orders.o_custkey HAVING (sum(orders.o_total) > (SELECT (sum(orders_1.o_total) * 0.1) FROM public.orders orders_1))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT sum(orders_1.o_total) AS loxo_c1 FROM public.orders orders_1
  loxo_x2 from [0] to all of [0 1 2]
    SELECT sum(loxo_c1)::loxo_type_of_1_1 * 0.1 AS "?column?" FROM loxo_x1
  loxo_x3 from [0 1 2] to node 0
    SELECT o_custkey, o_total FROM public.orders
  Forward to 0
    SELECT orders.o_custkey, sum(orders.o_total) AS sum FROM loxo_x3 orders GROUP BY orders.o_custkey HAVING sum(orders.o_total) > (SELECT loxo_c1 AS "?column?" FROM loxo_x2)

WITH totals(key, total) AS (SELECT orders.o_custkey, sum(orders.o_total) AS sum FROM public.orders GROUP BY orders.o_custkey) SELECT customer.c_name, totals.total FROM public.customer, totals WHERE ((customer.c_custkey = totals.key) AND (totals.total = (SELECT max(totals_1.total) AS max FROM totals totals_1)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT orders.o_custkey AS loxo_c1, sum(orders.o_total) AS loxo_c2 FROM public.orders GROUP BY 1
  loxo_x2 from [0] to all of [0 1 2]
    SELECT loxo_c1 AS o_custkey, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_x1 GROUP BY loxo_c1
  Scatter to [0 1 2]
    WITH totals(key, total) AS (SELECT loxo_c1 AS o_custkey, loxo_c2 AS sum FROM loxo_x2) SELECT customer.c_name, totals.total FROM public.customer, totals WHERE customer.c_custkey = totals.key AND totals.total = (SELECT max(totals_1.total) AS max FROM totals totals_1)

SELECT sum(lineitem.l_price) AS sum FROM public.lineitem, public.customer WHERE (((customer.c_custkey = lineitem.l_partkey) AND (customer.c_name = 'a'::text) AND (lineitem.l_quantity < (5)::numeric)) OR ((customer.c_custkey = lineitem.l_partkey) AND (customer.c_name = 'b'::text) AND (lineitem.l_quantity < (7)::numeric)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_quantity, l_price FROM public.lineitem WHERE lineitem.l_quantity < 5::numeric OR lineitem.l_quantity < 7::numeric
  Gather on 0
    SELECT sum(loxo_c1)::loxo_type_of_1_1 AS sum FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT sum(lineitem.l_price) AS loxo_c1 FROM loxo_x1 lineitem, public.customer WHERE (customer.c_custkey = lineitem.l_partkey AND customer.c_name = 'a'::text AND lineitem.l_quantity < 5::numeric) OR (customer.c_custkey = lineitem.l_partkey AND customer.c_name = 'b'::text AND lineitem.l_quantity < 7::numeric)

SELECT events.e_text, customer.c_name FROM public.events, public.customer WHERE (events.e_id = customer.c_custkey)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT e_id, e_text FROM public.events
  Scatter to [0 1 2]
    SELECT events.e_text, customer.c_name FROM loxo_x1 events, public.customer WHERE events.e_id = customer.c_custkey

SELECT modded.m_text, customer.c_name FROM (public.modded JOIN public.customer ON ((modded.m_id = customer.c_nation)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int4 over [0 1 2]
    SELECT m_id, m_text FROM public.modded
  loxo_x2 from [0 1 2] to hash of column 1 Int4 over [0 1 2]
    SELECT c_name, c_nation FROM public.customer
  Scatter to [0 1 2]
    SELECT modded.m_text, customer.c_name FROM loxo_x1 modded JOIN loxo_x2 customer ON modded.m_id = customer.c_nation

SELECT a.o_orderkey, b.o_orderkey FROM (public.orders a JOIN public.orders b ON (((a.o_custkey = b.o_custkey) AND (a.o_date < b.o_date))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date FROM public.orders a
  loxo_x2 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date FROM public.orders b
  Scatter to [0 1 2]
    SELECT a.o_orderkey, b.o_orderkey FROM loxo_x1 a JOIN loxo_x2 b ON a.o_custkey = b.o_custkey AND a.o_date < b.o_date

SELECT n.nation, sum(n.amount) AS sum FROM (SELECT nation.n_name AS nation, (lineitem.l_price - orders.o_total) AS amount FROM public.lineitem, public.orders, public.nation WHERE ((lineitem.l_partkey = orders.o_custkey) AND (nation.n_key = orders.o_custkey))) n GROUP BY n.nation
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_price FROM public.lineitem
  loxo_x2 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Gather on 0
    SELECT loxo_c1 AS nation, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT n.nation AS loxo_c1, sum(n.amount) AS loxo_c2 FROM (SELECT nation.n_name AS nation, lineitem.l_price - orders.o_total AS amount FROM loxo_x1 lineitem, loxo_x2 orders, public.nation WHERE lineitem.l_partkey = orders.o_custkey AND nation.n_key = orders.o_custkey) n GROUP BY 1

SELECT customer.c_custkey, x.n FROM public.customer, LATERAL (SELECT count(*) AS n FROM public.orders WHERE (orders.o_custkey = customer.c_custkey)) x
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey FROM public.orders
    then CREATE INDEX ON loxo_x1 (o_custkey)
  Scatter to [0 1 2]
    SELECT customer.c_custkey, x.n FROM public.customer, LATERAL (SELECT count(*) AS n FROM loxo_x1 orders WHERE orders.o_custkey = customer.c_custkey) x

SELECT count(*) AS count FROM public.lineitem WHERE (lineitem.l_partkey IN (SELECT orders.o_custkey FROM public.orders ORDER BY orders.o_total LIMIT 10))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT orders.o_custkey AS loxo_c1, orders.o_total AS loxo_c2 FROM public.orders ORDER BY 2 LIMIT 10
  loxo_x2 from [0] to all of [0 1 2]
    SELECT loxo_c1 AS o_custkey FROM loxo_x1 ORDER BY loxo_c2 LIMIT 10
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM public.lineitem WHERE lineitem.l_partkey IN (SELECT loxo_c1 AS o_custkey FROM loxo_x2)

SELECT o.o_custkey FROM public.orders o, public.customer WHERE (customer.c_custkey = o.o_custkey)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey FROM public.orders o
  Scatter to [0 1 2]
    SELECT o.o_custkey FROM loxo_x1 o, public.customer WHERE customer.c_custkey = o.o_custkey

SELECT customer.c_name FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey))) WHERE ((orders.o_total)::double precision > random())
----
Gather on 0
  SELECT customer.c_name FROM loxo_g1 customer JOIN loxo_g2 orders ON customer.c_custkey = orders.o_custkey WHERE orders.o_total::double precision > random()
  loxo_g1 from [0 1 2]
    SELECT c_custkey, c_name FROM public.customer
  loxo_g2 from [0 1 2]
    SELECT o_custkey, o_total FROM public.orders

-- changed: customer
SELECT customer.c_name, orders.o_total FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey))) WHERE (customer.c_nation = 3)
----
ExchangePlan over [0 1 2]
  loxo_s1 beside [0 1 2]
    SELECT c_custkey, c_name, c_nation FROM public.customer WHERE customer.c_nation = 3
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT customer.c_name, orders.o_total FROM loxo_s1 customer JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey WHERE customer.c_nation = 3

-- changed: orders
SELECT customer.c_name, orders.o_total FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey)))
----
ExchangePlan over [0 1 2]
  loxo_s1 beside [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM loxo_s1 orders
  Scatter to [0 1 2]
    SELECT customer.c_name, orders.o_total FROM public.customer JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey

-- changed: customer!
SELECT customer.c_name, orders.o_total FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey)))
----
Gather on 0
  SELECT customer.c_name, orders.o_total FROM loxo_g1 customer JOIN loxo_g2 orders ON customer.c_custkey = orders.o_custkey
  loxo_g1 from [0 1 2]
    SELECT c_custkey, c_name FROM public.customer
  loxo_g2 from [0 1 2]
    SELECT o_custkey, o_total FROM public.orders

-- describe: c_custkey 20, o_total 1700
INSERT INTO public.orders (o_orderkey, o_total) SELECT customer.c_custkey, orders_1.o_total FROM (public.customer JOIN public.orders orders_1 ON ((customer.c_custkey = orders_1.o_custkey)))
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey, o_total) SELECT * FROM loxo_g1
  loxo_g1 from
    ExchangePlan over [0 1 2]
      loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
        SELECT o_custkey, o_total FROM public.orders orders_1
      Scatter to [0 1 2]
        SELECT customer.c_custkey, orders_1.o_total FROM public.customer JOIN loxo_x1 orders_1 ON customer.c_custkey = orders_1.o_custkey
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]
  or straight: COPY public.orders (o_orderkey, o_total) FROM STDIN (FORMAT binary)

COPY (SELECT customer.c_name, orders.o_total FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey)))) TO STDOUT
----
CopyTo
  ExchangePlan over [0 1 2]
    loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
      SELECT o_custkey, o_total FROM public.orders
    Scatter to [0 1 2]
      SELECT customer.c_name, orders.o_total FROM public.customer JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey

SELECT nation.n_name FROM public.nation WHERE (NOT (EXISTS (SELECT 1 FROM public.customer WHERE (customer.c_nation = nation.n_key))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT nation.n_key AS loxo_c1, nation.n_name AS loxo_c2 FROM public.nation WHERE NOT EXISTS (SELECT 1 AS "?column?" FROM public.customer WHERE customer.c_nation = nation.n_key)
  Forward to 0
    SELECT nation.n_name FROM (SELECT loxo_c1 AS n_key, loxo_c2 AS n_name FROM loxo_x1 GROUP BY loxo_c1, loxo_c2 HAVING pg_catalog.count(*) >= 3) nation

SELECT nation.n_key FROM public.nation WHERE ((NOT (nation.n_key IN (SELECT customer.c_nation FROM public.customer))) AND (nation.n_name ~~ 'A%'::text))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT customer.c_nation FROM public.customer
  Forward to 0
    SELECT nation.n_key FROM public.nation WHERE NOT nation.n_key IN (SELECT loxo_c1 AS c_nation FROM loxo_x1) AND nation.n_name ~~ 'A%'::text

SELECT count(*) AS count FROM public.nation n WHERE ((n.n_key > ANY (SELECT customer.c_nation FROM public.customer)) AND (n.n_name < (SELECT max(m.n_name) AS max FROM public.nation m)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT customer.c_nation FROM public.customer
  Forward to 0
    SELECT count(*) AS count FROM public.nation n WHERE n.n_key > ANY (SELECT loxo_c1 AS c_nation FROM loxo_x1) AND n.n_name < (SELECT max(m.n_name) AS max FROM public.nation m)

SELECT nation.n_key FROM public.nation WHERE ((nation.n_name > (SELECT m.n_name FROM public.nation m LIMIT 1)) AND (EXISTS (SELECT 1 FROM public.customer WHERE (customer.c_nation = nation.n_key))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT DISTINCT c_nation FROM public.customer
  Forward to 0
    SELECT nation.n_key FROM public.nation WHERE nation.n_name > (SELECT m.n_name FROM public.nation m LIMIT 1) AND EXISTS (SELECT 1 AS "?column?" FROM loxo_x1 customer WHERE customer.c_nation = nation.n_key)

SELECT pairs.p_c, (SELECT count(*) AS count FROM public.nation WHERE ((nation.n_key = pairs.p_c) AND (NOT (EXISTS (SELECT 1 FROM public.customer WHERE ((customer.c_nation = nation.n_key) AND (customer.c_custkey = pairs.p_a))))))) AS count FROM public.pairs
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT p_a, p_c FROM public.pairs
  Scatter to [0 1 2]
    SELECT pairs.p_c, (SELECT count(*) AS count FROM public.nation WHERE nation.n_key = pairs.p_c AND NOT EXISTS (SELECT 1 AS "?column?" FROM public.customer WHERE customer.c_nation = nation.n_key AND customer.c_custkey = pairs.p_a)) AS count FROM loxo_x1 pairs

SELECT count(*) AS count FROM public.customer, public.orders WHERE ((customer.c_custkey = orders.o_custkey) AND (SUBSTRING(customer.c_name FROM 1 FOR 2) = 'ab'::text) AND (EXTRACT(year FROM orders.o_date) = (1995)::numeric) AND (orders.o_total > (SELECT avg(orders_1.o_total) AS avg FROM public.orders orders_1)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT sum(orders_1.o_total) AS loxo_c1, count(orders_1.o_total) AS loxo_c2 FROM public.orders orders_1
  loxo_x2 from [0] to all of [0 1 2]
    SELECT sum(loxo_c1)::numeric / sum(loxo_c2) AS avg FROM loxo_x1
  loxo_x3 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey FROM public.orders WHERE extract ('year' FROM orders.o_date) = 1995::numeric AND orders.o_total > (SELECT loxo_c1 AS avg FROM loxo_x2)
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM public.customer, loxo_x3 orders WHERE customer.c_custkey = orders.o_custkey AND SUBSTRING(customer.c_name FROM 1 FOR 2) = 'ab'::text

SELECT clicks.k_user, clicks.k_page, count(*) AS count, sum(clicks.k_paid) AS sum FROM public.clicks GROUP BY clicks.k_user, clicks.k_page HAVING (count(*) > 1) ORDER BY (sum(clicks.k_paid)) DESC LIMIT 10
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8, column 1 Text over [0 1 2]
    SELECT clicks.k_user AS loxo_c1, clicks.k_page AS loxo_c2, count(*) AS loxo_c3, sum(clicks.k_paid) AS loxo_c4 FROM public.clicks GROUP BY 1, 2
  Gather on 0
    SELECT loxo_c1 AS k_user, loxo_c2 AS k_page, loxo_c3 AS count, loxo_c4 AS sum FROM loxo_g1 ORDER BY loxo_c4 DESC LIMIT 10
    loxo_g1 from [0 1 2]
      SELECT loxo_c1 AS loxo_c1, loxo_c2 AS loxo_c2, COALESCE(sum(loxo_c3), 0)::bigint AS loxo_c3, sum(loxo_c4)::loxo_type_of_1_4 AS loxo_c4 FROM loxo_x1 GROUP BY loxo_c1, loxo_c2 HAVING COALESCE(sum(loxo_c3), 0)::bigint > 1 ORDER BY 4 DESC LIMIT 10

SELECT clicks.k_page, count(DISTINCT clicks.k_user) AS count FROM public.clicks WHERE (clicks.k_paid > (0)::numeric) GROUP BY clicks.k_page
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Text over [0 1 2]
    SELECT clicks.k_page AS loxo_c1, clicks.k_user AS loxo_c2 FROM public.clicks WHERE clicks.k_paid > 0::numeric
  Scatter to [0 1 2]
    SELECT loxo_c1 AS k_page, count(DISTINCT loxo_c2) AS count FROM loxo_x1 GROUP BY loxo_c1

SELECT DISTINCT clicks.k_page, clicks.k_user FROM public.clicks
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Text, column 1 Int8 over [0 1 2]
    SELECT DISTINCT clicks.k_page AS loxo_c1, clicks.k_user AS loxo_c2 FROM public.clicks
  Scatter to [0 1 2]
    SELECT DISTINCT loxo_c1 AS k_page, loxo_c2 AS k_user FROM loxo_x1

SELECT clicks.k_user, clicks.k_id, rank() OVER (PARTITION BY clicks.k_user ORDER BY clicks.k_paid) AS rank, sum(clicks.k_paid) OVER (PARTITION BY clicks.k_page, clicks.k_user) AS sum FROM public.clicks ORDER BY clicks.k_user LIMIT 3
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT clicks.k_user AS loxo_c1, clicks.k_id AS loxo_c2, clicks.k_paid AS loxo_c3, clicks.k_page AS loxo_c4 FROM public.clicks
  Gather on 0
    SELECT loxo_c1 AS k_user, loxo_c2 AS k_id, loxo_c3 AS rank, loxo_c4 AS sum FROM loxo_g1 ORDER BY loxo_c1 LIMIT 3
    loxo_g1 from [0 1 2]
      SELECT loxo_c1 AS loxo_c1, loxo_c2 AS loxo_c2, rank() OVER (PARTITION BY loxo_c1 ORDER BY loxo_c3) AS loxo_c3, sum(loxo_c3) OVER (PARTITION BY loxo_c4, loxo_c1) AS loxo_c4 FROM loxo_x1 ORDER BY 1 LIMIT 3

SELECT clicks.k_user, rank() OVER (PARTITION BY clicks.k_user ORDER BY clicks.k_paid) AS rank, sum(clicks.k_paid) OVER (PARTITION BY clicks.k_page) AS sum FROM public.clicks
----
Gather on 0
  SELECT loxo_c1 AS k_user, rank() OVER (PARTITION BY loxo_c1 ORDER BY loxo_c2) AS rank, sum(loxo_c2) OVER (PARTITION BY loxo_c3) AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT clicks.k_user AS loxo_c1, clicks.k_paid AS loxo_c2, clicks.k_page AS loxo_c3 FROM public.clicks

SELECT clicks.k_paid, count(*) AS count FROM public.clicks GROUP BY clicks.k_paid
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Numeric over [0 1 2]
    SELECT clicks.k_paid AS loxo_c1, count(*) AS loxo_c2 FROM public.clicks GROUP BY 1
  Scatter to [0 1 2]
    SELECT loxo_c1 AS k_paid, COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_x1 GROUP BY loxo_c1

SELECT (clicks.k_user + 1), count(*) AS count FROM public.clicks GROUP BY (clicks.k_user + 1)
----
Gather on 0
  SELECT loxo_c1 AS "?column?", COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT clicks.k_user + 1 AS loxo_c1, count(*) AS loxo_c2 FROM public.clicks GROUP BY 1

SELECT count(DISTINCT clicks.k_id) AS count, sum(DISTINCT clicks.k_id) AS sum FROM public.clicks
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(DISTINCT clicks.k_id) AS loxo_c1, sum(DISTINCT clicks.k_id) AS loxo_c2 FROM public.clicks

SELECT customer.c_name, x.n FROM public.customer, (SELECT clicks.k_user, sum(clicks.k_paid) AS n FROM public.clicks GROUP BY clicks.k_user ORDER BY (sum(clicks.k_paid)) DESC LIMIT 10) x WHERE (customer.c_custkey = x.k_user)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT clicks.k_user AS loxo_c1, sum(clicks.k_paid) AS loxo_c2 FROM public.clicks GROUP BY 1
  loxo_x2 from [0 1 2] to node 0
    SELECT loxo_c1 AS loxo_c1, sum(loxo_c2)::loxo_type_of_1_2 AS loxo_c2 FROM loxo_x1 GROUP BY loxo_c1 ORDER BY 2 DESC LIMIT 10
  loxo_x3 from [0] to all of [0 1 2]
    SELECT loxo_c1 AS k_user, loxo_c2 AS n FROM loxo_x2 ORDER BY loxo_c2 DESC LIMIT 10
  Scatter to [0 1 2]
    SELECT customer.c_name, x.n FROM public.customer, (SELECT loxo_c1 AS k_user, loxo_c2 AS n FROM loxo_x3) x WHERE customer.c_custkey = x.k_user

SELECT customer.c_name FROM public.customer WHERE (customer.c_nation IN (SELECT nation.n_key FROM public.nation LIMIT 3))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT nation.n_key FROM public.nation LIMIT 3
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE customer.c_nation IN (SELECT loxo_c1 AS n_key FROM loxo_x1)

SELECT customer.c_name, a.names FROM public.customer, (SELECT string_agg(nation.n_name, ','::text) AS names FROM public.nation) a
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT string_agg(nation.n_name, ','::text) AS names FROM public.nation
  Scatter to [0 1 2]
    SELECT customer.c_name, a.names FROM public.customer, (SELECT loxo_c1 AS names FROM loxo_x1) a

WITH few AS (SELECT nation.n_key, row_number() OVER () AS place FROM public.nation) SELECT count(*) AS count FROM (public.customer JOIN few ON ((few.n_key = customer.c_nation))) WHERE (few.place < 4)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT nation.n_key, row_number() OVER () AS place FROM public.nation
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      WITH few AS (SELECT loxo_c1 AS n_key, loxo_c2 AS place FROM loxo_x1) SELECT count(*) AS loxo_c1 FROM public.customer JOIN few ON few.n_key = customer.c_nation WHERE few.place < 4

SELECT customer.c_name, (SELECT nation.n_name FROM public.nation WHERE (nation.n_key >= customer.c_nation) ORDER BY nation.n_key LIMIT 1) AS n_name FROM public.customer
----
Scatter to [0 1 2]
  SELECT customer.c_name, (SELECT nation.n_name FROM public.nation WHERE (nation.n_key >= customer.c_nation) ORDER BY nation.n_key LIMIT 1) AS n_name FROM public.customer

SELECT nation.n_name FROM public.nation WHERE (nation.n_key IN (SELECT nation_1.n_key FROM public.nation nation_1 LIMIT 3))
----
Forward to 0
  SELECT nation.n_name FROM public.nation WHERE (nation.n_key IN (SELECT nation_1.n_key FROM public.nation nation_1 LIMIT 3))

SELECT customer.c_name FROM public.customer WHERE (customer.c_nation IN (SELECT nation.n_key FROM public.nation UNION SELECT 7 LIMIT 3))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT nation.n_key FROM public.nation UNION SELECT 7 AS "?column?" LIMIT 3
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE customer.c_nation IN (SELECT loxo_c1 AS n_key FROM loxo_x1)

SELECT people.x_age, count(*) AS count FROM public.people WHERE ((people.x_name ~~ 'a%'::text) AND (people.x_age > 40) AND ((people.x_age)::numeric < (SELECT avg(people_1.x_age) AS avg FROM public.people people_1)) AND (NOT (EXISTS (SELECT clicks.k_id, clicks.k_user, clicks.k_page, clicks.k_paid FROM public.clicks WHERE (clicks.k_user = people.x_key))))) GROUP BY people.x_age
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT avg(people_1.x_age) AS avg FROM public.people people_1
  loxo_x2 from [0] to all of [0 1 2]
    SELECT people.x_key AS loxo_c1, people.x_name AS loxo_c2, people.x_age AS loxo_c3 FROM public.people WHERE people.x_name ~~ 'a%'::text AND people.x_age > 40 AND people.x_age::numeric < (SELECT loxo_c1 AS avg FROM loxo_x1)
  loxo_x3 from [0 1 2] to node 0
    SELECT people.x_key AS loxo_c1, people.x_name AS loxo_c2, people.x_age AS loxo_c3 FROM (SELECT loxo_c1 AS x_key, loxo_c2 AS x_name, loxo_c3 AS x_age FROM loxo_x2) people WHERE NOT EXISTS (SELECT clicks.k_id, clicks.k_user, clicks.k_page, clicks.k_paid FROM public.clicks WHERE clicks.k_user = people.x_key)
  Forward to 0
    SELECT people.x_age, count(*) AS count FROM (SELECT loxo_c1 AS x_key, loxo_c2 AS x_name, loxo_c3 AS x_age FROM loxo_x3 GROUP BY loxo_c1, loxo_c2, loxo_c3 HAVING pg_catalog.count(*) >= 3) people GROUP BY people.x_age

SELECT people.x_age, count(*) AS count FROM public.people WHERE ((people.x_name ~~ 'a%'::text) AND (NOT (EXISTS (SELECT clicks.k_id, clicks.k_user, clicks.k_page, clicks.k_paid FROM public.clicks WHERE (clicks.k_user = people.x_key))))) GROUP BY people.x_age
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT people.x_key AS loxo_c1, people.x_name AS loxo_c2, people.x_age AS loxo_c3 FROM public.people WHERE people.x_name ~~ 'a%'::text AND NOT EXISTS (SELECT clicks.k_id, clicks.k_user, clicks.k_page, clicks.k_paid FROM public.clicks WHERE clicks.k_user = people.x_key)
  Forward to 0
    SELECT people.x_age, count(*) AS count FROM (SELECT loxo_c1 AS x_key, loxo_c2 AS x_name, loxo_c3 AS x_age FROM loxo_x1 GROUP BY loxo_c1, loxo_c2, loxo_c3 HAVING pg_catalog.count(*) >= 3) people GROUP BY people.x_age

-- estimated 5000: SELECT k_user FROM clicks WHERE k_paid > 5
-- estimated 60: SELECT DISTINCT k_user FROM clicks WHERE k_paid > 5
SELECT customer.c_name FROM public.customer WHERE (NOT (customer.c_custkey IN (SELECT clicks.k_user FROM public.clicks WHERE (clicks.k_paid > (5)::numeric))))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT clicks.k_user FROM public.clicks WHERE clicks.k_paid > 5::numeric
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE NOT customer.c_custkey IN (SELECT loxo_c1 AS k_user FROM loxo_x1)

-- estimated 5000: SELECT k_user FROM clicks WHERE k_paid > 5
-- estimated 60: SELECT DISTINCT k_user FROM clicks WHERE k_paid > 5
SELECT customer.c_name FROM public.customer WHERE ((customer.c_custkey > ANY (SELECT clicks.k_user FROM public.clicks WHERE (clicks.k_paid > (5)::numeric))) AND (customer.c_nation < (SELECT count(*) AS count FROM (SELECT clicks.k_user FROM public.clicks WHERE (clicks.k_paid > (5)::numeric)) x)))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT count(*) AS loxo_c1 FROM (SELECT clicks.k_user FROM public.clicks WHERE clicks.k_paid > 5::numeric) x
  loxo_x2 from [0] to all of [0 1 2]
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_x1
  loxo_x3 from [0 1 2] to all of [0 1 2]
    SELECT clicks.k_user FROM public.clicks WHERE clicks.k_paid > 5::numeric
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE customer.c_custkey > ANY (SELECT loxo_c1 AS k_user FROM loxo_x3) AND customer.c_nation < (SELECT loxo_c1 AS count FROM loxo_x2)

SELECT customer.c_name FROM public.customer WHERE ((customer.c_custkey)::double precision > (SELECT avg(people.x_weight) AS avg FROM public.people))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT avg(people.x_weight) AS avg FROM public.people
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE customer.c_custkey::double precision > (SELECT loxo_c1 AS avg FROM loxo_x1)

SELECT customer.c_name FROM public.customer WHERE (customer.c_custkey > (SELECT sum(p.age) AS sum FROM (SELECT (people.x_age * 2) AS age FROM public.people) p))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT sum(p.age) AS sum FROM (SELECT people.x_age * 2 AS age FROM public.people) p
  Scatter to [0 1 2]
    SELECT customer.c_name FROM public.customer WHERE customer.c_custkey > (SELECT loxo_c1 AS sum FROM loxo_x1)

SELECT avg(round((customer.c_nation)::double precision)) AS avg, sum(trunc(lineitem.l_price)) AS sum, avg(EXTRACT(year FROM lineitem.l_shipdate)) AS avg FROM public.customer, public.lineitem WHERE (customer.c_custkey = lineitem.l_orderkey)
----
Gather on 0
  SELECT avg(round(loxo_c1::double precision)) AS avg, sum(trunc(loxo_c2)) AS sum, avg(extract ('year' FROM loxo_c3)) AS avg FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT customer.c_nation AS loxo_c1, lineitem.l_price AS loxo_c2, lineitem.l_shipdate AS loxo_c3 FROM public.customer, public.lineitem WHERE customer.c_custkey = lineitem.l_orderkey

-- estimated 9000: SELECT orders.o_custkey FROM public.orders
-- estimated 900: SELECT DISTINCT orders.o_custkey FROM public.orders
SELECT c.n, count(*) AS count FROM (SELECT customer.c_custkey, count(orders.o_orderkey) AS n FROM (public.customer LEFT JOIN public.orders ON ((customer.c_custkey = orders.o_custkey))) GROUP BY customer.c_custkey) c GROUP BY c.n
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT orders.o_custkey, count(orders.o_orderkey) AS loxo_p1 FROM public.orders GROUP BY orders.o_custkey
  Gather on 0
    SELECT loxo_c1 AS n, COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT c.n AS loxo_c1, count(*) AS loxo_c2 FROM (SELECT customer.c_custkey AS c_custkey, COALESCE(sum(orders.loxo_p1), 0)::bigint AS n FROM public.customer LEFT JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey GROUP BY customer.c_custkey) c GROUP BY 1

-- estimated 90000: SELECT c_custkey, c_name, c_nation FROM public.customer c
-- estimated 9000: SELECT k.k_user FROM public.clicks k WHERE k.k_page = 'a'::text
-- estimated 90: SELECT DISTINCT k.k_user FROM public.clicks k WHERE k.k_page = 'a'::text
SELECT c.c_name, sum(k.k_paid) AS sum, avg((k.k_paid * (2)::numeric)) AS mean, count(*) AS count, count(DISTINCT c.c_nation) AS count, max(k.k_page) AS max FROM (public.clicks k JOIN public.customer c ON ((k.k_user = c.c_custkey))) WHERE (k.k_page = 'a'::text) GROUP BY c.c_name HAVING (min(k.k_page) > 'b'::text) ORDER BY (count(*)), (sum(k.k_paid)) DESC
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT k.k_user, sum(k.k_paid) AS loxo_p1, sum(k.k_paid * 2::numeric) AS loxo_p2, count(k.k_paid * 2::numeric) AS loxo_p3, count(*) AS loxo_p4, max(k.k_page) AS loxo_p5, min(k.k_page) AS loxo_p6 FROM public.clicks k WHERE k.k_page = 'a'::text GROUP BY k.k_user
  Gather on 0
    SELECT loxo_c1 AS c_name, sum(loxo_c2) AS sum, sum(loxo_c3)::numeric / sum(loxo_c4) AS mean, COALESCE(sum(loxo_c5), 0)::bigint AS count, count(DISTINCT loxo_c6) AS count, max(loxo_c7) AS max FROM loxo_g1 GROUP BY loxo_c1 HAVING min(loxo_c8) > 'b'::text ORDER BY COALESCE(sum(loxo_c5), 0)::bigint, sum(loxo_c2) DESC
    loxo_g1 from [0 1 2]
      SELECT c.c_name AS loxo_c1, k.loxo_p1 AS loxo_c2, k.loxo_p2 AS loxo_c3, k.loxo_p3 AS loxo_c4, k.loxo_p4 AS loxo_c5, c.c_nation AS loxo_c6, k.loxo_p5 AS loxo_c7, k.loxo_p6 AS loxo_c8 FROM loxo_x1 k JOIN public.customer c ON k.k_user = c.c_custkey

-- estimated 90000: SELECT c_custkey, c_name, c_nation FROM public.customer
-- estimated 9000: SELECT clicks.k_user FROM public.clicks
-- estimated 90: SELECT DISTINCT clicks.k_user FROM public.clicks
SELECT customer.c_name, sum(clicks.k_paid) AS sum, sum(customer.c_nation) AS sum FROM (public.clicks JOIN public.customer ON ((clicks.k_user = customer.c_custkey))) GROUP BY customer.c_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT c_custkey, c_name, c_nation FROM public.customer
  Gather on 0
    SELECT loxo_c1 AS c_name, sum(loxo_c2)::loxo_type_of_1_2 AS sum, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT customer.c_name AS loxo_c1, sum(clicks.k_paid) AS loxo_c2, sum(customer.c_nation) AS loxo_c3 FROM public.clicks JOIN loxo_x1 customer ON clicks.k_user = customer.c_custkey GROUP BY 1

SELECT customer.c_name, orders.o_total FROM (public.customer JOIN public.orders ON ((customer.c_custkey = orders.o_custkey))) WHERE ((orders.o_total > (10)::numeric) AND (orders.o_total > (10)::numeric))
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders WHERE orders.o_total > 10::numeric AND orders.o_total > 10::numeric
  Scatter to [0 1 2]
    SELECT customer.c_name, orders.o_total FROM public.customer JOIN loxo_x1 orders ON customer.c_custkey = orders.o_custkey

