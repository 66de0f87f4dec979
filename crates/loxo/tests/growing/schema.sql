-- What a new datanode must get, of every kind. Sent through a coordinator.
CREATE ROLE clerk LOGIN PASSWORD 'it''s secret' CONNECTION LIMIT 7;
CREATE ROLE boss NOLOGIN CREATEROLE;
CREATE ROLE "Odd ""name""" NOLOGIN;
GRANT boss TO clerk WITH ADMIN OPTION;
ALTER ROLE clerk SET search_path = sales, public;
ALTER ROLE clerk SET work_mem = '5MB';
ALTER DATABASE postgres SET bytea_output = 'escape';
ALTER ROLE clerk IN DATABASE postgres SET datestyle = 'German, DMY';
COMMENT ON ROLE boss IS 'who decides';
GRANT CREATE ON DATABASE postgres TO boss WITH GRANT OPTION;
CREATE SCHEMA sales AUTHORIZATION boss;
GRANT USAGE ON SCHEMA sales TO clerk;
ALTER DEFAULT PRIVILEGES IN SCHEMA sales GRANT SELECT ON TABLES TO clerk;
CREATE TYPE sales.mood AS ENUM ('bad', 'good');
ALTER TYPE sales.mood ADD VALUE 'fair' BEFORE 'good';
CREATE DOMAIN sales.positive AS int CHECK (VALUE > 0);
CREATE TYPE sales.pair AS (a int, b text);
CREATE SEQUENCE sales.numbers START 1000;

-- Its key has another number where the dropped columns never were.
CREATE TABLE sales.item (gone int, gone_too text, id int PRIMARY KEY, kind sales.mood DEFAULT 'fair', n sales.positive, p sales.pair)
    DISTRIBUTE BY HASH (id);
ALTER TABLE sales.item DROP COLUMN gone, DROP COLUMN gone_too;
CREATE TABLE sales.two (a int, gone text, b text, c int, PRIMARY KEY (b, a)) DISTRIBUTE BY HASH (b, a);
ALTER TABLE sales.two DROP COLUMN gone;
CREATE TABLE modulo (k int, v text) DISTRIBUTE BY MODULO (k);
CREATE TABLE copies (id serial PRIMARY KEY, v text) DISTRIBUTE BY REPLICATION;
CREATE TABLE anywhere (v text COLLATE "C") DISTRIBUTE BY ROUNDROBIN;
CREATE TABLE on_one (k int) DISTRIBUTE BY HASH (k) TO NODE (dn2);
CREATE TABLE by_default (k int PRIMARY KEY, v int GENERATED ALWAYS AS (k * 2) STORED);
CREATE TABLE parted (k int, at date, v text) PARTITION BY RANGE (at) DISTRIBUTE BY HASH (k);
CREATE TABLE parted_old PARTITION OF parted FOR VALUES FROM ('2000-01-01') TO ('2020-01-01');
CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
CREATE TABLE mother (k int, v text) DISTRIBUTE BY HASH (k);
CREATE TABLE child (own int) INHERITS (mother);
CREATE INDEX item_kind ON sales.item (kind) WHERE n > 5;
CREATE INDEX ON parted (at);
CREATE STATISTICS sales.item_statistics ON kind, n FROM sales.item;
COMMENT ON TABLE sales.item IS 'it''s an item';
COMMENT ON COLUMN sales.item.n IS 'how many';
ALTER TABLE sales.item ALTER COLUMN p SET STORAGE EXTERNAL;
GRANT INSERT (id, kind) ON sales.item TO clerk;
ALTER TABLE modulo ENABLE ROW LEVEL SECURITY;
CREATE POLICY small ON modulo FOR SELECT TO clerk USING (k < 10);

-- Foreign keys that can give a row another distribution key: triggers with a table's number in their names.
CREATE TABLE parent (id int PRIMARY KEY) DISTRIBUTE BY REPLICATION;
CREATE TABLE follower (k int REFERENCES parent ON UPDATE CASCADE, v text) DISTRIBUTE BY HASH (k);
CREATE TABLE follower_parted (k int REFERENCES parent ON UPDATE CASCADE, at int) PARTITION BY LIST (at) DISTRIBUTE BY HASH (k);
CREATE TABLE follower_one PARTITION OF follower_parted FOR VALUES IN (1);

CREATE FUNCTION sales.twice(n int) RETURNS int LANGUAGE sql IMMUTABLE RETURN n * 2;
CREATE FUNCTION sales.log_it() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = sales AS $$
BEGIN
    INSERT INTO public.anywhere VALUES (NEW.id || ' came');
    RETURN NULL;
END $$;
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.v := upper(NEW.v);
    RETURN NEW;
END $$;
REVOKE EXECUTE ON FUNCTION sales.twice FROM PUBLIC;
CREATE TRIGGER "log \it" AFTER INSERT ON sales.item FOR EACH ROW EXECUTE FUNCTION sales.log_it();
CREATE TRIGGER copies_log AFTER INSERT ON copies FOR EACH ROW EXECUTE FUNCTION sales.log_it();
CREATE TRIGGER copies_stamp BEFORE INSERT OR UPDATE ON copies FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE TRIGGER sleeper BEFORE INSERT ON modulo FOR EACH ROW EXECUTE FUNCTION stamp();
ALTER TABLE modulo DISABLE TRIGGER sleeper;
CREATE VIEW sales.seen WITH (security_barrier) AS SELECT id, kind FROM sales.item WHERE n > 1;
CREATE RULE insert_seen AS ON INSERT TO sales.seen DO INSTEAD INSERT INTO sales.item (id, kind) VALUES (NEW.id, NEW.kind);
CREATE RULE keep AS ON DELETE TO modulo DO ALSO INSERT INTO anywhere VALUES ('gone');
CREATE MATERIALIZED VIEW sales.counted AS SELECT kind, count(*) FROM sales.item GROUP BY kind;
CREATE MATERIALIZED VIEW sales.unread AS SELECT 1 AS one WITH NO DATA;
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
CREATE AGGREGATE product (int) (SFUNC = int4mul, STYPE = int);
CREATE EXTENSION citext;
CREATE TABLE cited (c citext) DISTRIBUTE BY ROUNDROBIN;
CREATE PUBLICATION for_all FOR TABLE sales.item;
CREATE NODE GROUP pair WITH (dn1, dn2);
INSERT INTO copies (v) VALUES ('one'), ('two');
