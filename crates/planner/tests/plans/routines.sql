DO $$ BEGIN UPDATE orders SET o_total = 0; END $$
----
Routine
  this block

DO $$ BEGIN RAISE NOTICE 'nothing to read'; END $$
----
Forward (write) to 0
  DO $$ BEGIN RAISE NOTICE 'nothing to read'; END $$

SELECT dynamic()
----
Routine
  dynamic()
  then SELECT $1::bigint AS dynamic

SELECT dynamic() + 1 AS a, 'x'
----
Routine
  dynamic()
  then SELECT $1::bigint + 1 AS a, 'x' AS "?column?"

SELECT x.d, o.o_total FROM dynamic() AS x (d) JOIN orders o ON o.o_orderkey = x.d
----
Routine
  dynamic()
  then SELECT x.d, o.o_total FROM (SELECT $1::bigint AS int8) x(d) JOIN orders o ON o.o_orderkey = x.d

INSERT INTO nation VALUES (dynamic(), 'x')
----
Routine
  dynamic()
  then INSERT INTO nation VALUES ($1::bigint, 'x')

SELECT dynamic() FROM orders
----
ERROR 0A000 function dynamic() is not supported on distributed tables
  hint: Its body may read or write tables that no single node has: call it once, by itself or in FROM, or write it in SQL or PL/pgSQL without EXECUTE.

SELECT CASE WHEN dynamic() > 1 THEN 2 END
----
ERROR 0A000 function dynamic() is not supported on distributed tables
  hint: Its body may read or write tables that no single node has: call it once, by itself or in FROM, or write it in SQL or PL/pgSQL without EXECUTE.

SELECT (SELECT dynamic())
----
ERROR 0A000 function dynamic() is not supported on distributed tables
  hint: Its body may read or write tables that no single node has: call it once, by itself or in FROM, or write it in SQL or PL/pgSQL without EXECUTE.

SELECT dynamic() LIMIT 0
----
ERROR 0A000 function dynamic() is not supported on distributed tables
  hint: Its body may read or write tables that no single node has: call it once, by itself or in FROM, or write it in SQL or PL/pgSQL without EXECUTE.

