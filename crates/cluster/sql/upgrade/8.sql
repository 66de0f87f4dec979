-- From layout 7 to layout 8: several databases.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE loxo.database (
    name  name PRIMARY KEY,
    id    uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid(),
    state text NOT NULL CHECK (state IN ('creating', 'ready', 'dropping'))
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
