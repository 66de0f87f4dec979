-- What crate txn needs on every datanode, in the database of the tables. `loxo init` runs it, once, as a superuser.

-- Views and defaults below mean PostgreSQL's own functions and operators, whatever others lie in the search path.
SET search_path = pg_catalog, pg_temp;

-- The cluster's own tables are there already, but in tests.
CREATE SCHEMA IF NOT EXISTS loxo;

-- What a coordinator does in a transaction of a user it does as that user, so PostgreSQL cannot tell its calls from the user's own.
-- Therefore a call brings a proof: a code over the backend's process id and the function's name, made with a key that only
-- superusers can read (page `seal`). It is of no use to another backend, and not for another function.
CREATE TABLE loxo.seal (
    one       bool PRIMARY KEY DEFAULT true CHECK (one),
    inner_key bytea NOT NULL,
    outer_key bytea NOT NULL
);
COMMENT ON TABLE loxo.seal IS 'One row: the keys with which coordinators prove that a call is theirs.';
REVOKE ALL ON loxo.seal FROM PUBLIC;

CREATE FUNCTION loxo.check_proof(function text, proof bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF proof IS NULL OR proof IS DISTINCT FROM (
            SELECT sha256(s.outer_key || sha256(s.inner_key || convert_to(concat(pg_backend_pid(), ' ', function), 'UTF8')))
            FROM loxo.seal AS s) THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('permission denied for function %s', function), HINT = 'Only coordinators call it.';
    END IF;
END
$$;
COMMENT ON FUNCTION loxo.check_proof(text, bytea) IS 'Fails unless a coordinator calls this function in this backend.';

-- Outcomes of distributed transactions (page `decision`). A coordinator adds one in the transaction of whatever user
-- commits, by loxo.announce(); nobody but a superuser reads, changes or deletes them.
CREATE TABLE loxo.decision (
    gid text NOT NULL,
    at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE loxo.decision IS 'Commits of distributed transactions whose commit point this node was; cleaned up by the gtm.';
REVOKE ALL ON loxo.decision FROM PUBLIC;
GRANT USAGE ON SCHEMA loxo TO PUBLIC;

-- Which coordinators may decide (page `gate`). A sequence, because it is read as it is now, whatever snapshot the reader has.
CREATE SEQUENCE loxo.generation;
COMMENT ON SEQUENCE loxo.generation IS 'Raised by the gtm to shut out coordinators that it does not know of; in 2^40, below that a mark.';
GRANT SELECT ON loxo.generation TO PUBLIC;

CREATE FUNCTION loxo.generation_of(value int8) RETURNS int8
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN value - value % 1099511627776;
COMMENT ON FUNCTION loxo.generation_of(int8) IS 'A value of loxo.generation without the mark.';

-- A mark says up to which barrier a gate was opened although somebody may still have been taking a snapshot in it. Whoever takes
-- one later finds the mark, and gives it up.
CREATE FUNCTION loxo.mark(closure int8) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- One at a time, and not beside a fence, so that the value only grows.
    LOCK TABLE loxo.fence IN SHARE UPDATE EXCLUSIVE MODE;
    PERFORM setval('loxo.generation', closure) FROM loxo.generation WHERE last_value < closure;
END
$$;
COMMENT ON FUNCTION loxo.mark(int8) IS 'Makes snapshots worthless that are taken here later for this closure or an earlier one.';
REVOKE ALL ON FUNCTION loxo.mark(int8) FROM PUBLIC;

-- Its lock keeps fences away from a transaction that decides, until that ends. No role but a superuser can take it otherwise.
CREATE TABLE loxo.fence ();
COMMENT ON TABLE loxo.fence IS 'Always empty. Locked by transactions that decide, and by the gtm that raises the generation.';
REVOKE ALL ON loxo.fence FROM PUBLIC;

CREATE FUNCTION loxo.may_commit(proof bytea, expected int8) RETURNS bool
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('may_commit', proof);
    LOCK TABLE loxo.fence IN ROW SHARE MODE;
    RETURN (SELECT loxo.generation_of(last_value) = expected FROM loxo.generation);
END
$$;
COMMENT ON FUNCTION loxo.may_commit(bytea, int8) IS 'Keeps fences away until the transaction ends; is this the generation?';

CREATE FUNCTION loxo.announce(proof bytea, node int2, coordinator int8, counter int8, expected int8) RETURNS xid8
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('announce', proof);
    LOCK TABLE loxo.fence IN ROW SHARE MODE;
    IF (SELECT loxo.generation_of(last_value) <> expected FROM loxo.generation) THEN
        RETURN NULL;
    END IF;
    INSERT INTO loxo.decision (gid)
        VALUES (concat_ws('_', 'loxo_1', node, pg_current_xact_id(), lpad(to_hex(coordinator), 16, '0'), counter));
    RETURN pg_current_xact_id();
END
$$;
COMMENT ON FUNCTION loxo.announce(bytea, int2, int8, int8, int8) IS
    'Decides the transaction that calls it, if it commits, and gives its id; null under another generation.';

-- Which of the transactions that users prepared here are being committed (page `user_prepared`): the others stay.
CREATE TABLE loxo.finishing (
    gid text PRIMARY KEY
);
COMMENT ON TABLE loxo.finishing IS 'Transactions of users that are being committed: readers wait for them. Cleaned up by the gtm.';
GRANT SELECT ON loxo.finishing TO PUBLIC;

-- pg_prepared_xact() does not list a transaction any more once a new snapshot shows it.
CREATE FUNCTION loxo.read_barrier() RETURNS void
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
COMMENT ON FUNCTION loxo.read_barrier() IS 'Waits until the distributed transactions that are prepared in this database now are resolved.';

-- Transactions that users prepared (page `user_prepared`); rows on the primary datanode only. Written by coordinators and
-- gtms as superuser. The view shows them as PostgreSQL's view of that name would.
CREATE TABLE loxo.prepared_transaction (
    gid      text PRIMARY KEY,
    name     text NOT NULL,
    owner    name NOT NULL,
    database name NOT NULL,
    nodes    int2[] NOT NULL,
    state    text NOT NULL DEFAULT 'prepared' CHECK (state IN ('prepared', 'committing', 'aborting')),
    prepared timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE UNIQUE INDEX prepared_transaction_name ON loxo.prepared_transaction (name) WHERE state = 'prepared';
COMMENT ON TABLE loxo.prepared_transaction IS 'What PREPARE TRANSACTION has prepared, where, and how it is to end.';

CREATE VIEW loxo.pg_prepared_xacts AS
    SELECT pg_catalog.split_part(gid, '_', 5)::xid8::xid AS transaction, name AS gid, prepared, owner, database
    FROM loxo.prepared_transaction WHERE state = 'prepared';
COMMENT ON VIEW loxo.pg_prepared_xacts IS 'pg_prepared_xacts of the cluster: the names are those of the users.';
GRANT SELECT ON loxo.prepared_transaction, loxo.pg_prepared_xacts TO PUBLIC;

-- Which of several gtms leads (page `leader` of the gtm): the one whose session holds this view's lock, for as long as it leads.
-- A table would stop VACUUM of the whole database.
CREATE VIEW loxo.leader AS SELECT true AS is_locked_by_it;
COMMENT ON VIEW loxo.leader IS 'Locked by the gtm that leads.';
REVOKE ALL ON loxo.leader FROM PUBLIC;

-- Datanodes that were given up (page `recovery`); rows on the primary datanode only.
CREATE TABLE loxo.lost_datanode (
    id         int2 PRIMARY KEY,
    generation int8 NOT NULL
);
COMMENT ON TABLE loxo.lost_datanode IS
    'Datanodes that have left, or are about to, without being asked: nobody asks them any more, and what they alone could decide is committed. Generation: one that every datanode had by then; a server that has an earlier one is an old copy.';
GRANT SELECT ON loxo.lost_datanode TO PUBLIC;

-- Which databases the cluster has beside its first one (page `databases` of the gtm); rows in that one, on the primary datanode only.
CREATE TABLE loxo.database (
    name     name PRIMARY KEY,
    id       uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid(),
    state    text NOT NULL CHECK (state IN ('creating', 'ready', 'leaving', 'dropping', 'renaming', 'reserved')),
    -- Of one that is being renamed; a row 'reserved' keeps others from taking it.
    new_name name
);
COMMENT ON TABLE loxo.database IS 'Databases beside the first one, and the journal of those that are being made, dropped and renamed.';
REVOKE ALL ON loxo.database FROM PUBLIC;

-- read_barrier() waits and changes nothing, so it is for everybody, and what coordinators call wants a proof.
REVOKE EXECUTE ON FUNCTION loxo.check_proof FROM PUBLIC;
