CREATE RULE r AS ON INSERT TO orders DO INSTEAD NOTHING
----
Ddl Schema on [0 1 2]
  CREATE RULE r AS ON INSERT TO orders DO INSTEAD NOTHING
  Run("ALTER TABLE public.orders ENABLE REPLICA RULE r")

CREATE OR REPLACE RULE r AS ON DELETE TO shown DO INSTEAD NOTHING
----
Ddl Schema on [0 1 2]
  CREATE OR REPLACE RULE r AS ON DELETE TO shown DO INSTEAD NOTHING

CREATE RULE r AS ON INSERT TO orders DO SELECT 1
----
ERROR 0A000 rule "r" with SELECT as its action, or in it, is not supported on distributed tables
  hint: INSERT, UPDATE, DELETE, NOTIFY and NOTHING work, also several of them.

CREATE RULE "_RETURN" AS ON SELECT TO orders DO INSTEAD SELECT 1
----
ERROR 0A000 rule "_RETURN" ON SELECT is not supported on distributed tables
  hint: Use CREATE VIEW.

CREATE RULE r AS ON INSERT TO orders DO INSERT INTO scratch VALUES (new.o_orderkey)
----
ERROR 0A000 rule "r" that names a temporary table is not supported on distributed tables
  hint: Use a permanent table.

ALTER TABLE logged ENABLE RULE r1
----
Ddl Schema on [0 1 2]
  ALTER TABLE logged ENABLE RULE r1
  Run("ALTER TABLE public.logged ENABLE REPLICA RULE r1")

ALTER TABLE logged DISABLE RULE r1
----
Ddl Schema on [0 1 2]
  ALTER TABLE logged DISABLE RULE r1

ALTER TABLE logged ENABLE ALWAYS RULE r1
----
ERROR 0A000 this state of rule "r1" is not supported on distributed tables
  hint: Use ENABLE RULE or DISABLE RULE.

INSERT INTO public.logged (g_id, g_text) VALUES (1, 'a'::text)
----
Routine
  INSERT INTO public.logged (g_id, g_text) VALUES (1, 'a'::text) (answers)
  INSERT INTO public.events (e_id, e_text) VALUES (1::bigint, 'in '::text || 7)

INSERT INTO public.logged (g_id, g_text, g_n) VALUES (1,'a'::text,DEFAULT), (2,'b'::text,3) RETURNING logged.g_id
----
Routine
  INSERT INTO public.logged (g_id, g_text, g_n) VALUES (1,'a'::text,DEFAULT), (2,'b'::text,3) RETURNING logged.g_id (answers)
  INSERT INTO public.events (e_id, e_text) SELECT loxo_rows.g_id::bigint, 'in '::text || loxo_rows.g_n::int FROM (VALUES (1::bigint, 'a'::text::text, 7), (2::bigint, 'b'::text::text, 3::int)) loxo_rows(g_id, g_text, g_n)

INSERT INTO public.logged (g_id) SELECT orders.o_orderkey FROM public.orders
----
Routine
  INSERT INTO public.logged (g_id) SELECT orders.o_orderkey FROM public.orders (answers)
  INSERT INTO public.events (e_id, e_text) SELECT loxo_rows.g_id::bigint, 'in '::text || 7 FROM (SELECT orders.o_orderkey FROM public.orders) loxo_rows(g_id)

INSERT INTO public.logged (g_id, g_text) VALUES ($1, 'a'::text)
----
Routine
  INSERT INTO public.logged (g_id, g_text) VALUES ($1, 'a'::text) (answers)
  INSERT INTO public.events (e_id, e_text) VALUES ($1::bigint, 'in '::text || 7)

INSERT INTO public.logged (g_id, g_text) VALUES (1, 'a'::text) ON CONFLICT DO NOTHING
----
ERROR 0A000 INSERT with ON CONFLICT clause cannot be used with table that has INSERT or UPDATE rules

WITH x AS (SELECT 1 AS "?column?") INSERT INTO public.logged (g_id) SELECT x."?column?" FROM x
----
ERROR 0A000 WITH cannot be used in a query that is rewritten by rules into multiple queries

UPDATE public.logged l SET g_text = upper(l.g_text) FROM public.nation WHERE (nation.n_key = l.g_n)
----
Routine
  INSERT INTO public.events (e_id, e_text) SELECT loxo_rows.o1, loxo_rows.n2 FROM (SELECT upper(l.g_text)::text AS n2, l.g_id AS o1, l.g_text AS o2 FROM public.logged l, public.nation WHERE nation.n_key = l.g_n) loxo_rows WHERE loxo_rows.o2 <> loxo_rows.n2
  UPDATE public.logged l SET g_text = upper(l.g_text) FROM public.nation WHERE (nation.n_key = l.g_n) (answers)

UPDATE public.logged SET g_text = (random())::text
----
ERROR 0A000 random(), which gives column "g_text" its value, in a change of "logged", which has rules, is not supported on distributed tables
  hint: Write it in another way, or do what the rule does by a statement of your own.

UPDATE public.logged SET g_n = 1
----
Routine
  INSERT INTO public.events (e_id, e_text) SELECT loxo_rows.o1, loxo_rows.o2 FROM (SELECT logged.g_id AS o1, logged.g_text AS o2 FROM public.logged) loxo_rows WHERE loxo_rows.o2 <> loxo_rows.o2
  UPDATE public.logged SET g_n = 1 (answers)

DELETE FROM public.logged WHERE (logged.g_id = 5)
----
Routine
  UPDATE public.nation SET n_name = loxo_rows.o2 FROM (SELECT logged.g_text AS o2, logged.g_n AS o3 FROM public.logged WHERE logged.g_id = 5) loxo_rows WHERE nation.n_key = loxo_rows.o3 AND loxo_rows.o3 > 5
  DELETE FROM public.logged WHERE logged.g_id = 5 AND logged.g_n > 5 IS NOT TRUE (answers)

DELETE FROM public.logged USING public.nation WHERE (nation.n_key = logged.g_n) RETURNING logged.g_id
----
ERROR 0A000 cannot perform DELETE RETURNING on relation "logged"
  hint: You need an unconditional ON DELETE DO INSTEAD rule with a RETURNING clause.

DELETE FROM public.kept
----
Routine

DELETE FROM public.kept RETURNING kept.k_id
----
ERROR 0A000 cannot perform DELETE RETURNING on relation "kept"
  hint: You need an unconditional ON DELETE DO INSTEAD rule with a RETURNING clause.

INSERT INTO public.kept (k_id, k_text) VALUES (1, 'x'::text)
----
Routine
  INSERT INTO public.kept (k_id, k_text) SELECT 1::bigint, 'x'::text::text WHERE EXISTS (SELECT 1 FROM public.kept WHERE kept.k_id = 1::bigint) IS NOT TRUE (answers)

INSERT INTO public.kept (k_id, k_text) SELECT nation.n_key, nation.n_name FROM public.nation
----
Routine
  INSERT INTO public.kept (k_id, k_text) SELECT loxo_rows.k_id::bigint, loxo_rows.k_text::text FROM (SELECT nation.n_key, nation.n_name FROM public.nation) loxo_rows(k_id, k_text) WHERE EXISTS (SELECT 1 FROM public.kept WHERE kept.k_id = loxo_rows.k_id::bigint) IS NOT TRUE (answers)

INSERT INTO public.ring (g_id) VALUES (1)
----
ERROR 42P17 infinite recursion detected in rules for relation "ring"

INSERT INTO public.shown (s_id, s_date) VALUES (1, '2020-01-01'::date) RETURNING shown.s_id, shown.s_date, (shown.s_date + 1) AS next
----
Routine
  INSERT INTO public.orders (o_orderkey, o_date) VALUES (1::bigint, '2020-01-01'::date::date) RETURNING orders.o_orderkey AS s_id, orders.o_date AS s_date, orders.o_date + 1 AS next (answers)

UPDATE public.shown SET s_date = (shown.s_date + 1) WHERE (shown.s_id < 5)
----
Routine
  UPDATE public.orders SET o_date = loxo_rows.n2 FROM (SELECT (shown.s_date + 1)::date AS n2, shown.s_id AS o1 FROM public.shown WHERE shown.s_id < 5) loxo_rows WHERE orders.o_orderkey = loxo_rows.o1 (answers)

UPDATE public.shown SET s_date = '2020-01-01'::date RETURNING shown.s_id
----
ERROR 0A000 cannot perform UPDATE RETURNING on relation "shown"
  hint: You need an unconditional ON UPDATE DO INSTEAD rule with a RETURNING clause.

DELETE FROM public.shown WHERE (shown.s_id = 4)
----
Routine
  DELETE FROM public.orders USING (SELECT shown.s_id AS o1 FROM public.shown WHERE shown.s_id = 4) loxo_rows WHERE orders.o_orderkey = loxo_rows.o1 (answers)

DELETE FROM public.part_logged WHERE (part_logged.g_text = 'x'::text)
----
Routine
  UPDATE public.nation SET n_name = loxo_rows.o2 FROM (SELECT part_logged.g_text AS o2, part_logged.g_n AS o3 FROM public.logged part_logged WHERE part_logged.g_text = 'x'::text AND part_logged.g_n = 1) loxo_rows WHERE nation.n_key = loxo_rows.o3 AND loxo_rows.o3 > 5
  DELETE FROM public.logged part_logged WHERE (part_logged.g_text = 'x'::text AND part_logged.g_n = 1) AND part_logged.g_n > 5 IS NOT TRUE (answers)

MERGE INTO public.logged USING public.nation ON (logged.g_n = nation.n_key) WHEN MATCHED THEN DELETE
----
ERROR 0A000 cannot execute MERGE on relation "logged"
  detail: MERGE is not supported for relations with rules.

WITH x AS (DELETE FROM public.kept RETURNING kept.k_id) SELECT x.k_id FROM x
----
ERROR 0A000 a data change in WITH of "kept", which has rules, is not supported on distributed tables
  hint: Write one statement after the other.

EXPLAIN DELETE FROM public.kept
----
ERROR 0A000 EXPLAIN of a change that rules rewrite is not supported on distributed tables
  hint: Explain the rules' own statements.

COPY logged FROM STDIN
----
CopyFrom public.logged (g_id, g_text, g_n)
  route: hash of column 0 Int8 over [0 1 2]

