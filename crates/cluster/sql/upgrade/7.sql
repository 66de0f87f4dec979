-- From layout 6 to layout 7: datanodes that join and leave, rows that follow, values of sequences that sessions keep.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE loxo.next_datanode (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    id  int2 NOT NULL
);
COMMENT ON TABLE loxo.next_datanode IS 'One row: the id that the next datanode gets. That of one that has left is never given again.';

INSERT INTO loxo.next_datanode (id) SELECT max(id) + 1 FROM loxo.node WHERE type = 'D';

COMMENT ON TABLE loxo.bucket_map IS
    'Element b + 1 is the datanode that holds bucket b. Map 1 is over all datanodes, but for those added since the last rebalance.';

ALTER TABLE loxo.catalog_version ADD moves int8 NOT NULL DEFAULT 0;
COMMENT ON TABLE loxo.catalog_version IS
    'One row; grows with every DDL statement, and with each step of a rebalance, which is counted as a move too.';

CREATE TABLE loxo.rebalance (
    one           bool PRIMARY KEY DEFAULT true CHECK (one),
    without       int2[] NOT NULL,
    level         bool NOT NULL DEFAULT false,
    state         text NOT NULL CHECK (state IN ('running', 'paused', 'cancelled', 'failed', 'done')),
    rate          int4 CHECK (rate > 0),
    buckets_total int4 NOT NULL DEFAULT 0,
    buckets_done  int4 NOT NULL DEFAULT 0,
    rows_moved    int8 NOT NULL DEFAULT 0,
    bytes_moved   int8 NOT NULL DEFAULT 0,
    rows_to_level int8 NOT NULL DEFAULT 0,
    rows_levelled int8 NOT NULL DEFAULT 0,
    started       timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed       timestamptz NOT NULL DEFAULT clock_timestamp(),
    idle          interval NOT NULL DEFAULT '0',
    message       text
);
COMMENT ON TABLE loxo.rebalance IS
    'What ALTER CLUSTER REBALANCE has asked for last, and how far it is. Without: datanodes that are to be emptied. Level: tables without a key are to have as many rows on each of their datanodes. Rate: at most so many rows a second. Idle: how long it was paused, or had failed.';

-- No table: VACUUM and ANALYZE of everything would wait for it.
CREATE VIEW loxo.rebalancing AS SELECT true AS one;
COMMENT ON VIEW loxo.rebalancing IS 'Who holds a SHARE UPDATE EXCLUSIVE lock on it on the primary datanode carries the rebalance on.';

CREATE TABLE loxo.lost_datanode (
    id         int2 PRIMARY KEY,
    generation int8 NOT NULL
);
COMMENT ON TABLE loxo.lost_datanode IS
    'Datanodes that have left, or are about to, without being asked: nobody asks them any more, and what they alone could decide is committed. Generation: one that every datanode had by then; a server that has an earlier one is an old copy.';

GRANT SELECT ON loxo.next_datanode, loxo.rebalance, loxo.rebalancing, loxo.lost_datanode TO PUBLIC;

SET LOCAL allow_system_table_mods = on;

CREATE VIEW pg_catalog.pgxc_rebalance AS
    SELECT r.state, r.buckets_done, r.buckets_total, r.rows_moved, r.bytes_moved, r.rows_levelled, r.rows_to_level,
           CASE WHEN w.worked > interval '0' THEN round(r.rows_moved / extract(epoch FROM w.worked)) END AS rows_per_second,
           -- Empty until there is something to judge by, and while datanodes are emptied of rows that have no bucket.
           CASE WHEN r.state NOT IN ('running', 'paused') THEN NULL
                WHEN r.buckets_done > 0 AND r.buckets_done < r.buckets_total
               THEN date_trunc('second', w.worked * ((r.buckets_total - r.buckets_done)::float8 / r.buckets_done))
                WHEN r.rows_levelled > 0 AND r.rows_levelled < r.rows_to_level
               THEN date_trunc('second', w.worked * ((r.rows_to_level - r.rows_levelled)::float8 / r.rows_moved)) END AS time_left,
           r.started, r.changed, r.message
    FROM loxo.rebalance AS r CROSS JOIN LATERAL (SELECT r.changed - r.started - r.idle AS worked) AS w;

GRANT SELECT ON pg_catalog.pgxc_rebalance TO PUBLIC;

INSERT INTO pg_catalog.pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
    SELECT oid, 'pg_catalog.pg_class'::regclass, 0, 'i', relacl FROM pg_catalog.pg_class WHERE oid = 'pgxc_rebalance'::regclass;

SET LOCAL allow_system_table_mods = off;

DROP FUNCTION loxo.begin_schema_change(bytea);
CREATE FUNCTION loxo.begin_schema_change(proof bytea) RETURNS int2[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('begin_schema_change', proof);
    UPDATE loxo.catalog_version SET version = version + 1;
    RETURN (SELECT array_agg(n.id ORDER BY n.id) FROM loxo.node AS n WHERE n.type = 'D');
END
$$;
COMMENT ON FUNCTION loxo.begin_schema_change(bytea) IS
    'Last step of a schema change before its commit: makes the catalog''s version grow, one transaction after the other. Gives the datanodes.';

-- 'schema.table'::regclass wants USAGE on the schema, which who changes a table through a view need not have.
CREATE FUNCTION loxo.relation(name text) RETURNS regclass
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    found oid := loxo.relation_id(name);
BEGIN
    IF found IS NULL THEN
        RAISE undefined_table USING MESSAGE = format('relation "%s" does not exist', array_to_string(parse_ident(name), '.'));
    END IF;
    RETURN found;
END
$$;
COMMENT ON FUNCTION loxo.relation(text) IS 'Of a name with its schema, both quoted where they must be.';

-- DELETE is a right on whole tables.
CREATE FUNCTION loxo.has_some_right(role name, relation oid, wanted text) RETURNS bool
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT has_table_privilege(role, relation, wanted)
        OR coalesce(has_any_column_privilege(role, relation, nullif(concat_ws(', ', VARIADIC array_remove(string_to_array(wanted, ', '), 'DELETE')), '')), false)
$$;
COMMENT ON FUNCTION loxo.has_some_right(name, oid, text) IS 'Whether a role has one of these rights on the relation, or on some columns of it.';

-- Whoever is asked about a view's tables needs a right on each: the view's owner, or with security_invoker who is asked about the view.
CREATE FUNCTION loxo.reaches(role name, relation regclass, wanted text) RETURNS bool
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    WITH RECURSIVE above(top, asked) AS (
        SELECT relation::oid, ARRAY[relation::oid]
        UNION
        SELECT v.oid, CASE WHEN i.invoker THEN a.asked || v.oid ELSE ARRAY[v.oid] END
        FROM above AS a
        JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.top AND d.classid = 'pg_rewrite'::regclass
        JOIN pg_rewrite AS r ON r.oid = d.objid AND r.ev_type = '1' AND r.ev_class <> a.top
        JOIN pg_class AS v ON v.oid = r.ev_class AND v.relkind = 'v'
        CROSS JOIN LATERAL (
            SELECT coalesce(bool_or(o.option_value::bool), false)
            FROM pg_options_to_table(v.reloptions) AS o WHERE o.option_name = 'security_invoker') AS i (invoker)
        -- Views may be made to name each other; nobody can read those.
        WHERE v.oid <> ALL (a.asked)
            AND (i.invoker OR (SELECT bool_and(loxo.has_some_right(pg_get_userbyid(v.relowner), u.one, wanted)) FROM unnest(a.asked) AS u (one))))
    SELECT EXISTS (
        SELECT FROM above AS a
        WHERE (SELECT bool_and(loxo.has_some_right(role, u.one, wanted)) FROM unnest(a.asked) AS u (one)))
$$;
COMMENT ON FUNCTION loxo.reaches(name, regclass, text) IS
    'Whether a role has one of these rights on the table, or on some columns of it, by itself or through views.';

-- LOCK TABLE asks for rights on the whole table; an UPDATE needs them on some columns only, and on what it reads SELECT.
CREATE OR REPLACE FUNCTION loxo.keep_writers_off(proof bytea, relation regclass, writes bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    wanted text := CASE WHEN writes THEN 'INSERT, UPDATE, DELETE' ELSE 'SELECT' END;
BEGIN
    PERFORM loxo.check_proof('keep_writers_off', proof);
    IF NOT loxo.reaches(caller, relation, wanted) THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('permission denied for table %s', (SELECT c.relname FROM pg_class AS c WHERE c.oid = relation));
    END IF;
    EXECUTE format('LOCK TABLE %s IN %s MODE', relation, CASE WHEN writes THEN 'SHARE ROW EXCLUSIVE' ELSE 'SHARE' END);
END
$$;
COMMENT ON FUNCTION loxo.keep_writers_off(bytea, regclass, bool) IS
    'Locks a replicated table that the transaction writes, or reads for that, against other writers.';

-- The other copies of a replicated table get the rows that the first one tells of. Who has rights on some columns only, or on a view,
-- changes them through a view of ours, which is the table's owner's: names of the table would want USAGE on its schema. No code of
-- users runs there.
CREATE FUNCTION loxo.lend_change(proof bytea, relation regclass, view name, rights text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    PERFORM loxo.check_proof('lend_change', proof);
    EXECUTE format('CREATE VIEW loxo.%I AS SELECT %s FROM ONLY %s', view, (
        SELECT concat_ws(', ', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), 'ctid AS "loxo:place"')
        FROM pg_attribute AS a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped), relation);
    EXECUTE format('ALTER VIEW loxo.%I OWNER TO %I', view, (SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c WHERE c.oid = relation));
    EXECUTE format('GRANT %s ON loxo.%I TO %I', rights, view, caller);
END
$$;
COMMENT ON FUNCTION loxo.lend_change(bytea, regclass, name, text) IS
    'Lets the caller change a table with its owner''s rights, by a view of this name in schema loxo, until loxo.take_back().';

-- Who inserts into all copies at once comes to the first one before, as all do who write copies. LOCK TABLE asks for rights on the
-- whole table.
CREATE OR REPLACE FUNCTION loxo.join_writers(proof bytea, relation regclass) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    PERFORM loxo.check_proof('join_writers', proof);
    IF loxo.reaches(caller, relation, 'INSERT') THEN
        EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', relation);
    END IF;
END
$$;
COMMENT ON FUNCTION loxo.join_writers(bytea, regclass) IS 'Locks a replicated table as INSERT does, for those who may insert.';

CREATE OR REPLACE FUNCTION loxo.register_table(
        proof bytea, relation regclass, locator "char", key_columns name[], map_id int4, nodes int2[], by_default bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    followed bool := loxo.follows(relation);
BEGIN
    PERFORM loxo.check_proof('register_table', proof);
    IF locator IN ('H', 'M') AND map_id IS NULL AND nodes IS NOT NULL THEN
        map_id := loxo.bucket_map_over(nodes);
        nodes := NULL;
    END IF;
    IF NOT pg_has_role(session_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = relation), 'MEMBER') THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of table %s', relation);
    END IF;
    -- A row that no coordinator can read would stop the whole cluster.
    IF (CASE
        WHEN locator IN ('H', 'M') THEN
            NOT loxo.can_be_keys(relation, key_columns) OR locator = 'M' AND cardinality(key_columns) <> 1
            OR nodes IS NOT NULL
            OR NOT EXISTS (SELECT FROM loxo.bucket_map AS m WHERE m.id = register_table.map_id)
        ELSE cardinality(key_columns) <> 0 OR map_id IS NOT NULL OR NOT loxo.are_datanodes(nodes)
    END) IS DISTINCT FROM false THEN
        RAISE invalid_parameter_value USING MESSAGE = format('table %s cannot be distributed like this', relation);
    END IF;
    -- Buckets do not move before this transaction has ended: they would leave its rows behind.
    PERFORM FROM loxo.bucket_map AS m WHERE m.id = register_table.map_id FOR SHARE;
    DELETE FROM loxo.class AS k WHERE k.relid = relation;
    INSERT INTO loxo.class (relid, locator, key_columns, map_id, nodes, by_default)
    SELECT relation, register_table.locator,
           coalesce((SELECT array_agg(a.attnum ORDER BY u.place)
                     FROM unnest(register_table.key_columns) WITH ORDINALITY AS u (name, place)
                     JOIN pg_attribute a ON a.attrelid = relation AND a.attname = u.name), '{}'),
           register_table.map_id, register_table.nodes, coalesce(register_table.by_default, false);
    PERFORM loxo.tend_copy(relation, followed);
END
$$;
COMMENT ON FUNCTION loxo.register_table(bytea, regclass, "char", name[], int4, int2[], bool) IS
    'Notes how a table is distributed; only for its owner. With keys and nodes, but no map: over a map of these nodes.';

CREATE FUNCTION loxo.known_map_over(wanted int2[]) RETURNS int4
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT m.id FROM loxo.bucket_map AS m
    WHERE (SELECT array_agg(DISTINCT n ORDER BY n) FROM unnest(m.nodes) AS n) = (SELECT array_agg(n ORDER BY n) FROM unnest(wanted) AS n)
      -- While it has not reached all datanodes, the first one is going to.
      AND (m.id <> 1 OR cardinality(wanted) = (SELECT count(*) FROM loxo.node AS d WHERE d.type = 'D'))
    ORDER BY m.id LIMIT 1
$$;
COMMENT ON FUNCTION loxo.known_map_over(int2[]) IS 'The bucket map over these nodes, however it deals the buckets; NULL if there is none.';

CREATE OR REPLACE FUNCTION loxo.bucket_map_over(wanted int2[]) RETURNS int4
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    slots int2[] := (SELECT array_agg(wanted[1 + b % cardinality(wanted)] ORDER BY b) FROM generate_series(0, 4095) AS b);
    found int4 := loxo.known_map_over(wanted);
BEGIN
    IF NOT loxo.are_datanodes(wanted) THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s are not datanodes', wanted);
    END IF;
    IF found IS NULL THEN
        -- Two at once would give the same number to different maps.
        LOCK TABLE loxo.bucket_map IN EXCLUSIVE MODE;
        found := loxo.known_map_over(wanted);
    END IF;
    IF found IS NULL THEN
        INSERT INTO loxo.bucket_map SELECT max(m.id) + 1, slots FROM loxo.bucket_map AS m RETURNING id INTO found;
    END IF;
    RETURN found;
END
$$;
COMMENT ON FUNCTION loxo.bucket_map_over(int2[]) IS
    'The bucket map over these nodes. If there is none, one is made that deals the buckets to them in turn.';

CREATE FUNCTION loxo.values_drawn() RETURNS TABLE (sequence oid, value int8, is_last bool)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
    AS $$
DECLARE
    last int8;
BEGIN
    BEGIN
        last := lastval();
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        NULL;
    END;
    FOR sequence IN SELECT seqrelid FROM pg_sequence LOOP
        BEGIN
            value := currval(sequence);
            is_last := coalesce(value = last, false);
            RETURN NEXT;
        -- None was drawn, or the sequence has just been dropped.
        EXCEPTION WHEN object_not_in_prerequisite_state OR undefined_table OR internal_error THEN
            NULL;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION loxo.values_drawn() IS
    'currval() of all sequences that this backend has drawn from; the last value may be that of several.';

-- With the rights of the caller, as PostgreSQL's own.
CREATE FUNCTION loxo.value_drawn(sequence regclass, known oid[], numbers int8[]) RETURNS int8
    LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN currval(sequence);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    IF sequence = ANY (known) THEN
        RETURN numbers[array_position(known, sequence::oid)];
    END IF;
    RAISE;
END
$$;
COMMENT ON FUNCTION loxo.value_drawn(regclass, oid[], int8[]) IS
    'currval() of a session that has drawn these values of these sequences in other backends before.';

CREATE FUNCTION loxo.last_value_drawn(known oid[], value int8) RETURNS int8
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN lastval();
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    IF EXISTS (SELECT FROM pg_sequence WHERE seqrelid = ANY (known) AND has_sequence_privilege(seqrelid, 'USAGE, SELECT')) THEN
        RETURN value;
    ELSIF EXISTS (SELECT FROM pg_sequence WHERE seqrelid = ANY (known)) THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('permission denied for sequence %s', (SELECT relname FROM pg_class WHERE oid = ANY (known) LIMIT 1));
    END IF;
    RAISE;
END
$$;
COMMENT ON FUNCTION loxo.last_value_drawn(oid[], int8) IS
    'lastval() of a session that has drawn this value of one of these sequences in another backend before.';

REVOKE EXECUTE ON FUNCTION loxo.lend_change, loxo.begin_schema_change, loxo.known_map_over, loxo.values_drawn, loxo.value_drawn,
    loxo.last_value_drawn, loxo.has_some_right, loxo.reaches FROM PUBLIC;
GRANT EXECUTE ON FUNCTION loxo.relation, loxo.lend_change, loxo.begin_schema_change, loxo.values_drawn, loxo.value_drawn, loxo.last_value_drawn TO PUBLIC;
COMMENT ON FUNCTION loxo.take_back(bytea, name[]) IS 'Drops the views that loxo.lend() or loxo.lend_change() has made.';
