
-- Sessions of the whole cluster. Coordinators read these functions wherever a statement names PostgreSQL's of the same name, and put
-- what the role may see into a setting for as long as the statement runs (executor, page `all_sessions`).

CREATE FUNCTION loxo.sessions() RETURNS jsonb
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    shown text := nullif(current_setting('loxo.sessions', true), '');
BEGIN
    IF shown IS NULL THEN
        RAISE feature_not_supported USING
            MESSAGE = 'sessions of the cluster cannot be asked for here',
            HINT = 'Ask in a statement of its own, not in COPY, CREATE TABLE AS or a default.';
    END IF;
    RETURN shown;
END
$$;
COMMENT ON FUNCTION loxo.sessions() IS 'What a coordinator has put there for the present statement.';

-- to_regclass() wants USAGE on the schema, which who reads statistics need not have.
CREATE FUNCTION loxo.relation_id(name text) RETURNS oid
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname = (parse_ident(name))[2] AND n.nspname = (parse_ident(name))[1]
$$;
COMMENT ON FUNCTION loxo.relation_id(text) IS 'Of a name with its schema, both quoted where they must be.';
GRANT EXECUTE ON FUNCTION loxo.relation_id TO PUBLIC;

CREATE FUNCTION loxo.pg_stat_activity() RETURNS SETOF pg_catalog.pg_stat_activity
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT r.*
    FROM jsonb_array_elements(loxo.sessions() -> 'sessions') AS s (told)
    LEFT JOIN pg_database AS d ON d.datname = s.told ->> 'datname'
    LEFT JOIN pg_roles AS u ON u.rolname = s.told ->> 'usename'
    CROSS JOIN LATERAL jsonb_populate_record(NULL::pg_catalog.pg_stat_activity, s.told || jsonb_build_object(
        'datid', d.oid, 'usesysid', u.oid,
        'backend_start', 'epoch'::timestamptz + (s.told ->> 'backend_start')::int8 * interval '1 us',
        'xact_start', 'epoch'::timestamptz + (s.told ->> 'xact_start')::int8 * interval '1 us',
        'query_start', 'epoch'::timestamptz + (s.told ->> 'query_start')::int8 * interval '1 us',
        'state_change', 'epoch'::timestamptz + (s.told ->> 'state_change')::int8 * interval '1 us')) AS r
$$;
COMMENT ON FUNCTION loxo.pg_stat_activity() IS 'pg_stat_activity of the cluster: the sessions of all coordinators.';

CREATE FUNCTION loxo.pg_stat_ssl() RETURNS SETOF pg_catalog.pg_stat_ssl
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT r.*
    FROM jsonb_array_elements(loxo.sessions() -> 'sessions') AS s (told)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::pg_catalog.pg_stat_ssl,
        jsonb_build_object('pid', s.told -> 'pid', 'ssl', s.told ->> 'tls' IS NOT NULL)
        || coalesce(nullif(s.told -> 'tls', 'null'), '{}')) AS r
    WHERE s.told ->> 'client_port' IS NOT NULL
$$;
COMMENT ON FUNCTION loxo.pg_stat_ssl() IS 'pg_stat_ssl of the cluster: how the clients of all coordinators are connected.';

CREATE FUNCTION loxo.pg_locks() RETURNS SETOF pg_catalog.pg_locks
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT r.*
    FROM jsonb_array_elements(loxo.sessions() -> 'locks') AS s (told)
    LEFT JOIN pg_database AS d ON d.datname = s.told ->> 'database'
    CROSS JOIN LATERAL jsonb_populate_record(NULL::pg_catalog.pg_locks, s.told || jsonb_build_object(
        'database', CASE WHEN s.told ->> 'database' = '0' THEN 0 ELSE d.oid END,
        'relation', loxo.relation_id(s.told ->> 'relation'))) AS r
$$;
COMMENT ON FUNCTION loxo.pg_locks() IS
    'pg_locks of all datanodes, with the process ids of sessions. NULL: a prepared transaction, or who came past the coordinators.';

CREATE FUNCTION loxo.pg_backend_pid() RETURNS int4
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$ SELECT (loxo.sessions() ->> 'self')::int4 $$;
COMMENT ON FUNCTION loxo.pg_backend_pid() IS 'The process id of the session, as its client was told.';

CREATE FUNCTION loxo.pg_export_snapshot() RETURNS text
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$ SELECT loxo.sessions() ->> 'snapshot' $$;
COMMENT ON FUNCTION loxo.pg_export_snapshot() IS 'The id of the snapshot that the session''s transaction has on all datanodes.';

CREATE FUNCTION loxo.pg_blocking_pids(pid int4) RETURNS int4[]
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce((
        SELECT array_agg(b.pid::int4)
        FROM jsonb_array_elements(loxo.sessions() -> 'sessions') AS s (told), jsonb_array_elements_text(s.told -> 'blocked_by') AS b (pid)
        WHERE (s.told ->> 'pid')::int4 = $1), '{}')
$$;
COMMENT ON FUNCTION loxo.pg_blocking_pids(int4) IS
    'The sessions that block this one on any datanode. 0: a prepared transaction, or who came past the coordinators.';

-- The coordinator takes the notice out, and judges once more who may.
CREATE FUNCTION loxo.send_signal(pid int4, ends bool) RETURNS bool
    LANGUAGE plpgsql
    AS $$
DECLARE
    meant pg_catalog.name := (
        SELECT s.told OPERATOR(pg_catalog.->>) 'usename'
        FROM pg_catalog.jsonb_array_elements(loxo.sessions() OPERATOR(pg_catalog.->) 'sessions') AS s (told)
        WHERE (s.told OPERATOR(pg_catalog.->>) 'pid')::pg_catalog.int4 OPERATOR(pg_catalog.=) send_signal.pid);
    denied text := CASE WHEN ends THEN 'permission denied to terminate process' ELSE 'permission denied to cancel query' END;
BEGIN
    IF meant IS NULL THEN
        RAISE WARNING 'PID % is not a PostgreSQL backend process', pid;
        RETURN false;
    END IF;
    IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) meant) THEN
        IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user) THEN
            RAISE insufficient_privilege USING MESSAGE = denied, DETAIL = CASE WHEN ends
                THEN 'Only roles with the SUPERUSER attribute may terminate processes of roles with the SUPERUSER attribute.'
                ELSE 'Only roles with the SUPERUSER attribute may cancel queries of roles with the SUPERUSER attribute.' END;
        END IF;
    ELSIF NOT (pg_catalog.pg_has_role(meant, 'USAGE') OR pg_catalog.pg_has_role('pg_signal_backend', 'USAGE')) THEN
        RAISE insufficient_privilege USING MESSAGE = denied, DETAIL = CASE WHEN ends
            THEN 'Only roles with privileges of the role whose process is being terminated or with privileges of the "pg_signal_backend" role may terminate this process.'
            ELSE 'Only roles with privileges of the role whose query is being canceled or with privileges of the "pg_signal_backend" role may cancel this query.' END;
    END IF;
    RAISE INFO USING ERRCODE = 'LX010', MESSAGE = CASE WHEN ends THEN 0 OPERATOR(pg_catalog.-) pid ELSE pid END;
    RETURN true;
END
$$;
COMMENT ON FUNCTION loxo.send_signal(int4, bool) IS 'Tells the coordinator that a session is to be cancelled, or to end.';

CREATE FUNCTION loxo.pg_cancel_backend(pid int4) RETURNS bool
    LANGUAGE sql STRICT
    AS $$ SELECT loxo.send_signal($1, false) $$;
COMMENT ON FUNCTION loxo.pg_cancel_backend(int4) IS 'Cancels what a session of any coordinator does.';

CREATE FUNCTION loxo.pg_terminate_backend(pid int4, timeout int8 DEFAULT 0) RETURNS bool
    LANGUAGE plpgsql STRICT
    AS $$
BEGIN
    IF timeout OPERATOR(pg_catalog.<>) 0 THEN
        RAISE feature_not_supported USING
            MESSAGE = 'pg_terminate_backend() with a timeout is not supported',
            HINT = 'Leave the timeout out, and look at pg_stat_activity whether the session has gone.';
    END IF;
    RETURN loxo.send_signal(pid, true);
END
$$;
COMMENT ON FUNCTION loxo.pg_terminate_backend(int4, int8) IS 'Ends a session of any coordinator.';

CREATE FUNCTION loxo.size_of(relation regclass, at int4) RETURNS int8
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT (loxo.sessions() -> 'sizes' -> format('%I.%I', n.nspname, c.relname) ->> at)::int8
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;
COMMENT ON FUNCTION loxo.size_of(regclass, int4) IS 'On all nodes; NULL for what only the primary datanode has.';

CREATE FUNCTION loxo.pg_table_size(regclass) RETURNS int8
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp
    AS $$ SELECT coalesce(loxo.size_of($1, 0), pg_table_size($1)) $$;

CREATE FUNCTION loxo.pg_indexes_size(regclass) RETURNS int8
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp
    AS $$ SELECT coalesce(loxo.size_of($1, 1), pg_indexes_size($1)) $$;

CREATE FUNCTION loxo.pg_total_relation_size(regclass) RETURNS int8
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp
    AS $$ SELECT coalesce(loxo.size_of($1, 0) + loxo.size_of($1, 1), pg_total_relation_size($1)) $$;

CREATE FUNCTION loxo.pg_relation_size(regclass) RETURNS int8
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp
    AS $$ SELECT coalesce(loxo.size_of($1, 2), pg_relation_size($1)) $$;

CREATE FUNCTION loxo.pg_relation_size(relation regclass, fork text) RETURNS int8
    LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF fork <> 'main' THEN
        RAISE feature_not_supported USING
            MESSAGE = format('pg_relation_size() of fork "%s" is not supported', fork),
            HINT = 'Ask for the table''s size, or each node by EXECUTE DIRECT.';
    END IF;
    RETURN loxo.pg_relation_size(relation);
END
$$;

-- Who may not connect to a database does not learn its size.
CREATE FUNCTION loxo.pg_database_size(name) RETURNS int8
    LANGUAGE sql STRICT
    AS $$
    SELECT CASE WHEN pg_catalog.pg_database_size($1) IS NOT NULL
        THEN (loxo.sessions() OPERATOR(pg_catalog.->) 'databases' OPERATOR(pg_catalog.->>) $1::pg_catalog.text)::pg_catalog.int8 END
$$;

CREATE FUNCTION loxo.pg_database_size(oid) RETURNS int8
    LANGUAGE sql STRICT
    AS $$ SELECT loxo.pg_database_size(d.datname) FROM pg_catalog.pg_database AS d WHERE d.oid OPERATOR(pg_catalog.=) $1 $$;
