-- Tables that are damaged and repaired, each with something that might get in the way. What a stock server does not know stands in lines of
-- its own.
CREATE DOMAIN short AS varchar(8);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE told (what text)
    DISTRIBUTE BY ROUNDROBIN
;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.told VALUES (tg_table_name); RETURN coalesce(NEW, OLD); END $$;

CREATE TABLE keyed (gone int, k short COLLATE "C" PRIMARY KEY, id int GENERATED ALWAYS AS IDENTITY, p pair, f float8, at timestamptz,
    twice int GENERATED ALWAYS AS (length(k) * 2) STORED, money money)
    DISTRIBUTE BY HASH (k)
;
ALTER TABLE keyed DROP COLUMN gone;
ALTER TABLE keyed ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY none ON keyed USING (false);
INSERT INTO keyed (k, p, f, at, money) SELECT 'k' || g, (g, 'b ' || g)::pair, g / 7.0, timestamptz '2020-01-01 00:00 UTC' + g * interval '1 hour', g
    FROM generate_series(1, 300) AS g;
CREATE TABLE followers (k short COLLATE "C" REFERENCES keyed ON DELETE CASCADE, n int, PRIMARY KEY (k, n))
    DISTRIBUTE BY HASH (k)
;
INSERT INTO followers SELECT 'k' || g, n FROM generate_series(1, 300) AS g, generate_series(1, 2) AS n;

CREATE TABLE late (k int, v text, UNIQUE (k) DEFERRABLE INITIALLY DEFERRED)
    DISTRIBUTE BY HASH (k)
;
CREATE UNIQUE INDEX late_upper ON late (k, upper(v)) WHERE v <> '';
INSERT INTO late SELECT g, 'v' || g FROM generate_series(1, 200) AS g;

-- Without a key, each row twice.
CREATE TABLE plain (k bigint, v int, big text)
    DISTRIBUTE BY MODULO (k)
;
INSERT INTO plain SELECT g - 50, g, repeat('wide ' || g, 1000) FROM generate_series(1, 100) AS g, generate_series(1, 2);
INSERT INTO plain VALUES (NULL, NULL, NULL);

CREATE TABLE ranged (k int, at date, v text) PARTITION BY RANGE (at)
    DISTRIBUTE BY HASH (k)
;
CREATE TABLE ranged_old PARTITION OF ranged FOR VALUES FROM ('2000-01-01') TO ('2020-01-01');
CREATE TABLE ranged_new (v text, at date, k int);
ALTER TABLE ranged ATTACH PARTITION ranged_new FOR VALUES FROM ('2020-01-01') TO ('2030-01-01');
INSERT INTO ranged SELECT g, date '2019-01-01' + g * 3, 'r' || g FROM generate_series(1, 240) AS g;

CREATE TABLE mother (k int, v int)
    DISTRIBUTE BY HASH (k)
;
CREATE TABLE "the Child" ("own $" int) INHERITS (mother);
INSERT INTO mother SELECT g, g FROM generate_series(1, 100) AS g;
INSERT INTO "the Child" SELECT g, g, g FROM generate_series(1, 100) AS g;

CREATE TABLE anywhere (v int)
    DISTRIBUTE BY ROUNDROBIN TO NODE (dn1, dn2)
;
INSERT INTO anywhere SELECT g FROM generate_series(1, 50) AS g;

CREATE TABLE copies (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text, twice int GENERATED ALWAYS AS (length(v) * 2) STORED)
    DISTRIBUTE BY REPLICATION
;
INSERT INTO copies (v) SELECT 'c' || g FROM generate_series(1, 100) AS g;
CREATE TABLE copy_users (n int PRIMARY KEY, id int REFERENCES copies ON DELETE CASCADE)
    DISTRIBUTE BY HASH (n)
;
INSERT INTO copy_users SELECT g, g FROM generate_series(1, 100) AS g;
CREATE TABLE two_copies (v int)
    DISTRIBUTE BY REPLICATION TO NODE (dn2, dn3)
;
INSERT INTO two_copies SELECT g FROM generate_series(1, 20) AS g;

CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it fires'; END $$;
CREATE TRIGGER fails BEFORE INSERT OR DELETE ON keyed FOR EACH ROW EXECUTE FUNCTION fail();
ALTER TABLE keyed ENABLE ALWAYS TRIGGER fails;
CREATE TRIGGER tells AFTER INSERT OR DELETE ON late FOR EACH ROW EXECUTE FUNCTION tell();
CREATE RULE r_tells AS ON DELETE TO late DO ALSO INSERT INTO told VALUES ('rule');
CREATE RULE r_never AS ON DELETE TO copies DO INSTEAD NOTHING;
