CREATE TABLE t (a int PRIMARY KEY, b text) DISTRIBUTE BY HASH (a)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int PRIMARY KEY, b text)
  create public.t: hash (a) over [0 1 2]

CREATE TABLE t (a int PRIMARY KEY, b text)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int PRIMARY KEY, b text)
  create public.t: hash (a) over [0 1 2]

CREATE TABLE t (b json, c text, a int)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (b json, c text, a int)
  create public.t: hash (c) over [0 1 2]

CREATE TABLE t (b json)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (b json)
  create public.t: round robin over [0 1 2]

CREATE TABLE t (a int, b text) DISTRIBUTE BY REPLICATION TO NODE (dn1, dn3)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text)
  create public.t: replicated on [0 2]

CREATE TABLE t (a int, b text) DISTRIBUTE BY ROUNDROBIN TO GROUP pair
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text)
  create public.t: round robin over [1 2]

CREATE TABLE t (a int PRIMARY KEY, b text) DISTRIBUTE BY ROUND ROBIN
----
ERROR 0A000 Cannot locally enforce a unique index on round robin distributed table.
  detail: The unique key of table "t" is (a).
  hint: Distribute by HASH on a column of the unique key, or by REPLICATION.

CREATE TABLE t (a int UNIQUE, b text) DISTRIBUTE BY HASH (b)
----
ERROR 0A000 Unique index of distributed table must contain the hash distribution column.
  detail: The distribution key of table "t" is (b), the unique key is (a).
  hint: Add the distribution column to the unique key, or distribute by another column or by REPLICATION.

CREATE TABLE t (a int, b text) DISTRIBUTE BY HASH (a, b)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text)
  create public.t: hash (a, b) over [0 1 2]

CREATE TABLE t (a text) DISTRIBUTE BY MODULO (a)
----
ERROR 42P16 column "a" is not of a type that MODULO can use
  hint: Use HASH.

CREATE TABLE t (a json) DISTRIBUTE BY HASH (a)
----
ERROR 42P16 column "a" is not of a type that can be a distribution key
  hint: Choose a column of an integer, text, numeric, date, time or uuid type, or ROUNDROBIN.

CREATE TABLE t (a int) DISTRIBUTE BY HASH (z)
----
ERROR 42703 column "z" named in the distribution key does not exist

CREATE TABLE t (a int, b text) DISTRIBUTED BY (b)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text)
  create public.t: hash (b) over [0 1 2]

CREATE TABLE t (a int, b text) DISTRIBUTED RANDOMLY
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text)
  create public.t: round robin over [0 1 2]

CREATE TABLE t (a int, b text) DISTSTYLE KEY DISTKEY (b)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text)
  create public.t: hash (b) over [0 1 2]

CREATE TABLE t (a int, b text DISTKEY, c int)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text        , c int)
  create public.t: hash (b) over [0 1 2]

CREATE TABLE t (a int, b text) DISTSTYLE ALL
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int, b text)
  create public.t: replicated on [0 1 2]

CREATE TABLE t (a int) DISTRIBUTE BY MAGIC
----
ERROR 42601 unrecognized distribution option "magic"
  hint: Known are REPLICATION, ROUNDROBIN, HASH (column, …) and MODULO (column).

CREATE TEMP TABLE t (a int) DISTRIBUTE BY HASH (a)
----
ERROR 0A000 a distribution clause of a temporary table is not supported on distributed tables
  hint: A temporary table lives on one node: leave the clause out.

CREATE TEMP TABLE t (a int)
----
Ddl Schema on [0]
  CREATE TEMP TABLE t (a int)

CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t)
  create public.t: replicated on [0 1 2]

CREATE TABLE t (id int, k bigint REFERENCES orders)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (id int, k bigint REFERENCES orders)
  create public.t: hash (k) map 1

CREATE TABLE t (id int PRIMARY KEY, k bigint REFERENCES orders)
----
ERROR 0A000 Unique index of distributed table must contain the hash distribution column.
  detail: The distribution key of table "t" is (k), the unique key is (id).
  hint: Add the distribution column to the unique key, or distribute by another column or by REPLICATION.

CREATE TABLE t (id int PRIMARY KEY, k int REFERENCES nation)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (id int PRIMARY KEY, k int REFERENCES nation)
  create public.t: hash (id) over [0 1 2]

CREATE TABLE t (k bigint REFERENCES orders) DISTRIBUTE BY REPLICATION
----
ERROR 0A000 cannot enforce the foreign key of table "t" to "orders" on each node
  detail: The tables are not distributed alike by the columns of the foreign key.
  hint: Replicate the referenced table, or distribute both by the columns of the foreign key.

CREATE TABLE t (LIKE orders INCLUDING ALL)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (LIKE orders INCLUDING ALL)
  create public.t: hash (o_orderkey) map 1

CREATE TABLE t (LIKE nation INCLUDING DISTRIBUTE)
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (LIKE nation                     )
  create public.t: replicated on [0 1 2]

CREATE TABLE IF NOT EXISTS orders (a int) DISTRIBUTE BY HASH (a)
----
Ddl Schema on [0 1 2]
  CREATE TABLE IF NOT EXISTS orders (a int)

-- describe: x 20, y 25
CREATE TABLE t DISTRIBUTE BY HASH (y) AS SELECT orders.o_orderkey AS x, 'a'::text AS y FROM public.orders
----
Ddl Schema on [0 1 2]
  CREATE TABLE t AS SELECT orders.o_orderkey AS x, 'a'::text AS y FROM public.orders  WITH NO DATA
  create public.t: hash (y) over [0 1 2]
  then INSERT INTO public.t SELECT orders.o_orderkey AS x, 'a'::text AS y FROM public.orders

-- describe: o_orderkey 20
SELECT o_orderkey INTO t FROM orders
----
Ddl Schema on [0 1 2]
  CREATE TABLE t AS SELECT o_orderkey FROM orders  WITH NO DATA
  create public.t: hash (o_orderkey) over [0 1 2]
  then INSERT INTO public.t SELECT o_orderkey FROM orders

-- describe: o_orderkey 20
CREATE TEMP TABLE t AS SELECT orders.o_orderkey FROM public.orders
----
Gather (write) on 0
  CREATE TEMPORARY TABLE t AS SELECT * FROM loxo_g1
  loxo_g1 from [0 1 2]
    SELECT orders.o_orderkey FROM public.orders

ALTER TABLE orders ADD COLUMN x int DEFAULT 5
----
Ddl Schema on [0 1 2]
  ALTER TABLE orders ADD COLUMN x int DEFAULT 5

ALTER TABLE orders ADD COLUMN x serial
----
Ddl Schema on [0 1 2]
  ALTER TABLE public.orders ADD COLUMN x integer NOT NULL DEFAULT 0; CREATE SEQUENCE public.orders_x_seq AS integer OWNED BY public.orders.x; ALTER TABLE public.orders ALTER COLUMN x SET DEFAULT pg_catalog.nextval('public.orders_x_seq'::pg_catalog.regclass)
  then UPDATE public.orders SET x = pg_catalog.nextval('public.orders_x_seq'::pg_catalog.regclass)

ALTER TABLE orders ADD COLUMN x uuid DEFAULT gen_random_uuid()
----
Ddl Schema on [0 1 2]
  ALTER TABLE orders ADD COLUMN x uuid DEFAULT gen_random_uuid()

ALTER TABLE orders ADD CONSTRAINT u UNIQUE (o_custkey)
----
ERROR 0A000 Unique index of distributed table must contain the hash distribution column.
  detail: The distribution key of table "orders" is (o_orderkey), the unique key is (o_custkey).
  hint: Add the distribution column to the unique key, or distribute by another column or by REPLICATION.

ALTER TABLE lineitem ADD FOREIGN KEY (l_orderkey) REFERENCES orders
----
Ddl Schema on [0 1 2]
  ALTER TABLE lineitem ADD FOREIGN KEY (l_orderkey) REFERENCES orders

ALTER TABLE lineitem ADD FOREIGN KEY (l_partkey) REFERENCES orders
----
ERROR 0A000 cannot enforce the foreign key of table "lineitem" to "orders" on each node
  detail: The tables are not distributed alike by the columns of the foreign key.
  hint: Replicate the referenced table, or distribute both by the columns of the foreign key.

ALTER TABLE orders DROP COLUMN o_orderkey
----
ERROR 0A000 dropping distribution column "o_orderkey" is not supported on distributed tables
  hint: Create a table with another distribution key and copy the rows: INSERT … SELECT.

ALTER TABLE orders ALTER COLUMN o_orderkey TYPE int
----
Ddl Schema on [0 1 2]
  ALTER TABLE orders ALTER COLUMN o_orderkey TYPE int

ALTER TABLE orders ALTER COLUMN o_orderkey TYPE text
----
ERROR 0A000 changing the type of distribution column "o_orderkey" is not supported on distributed tables
  hint: Create a table with another distribution key and copy the rows: INSERT … SELECT.

ALTER TABLE orders DISTRIBUTE BY HASH (o_custkey)
----
ERROR 0A000 Unique index of distributed table must contain the hash distribution column.
  detail: The distribution key of table "orders" is (o_custkey), the unique key is (o_orderkey).
  hint: Add the distribution column to the unique key, or distribute by another column or by REPLICATION.

ALTER TABLE lineitem DISTRIBUTE BY REPLICATION TO NODE (dn1, dn2)
----
Redistribute public.lineitem to replicated on [0 1]

ALTER TABLE lineitem ADD NODE (dn2), DELETE NODE (dn3)
----
Redistribute public.lineitem to hash (l_orderkey) over [0 1]

ALTER TABLE lineitem DISTRIBUTE BY REPLICATION, ADD COLUMN x int
----
ERROR 0A000 Incompatible operation with data redistribution
  hint: Put the other actions into an ALTER TABLE of their own.

ALTER TABLE IF EXISTS missing ADD NODE (dn1)
----
Forward (write) to 0
  ALTER TABLE IF EXISTS missing DROP COLUMN "loxo:"

ALTER TABLE nowhere.missing DISTRIBUTE BY HASH (a)
----
Forward (write) to 0
  ALTER TABLE nowhere.missing DROP COLUMN "loxo:"

ALTER TABLE orders RENAME TO o2
----
Ddl Schema on [0 1 2]
  ALTER TABLE orders RENAME TO o2
  RenameTable { schema: "public", name: "orders", new_schema: "public", new_name: "o2" }

ALTER TABLE orders RENAME COLUMN o_orderkey TO k
----
Ddl Schema on [0 1 2]
  ALTER TABLE orders RENAME COLUMN o_orderkey TO k
  RenameColumn { schema: "public", name: "orders", column: "o_orderkey", new_column: "k" }

CREATE UNIQUE INDEX ON orders (o_custkey)
----
ERROR 0A000 Unique index of distributed table must contain the hash distribution column.
  detail: The distribution key of table "orders" is (o_orderkey), the unique key is (o_custkey).
  hint: Add the distribution column to the unique key, or distribute by another column or by REPLICATION.

CREATE UNIQUE INDEX CONCURRENTLY ON orders (o_orderkey, o_custkey)
----
Ddl Schema on [0 1 2], outside a transaction
  CREATE UNIQUE INDEX CONCURRENTLY ON orders (o_orderkey, o_custkey)

CREATE INDEX ON orders (o_custkey)
----
Ddl Schema on [0 1 2]
  CREATE INDEX ON orders (o_custkey)

DROP TABLE orders, lineitem CASCADE
----
Ddl Schema on [0 1 2]
  DROP TABLE orders, lineitem CASCADE
  ForgetMissing

DROP TABLE scratch
----
Ddl Schema on [0]
  DROP TABLE scratch
  ForgetMissing

TRUNCATE orders, nation
----
Ddl Data on [0 1 2]
  TRUNCATE orders, nation

VACUUM ANALYZE orders
----
Ddl Maintenance on [0 1 2], outside a transaction
  VACUUM ANALYZE orders

ANALYZE
----
Ddl Maintenance on [0 1 2]
  ANALYZE

REINDEX TABLE CONCURRENTLY orders
----
Ddl Maintenance on [0 1 2], outside a transaction
  REINDEX TABLE CONCURRENTLY orders

CREATE VIEW v AS SELECT * FROM orders
----
Ddl Schema on [0 1 2]
  CREATE VIEW v AS SELECT * FROM orders

CREATE SEQUENCE s
----
Ddl Schema on [0 1 2]
  CREATE SEQUENCE s

CREATE ROLE bob
----
Ddl Schema on [0 1 2]
  CREATE ROLE bob

GRANT SELECT ON orders TO bob
----
Ddl Schema on [0 1 2]
  GRANT SELECT ON orders TO bob

COMMENT ON TABLE orders IS 'x'
----
Ddl Schema on [0 1 2]
  COMMENT ON TABLE orders IS 'x'

CREATE DATABASE d
----
Cluster CreateDatabase { name: "d", template: None, sql: "CREATE DATABASE d" }

DROP DATABASE IF EXISTS d WITH (FORCE)
----
Cluster DropDatabase { name: "d", missing_ok: true, force: true, sql: "DROP DATABASE IF EXISTS d WITH (FORCE)" }

ALTER DATABASE d CONNECTION LIMIT 3
----
Ddl Schema on [0 1 2]
  ALTER DATABASE d
  SetConnections { database: "d", limit: Some(3), allowed: None }

ALTER DATABASE d CONNECTION LIMIT 3 IS_TEMPLATE true
----
Ddl Schema on [0 1 2]
  ALTER DATABASE d IS_TEMPLATE TRUE
  SetConnections { database: "d", limit: Some(3), allowed: None }

CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION rounds()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION rounds()

CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION renumbers()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION renumbers()
  Run("CREATE TRIGGER \"loxo:tr\" BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION loxo.capture()")
  TieCapture { table: "public.orders", trigger: "tr" }
  CaptureOthers { table: "public.orders" }

DROP TABLE scratch, orders
----
Ddl Schema on [0 1 2]
  DROP TABLE scratch, orders
  elsewhere DROP TABLE orders
  ForgetMissing

TRUNCATE scratch, orders
----
Ddl Data on [0 1 2]
  TRUNCATE scratch, orders
  elsewhere TRUNCATE orders

CREATE TABLE alike (LIKE scratch)
----
Ddl Schema on [0 1 2]
  CREATE TABLE alike (LIKE scratch)
  elsewhere CREATE TABLE public.alike ()
  create public.alike: round robin over [0 1 2]

CREATE TABLESPACE fast LOCATION '/fast'
----
Ddl Maintenance on [0 1 2], outside a transaction
  CREATE TABLESPACE fast LOCATION '/fast'

DROP TABLESPACE fast
----
Ddl Maintenance on [0 1 2], outside a transaction
  DROP TABLESPACE fast

CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS count FROM public.nation
----
Ddl Schema on [0 1 2]
  CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS count FROM public.nation
  elsewhere CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS count FROM public.nation  WITH NO DATA

CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION count_orders()
----
ERROR 0A000 a trigger that calls function count_orders() is not supported on distributed tables
  detail: function count_orders(), which reads table "orders", is not supported on distributed tables.
  hint: Write the function in PL/pgSQL.

CREATE TRIGGER tr AFTER INSERT OR UPDATE OF o_total ON orders FOR EACH ROW WHEN (NEW.o_total > 10) EXECUTE FUNCTION logs('a')
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr AFTER INSERT OR UPDATE OF o_total ON orders FOR EACH ROW WHEN (NEW.o_total > 10) EXECUTE FUNCTION logs('a')
  Run("CREATE TRIGGER \"loxo:tr\" AFTER INSERT OR UPDATE OF o_total ON orders FOR EACH ROW WHEN (new.o_total > 10) EXECUTE FUNCTION loxo.capture()")
  TieCapture { table: "public.orders", trigger: "tr" }

CREATE TRIGGER tr AFTER INSERT ON nation FOR EACH ROW EXECUTE FUNCTION logs()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr AFTER INSERT ON nation FOR EACH ROW EXECUTE FUNCTION logs()
  Run("CREATE TRIGGER \"loxo:tr\" AFTER INSERT ON nation FOR EACH ROW EXECUTE FUNCTION loxo.capture()")
  TieCapture { table: "public.nation", trigger: "tr" }
  TendCopy { table: "public.nation" }

CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION logs()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION logs()
  Run("CREATE TRIGGER \"loxo:tr\" BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION loxo.capture()")
  TieCapture { table: "public.orders", trigger: "tr" }
  CaptureOthers { table: "public.orders" }

CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION looks()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION looks()

CREATE TRIGGER tr BEFORE INSERT ON nation FOR EACH ROW EXECUTE FUNCTION looks()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr BEFORE INSERT ON nation FOR EACH ROW EXECUTE FUNCTION looks()
  TendCopy { table: "public.nation" }

CREATE TRIGGER tr BEFORE INSERT ON orders EXECUTE FUNCTION harmless()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr BEFORE INSERT ON orders EXECUTE FUNCTION harmless()
  Run("CREATE TRIGGER \"loxo:tr\" BEFORE INSERT ON orders EXECUTE FUNCTION loxo.capture()")
  TieCapture { table: "public.orders", trigger: "tr" }

CREATE TRIGGER tr AFTER UPDATE ON orders REFERENCING NEW TABLE AS fresh EXECUTE FUNCTION logs()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr AFTER UPDATE ON orders REFERENCING NEW TABLE AS fresh EXECUTE FUNCTION logs()
  Run("CREATE TRIGGER \"loxo:tr\" AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION loxo.capture()")
  TieCapture { table: "public.orders", trigger: "tr" }

CREATE TRIGGER tr AFTER TRUNCATE ON orders EXECUTE FUNCTION harmless()
----
Ddl Schema on [0 1 2]
  CREATE TRIGGER tr AFTER TRUNCATE ON orders EXECUTE FUNCTION harmless()
  Run("CREATE TRIGGER \"loxo:tr\" AFTER TRUNCATE ON orders EXECUTE FUNCTION loxo.capture()")
  TieCapture { table: "public.orders", trigger: "tr" }

CREATE CONSTRAINT TRIGGER tr AFTER INSERT ON orders DEFERRABLE FOR EACH ROW EXECUTE FUNCTION logs()
----
ERROR 0A000 a trigger that calls function logs() is not supported on distributed tables
  detail: function logs() is not supported on distributed tables.
  hint: Leave DEFERRABLE out.

CREATE TRIGGER tr AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION count_orders()
----
ERROR 0A000 a trigger that calls function count_orders() is not supported on distributed tables
  detail: function count_orders(), which reads table "orders", is not supported on distributed tables.
  hint: Write the function in PL/pgSQL.

DO $$ BEGIN PERFORM 1; END $$
----
Forward (write) to 0
  DO $$ BEGIN PERFORM 1; END $$

DO $$ BEGIN IF true THEN COMMIT; END IF; END $$
----
Routine
  this block

DO $$ BEGIN DELETE FROM orders; END $$
----
Routine
  this block

CREATE NODE dn4 WITH (TYPE = 'datanode', HOST = 'h', PORT = 5432, PRIMARY)
----
Cluster CreateNode("dn4", NodeOptions { node_type: Some("datanode"), host: Some("h"), port: Some(5432), primary: Some(true), preferred: None })

EXECUTE DIRECT ON (dn1, dn2) 'SELECT 1'
----
Cluster ExecuteDirect { nodes: ["dn1", "dn2"], query: "SELECT 1" }

CREATE NODE GROUP g WITH (dn1, dn2)
----
Cluster CreateGroup { name: "g", members: ["dn1", "dn2"] }

CLEAN CONNECTION TO ALL FORCE FOR DATABASE postgres
----
Cluster CleanConnection(All)

PAUSE CLUSTER; SELECT 1; UNPAUSE CLUSTER
----
Cluster PauseCluster
Forward to 0
  SELECT 1
Cluster PauseCluster

SELECT 1 FRM x
----
ERROR 42601 syntax error at or near "x"

SELECT 'é', * FROM WHERE
----
ERROR 42601 syntax error at or near "WHERE"

CREATE TABLE t (a int) DISTRIBUTE BY HASH a
----
ERROR 42601 syntax error at or near "a"

CREATE TABLE t AS SELECT 1 AS a DISTRIBUTED BY (a)
----
ERROR XX000 CREATE TABLE AS was not described

CREATE TABLE p PARTITION OF orders FOR VALUES IN (1) DISTRIBUTE BY REPLICATION
----
Ddl Schema on [0 1 2]
  CREATE TABLE p PARTITION OF orders FOR VALUES IN (1)
  create public.p: hash (o_orderkey) map 1
  notice: Inherited/partition tables inherit distribution from the parent

CREATE TABLE t (a int /* ; */) -- note
  DISTRIBUTE BY HASH (a) ; SELECT 2
----
Ddl Schema on [0 1 2]
  CREATE TABLE t (a int /* ; */) -- note
  create public.t: hash (a) over [0 1 2]
Forward to 0
  SELECT 2

CREATE POLICY by_nation ON orders USING (o_custkey IN (SELECT n_nationkey FROM nation))
----
Ddl Schema on [0 1 2]
  CREATE POLICY by_nation ON orders USING (o_custkey IN (SELECT n_nationkey FROM nation))

CREATE POLICY by_lines ON orders USING (o_custkey IN (SELECT l_partkey FROM lineitem))
----
ERROR 0A000 a policy that reads partitioned table "lineitem" is not supported on distributed tables
  hint: Use the row's columns, settings, and tables that are replicated on all nodes.

CREATE SCHEMA parts CREATE TABLE a (id int PRIMARY KEY, v text) CREATE VIEW b AS SELECT id FROM a
----
Ddl Schema on [0 1 2]
  CREATE SCHEMA parts CREATE TABLE a (id int PRIMARY KEY, v text) CREATE VIEW b AS SELECT id FROM a
  create parts.a: hash (id) over [0 1 2]

CREATE SCHEMA parts CREATE TABLE a (id int PRIMARY KEY) CREATE TABLE b (id int REFERENCES a)
----
ERROR 0A000 a table that refers to another one of them among the elements of CREATE SCHEMA is not supported on distributed tables
  hint: Create it in a statement of its own.

CREATE PUBLICATION p FOR TABLE orders
----
Ddl Schema on [0 1 2]
  CREATE PUBLICATION p FOR TABLE orders

CREATE PUBLICATION p FOR ALL TABLES
----
ERROR 0A000 a publication FOR ALL TABLES is not supported on distributed tables
  hint: Name the tables, or FOR TABLES IN SCHEMA.

CREATE PUBLICATION p FOR TABLES IN SCHEMA loxo
----
ERROR 0A000 a publication of schema loxo is not supported on distributed tables
  hint: Publish the tables of your own schemas.

ALTER PUBLICATION p ADD TABLE loxo.decision
----
ERROR 0A000 a publication of schema loxo is not supported on distributed tables
  hint: Publish the tables of your own schemas.

