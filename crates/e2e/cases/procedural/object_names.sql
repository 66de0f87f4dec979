-- Values of regclass and its kin in variables of bodies that the coordinator runs: they are objects, whatever these are called and
-- whatever the search path is.
CREATE SCHEMA e2e_names; CREATE SCHEMA e2e_names_o;
SET search_path = e2e_names;
CREATE TABLE t (id int PRIMARY KEY) /*dist: hash(id) | replication*/; INSERT INTO t VALUES (1);
CREATE TABLE e2e_names_o.t (id int PRIMARY KEY) /*dist: hash(id) | replication*/; INSERT INTO e2e_names_o.t VALUES (1), (2);
CREATE TABLE lg (n int, x text) /*dist: hash(n) | replication*/;
CREATE TYPE mood AS ENUM ('a', 'b');
CREATE TYPE named AS (n int, r regclass, k regtype);
CREATE DOMAIN a_table AS regclass;

-- A function with a search path of its own.
CREATE FUNCTION wipe(r regclass) RETURNS text LANGUAGE plpgsql SET search_path = e2e_names_o, e2e_names AS $$
BEGIN EXECUTE format('DELETE FROM %s', r); RETURN r::text; END $$;
SELECT wipe('e2e_names.t'), 't'::regclass;
SELECT count(*) FROM t; SELECT count(*) FROM e2e_names_o.t;
CREATE FUNCTION wipe_in_none(r regclass) RETURNS text LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN EXECUTE format('DELETE FROM %s', r); RETURN r::text; END $$;
INSERT INTO t VALUES (1);
SELECT wipe_in_none('t');
SELECT count(*) FROM t; SELECT count(*) FROM e2e_names_o.t;
CREATE PROCEDURE wipe_both(r regclass, INOUT q regclass) LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN EXECUTE format('DELETE FROM %s', r); EXECUTE format('DELETE FROM %s WHERE id = 2', q); q := r; END $$;
INSERT INTO t VALUES (1);
CALL wipe_both('t', 'e2e_names_o.t');
SELECT count(*) FROM t; SELECT count(*) FROM e2e_names_o.t;
CREATE FUNCTION by_default(r regclass DEFAULT 't') RETURNS text LANGUAGE plpgsql SET search_path = e2e_names_o AS $$
BEGIN INSERT INTO e2e_names.lg VALUES (1, r); RETURN r; END $$;
SELECT by_default();

-- A search path that the body sets; a cursor's rows are printed under it too.
CREATE FUNCTION sets(r regclass) RETURNS regclass LANGUAGE plpgsql AS $$
DECLARE q named; c CURSOR FOR SELECT n, 't'::regclass AS r, 'mood'::regtype AS k FROM lg WHERE n < 3 ORDER BY n;
BEGIN
  OPEN c;
  SET LOCAL search_path = e2e_names_o;
  FETCH c INTO q; CLOSE c;
  RAISE NOTICE '% %', q, q.r;
  EXECUTE format('INSERT INTO %s VALUES (7)', r); EXECUTE format('INSERT INTO %s VALUES (8)', q.r);
  INSERT INTO e2e_names.lg VALUES (2, r), (3, q);
  RETURN r;
END $$;
BEGIN; SELECT sets('t'); SHOW search_path; COMMIT;
SELECT * FROM t ORDER BY 1; SELECT * FROM e2e_names_o.t ORDER BY 1;

-- Other names, and other tables of the name.
DO $$ DECLARE r regclass := 't'; BEGIN
  ALTER TABLE t RENAME TO t_old; CREATE TABLE t (id int); EXECUTE format('INSERT INTO %s VALUES (99)', r); RAISE NOTICE '%', r;
END $$;
SELECT * FROM t ORDER BY 1; SELECT * FROM t_old ORDER BY 1;
DO $$ DECLARE r regclass := 't'; BEGIN
  CREATE TEMP TABLE t (id int); EXECUTE format('INSERT INTO %s VALUES (98)', r); RAISE NOTICE '%', r;
  r := 't'; EXECUTE format('INSERT INTO %s VALUES (97)', r); RAISE NOTICE '% %', r, r::text;
END $$;
SELECT * FROM t ORDER BY 1; SELECT * FROM e2e_names.t ORDER BY 1; DROP TABLE pg_temp.t;
DO $$ DECLARE n regnamespace := 'e2e_names_o'; BEGIN
  INSERT INTO lg VALUES (4, n); ALTER SCHEMA e2e_names_o RENAME TO e2e_names_p; RAISE NOTICE '%', n; INSERT INTO lg VALUES (5, n);
  EXECUTE format('CREATE TABLE %s.made (i int)', n);
END $$;
SELECT 'e2e_names_p.made'::regclass;
ALTER SCHEMA e2e_names_p RENAME TO e2e_names_o;

-- Arrays, composite values and domains.
CREATE FUNCTION many(r regclass[]) RETURNS text LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE x regclass; s text := ''; BEGIN
  FOREACH x IN ARRAY r LOOP EXECUTE format('INSERT INTO %s VALUES (5)', x); s := s || x || ' '; END LOOP;
  r[2] := 'e2e_names.lg'; RAISE NOTICE '% %', r, r[1]; RETURN s;
END $$;
SELECT many(ARRAY['t', 'e2e_names_o.t']::regclass[]);
SELECT many('{}');
CREATE FUNCTION composite(p named, d a_table, k regtype, m mood, ms mood[]) RETURNS named LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE l e2e_names.named; v e2e_names.named%rowtype; BEGIN
  EXECUTE format('INSERT INTO %s VALUES (6)', p.r); RAISE NOTICE '% % % % %', p, d, k, m, ms;
  l := p; l.r := d; v := row(2, p.r, k); RAISE NOTICE '% %', l, v;
  INSERT INTO e2e_names.lg VALUES (6, l::text), (7, v::text), (8, p::text), (9, d::text), (10, k::text);
  RETURN l;
END $$;
SELECT composite((1, 't', 'mood'), 'e2e_names_o.t', 'mood', 'a', '{a,b}');
SELECT * FROM composite((1, 't', 'mood[]'), 'e2e_names_o.t', 'mood[]', 'a', '{a,b}');
SELECT * FROM t ORDER BY 1; SELECT * FROM e2e_names_o.t ORDER BY 1;
SELECT * FROM lg ORDER BY n, x COLLATE "C";

-- Other kinds, rows of catalogs, sets.
DO $$ DECLARE f regproc := 'many'; g regprocedure := 'many(regclass[])'; z regclass := 0; w regrole := current_user::regrole; q pg_type; BEGIN
  INSERT INTO lg VALUES (20, f), (21, g); SET LOCAL search_path = e2e_names_o;
  INSERT INTO e2e_names.lg VALUES (22, f), (23, g), (24, z); RAISE NOTICE '% % % %', f, g, z, w = current_user::regrole;
  SELECT * INTO q FROM pg_type WHERE typname = 'int4'; INSERT INTO e2e_names.lg VALUES (25, q.typinput);
END $$;
-- The name of one of several functions, which PostgreSQL prints and does not read.
DO $$ DECLARE r record; BEGIN FOR r IN SELECT * FROM pg_aggregate WHERE aggfnoid::oid = 2147 LOOP INSERT INTO lg VALUES (28, r.aggkind); END LOOP; END $$;
CREATE FUNCTION sets_of() RETURNS SETOF regclass LANGUAGE plpgsql AS $$
BEGIN INSERT INTO lg VALUES (26, 's'); RETURN NEXT 't'; RETURN QUERY SELECT 'e2e_names_o.t'::regclass; RETURN NEXT 'pg_class'; END $$;
SELECT * FROM sets_of();
CREATE FUNCTION of_rows(x text) RETURNS regclass LANGUAGE plpgsql AS $$ BEGIN INSERT INTO lg VALUES (27, x); RETURN x::regclass; END $$;
SELECT id, of_rows('t'), of_rows('e2e_names_o.t') = 't'::regclass FROM t_old ORDER BY id;
SELECT * FROM lg WHERE n >= 20 ORDER BY n, x COLLATE "C";

-- Rows of triggers, and conditions on every node.
CREATE TABLE reg (id int PRIMARY KEY, rel regclass, k regtype) /*dist: hash(id) | replication*/;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$ BEGIN
  INSERT INTO e2e_names.lg VALUES (30 + NEW.id, TG_OP || ' ' || NEW::text || ' ' || TG_RELID::regclass || ' ' || (NEW.tableoid = TG_RELID) || coalesce((OLD.tableoid = TG_RELID)::text, '-'));
  EXECUTE format('INSERT INTO %s VALUES (%s)', NEW.rel, NEW.id + 100); RETURN NULL; END $$;
CREATE FUNCTION sets_table() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$ BEGIN
  INSERT INTO e2e_names.lg VALUES (40 + NEW.id, NEW.rel || ' ' || NEW.tableoid || coalesce((OLD.tableoid = TG_RELID)::text, '-'));
  IF NEW.id = 2 THEN NEW.rel := 'e2e_names.t_old'; END IF;
  IF NEW.id = 3 THEN RETURN row(3, 'e2e_names_o.t'::regclass, 'int'::regtype); END IF; RETURN NEW; END $$;
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON reg FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER sets_table BEFORE INSERT OR UPDATE ON reg FOR EACH ROW EXECUTE FUNCTION sets_table();
INSERT INTO reg VALUES (1, 't', 'mood'), (2, 'e2e_names_o.t', 'mood[]'), (3, 't', NULL);
UPDATE reg SET rel = 'e2e_names_o.t' WHERE id = 1;
SELECT * FROM reg ORDER BY id;
SELECT * FROM lg WHERE n >= 30 ORDER BY n, x COLLATE "C"; SELECT * FROM t_old ORDER BY 1; SELECT * FROM e2e_names_o.t ORDER BY 1;
CREATE FUNCTION counted(r regclass) RETURNS bigint LANGUAGE plpgsql SET search_path = e2e_names_o AS $$
DECLARE c bigint; BEGIN EXECUTE 'SELECT count(*) FROM e2e_names.reg WHERE rel = $1' INTO c USING r;
  RETURN c * 10 + (SELECT count(*) FROM e2e_names.reg WHERE rel = r); END $$;
SELECT counted('t'), counted('e2e_names_o.t');

-- System columns of rows mean something on their own node.
CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO lg VALUES (50, OLD.xmin); RETURN NULL; END $$;
CREATE TRIGGER looks AFTER DELETE ON reg FOR EACH ROW EXECUTE FUNCTION looks();
-- refused
DELETE FROM reg WHERE id = 1;

-- A value of an enum type that gets another name, and names inside of array elements.
-- refused
DO $$ DECLARE m mood := 'a'; BEGIN INSERT INTO lg VALUES (60, m); ALTER TYPE mood RENAME VALUE 'a' TO 'c'; RAISE NOTICE '%', m; END $$;
-- refused
DO $$ DECLARE m named[]; BEGIN INSERT INTO lg VALUES (60, ''); m := ARRAY[row(1, 't', 'int')::named]; END $$;

-- A void function in SQL that is but a call of another one gives what that one gives.
CREATE FUNCTION u1() RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO lg VALUES (70, 'w'); END $$;
CREATE FUNCTION u2() RETURNS void LANGUAGE sql AS $$ SELECT u1() $$;
CREATE FUNCTION u3() RETURNS void LANGUAGE sql AS $$ SELECT u2() $$;
CREATE FUNCTION u4() RETURNS void LANGUAGE sql AS $$ INSERT INTO lg VALUES (71, 'v'); SELECT u2() $$;
CREATE FUNCTION u5() RETURNS void LANGUAGE sql AS $$ SELECT u1() WHERE true $$;
SELECT u2() IS NULL, u3() IS NULL, u4() IS NULL, u5() IS NULL, u1() IS NULL;
SELECT count(*) FROM lg WHERE n >= 70;
DROP SCHEMA e2e_names CASCADE;
DROP SCHEMA e2e_names_o CASCADE;
