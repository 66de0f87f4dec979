-- What crate txn needs on every datanode, in the database of the tables. Idempotent: `loxo init` runs it on new datanodes, and the
-- gtm on those that an earlier version has made. To be run by a superuser.

CREATE SCHEMA IF NOT EXISTS loxo;

-- Outcomes of distributed transactions (page `decision`). Anyone may add one, as anyone may commit; nobody but a superuser
-- reads, changes or deletes them.
CREATE TABLE IF NOT EXISTS loxo.decision (
    gid text NOT NULL,
    at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE loxo.decision IS 'Commits of distributed transactions whose commit point this node was; cleaned up by the gtm.';
REVOKE ALL ON loxo.decision FROM PUBLIC;
GRANT USAGE ON SCHEMA loxo TO PUBLIC;
GRANT INSERT (gid) ON loxo.decision TO PUBLIC;

-- Which coordinators may decide (page `gate`). A sequence, because it is read as it is now, whatever snapshot the reader has.
CREATE SEQUENCE IF NOT EXISTS loxo.generation;
COMMENT ON SEQUENCE loxo.generation IS 'Raised by the gtm to shut out coordinators that it does not know of.';
GRANT SELECT ON loxo.generation TO PUBLIC;

-- pg_prepared_xact() does not list a transaction any more once a new snapshot shows it.
CREATE OR REPLACE FUNCTION loxo.settle() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    held text[] := ARRAY (SELECT gid FROM pg_prepared_xact() WHERE starts_with(gid, 'loxo_1_'));
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
COMMENT ON FUNCTION loxo.settle() IS 'Waits until the distributed transactions that are prepared here now are resolved.';
