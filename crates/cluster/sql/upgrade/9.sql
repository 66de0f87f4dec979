-- From layout 8 to layout 9: what statements have cost; loxo.settle() is called read_barrier.

ALTER FUNCTION loxo.settle() RENAME TO read_barrier;

-- Added up by coordinators, from what all of them have counted. Times are in milliseconds.
CREATE OR REPLACE FUNCTION loxo.loxo_stat_statements() RETURNS TABLE (
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

CREATE OR REPLACE FUNCTION loxo.loxo_stat_statements_reset() RETURNS void
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
