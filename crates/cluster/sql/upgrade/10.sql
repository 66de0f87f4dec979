-- Layout 10: coordinators count the sessions of roles and databases that have a CONNECTION LIMIT.

-- What has no schema loxo is not served: clients cannot connect to templates. Limits of connections are what users have set.
DO $$
DECLARE
    relation regclass;
    columns text;
    outputs text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['pg_catalog.pg_database', 'pg_catalog.pg_authid', 'pg_catalog.pg_roles']::regclass[] LOOP
        SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum),
            string_agg(CASE
                WHEN attname = 'datallowconn' THEN 'r.datallowconn AND NOT r.datistemplate'
                WHEN attname IN ('datconnlimit', 'rolconnlimit')
                    THEN format('CASE WHEN r.%1$I >= 1073741824 THEN r.%1$I - 1073741824 ELSE r.%1$I END', attname)
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
COMMENT ON FUNCTION loxo.pg_database() IS
    'The databases as clients can connect to them. Coordinators read it wherever a query names pg_database.';
COMMENT ON FUNCTION loxo.pg_authid() IS
    'The roles with their limits as users have set them. Coordinators read it wherever a query names pg_authid.';
COMMENT ON FUNCTION loxo.pg_roles() IS 'The roles with their limits as users have set them. Coordinators read it wherever a query names pg_roles.';
GRANT EXECUTE ON FUNCTION loxo.pg_authid() TO PUBLIC;
GRANT EXECUTE ON FUNCTION loxo.pg_roles() TO PUBLIC;

-- Coordinators count sessions; a datanode would count their pooled connections, so it has limits that it never meets.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT rolname AS name, rolconnlimit AS most FROM pg_catalog.pg_authid WHERE rolconnlimit BETWEEN 0 AND 1073741823 LOOP
        EXECUTE format('ALTER ROLE %I CONNECTION LIMIT %s', one.name, one.most + 1073741824);
    END LOOP;
    FOR one IN SELECT datname AS name, datconnlimit AS most FROM pg_catalog.pg_database WHERE datconnlimit BETWEEN 0 AND 1073741823 LOOP
        EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT %s', one.name, one.most + 1073741824);
    END LOOP;
END
$$;

-- Clients connect to coordinators. The step from layout 6 to 7 made the function already, where it ran.
CREATE OR REPLACE FUNCTION loxo.pg_stat_ssl() RETURNS SETOF pg_catalog.pg_stat_ssl
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
