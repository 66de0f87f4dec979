-- Layout 11: sessions export their snapshots of all datanodes.

-- The step from layout 6 to 7 made the function already, where it ran.
CREATE OR REPLACE FUNCTION loxo.pg_export_snapshot() RETURNS text
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$ SELECT loxo.sessions() ->> 'snapshot' $$;
COMMENT ON FUNCTION loxo.pg_export_snapshot() IS 'The id of the snapshot that the session''s transaction has on all datanodes.';
