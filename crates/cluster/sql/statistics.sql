
-- Statistics views of PostgreSQL, of all nodes. A coordinator asks each node for the rows that it shows to the role
-- (`loxo.own_statistics`) and puts them where `loxo.sessions` finds them (executor, page `all_sessions`). Object ids are each
-- node's own, so names travel in their place.

CREATE FUNCTION loxo.with_names(told jsonb) RETURNS jsonb
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT told || coalesce(jsonb_object_agg(c.name, CASE
        WHEN c.id = '0' THEN '0'
        WHEN c.name = 'datid' THEN (SELECT d.datname::text FROM pg_database AS d WHERE d.oid = c.id::oid)
        WHEN c.name = 'usesysid' THEN (SELECT u.rolname::text FROM pg_roles AS u WHERE u.oid = c.id::oid)
        WHEN c.name = 'funcid' THEN (
            SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
            FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE p.oid = c.id::oid)
        ELSE (SELECT format('%I.%I', n.nspname, r.relname)
              FROM pg_class AS r JOIN pg_namespace AS n ON n.oid = r.relnamespace WHERE r.oid = c.id::oid) END), '{}')
    FROM jsonb_each_text(told) AS c (name, id)
    WHERE c.name IN ('datid', 'usesysid', 'funcid', 'relid', 'indexrelid', 'index_relid', 'cluster_index_relid')
$$;
COMMENT ON FUNCTION loxo.with_names(jsonb) IS 'A row of a view, with names in the place of object ids.';

CREATE FUNCTION loxo.with_ids(told jsonb) RETURNS jsonb
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT told || coalesce(jsonb_object_agg(c.name, CASE
        WHEN c.of = '0' THEN 0::oid
        WHEN c.name = 'datid' THEN (SELECT d.oid FROM pg_database AS d WHERE d.datname = c.of)
        WHEN c.name = 'usesysid' THEN (SELECT u.oid FROM pg_roles AS u WHERE u.rolname = c.of)
        WHEN c.name = 'funcid' THEN (
            SELECT p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
            WHERE p.proname = told ->> 'funcname' AND n.nspname = told ->> 'schemaname'
                AND format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) = c.of)
        ELSE loxo.relation_id(c.of) END), '{}')
    FROM jsonb_each_text(told) AS c (name, of)
    WHERE c.name IN ('datid', 'usesysid', 'funcid', 'relid', 'indexrelid', 'index_relid', 'cluster_index_relid')
$$;
COMMENT ON FUNCTION loxo.with_ids(jsonb) IS 'The other way round, on this node.';

CREATE FUNCTION loxo.own_statistics(view name) RETURNS SETOF jsonb
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT loxo.with_names(r.told) FROM pg_catalog.%I AS v CROSS JOIN LATERAL to_jsonb(v) AS r (told)', view)
        -- Our own tables are no user's.
        || CASE WHEN view ~ '_user_' THEN ' WHERE r.told ->> ''schemaname'' <> ''loxo''' ELSE '' END;
END
$$;
COMMENT ON FUNCTION loxo.own_statistics(name) IS 'What this node shows to the role in a view of PostgreSQL.';

CREATE FUNCTION loxo.told_statistics(view text) RETURNS TABLE (id int2, node name, told jsonb)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT n.id, n.name, r.told
    FROM jsonb_array_elements(loxo.sessions() -> 'views' -> view) AS t (told)
    JOIN loxo.node AS n ON n.id = (t.told ->> 'node')::int2
    CROSS JOIN LATERAL jsonb_array_elements(t.told -> 'rows') AS r (told)
$$;
COMMENT ON FUNCTION loxo.told_statistics(text) IS 'The rows of a view of all nodes.';

-- Numbers are added up, of times and texts the last counts. Of replicated tables one copy counts, of PostgreSQL's own those of
-- this node.
CREATE FUNCTION loxo.added_statistics(view text, key text[]) RETURNS SETOF jsonb
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    WITH home AS (SELECT node_id AS id FROM loxo.identity),
    counted AS (
        SELECT t.told
        FROM loxo.told_statistics(view) AS t CROSS JOIN home
        LEFT JOIN loxo.class AS c ON c.relid = loxo.relation_id(t.told ->> 'relid') AND c.locator = 'R'
        WHERE t.id = CASE
            WHEN t.told ->> 'schemaname' ~ '^(pg_.*|information_schema|loxo)$' THEN home.id
            WHEN c.nodes IS NULL THEN t.id
            WHEN home.id = ANY (c.nodes) THEN home.id
            ELSE (SELECT min(n) FROM unnest(c.nodes) AS n) END)
    SELECT loxo.with_ids(jsonb_object_agg(s.name, s.value))
    FROM (
        SELECT (SELECT array_agg(t.told ->> k) FROM unnest(key) AS k) AS of, c.name,
               CASE WHEN bool_or(jsonb_typeof(c.value) = 'number')
                   THEN to_jsonb(sum((c.value #>> '{}')::numeric) FILTER (WHERE jsonb_typeof(c.value) = 'number'))
                   ELSE to_jsonb(max(c.value #>> '{}')) END AS value
        FROM counted AS t, jsonb_each(t.told) AS c (name, value)
        GROUP BY 1, 2) AS s
    GROUP BY s.of
$$;
COMMENT ON FUNCTION loxo.added_statistics(text, text[]) IS 'One row of a view for each key.';

-- Backends of coordinators have the process ids of their sessions.
CREATE FUNCTION loxo.listed_statistics(view text) RETURNS SETOF jsonb
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT loxo.with_ids(t.told) || jsonb_build_object('pid', coalesce((
        SELECT s.told -> 'pid'
        FROM jsonb_array_elements(loxo.sessions() -> 'sessions') AS s (told)
        WHERE s.told -> 'backends' @> jsonb_build_array(jsonb_build_array(t.id, t.told -> 'pid'))), t.told -> 'pid'))
    FROM loxo.told_statistics(view) AS t
$$;
COMMENT ON FUNCTION loxo.listed_statistics(text) IS 'The rows of a view about backends, of all nodes.';

DO $$
DECLARE
    of record;
BEGIN
    FOR of IN
        SELECT view, format('loxo.added_statistics(%L, %L)', view, key) AS rows
        FROM (VALUES
            ('pg_stat_all_tables', '{schemaname,relname}'),
            ('pg_stat_user_tables', '{schemaname,relname}'),
            ('pg_stat_all_indexes', '{schemaname,relname,indexrelname}'),
            ('pg_stat_user_indexes', '{schemaname,relname,indexrelname}'),
            ('pg_statio_all_tables', '{schemaname,relname}'),
            ('pg_statio_user_tables', '{schemaname,relname}'),
            ('pg_statio_all_indexes', '{schemaname,relname,indexrelname}'),
            ('pg_statio_user_indexes', '{schemaname,relname,indexrelname}'),
            ('pg_statio_all_sequences', '{schemaname,relname}'),
            ('pg_statio_user_sequences', '{schemaname,relname}'),
            ('pg_stat_user_functions', '{funcid}'),
            ('pg_stat_database', '{datname}'),
            ('pg_stat_database_conflicts', '{datname}'),
            ('pg_stat_archiver', '{}'),
            ('pg_stat_bgwriter', '{}'),
            ('pg_stat_slru', '{name}'),
            ('pg_stat_wal', '{}')) AS v (view, key)
        UNION ALL
        SELECT view, format('loxo.listed_statistics(%L)', view)
        FROM (VALUES
            ('pg_stat_progress_analyze'),
            ('pg_stat_progress_basebackup'),
            ('pg_stat_progress_cluster'),
            ('pg_stat_progress_copy'),
            ('pg_stat_progress_create_index'),
            ('pg_stat_progress_vacuum'),
            ('pg_stat_replication')) AS v (view)
    LOOP
        EXECUTE format(
            'CREATE FUNCTION loxo.%1$I() RETURNS SETOF pg_catalog.%1$I
                LANGUAGE sql SET search_path = pg_catalog, pg_temp
                AS $f$ SELECT r.* FROM %2$s AS s (told)
                    CROSS JOIN LATERAL jsonb_populate_record(NULL::pg_catalog.%1$I, s.told) AS r $f$', of.view, of.rows);
        EXECUTE format('COMMENT ON FUNCTION loxo.%1$I() IS %2$L', of.view, of.view || ' of all nodes.');
    END LOOP;
    -- What each node shows, whatever it is.
    FOR of IN
        SELECT c.relname AS view, string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum) AS columns
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'v' AND c.relname ~ '^pg_stat(io)?_'
        GROUP BY c.relname
    LOOP
        EXECUTE format(
            'CREATE FUNCTION loxo.%1$I() RETURNS TABLE (node name, %2$s)
                LANGUAGE sql SET search_path = pg_catalog, pg_temp
                AS $f$ SELECT t.node, r.* FROM loxo.told_statistics(%3$L) AS t
                    CROSS JOIN LATERAL jsonb_populate_record(NULL::pg_catalog.%3$I, loxo.with_ids(t.told)) AS r $f$',
            'loxo_node_' || of.view, of.columns, of.view);
        EXECUTE format('COMMENT ON FUNCTION loxo.%1$I() IS %2$L', 'loxo_node_' || of.view, of.view || ' of each node.');
    END LOOP;
END
$$;

CREATE FUNCTION loxo.loxo_table_skew() RETURNS TABLE (
        schemaname name, relname name, nodes int8, live_rows int8, fewest int8, most int8, skew numeric)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT t.told ->> 'schemaname', t.told ->> 'relname', count(*), sum(r.live), min(r.live), max(r.live),
           round(max(r.live) / nullif(avg(r.live), 0), 2)
    FROM loxo.told_statistics('pg_stat_user_tables') AS t
    JOIN loxo.class AS c ON c.relid = loxo.relation_id(t.told ->> 'relid') AND c.locator <> 'R'
    LEFT JOIN loxo.bucket_map AS m ON m.id = c.map_id
    CROSS JOIN LATERAL (SELECT (t.told ->> 'n_live_tup')::int8 AS live) AS r
    WHERE t.id = ANY (coalesce(c.nodes, m.nodes))
    GROUP BY 1, 2
$$;
COMMENT ON FUNCTION loxo.loxo_table_skew() IS
    'How evenly tables lie on their datanodes: rows on all of them, on the one with the fewest and the most, and how many times the average that is.';

-- Added up by coordinators, from what all of them have counted. Times are in milliseconds.
CREATE FUNCTION loxo.loxo_stat_statements() RETURNS TABLE (
        userid oid, dbid oid, usename name, datname name, query text, plan text, calls int8, errors int8, total_exec_time float8,
        min_exec_time float8, max_exec_time float8, mean_exec_time float8, rows int8, rows_moved int8)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT u.oid, d.oid, s.usename, s.datname, s.query, s.plan, s.calls, s.errors, s.total / 1000.0, s.min / 1000.0, s.max / 1000.0,
           s.total / 1000.0 / greatest(s.calls, 1), s.rows, s.rows_moved
    FROM jsonb_to_recordset(loxo.sessions() -> 'views' -> 'loxo_stat_statements') AS s (
        usename name, datname name, query text, plan text, calls int8, errors int8, total int8, min int8, max int8, rows int8,
        rows_moved int8)
    LEFT JOIN pg_roles AS u ON u.rolname = s.usename
    LEFT JOIN pg_database AS d ON d.datname = s.datname
$$;
COMMENT ON FUNCTION loxo.loxo_stat_statements() IS
    'What statements have cost since the coordinators began or were told to forget it: those that differ in constants only are one.';

CREATE FUNCTION loxo.loxo_stat_statements_reset() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for function loxo_stat_statements_reset';
    END IF;
    RAISE INFO USING ERRCODE = 'LX010', MESSAGE = '0';
END
$$;
COMMENT ON FUNCTION loxo.loxo_stat_statements_reset() IS 'Tells the coordinators to forget what statements have cost.';
