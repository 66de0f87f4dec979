-- Layout 11: a database may be renamed, closed to clients, and a template; sessions export their snapshots of all datanodes.

ALTER TABLE loxo.database
    ADD COLUMN new_name name,
    DROP CONSTRAINT database_state_check,
    ADD CONSTRAINT database_state_check CHECK (state IN ('creating', 'ready', 'leaving', 'dropping', 'renaming', 'reserved'));
COMMENT ON TABLE loxo.database IS 'Databases beside the first one, and the journal of those that are being made, dropped and renamed.';

-- A database's limit as a datanode has it: that of users (-1: none), 2^30 more since a datanode would count coordinators' pooled
-- connections, and another 2^29 more if no client may connect: coordinators and gtms must, so the datanode itself lets everybody in.
CREATE FUNCTION loxo.is_closed(stored int4) RETURNS bool
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN stored >= 1610612736;
COMMENT ON FUNCTION loxo.is_closed(int4) IS 'Does a database of this datconnlimit take no clients?';

CREATE FUNCTION loxo.connection_limit(stored int4) RETURNS int4
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN stored = 2147483647 THEN -1
        WHEN stored >= 1610612736 THEN stored - 1610612736
        WHEN stored >= 1073741824 THEN stored - 1073741824
        ELSE stored END;
COMMENT ON FUNCTION loxo.connection_limit(int4) IS 'The CONNECTION LIMIT that users have set, by datconnlimit.';

CREATE FUNCTION loxo.stored_limit(most int4, is_closed bool) RETURNS int4
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN is_closed AND most < 0 THEN 2147483647
        WHEN is_closed THEN 1610612736 + least(most, 536870910)
        WHEN most < 0 THEN most
        ELSE 1073741824 + least(most, 536870911) END;
COMMENT ON FUNCTION loxo.stored_limit(int4, bool) IS 'The other way round: the datconnlimit of a database with this CONNECTION LIMIT.';

CREATE FUNCTION loxo.set_connections(proof bytea, database name, most int4, is_allowed bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('set_connections', proof);
    IF NOT pg_has_role(session_user, (SELECT d.datdba FROM pg_database AS d WHERE d.datname = database), 'MEMBER') THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of database %s', database);
    END IF;
    IF NOT is_allowed AND database = current_database() THEN
        RAISE invalid_parameter_value USING MESSAGE = 'cannot disallow connections for current database';
    END IF;
    IF is_allowed AND (SELECT d.oid = 1 OR NOT d.datallowconn FROM pg_database AS d WHERE d.datname = database) THEN
        RAISE feature_not_supported USING MESSAGE = format('ALLOW_CONNECTIONS of database "%s" is not supported', database),
            HINT = 'It is each datanode''s own.';
    END IF;
    UPDATE pg_database AS d
    SET datconnlimit = loxo.stored_limit(
        coalesce(most, loxo.connection_limit(d.datconnlimit)), coalesce(NOT is_allowed, loxo.is_closed(d.datconnlimit)))
    WHERE d.datname = database;
END
$$;
COMMENT ON FUNCTION loxo.set_connections(bytea, name, int4, bool) IS
    'ALTER DATABASE CONNECTION LIMIT and ALLOW_CONNECTIONS, which stay as they are where NULL is given; only for its owner.';

REVOKE EXECUTE ON FUNCTION loxo.stored_limit(int4, bool) FROM PUBLIC;

-- Higher ones were no limits either.
UPDATE pg_catalog.pg_database SET datconnlimit = 1610612735
WHERE datconnlimit > 1610612735 AND datname = current_database();

-- PostgreSQL's own template is not served. Limits of connections, and whether there may be any, are what users have set.
DO $$
DECLARE
    relation regclass;
    columns text;
    outputs text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['pg_catalog.pg_database', 'pg_catalog.pg_authid', 'pg_catalog.pg_roles']::regclass[] LOOP
        SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum),
            string_agg(CASE
                WHEN attname = 'datallowconn' THEN 'r.datallowconn AND r.oid <> 1 AND NOT loxo.is_closed(r.datconnlimit)'
                WHEN attname = 'datconnlimit' THEN 'loxo.connection_limit(r.datconnlimit)'
                WHEN attname = 'rolconnlimit'
                    THEN 'CASE WHEN r.rolconnlimit >= 1073741824 THEN r.rolconnlimit - 1073741824 ELSE r.rolconnlimit END'
                ELSE format('r.%I', attname) END, ', ' ORDER BY attnum)
        INTO columns, outputs FROM pg_catalog.pg_attribute WHERE attrelid = relation AND attnum > 0;
        IF relation = 'pg_catalog.pg_database'::regclass THEN
            columns := columns || ', tableoid oid';
            outputs := outputs || ', r.tableoid';
        END IF;
        EXECUTE format('CREATE OR REPLACE FUNCTION loxo.%s() RETURNS TABLE (%s) LANGUAGE sql STABLE
            BEGIN ATOMIC SELECT %s FROM pg_catalog.%1$s AS r; END', relation, columns, outputs);
    END LOOP;
END
$$;

-- The step from layout 6 to 7 made the function already, where it ran.
CREATE OR REPLACE FUNCTION loxo.pg_export_snapshot() RETURNS text
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$ SELECT loxo.sessions() ->> 'snapshot' $$;
COMMENT ON FUNCTION loxo.pg_export_snapshot() IS 'The id of the snapshot that the session''s transaction has on all datanodes.';
