SELECT c_name, o_total FROM customer JOIN orders ON c_custkey = o_custkey
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT c_name, o_total FROM customer JOIN loxo_x1 orders ON c_custkey = o_custkey

SELECT c_name, count(*), sum(o_total) FROM customer JOIN orders ON c_custkey = o_custkey WHERE c_nation = 3 AND o_date < date '1995-01-01' GROUP BY c_name ORDER BY 2 DESC LIMIT 5
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders WHERE o_date < '1995-01-01'::date
  Gather on 0
    SELECT loxo_c1 AS c_name, COALESCE(sum(loxo_c2), 0)::bigint AS count, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY loxo_c1 ORDER BY 2 DESC LIMIT 5
    loxo_g1 from [0 1 2]
      SELECT c_name AS loxo_c1, count(*) AS loxo_c2, sum(o_total) AS loxo_c3 FROM customer JOIN loxo_x1 orders ON c_custkey = o_custkey WHERE c_nation = 3 GROUP BY 1

SELECT l.l_flag, c.c_name FROM lineitem l, orders o, customer c WHERE l.l_orderkey = o.o_orderkey AND o.o_custkey = c.c_custkey AND c.c_name = 'x'
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT c_custkey, c_name FROM public.customer c WHERE c.c_name = 'x'
  Scatter to [0 1 2]
    SELECT l.l_flag, c.c_name FROM lineitem l, orders o, loxo_x1 c WHERE l.l_orderkey = o.o_orderkey AND o.o_custkey = c.c_custkey

SELECT n_name, count(c_custkey) FROM nation LEFT JOIN customer ON n_key = c_nation AND c_name LIKE 'a%' GROUP BY n_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT c_custkey, c_nation FROM public.customer WHERE c_name LIKE 'a%'
  Forward to 0
    SELECT n_name, count(c_custkey) FROM nation LEFT JOIN loxo_x1 customer ON n_key = c_nation GROUP BY n_name

SELECT c_name, o_total FROM customer LEFT JOIN orders ON c_custkey = o_custkey WHERE c_nation = 1
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT c_name, o_total FROM customer LEFT JOIN loxo_x1 orders ON c_custkey = o_custkey WHERE c_nation = 1

SELECT c_name, o_total FROM customer FULL JOIN orders ON c_custkey = o_custkey
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT c_name, o_total FROM customer FULL JOIN loxo_x1 orders ON c_custkey = o_custkey

SELECT c_name FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey AND o_total > 10)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT DISTINCT o_custkey FROM public.orders WHERE o_total > 10
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE EXISTS (SELECT 1 FROM loxo_x1 orders WHERE o_custkey = c_custkey)

SELECT c_name FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT DISTINCT o_custkey FROM public.orders
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE NOT EXISTS (SELECT 1 FROM loxo_x1 orders WHERE o_custkey = c_custkey)

SELECT c_name FROM customer WHERE c_custkey IN (SELECT o_custkey FROM orders WHERE o_date > date '2000-01-01')
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT o_custkey FROM orders WHERE o_date > '2000-01-01'::date
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE c_custkey IN (SELECT loxo_c1 AS o_custkey FROM loxo_x1)

SELECT c_name FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT o_custkey FROM orders
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE NOT c_custkey IN (SELECT loxo_c1 AS o_custkey FROM loxo_x1)

SELECT sum(l_price) FROM lineitem, customer WHERE c_custkey = l_partkey AND c_name = 'x' AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = c_custkey)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_quantity, l_price FROM public.lineitem
  loxo_x2 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_quantity, l_price FROM public.lineitem
    then CREATE INDEX ON loxo_x2 (l_partkey)
  Gather on 0
    SELECT sum(loxo_c1)::loxo_type_of_1_1 AS sum FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT sum(l_price) AS loxo_c1 FROM loxo_x1 lineitem, customer WHERE c_custkey = l_partkey AND c_name = 'x' AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM loxo_x2 lineitem WHERE l_partkey = c_custkey)

SELECT o_custkey, sum(o_total) FROM orders GROUP BY o_custkey HAVING sum(o_total) > (SELECT sum(o_total) * 0.1 FROM orders)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT sum(o_total) AS loxo_c1 FROM orders
  loxo_x2 from [0] to all of [0 1 2]
    SELECT sum(loxo_c1)::loxo_type_of_1_1 * 0.1 AS "?column?" FROM loxo_x1
  loxo_x3 from [0 1 2] to node 0
    SELECT o_custkey, o_total FROM public.orders
  Forward to 0
    SELECT o_custkey, sum(o_total) FROM loxo_x3 orders GROUP BY o_custkey HAVING sum(o_total) > (SELECT loxo_c1 AS "?column?" FROM loxo_x2)

WITH totals (key, total) AS (SELECT o_custkey, sum(o_total) FROM orders GROUP BY o_custkey) SELECT c_name, total FROM customer, totals WHERE c_custkey = key AND total = (SELECT max(total) FROM totals)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o_custkey AS loxo_c1, sum(o_total) AS loxo_c2 FROM orders GROUP BY 1
  loxo_x2 from [0] to all of [0 1 2]
    SELECT loxo_c1 AS o_custkey, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_x1 GROUP BY loxo_c1
  Scatter to [0 1 2]
    WITH totals(key, total) AS (SELECT loxo_c1 AS o_custkey, loxo_c2 AS sum FROM loxo_x2) SELECT c_name, total FROM customer, totals WHERE c_custkey = key AND total = (SELECT max(total) FROM totals)

SELECT sum(l_price) FROM lineitem, customer WHERE (c_custkey = l_partkey AND c_name = 'a' AND l_quantity < 5) OR (c_custkey = l_partkey AND c_name = 'b' AND l_quantity < 7)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_quantity, l_price FROM public.lineitem WHERE l_quantity < 5 OR l_quantity < 7
  Gather on 0
    SELECT sum(loxo_c1)::loxo_type_of_1_1 AS sum FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT sum(l_price) AS loxo_c1 FROM loxo_x1 lineitem, customer WHERE (c_custkey = l_partkey AND c_name = 'a' AND l_quantity < 5) OR (c_custkey = l_partkey AND c_name = 'b' AND l_quantity < 7)

SELECT e_text, c_name FROM events, customer WHERE e_id = c_custkey
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT e_id, e_text FROM public.events
  Scatter to [0 1 2]
    SELECT e_text, c_name FROM loxo_x1 events, customer WHERE e_id = c_custkey

SELECT m_text, c_name FROM modded JOIN customer ON m_id = c_nation
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int4 over [0 1 2]
    SELECT m_id, m_text FROM public.modded
  loxo_x2 from [0 1 2] to hash of column 1 Int4 over [0 1 2]
    SELECT c_name, c_nation FROM public.customer
  Scatter to [0 1 2]
    SELECT m_text, c_name FROM loxo_x1 modded JOIN loxo_x2 customer ON m_id = c_nation

SELECT a.o_orderkey, b.o_orderkey FROM orders a JOIN orders b ON a.o_custkey = b.o_custkey AND a.o_date < b.o_date
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date FROM public.orders a
  loxo_x2 from [0 1 2] to hash of column 1 Int8 over [0 1 2]
    SELECT o_orderkey, o_custkey, o_date FROM public.orders b
  Scatter to [0 1 2]
    SELECT a.o_orderkey, b.o_orderkey FROM loxo_x1 a JOIN loxo_x2 b ON a.o_custkey = b.o_custkey AND a.o_date < b.o_date

SELECT n.nation, sum(n.amount) FROM (SELECT n_name AS nation, l_price - o_total AS amount FROM lineitem, orders, nation WHERE l_partkey = o_custkey AND n_key = o_custkey) n GROUP BY nation
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT l_partkey, l_price FROM public.lineitem
  loxo_x2 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Gather on 0
    SELECT loxo_c1 AS nation, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT nation AS loxo_c1, sum(n.amount) AS loxo_c2 FROM (SELECT n_name AS nation, l_price - o_total AS amount FROM loxo_x1 lineitem, loxo_x2 orders, nation WHERE l_partkey = o_custkey AND n_key = o_custkey) n GROUP BY 1

SELECT c_custkey, x.n FROM customer, LATERAL (SELECT count(*) AS n FROM orders WHERE o_custkey = c_custkey) x
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey FROM public.orders
    then CREATE INDEX ON loxo_x1 (o_custkey)
  Scatter to [0 1 2]
    SELECT c_custkey, x.n FROM customer, LATERAL (SELECT count(*) AS n FROM loxo_x1 orders WHERE o_custkey = c_custkey) x

SELECT count(*) FROM lineitem WHERE l_partkey IN (SELECT o_custkey FROM orders ORDER BY o_total LIMIT 10)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT o_custkey AS loxo_c1, o_total AS loxo_c2 FROM orders ORDER BY 2 LIMIT 10
  loxo_x2 from [0] to all of [0 1 2]
    SELECT loxo_c1 AS o_custkey FROM loxo_x1 ORDER BY loxo_c2 LIMIT 10
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM lineitem WHERE l_partkey IN (SELECT loxo_c1 AS o_custkey FROM loxo_x2)

SELECT o.o_custkey FROM public.orders o, public.customer WHERE public.customer.c_custkey = o.o_custkey
----
Gather on 0
  SELECT o.o_custkey FROM loxo_g1 o, loxo_g2 customer WHERE customer.c_custkey = o.o_custkey
  loxo_g1 from [0 1 2]
    SELECT o_custkey FROM public.orders o
  loxo_g2 from [0 1 2]
    SELECT c_custkey FROM public.customer

SELECT c_name FROM customer JOIN orders ON c_custkey = o_custkey WHERE o_total > random()
----
Gather on 0
  SELECT c_name FROM loxo_g1 customer JOIN loxo_g2 orders ON c_custkey = o_custkey WHERE o_total > random()
  loxo_g1 from [0 1 2]
    SELECT c_custkey, c_name FROM public.customer
  loxo_g2 from [0 1 2]
    SELECT o_custkey, o_total FROM public.orders

-- changed: customer
SELECT c_name, o_total FROM customer JOIN orders ON c_custkey = o_custkey WHERE c_nation = 3
----
ExchangePlan over [0 1 2]
  loxo_s1 beside [0 1 2]
    SELECT c_custkey, c_name, c_nation FROM public.customer WHERE c_nation = 3
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  Scatter to [0 1 2]
    SELECT c_name, o_total FROM loxo_s1 customer JOIN loxo_x1 orders ON c_custkey = o_custkey WHERE c_nation = 3

-- changed: orders
SELECT c_name, o_total FROM customer JOIN orders ON c_custkey = o_custkey
----
ExchangePlan over [0 1 2]
  loxo_s1 beside [0 1 2]
    SELECT o_custkey, o_total FROM public.orders
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey, o_total FROM loxo_s1 orders
  Scatter to [0 1 2]
    SELECT c_name, o_total FROM customer JOIN loxo_x1 orders ON c_custkey = o_custkey

-- changed: customer!
SELECT c_name, o_total FROM customer JOIN orders ON c_custkey = o_custkey
----
Gather on 0
  SELECT c_name, o_total FROM loxo_g1 customer JOIN loxo_g2 orders ON c_custkey = o_custkey
  loxo_g1 from [0 1 2]
    SELECT c_custkey, c_name FROM public.customer
  loxo_g2 from [0 1 2]
    SELECT o_custkey, o_total FROM public.orders

-- describe: c_custkey 20, o_total 1700
INSERT INTO orders (o_orderkey, o_total) SELECT c_custkey, o_total FROM customer JOIN orders ON c_custkey = o_custkey
----
InsertStaged into public.orders by way of 0
  INSERT INTO loxo_stage (o_orderkey, o_total) SELECT * FROM loxo_g1
  loxo_g1 from
    ExchangePlan over [0 1 2]
      loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
        SELECT o_custkey, o_total FROM public.orders
      Scatter to [0 1 2]
        SELECT c_custkey, o_total FROM customer JOIN loxo_x1 orders ON c_custkey = o_custkey
  stage: CREATE TEMP TABLE loxo_stage (o_orderkey bigint, o_custkey bigint, o_date date, o_total numeric(15,2)) ON COMMIT DROP
  route: hash of column 0 Int8 over [0 1 2]
  or straight: COPY public.orders (o_orderkey, o_total) FROM STDIN (FORMAT binary)

COPY (SELECT c_name, o_total FROM customer JOIN orders ON c_custkey = o_custkey) TO STDOUT
----
CopyTo
  ExchangePlan over [0 1 2]
    loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
      SELECT o_custkey, o_total FROM public.orders
    Scatter to [0 1 2]
      SELECT c_name, o_total FROM customer JOIN loxo_x1 orders ON c_custkey = o_custkey

SELECT n_name FROM nation WHERE NOT EXISTS (SELECT 1 FROM customer WHERE c_nation = n_key)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT nation.n_key AS loxo_c1, nation.n_name AS loxo_c2 FROM nation WHERE NOT EXISTS (SELECT 1 FROM customer WHERE c_nation = n_key)
  Forward to 0
    SELECT n_name FROM (SELECT loxo_c1 AS n_key, loxo_c2 AS n_name FROM loxo_x1 GROUP BY loxo_c1, loxo_c2 HAVING pg_catalog.count(*) >= 3) nation

SELECT n_key FROM nation WHERE n_key NOT IN (SELECT c_nation FROM customer) AND n_name LIKE 'A%'
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT c_nation FROM customer
  Forward to 0
    SELECT n_key FROM nation WHERE NOT n_key IN (SELECT loxo_c1 AS c_nation FROM loxo_x1) AND n_name LIKE 'A%'

SELECT count(*) FROM nation n WHERE n_key > ANY (SELECT c_nation FROM customer) AND n_name < (SELECT max(m.n_name) FROM nation m)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT c_nation FROM customer
  Forward to 0
    SELECT count(*) FROM nation n WHERE n_key > ANY (SELECT loxo_c1 AS c_nation FROM loxo_x1) AND n_name < (SELECT max(m.n_name) FROM nation m)

SELECT n_key FROM nation WHERE n_name > (SELECT m.n_name FROM nation m LIMIT 1) AND EXISTS (SELECT 1 FROM customer WHERE c_nation = n_key)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT DISTINCT c_nation FROM public.customer
  Forward to 0
    SELECT n_key FROM nation WHERE n_name > (SELECT m.n_name FROM nation m LIMIT 1) AND EXISTS (SELECT 1 FROM loxo_x1 customer WHERE c_nation = n_key)

SELECT p_c, (SELECT count(*) FROM nation WHERE n_key = p_c AND NOT EXISTS (SELECT 1 FROM customer WHERE c_nation = n_key AND c_custkey = p_a)) FROM pairs
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT p_a, p_c FROM public.pairs
  Scatter to [0 1 2]
    SELECT p_c, (SELECT count(*) FROM nation WHERE n_key = p_c AND NOT EXISTS (SELECT 1 FROM customer WHERE c_nation = n_key AND c_custkey = p_a)) FROM loxo_x1 pairs

SELECT count(*) FROM customer, orders WHERE c_custkey = o_custkey AND substring(c_name FROM 1 FOR 2) = 'ab' AND extract(year FROM o_date) = 1995 AND o_total > (SELECT avg(o_total) FROM orders)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT sum(o_total) AS loxo_c1, count(o_total) AS loxo_c2 FROM orders
  loxo_x2 from [0] to all of [0 1 2]
    SELECT sum(loxo_c1)::numeric / sum(loxo_c2) AS avg FROM loxo_x1
  loxo_x3 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT o_custkey FROM public.orders WHERE extract ('year' FROM o_date) = 1995 AND o_total > (SELECT loxo_c1 AS avg FROM loxo_x2)
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      SELECT count(*) AS loxo_c1 FROM customer, loxo_x3 orders WHERE c_custkey = o_custkey AND SUBSTRING(c_name FROM 1 FOR 2) = 'ab'

SELECT k_user, k_page, count(*), sum(k_paid) FROM clicks GROUP BY k_user, k_page HAVING count(*) > 1 ORDER BY 4 DESC LIMIT 10
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8, column 1 Text over [0 1 2]
    SELECT k_user AS loxo_c1, k_page AS loxo_c2, count(*) AS loxo_c3, sum(k_paid) AS loxo_c4 FROM clicks GROUP BY 1, 2
  Gather on 0
    SELECT loxo_c1 AS k_user, loxo_c2 AS k_page, loxo_c3 AS count, loxo_c4 AS sum FROM loxo_g1 ORDER BY loxo_c4 DESC LIMIT 10
    loxo_g1 from [0 1 2]
      SELECT loxo_c1 AS loxo_c1, loxo_c2 AS loxo_c2, COALESCE(sum(loxo_c3), 0)::bigint AS loxo_c3, sum(loxo_c4)::loxo_type_of_1_4 AS loxo_c4 FROM loxo_x1 GROUP BY loxo_c1, loxo_c2 HAVING COALESCE(sum(loxo_c3), 0)::bigint > 1 ORDER BY 4 DESC LIMIT 10

SELECT k_page, count(DISTINCT k_user) FROM clicks WHERE k_paid > 0 GROUP BY k_page
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Text over [0 1 2]
    SELECT k_page AS loxo_c1, k_user AS loxo_c2 FROM clicks WHERE k_paid > 0
  Scatter to [0 1 2]
    SELECT loxo_c1 AS k_page, count(DISTINCT loxo_c2) AS count FROM loxo_x1 GROUP BY loxo_c1

SELECT DISTINCT k_page, k_user FROM clicks
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Text, column 1 Int8 over [0 1 2]
    SELECT DISTINCT k_page AS loxo_c1, k_user AS loxo_c2 FROM clicks
  Scatter to [0 1 2]
    SELECT DISTINCT loxo_c1 AS k_page, loxo_c2 AS k_user FROM loxo_x1

SELECT k_user, k_id, rank() OVER (PARTITION BY k_user ORDER BY k_paid), sum(k_paid) OVER (PARTITION BY k_page, k_user) FROM clicks ORDER BY 1 LIMIT 3
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT k_user AS loxo_c1, k_id AS loxo_c2, k_paid AS loxo_c3, k_page AS loxo_c4 FROM clicks
  Gather on 0
    SELECT loxo_c1 AS k_user, loxo_c2 AS k_id, loxo_c3 AS rank, loxo_c4 AS sum FROM loxo_g1 ORDER BY loxo_c1 LIMIT 3
    loxo_g1 from [0 1 2]
      SELECT loxo_c1 AS loxo_c1, loxo_c2 AS loxo_c2, rank() OVER (PARTITION BY loxo_c1 ORDER BY loxo_c3) AS loxo_c3, sum(loxo_c3) OVER (PARTITION BY loxo_c4, loxo_c1) AS loxo_c4 FROM loxo_x1 ORDER BY 1 LIMIT 3

SELECT k_user, rank() OVER (PARTITION BY k_user ORDER BY k_paid), sum(k_paid) OVER (PARTITION BY k_page) FROM clicks
----
Gather on 0
  SELECT loxo_c1 AS k_user, rank() OVER (PARTITION BY loxo_c1 ORDER BY loxo_c2) AS rank, sum(loxo_c2) OVER (PARTITION BY loxo_c3) AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT k_user AS loxo_c1, k_paid AS loxo_c2, k_page AS loxo_c3 FROM clicks

SELECT k_paid, count(*) FROM clicks GROUP BY k_paid
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Numeric over [0 1 2]
    SELECT k_paid AS loxo_c1, count(*) AS loxo_c2 FROM clicks GROUP BY 1
  Scatter to [0 1 2]
    SELECT loxo_c1 AS k_paid, COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_x1 GROUP BY loxo_c1

SELECT k_user + 1, count(*) FROM clicks GROUP BY 1
----
Gather on 0
  SELECT loxo_c1 AS "?column?", COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
  loxo_g1 from [0 1 2]
    SELECT k_user + 1 AS loxo_c1, count(*) AS loxo_c2 FROM clicks GROUP BY 1

SELECT count(DISTINCT k_id), sum(DISTINCT k_id) FROM clicks
----
Gather on 0
  SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count, sum(loxo_c2)::loxo_type_of_1_2 AS sum FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT count(DISTINCT k_id) AS loxo_c1, sum(DISTINCT k_id) AS loxo_c2 FROM clicks

SELECT c_name, n FROM customer, (SELECT k_user, sum(k_paid) AS n FROM clicks GROUP BY k_user ORDER BY 2 DESC LIMIT 10) x WHERE c_custkey = k_user
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT k_user AS loxo_c1, sum(k_paid) AS loxo_c2 FROM clicks GROUP BY 1
  loxo_x2 from [0 1 2] to node 0
    SELECT loxo_c1 AS loxo_c1, sum(loxo_c2)::loxo_type_of_1_2 AS loxo_c2 FROM loxo_x1 GROUP BY loxo_c1 ORDER BY 2 DESC LIMIT 10
  loxo_x3 from [0] to all of [0 1 2]
    SELECT loxo_c1 AS k_user, loxo_c2 AS n FROM loxo_x2 ORDER BY loxo_c2 DESC LIMIT 10
  Scatter to [0 1 2]
    SELECT c_name, n FROM customer, (SELECT loxo_c1 AS k_user, loxo_c2 AS n FROM loxo_x3) x WHERE c_custkey = k_user

SELECT c_name FROM customer WHERE c_nation IN (SELECT n_key FROM nation LIMIT 3)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT n_key FROM nation LIMIT 3
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE c_nation IN (SELECT loxo_c1 AS n_key FROM loxo_x1)

SELECT c_name, a.names FROM customer, (SELECT string_agg(n_name, ',') AS names FROM nation) a
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT string_agg(n_name, ',') AS names FROM nation
  Scatter to [0 1 2]
    SELECT c_name, a.names FROM customer, (SELECT loxo_c1 AS names FROM loxo_x1) a

WITH few AS (SELECT n_key, row_number() OVER () AS place FROM nation) SELECT count(*) FROM customer JOIN few ON n_key = c_nation WHERE place < 4
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT n_key, row_number() OVER () AS place FROM nation
  Gather on 0
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_g1
    loxo_g1 from [0 1 2]
      WITH few AS (SELECT loxo_c1 AS n_key, loxo_c2 AS place FROM loxo_x1) SELECT count(*) AS loxo_c1 FROM customer JOIN few ON n_key = c_nation WHERE place < 4

SELECT c_name, (SELECT n_name FROM nation WHERE n_key >= c_nation ORDER BY n_key LIMIT 1) FROM customer
----
Scatter to [0 1 2]
  SELECT c_name, (SELECT n_name FROM nation WHERE n_key >= c_nation ORDER BY n_key LIMIT 1) FROM customer

SELECT n_name FROM nation WHERE n_key IN (SELECT n_key FROM nation LIMIT 3)
----
Forward to 0
  SELECT n_name FROM nation WHERE n_key IN (SELECT n_key FROM nation LIMIT 3)

SELECT c_name FROM customer WHERE c_nation IN (SELECT n_key FROM nation UNION SELECT 7 LIMIT 3)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT n_key FROM nation UNION SELECT 7 LIMIT 3
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE c_nation IN (SELECT loxo_c1 AS n_key FROM loxo_x1)

SELECT x_age, count(*) FROM people WHERE x_name LIKE 'a%' AND x_age > 40 AND x_age < (SELECT avg(x_age) FROM people) AND NOT EXISTS (SELECT * FROM clicks WHERE k_user = x_key) GROUP BY x_age
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT avg(x_age) FROM people
  loxo_x2 from [0] to all of [0 1 2]
    SELECT people.x_key AS loxo_c1, people.x_name AS loxo_c2, people.x_age AS loxo_c3 FROM people WHERE x_name LIKE 'a%' AND x_age > 40 AND x_age < (SELECT loxo_c1 AS avg FROM loxo_x1)
  loxo_x3 from [0 1 2] to node 0
    SELECT people.x_key AS loxo_c1, people.x_name AS loxo_c2, people.x_age AS loxo_c3 FROM (SELECT loxo_c1 AS x_key, loxo_c2 AS x_name, loxo_c3 AS x_age FROM loxo_x2) people WHERE NOT EXISTS (SELECT * FROM clicks WHERE k_user = x_key)
  Forward to 0
    SELECT x_age, count(*) FROM (SELECT loxo_c1 AS x_key, loxo_c2 AS x_name, loxo_c3 AS x_age FROM loxo_x3 GROUP BY loxo_c1, loxo_c2, loxo_c3 HAVING pg_catalog.count(*) >= 3) people GROUP BY x_age

SELECT x_age, count(*) FROM people WHERE x_name LIKE 'a%' AND NOT EXISTS (SELECT * FROM clicks WHERE k_user = x_key) GROUP BY x_age
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT people.x_key AS loxo_c1, people.x_name AS loxo_c2, people.x_age AS loxo_c3 FROM people WHERE x_name LIKE 'a%' AND NOT EXISTS (SELECT * FROM clicks WHERE k_user = x_key)
  Forward to 0
    SELECT x_age, count(*) FROM (SELECT loxo_c1 AS x_key, loxo_c2 AS x_name, loxo_c3 AS x_age FROM loxo_x1 GROUP BY loxo_c1, loxo_c2, loxo_c3 HAVING pg_catalog.count(*) >= 3) people GROUP BY x_age

-- estimated 5000: SELECT k_user FROM clicks WHERE k_paid > 5
-- estimated 60: SELECT DISTINCT k_user FROM clicks WHERE k_paid > 5
SELECT c_name FROM customer WHERE c_custkey NOT IN (SELECT k_user FROM clicks WHERE k_paid > 5)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT DISTINCT k_user FROM clicks WHERE k_paid > 5
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE NOT c_custkey IN (SELECT loxo_c1 AS k_user FROM loxo_x1)

-- estimated 5000: SELECT k_user FROM clicks WHERE k_paid > 5
-- estimated 60: SELECT DISTINCT k_user FROM clicks WHERE k_paid > 5
SELECT c_name FROM customer WHERE c_custkey > ANY (SELECT k_user FROM clicks WHERE k_paid > 5) AND c_nation < (SELECT count(*) FROM (SELECT k_user FROM clicks WHERE k_paid > 5) x)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to node 0
    SELECT count(*) AS loxo_c1 FROM (SELECT k_user FROM clicks WHERE k_paid > 5) x
  loxo_x2 from [0] to all of [0 1 2]
    SELECT COALESCE(sum(loxo_c1), 0)::bigint AS count FROM loxo_x1
  loxo_x3 from [0 1 2] to all of [0 1 2]
    SELECT DISTINCT k_user FROM clicks WHERE k_paid > 5
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE c_custkey > ANY (SELECT loxo_c1 AS k_user FROM loxo_x3) AND c_nation < (SELECT loxo_c1 AS count FROM loxo_x2)

SELECT c_name FROM customer WHERE c_custkey > (SELECT avg(x_weight) FROM people)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT avg(x_weight) FROM people
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE c_custkey > (SELECT loxo_c1 AS avg FROM loxo_x1)

SELECT c_name FROM customer WHERE c_custkey > (SELECT sum(age) FROM (SELECT x_age * 2 AS age FROM people) p)
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0] to all of [0 1 2]
    SELECT sum(age) FROM (SELECT x_age * 2 AS age FROM people) p
  Scatter to [0 1 2]
    SELECT c_name FROM customer WHERE c_custkey > (SELECT loxo_c1 AS sum FROM loxo_x1)

SELECT avg(round(c_nation)), sum(trunc(l_price)), avg(extract(year FROM l_shipdate)) FROM customer, lineitem WHERE c_custkey = l_orderkey
----
Gather on 0
  SELECT avg(round(loxo_c1)) AS avg, sum(trunc(loxo_c2)) AS sum, avg(extract ('year' FROM loxo_c3)) AS avg FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT c_nation AS loxo_c1, l_price AS loxo_c2, l_shipdate AS loxo_c3 FROM customer, lineitem WHERE c_custkey = l_orderkey

-- estimated 9000: SELECT orders.o_custkey FROM public.orders
-- estimated 900: SELECT DISTINCT orders.o_custkey FROM public.orders
SELECT n, count(*) FROM (SELECT c_custkey, count(o_orderkey) AS n FROM customer LEFT JOIN orders ON c_custkey = o_custkey GROUP BY c_custkey) c GROUP BY n
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT orders.o_custkey, count(o_orderkey) AS loxo_p1 FROM public.orders GROUP BY orders.o_custkey
  Gather on 0
    SELECT loxo_c1 AS n, COALESCE(sum(loxo_c2), 0)::bigint AS count FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT n AS loxo_c1, count(*) AS loxo_c2 FROM (SELECT c_custkey AS c_custkey, COALESCE(sum(orders.loxo_p1), 0)::bigint AS n FROM customer LEFT JOIN loxo_x1 orders ON c_custkey = o_custkey GROUP BY c_custkey) c GROUP BY 1

-- estimated 90000: SELECT c_custkey, c_name, c_nation FROM public.customer c
-- estimated 9000: SELECT k.k_user FROM public.clicks k WHERE k.k_page = 'a'::text
-- estimated 90: SELECT DISTINCT k.k_user FROM public.clicks k WHERE k.k_page = 'a'::text
SELECT c.c_name, sum(k_paid), avg(k.k_paid * 2) AS mean, count(*), count(DISTINCT c_nation), max(k_page) FROM clicks k JOIN customer c ON k.k_user = c.c_custkey WHERE k.k_page = 'a'::text GROUP BY c.c_name HAVING min(k_page) > 'b' ORDER BY count(*), sum(k_paid) DESC
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to hash of column 0 Int8 over [0 1 2]
    SELECT k.k_user, sum(k_paid) AS loxo_p1, sum(k.k_paid * 2) AS loxo_p2, count(k.k_paid * 2) AS loxo_p3, count(*) AS loxo_p4, max(k_page) AS loxo_p5, min(k_page) AS loxo_p6 FROM public.clicks k WHERE k.k_page = 'a'::text GROUP BY k.k_user
  Gather on 0
    SELECT loxo_c1 AS c_name, sum(loxo_c2) AS sum, sum(loxo_c3)::numeric / sum(loxo_c4) AS mean, COALESCE(sum(loxo_c5), 0)::bigint AS count, count(DISTINCT loxo_c6) AS count, max(loxo_c7) AS max FROM loxo_g1 GROUP BY loxo_c1 HAVING min(loxo_c8) > 'b' ORDER BY COALESCE(sum(loxo_c5), 0)::bigint, sum(loxo_c2) DESC
    loxo_g1 from [0 1 2]
      SELECT c.c_name AS loxo_c1, k.loxo_p1 AS loxo_c2, k.loxo_p2 AS loxo_c3, k.loxo_p3 AS loxo_c4, k.loxo_p4 AS loxo_c5, c_nation AS loxo_c6, k.loxo_p5 AS loxo_c7, k.loxo_p6 AS loxo_c8 FROM loxo_x1 k JOIN customer c ON k.k_user = c.c_custkey

-- estimated 90000: SELECT c_custkey, c_name, c_nation FROM public.customer
-- estimated 9000: SELECT clicks.k_user FROM public.clicks
-- estimated 90: SELECT DISTINCT clicks.k_user FROM public.clicks
SELECT c_name, sum(k_paid), sum(c_nation) FROM clicks JOIN customer ON k_user = c_custkey GROUP BY c_name
----
ExchangePlan over [0 1 2]
  loxo_x1 from [0 1 2] to all of [0 1 2]
    SELECT c_custkey, c_name, c_nation FROM public.customer
  Gather on 0
    SELECT loxo_c1 AS c_name, sum(loxo_c2)::loxo_type_of_1_2 AS sum, sum(loxo_c3)::loxo_type_of_1_3 AS sum FROM loxo_g1 GROUP BY loxo_c1
    loxo_g1 from [0 1 2]
      SELECT c_name AS loxo_c1, sum(k_paid) AS loxo_c2, sum(c_nation) AS loxo_c3 FROM clicks JOIN loxo_x1 customer ON k_user = c_custkey GROUP BY 1

