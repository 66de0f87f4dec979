-- From layout 7 to layout 8: several databases; numbers of identity columns for those who may insert.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE loxo.database (
    name  name PRIMARY KEY,
    id    uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid(),
    state text NOT NULL CHECK (state IN ('creating', 'ready', 'leaving', 'dropping'))
);
COMMENT ON TABLE loxo.database IS 'Databases beside the first one, and the journal of those that are being made and dropped.';
REVOKE ALL ON loxo.database FROM PUBLIC;

CREATE OR REPLACE FUNCTION loxo.settle() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    held text[] := ARRAY (SELECT gid FROM pg_prepared_xact()
        WHERE (starts_with(gid, 'loxo_1_') OR gid IN (SELECT f.gid FROM loxo.finishing AS f))
            AND dbid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()));
    patience timestamptz := clock_timestamp() + interval '30 s';
BEGIN
    WHILE EXISTS (SELECT FROM pg_prepared_xact() WHERE gid = ANY (held)) LOOP
        IF clock_timestamp() > patience THEN
            RAISE cannot_connect_now USING
                MESSAGE = 'this datanode holds transactions in doubt that have not been resolved within 30 s',
                HINT = 'See "loxo status"; a gtm and all datanodes must run to resolve them.';
        END IF;
        PERFORM pg_sleep(0.0005);
    END LOOP;
END
$$;
COMMENT ON FUNCTION loxo.settle() IS 'Waits until the distributed transactions that are prepared in this database now are resolved.';

-- PostgreSQL draws the number of an identity column for everybody who may insert, with no right on the sequence. nextval() asks for one.
-- IMMUTABLE as a name's cast to regclass is: looked up once a statement, not for each row.
CREATE FUNCTION loxo.identity_sequence(relation text, name text) RETURNS oid
    LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    target oid := loxo.relation_id(relation);
    sequence oid;
BEGIN
    SELECT d.objid INTO sequence
    FROM pg_attribute AS a
    JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
        AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
    WHERE a.attname = name AND a.attidentity <> '' AND a.attrelid IN (target, pg_partition_root(target));
    -- A table that is younger than the transaction's snapshot is found by PostgreSQL's own functions alone.
    RETURN coalesce(sequence, pg_get_serial_sequence(relation, name)::regclass);
END
$$;
COMMENT ON FUNCTION loxo.identity_sequence(text, text) IS 'The sequence of an identity column.';

-- For those who have no right on the sequence: it has to be an identity column's. No proof is wanted, since an INSERT would do the same.
CREATE FUNCTION loxo.draw_identity(sequence oid) RETURNS int8
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    relation oid;
BEGIN
    SELECT a.attrelid INTO relation
    FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE d.classid = 'pg_class'::regclass AND d.objid = sequence AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
        AND a.attidentity <> '';
    IF relation IS NULL OR NOT loxo.reaches(caller, relation, 'INSERT, UPDATE') THEN
        RAISE insufficient_privilege USING MESSAGE = (
            SELECT format('permission denied for %s %s', CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname)
            FROM pg_class AS c WHERE c.oid = coalesce(relation, sequence));
    END IF;
    RETURN nextval(sequence);
END
$$;
COMMENT ON FUNCTION loxo.draw_identity(oid) IS
    'nextval() for those who may insert into or update the table whose identity column the sequence is of.';

-- Most who insert own the table. It runs for each row and has no SET, which takes as long as the rest.
CREATE FUNCTION loxo.next_identity(sequence oid) RETURNS int8
    LANGUAGE plpgsql STRICT
    AS $$
BEGIN
    IF pg_catalog.has_sequence_privilege(sequence, 'USAGE, UPDATE') THEN
        RETURN pg_catalog.nextval(sequence);
    END IF;
    RETURN loxo.draw_identity(sequence);
END
$$;
COMMENT ON FUNCTION loxo.next_identity(oid) IS 'The next number of an identity column.';

REVOKE EXECUTE ON FUNCTION loxo.identity_sequence, loxo.draw_identity, loxo.next_identity FROM PUBLIC;
GRANT EXECUTE ON FUNCTION loxo.identity_sequence, loxo.draw_identity, loxo.next_identity TO PUBLIC;

-- Texts of ours are ASCII: a database may have any encoding.

CREATE OR REPLACE FUNCTION loxo.capture() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF TG_WHEN = 'BEFORE' AND TG_LEVEL = 'ROW' THEN
        -- What a foreign key changes comes from a trigger inside the statement, whatever table that is about. Copies get the
        -- rows that the first one has let in.
        IF (pg_trigger_depth() > 1 OR current_setting('loxo.rows_made', true) IS DISTINCT FROM loxo.rows_made(TG_RELID))
                AND NOT loxo.follows(TG_RELID) THEN
            RAISE feature_not_supported USING
                MESSAGE = format('a trigger BEFORE ... FOR EACH ROW that reads or writes tables, "%s" of table "%s", '
                    'fired by this statement, is not supported', substr(TG_NAME, 6), TG_TABLE_NAME),
                HINT = 'Change the table by an INSERT, UPDATE, DELETE or COPY of its own, before others that lead to it.';
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    END IF;
    -- INFO is sent whatever client_min_messages says. format() takes the row's own text, not a cast of the user's.
    RAISE INFO USING ERRCODE = 'LX001', MESSAGE = substr(TG_NAME, 6), COLUMN = TG_OP,
        SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, DETAIL = format('%s', OLD), HINT = format('%s', NEW),
        CONSTRAINT = (SELECT t.token FROM loxo.capture_token AS t);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION loxo.let_rows(proof bytea, relation regclass, wanted bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('let_rows', proof);
    IF wanted AND current_setting('session_replication_role') = 'replica' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'a trigger BEFORE ... FOR EACH ROW that reads or writes tables, with session_replication_role = replica, '
                'is not supported',
            HINT = 'Use ALTER TABLE ... DISABLE TRIGGER.';
    END IF;
    PERFORM set_config('loxo.rows_made', CASE WHEN wanted THEN loxo.rows_made(relation) ELSE '' END, true);
END
$$;
COMMENT ON FUNCTION loxo.capture_others(bytea, regclass) IS 'Has the coordinator run all triggers BEFORE ... FOR EACH ROW of a table.';
COMMENT ON FUNCTION loxo.let_rows(bytea, regclass, bool) IS
    'The rows for this table have passed the triggers BEFORE ... FOR EACH ROW that the coordinator runs; up to the end of the transaction.';
