-- What crate txn needs on every datanode, in the database of the tables. Idempotent: `loxo init` runs it on new datanodes, and the
-- gtm on those that an earlier version has made. To be run by a superuser.

CREATE SCHEMA IF NOT EXISTS loxo;

-- Outcomes of distributed transactions (page `decision`). Anyone may add one for his own transaction, by loxo.announce(), as
-- anyone may commit; nobody but a superuser reads, changes or deletes them.
CREATE TABLE IF NOT EXISTS loxo.decision (
    gid text NOT NULL,
    at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE loxo.decision IS 'Commits of distributed transactions whose commit point this node was; cleaned up by the gtm.';
REVOKE ALL ON loxo.decision FROM PUBLIC;
GRANT USAGE ON SCHEMA loxo TO PUBLIC;

-- Which coordinators may decide (page `gate`). A sequence, because it is read as it is now, whatever snapshot the reader has.
CREATE SEQUENCE IF NOT EXISTS loxo.generation;
COMMENT ON SEQUENCE loxo.generation IS 'Raised by the gtm to shut out coordinators that it does not know of.';
GRANT SELECT ON loxo.generation TO PUBLIC;

-- Its lock keeps fences away from a transaction that decides, until that ends. No role but a superuser can take it otherwise.
CREATE TABLE IF NOT EXISTS loxo.fence ();
COMMENT ON TABLE loxo.fence IS 'Always empty. Locked by transactions that decide, and by the gtm that raises the generation.';
REVOKE ALL ON loxo.fence FROM PUBLIC;

CREATE OR REPLACE FUNCTION loxo.may_commit(expected int8) RETURNS bool
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    LOCK TABLE loxo.fence IN ROW SHARE MODE;
    RETURN (SELECT last_value = expected FROM loxo.generation);
END
$$;
COMMENT ON FUNCTION loxo.may_commit(int8) IS 'Keeps fences away until the transaction ends; is this the generation?';

CREATE OR REPLACE FUNCTION loxo.announce(node int2, coordinator int8, counter int8, expected int8) RETURNS xid8
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT loxo.may_commit(expected) THEN
        RETURN NULL;
    END IF;
    INSERT INTO loxo.decision (gid)
        VALUES (concat_ws('_', 'loxo_1', node, pg_current_xact_id(), lpad(to_hex(coordinator), 16, '0'), counter));
    RETURN pg_current_xact_id();
END
$$;
COMMENT ON FUNCTION loxo.announce(int2, int8, int8, int8) IS
    'Decides the transaction that calls it, if it commits, and gives its id; null under another generation.';

-- Which of the transactions that users prepared here are being committed (page `user_prepared`): the others stay.
CREATE TABLE IF NOT EXISTS loxo.finishing (
    gid text PRIMARY KEY
);
COMMENT ON TABLE loxo.finishing IS 'Transactions of users that are being committed: readers wait for them. Cleaned up by the gtm.';
GRANT SELECT ON loxo.finishing TO PUBLIC;

-- pg_prepared_xact() does not list a transaction any more once a new snapshot shows it.
CREATE OR REPLACE FUNCTION loxo.settle() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    held text[] := ARRAY (SELECT gid FROM pg_prepared_xact()
        WHERE starts_with(gid, 'loxo_1_') OR gid IN (SELECT f.gid FROM loxo.finishing AS f));
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

-- Transactions that users prepared (page `user_prepared`); rows on the primary datanode only. Written by coordinators and
-- gtms as superuser. The view shows them as PostgreSQL's view of that name would.
CREATE TABLE IF NOT EXISTS loxo.prepared_transaction (
    gid      text PRIMARY KEY,
    name     text NOT NULL,
    owner    name NOT NULL,
    database name NOT NULL,
    nodes    int2[] NOT NULL,
    state    text NOT NULL DEFAULT 'prepared' CHECK (state IN ('prepared', 'committing', 'aborting')),
    prepared timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE UNIQUE INDEX IF NOT EXISTS prepared_transaction_name ON loxo.prepared_transaction (name) WHERE state = 'prepared';
COMMENT ON TABLE loxo.prepared_transaction IS 'What PREPARE TRANSACTION has prepared, where, and how it is to end.';

CREATE OR REPLACE VIEW loxo.pg_prepared_xacts AS
    SELECT pg_catalog.split_part(gid, '_', 5)::xid8::xid AS transaction, name AS gid, prepared, owner, database
    FROM loxo.prepared_transaction WHERE state = 'prepared';
COMMENT ON VIEW loxo.pg_prepared_xacts IS 'pg_prepared_xacts of the cluster: the names are those of the users.';
GRANT SELECT ON loxo.prepared_transaction, loxo.pg_prepared_xacts TO PUBLIC;
