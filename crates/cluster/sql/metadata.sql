-- The cluster's metadata, the same on every datanode. Run once, inside one transaction, by a superuser, on an empty server.
-- The rows (nodes, bucket map, identity) follow from the configuration and are inserted by init.rs.

-- Views, defaults and bodies below mean PostgreSQL's own functions and operators, whatever others lie in the search path.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE SCHEMA loxo;
COMMENT ON SCHEMA loxo IS 'Metadata of the Loxodonta cluster. Written by coordinators only.';

CREATE TABLE loxo.node (
    id           int2 PRIMARY KEY,
    name         name NOT NULL UNIQUE,
    type         "char" NOT NULL CHECK (type IN ('C', 'D', 'G')),
    host         text NOT NULL,
    port         int4 NOT NULL CHECK (port BETWEEN 1 AND 65535),
    is_primary   bool NOT NULL DEFAULT false,
    is_preferred bool NOT NULL DEFAULT false
);
COMMENT ON TABLE loxo.node IS 'Datanodes (D, ids 0, 1, ...), coordinators (C, ids from 1000) and gtms (G, ids from 2000).';

CREATE TABLE loxo.next_datanode (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    id  int2 NOT NULL
);
COMMENT ON TABLE loxo.next_datanode IS 'One row: the id that the next datanode gets. That of one that has left is never given again.';

CREATE TABLE loxo.node_group (
    name    name PRIMARY KEY,
    members int2[] NOT NULL
);
COMMENT ON TABLE loxo.node_group IS 'Groups of datanodes, made by CREATE NODE GROUP.';

CREATE TABLE loxo.bucket_map (
    id    int4 PRIMARY KEY,
    nodes int2[] NOT NULL CHECK (array_length(nodes, 1) = 4096)
);
COMMENT ON TABLE loxo.bucket_map IS
    'Element b + 1 is the datanode that holds bucket b. Map 1 is over all datanodes, but for those added since the last rebalance.';

CREATE TABLE loxo.class (
    relid       oid PRIMARY KEY,
    locator     "char" NOT NULL CHECK (locator IN ('H', 'M', 'R', 'N')),
    key_columns int2[] NOT NULL DEFAULT '{}',
    map_id      int4,
    nodes       int2[],
    by_default  bool NOT NULL DEFAULT false
);
COMMENT ON TABLE loxo.class IS
    'Distributed tables: H hash, M modulo (both with key_columns and map_id), R replicated, N round robin (both with nodes). '
    'By default: no clause said so, a constraint may make it replicated.';

-- The journal of the last rebalance. Only the row on the primary datanode counts.
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

CREATE TABLE loxo.catalog_version (
    one     bool PRIMARY KEY DEFAULT true CHECK (one),
    version int8 NOT NULL,
    moves   int8 NOT NULL DEFAULT 0
);
COMMENT ON TABLE loxo.catalog_version IS
    'One row; grows with every DDL statement, and with each step of a rebalance, which is counted as a move too.';

CREATE TABLE loxo.identity (
    node_id    int2 NOT NULL,
    cluster_id uuid NOT NULL,
    layout     int4 NOT NULL,
    system_identifier int8 NOT NULL
);
CREATE UNIQUE INDEX identity_is_one_row ON loxo.identity ((true));
COMMENT ON TABLE loxo.identity IS 'One row: which node of which cluster this server is, how schema loxo is laid out, and the server''s pg_control_system().';

CREATE VIEW loxo.prepared AS
    SELECT gid, transaction AS local_xid, prepared, owner, database
    FROM pg_catalog.pg_prepared_xacts
    WHERE gid LIKE 'loxo%';
COMMENT ON VIEW loxo.prepared IS 'Distributed transactions that are prepared on this node and not yet decided here.';

-- Postgres-XL's catalogs, as views. The object id of a node is made from its id, so it is the same everywhere.
SET LOCAL allow_system_table_mods = on;

CREATE VIEW pg_catalog.pgxc_node AS
    SELECT name AS node_name, type AS node_type, port AS node_port, host::name AS node_host,
           is_primary AS nodeis_primary, is_preferred AS nodeis_preferred, hashtext(name::text) AS node_id,
           (4000000000 + id)::oid AS oid
    FROM loxo.node
    WHERE type <> 'G';

CREATE VIEW pg_catalog.pgxc_group AS
    SELECT name AS group_name,
           (SELECT string_agg((4000000000 + m)::text, ' ' ORDER BY place)
            FROM unnest(members) WITH ORDINALITY AS u (m, place))::oidvector AS group_members
    FROM loxo.node_group;

CREATE VIEW pg_catalog.pgxc_class AS
    SELECT c.relid AS pcrelid, c.locator AS pclocatortype, coalesce(c.key_columns[1], 0::int2) AS pcattnum,
           (CASE WHEN c.locator IN ('H', 'M') THEN 1 ELSE 0 END)::int2 AS pchashalgorithm,
           (CASE WHEN c.locator IN ('H', 'M') THEN 4096 ELSE 0 END)::int2 AS pchashbuckets,
           (SELECT string_agg((4000000000 + n)::text, ' ' ORDER BY n)
            FROM (SELECT DISTINCT unnest(coalesce(c.nodes, m.nodes)) AS n) AS d)::oidvector AS nodeoids
    FROM loxo.class AS c LEFT JOIN loxo.bucket_map AS m ON m.id = c.map_id;

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

GRANT SELECT ON pg_catalog.pgxc_node, pg_catalog.pgxc_group, pg_catalog.pgxc_class, pg_catalog.pgxc_rebalance TO PUBLIC;

-- pg_dump leaves out what lies in pg_catalog, but not its GRANTs unless they are noted as the initial ones.
INSERT INTO pg_catalog.pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
    SELECT oid, 'pg_catalog.pg_class'::regclass, 0, 'i', relacl
    FROM pg_catalog.pg_class
    WHERE oid IN ('pgxc_node'::regclass, 'pgxc_group'::regclass, 'pgxc_class'::regclass, 'pgxc_rebalance'::regclass);

SET LOCAL allow_system_table_mods = off;

GRANT USAGE ON SCHEMA loxo TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA loxo TO PUBLIC;

-- What coordinators call in the transaction of whatever user runs the statement, so that it ends with it. Each function wants a
-- proof that a coordinator calls it (loxo.check_proof), and checks that this user may do it.

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

-- Stands between schema changes that commit and loads of the catalog, see the executor's load.rs.
CREATE TABLE loxo.committing ();
REVOKE ALL ON loxo.committing FROM PUBLIC;
COMMENT ON TABLE loxo.committing IS
    'Always empty. Locked by a schema change that is about to commit, and by coordinators before they read the catalog.';

CREATE FUNCTION loxo.lock_for_commit(proof bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('lock_for_commit', proof);
    LOCK TABLE loxo.committing IN EXCLUSIVE MODE;
END
$$;
COMMENT ON FUNCTION loxo.lock_for_commit(bytea) IS 'Keeps loads of the catalog off until the schema change has ended.';

CREATE FUNCTION loxo.are_datanodes(ids int2[]) RETURNS bool
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT cardinality(ids) > 0 AND cardinality(ids) = (SELECT count(*) FROM loxo.node WHERE type = 'D' AND id = ANY (ids))
$$;
COMMENT ON FUNCTION loxo.are_datanodes(int2[]) IS 'Are these datanodes, at least one, each once?';

CREATE FUNCTION loxo.can_be_keys(relation regclass, columns name[]) RETURNS bool
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    WITH RECURSIVE key AS (
        SELECT a.attnum, a.atttypid AS type FROM pg_attribute AS a
        WHERE a.attrelid = relation AND a.attnum > 0 AND a.attname = ANY (columns)
        UNION ALL
        SELECT key.attnum, t.typbasetype FROM key JOIN pg_type AS t ON t.oid = key.type WHERE t.typtype = 'd'
    )
    SELECT cardinality(columns) > 0 AND cardinality(columns) = count(DISTINCT attnum) FROM key
    WHERE type IN ('bool'::regtype, 'bytea'::regtype, '"char"'::regtype, 'name'::regtype, 'int8'::regtype, 'int2'::regtype,
        'int4'::regtype, 'text'::regtype, 'varchar'::regtype, 'oid'::regtype, 'float4'::regtype, 'float8'::regtype,
        'money'::regtype, 'bpchar'::regtype, 'date'::regtype, 'time'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype,
        'interval'::regtype, 'timetz'::regtype, 'numeric'::regtype, 'uuid'::regtype)
$$;
COMMENT ON FUNCTION loxo.can_be_keys(regclass, name[]) IS 'Are these columns of the table, each of a type that a coordinator can hash?';

CREATE FUNCTION loxo.register_table(
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

CREATE FUNCTION loxo.bucket_map_over(wanted int2[]) RETURNS int4
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
CREATE FUNCTION loxo.keep_writers_off(proof bytea, relation regclass, writes bool) RETURNS void
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

CREATE FUNCTION loxo.forget_missing(proof bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('forget_missing', proof);
    DELETE FROM loxo.class AS k WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relid);
END
$$;
COMMENT ON FUNCTION loxo.forget_missing(bytea) IS 'Drops the notes about tables that are no longer there.';

-- A materialized view whose rows come from several datanodes is filled by INSERT, which PostgreSQL allows for tables only.
CREATE FUNCTION loxo.columns_of(relation regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT string_agg(concat_ws(' ', attnum, atttypid, atttypmod, attcollation, attisdropped), ', ' ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = relation AND attnum > 0
$$;
COMMENT ON FUNCTION loxo.columns_of(regclass) IS 'What must not change while a materialized view is a table.';

CREATE FUNCTION loxo.open_matview(proof bytea, relation regclass) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    owner oid := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation AND c.relkind = 'm');
BEGIN
    PERFORM loxo.check_proof('open_matview', proof);
    IF owner IS NULL OR NOT pg_has_role(session_user, owner, 'MEMBER') THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of materialized view %s', relation);
    END IF;
    -- It changes nothing but locks the view as whatever changes its row in pg_class has to.
    EXECUTE format('ALTER MATERIALIZED VIEW %s OWNER TO %I', relation, pg_get_userbyid(owner));
    UPDATE pg_class SET relkind = 'r', relispopulated = true WHERE oid = relation;
    RETURN loxo.columns_of(relation);
END
$$;
COMMENT ON FUNCTION loxo.open_matview(bytea, regclass) IS
    'Makes a materialized view a table for the rest of the transaction, or until it is closed; only for its owner. Gives what '
    'loxo.close_matview() wants.';

-- Its query could not fill columns that a function in the query has changed meanwhile.
CREATE FUNCTION loxo.close_matview(proof bytea, relation regclass, columns text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('close_matview', proof);
    IF columns IS DISTINCT FROM loxo.columns_of(relation) THEN
        RAISE object_in_use USING
            MESSAGE = format('cannot change the columns of materialized view %s while it is being filled', relation);
    END IF;
    UPDATE pg_class AS c SET relkind = 'm'
    WHERE c.oid = relation AND c.relkind = 'r' AND pg_has_role(session_user, c.relowner, 'MEMBER')
      AND EXISTS (SELECT FROM pg_rewrite AS r WHERE r.ev_class = c.oid AND r.rulename = '_RETURN');
END
$$;
COMMENT ON FUNCTION loxo.close_matview(bytea, regclass, text) IS 'Makes it a materialized view again.';

-- Who inserts into all copies at once comes to the first one before, as all do who write copies. LOCK TABLE asks for rights on the
-- whole table.
CREATE FUNCTION loxo.join_writers(proof bytea, relation regclass) RETURNS void
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

-- A user with rights on some columns has PostgreSQL fill in the others. Where a coordinator has to bring their values, from a
-- sequence of the primary datanode, say, or from another copy, it lends him the right for one statement, in which no code of users runs
-- that he did not have run anyway. GRANT would do, but not REVOKE: that takes the rights on columns too. Two at once would change one row
-- of pg_class.
CREATE FUNCTION loxo.lend_rights(proof bytea, relation regclass, wanted text[]) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    before text;
BEGIN
    PERFORM loxo.check_proof('lend_rights', proof);
    IF (SELECT bool_and(has_table_privilege(caller, relation, u.one)) FROM unnest(wanted) AS u (one)) THEN
        RETURN NULL;
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
    SELECT coalesce(c.relacl::text, '') INTO before FROM pg_class AS c WHERE c.oid = relation;
    UPDATE pg_class AS c
    SET relacl = coalesce(c.relacl, acldefault('r', c.relowner)) || ARRAY(
        SELECT makeaclitem(r.oid, c.relowner, u.one, false)
        FROM unnest(wanted) AS u (one), pg_roles AS r WHERE r.rolname = caller)
    WHERE c.oid = relation;
    RETURN before;
END
$$;
COMMENT ON FUNCTION loxo.lend_rights(bytea, regclass, text[]) IS
    'Gives the caller rights on the table, until loxo.take_rights_back(). Gives those of all as they were, or null if he had them.';

CREATE FUNCTION loxo.take_rights_back(proof bytea, relation regclass, before text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('take_rights_back', proof);
    UPDATE pg_class AS c SET relacl = nullif(before, '')::aclitem[] WHERE c.oid = relation;
END
$$;
COMMENT ON FUNCTION loxo.take_rights_back(bytea, regclass, text) IS 'Makes the rights on a table what they were before loxo.lend_rights().';

-- A change whose rows several datanodes work out together finds them again by their address, a row lock by that and xmin, which only
-- those may read who may read all columns. They tell nothing of a row.
CREATE FUNCTION loxo.lend_address(proof bytea, relation regclass) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    lacking text;
BEGIN
    PERFORM loxo.check_proof('lend_address', proof);
    SELECT string_agg(u.one, ', ') INTO lacking
    FROM unnest(ARRAY['ctid', 'xmin', 'tableoid']) AS u (one) WHERE NOT has_column_privilege(caller, relation, u.one, 'SELECT');
    IF lacking IS NOT NULL THEN
        EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
        EXECUTE format('GRANT SELECT (%s) ON TABLE %s TO %I', lacking, relation, caller);
    END IF;
    RETURN lacking;
END
$$;
COMMENT ON FUNCTION loxo.lend_address(bytea, regclass) IS
    'Lets the caller read where rows of the table lie, until loxo.take_address_back(). Gives the columns he could not read, or null.';

CREATE FUNCTION loxo.take_address_back(proof bytea, relation regclass, lent text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    PERFORM loxo.check_proof('take_address_back', proof);
    EXECUTE format('REVOKE SELECT (%s) ON TABLE %s FROM %I', lent, relation, caller);
END
$$;
COMMENT ON FUNCTION loxo.take_address_back(bytea, regclass, text) IS 'Takes back what loxo.lend_address() gave.';

-- A view that must be gathered is read part by part, and its tables with the rights of its owner, whatever those of the caller. For the
-- time of that one query, whose text is the view's alone, each table is therefore read through a view of ours: it is the owner's,
-- and the caller may read it. PostgreSQL does the rest, policies and the owner's rights too. Nobody else sees it: it is dropped before
-- the transaction ends.
CREATE FUNCTION loxo.lend(proof bytea, views name[], owners name[], tables text[], alone bool[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    lent record;
    columns text;
BEGIN
    PERFORM loxo.check_proof('lend', proof);
    FOR lent IN
        SELECT u.view, u.owner, u.relation::regclass AS relation, u.alone
        FROM unnest(views, owners, tables, alone) AS u (view, owner, relation, alone)
    LOOP
        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
        FROM pg_attribute AS a
        WHERE a.attrelid = lent.relation AND a.attnum > 0 AND NOT a.attisdropped
            AND has_column_privilege(lent.owner, a.attrelid, a.attnum, 'SELECT');
        IF columns IS NULL THEN
            RAISE insufficient_privilege USING MESSAGE = format(
                'permission denied for table %s', (SELECT c.relname FROM pg_class AS c WHERE c.oid = lent.relation));
        END IF;
        EXECUTE format(
            'CREATE VIEW loxo.%I AS SELECT %s FROM %s%s',
            lent.view, columns, CASE WHEN lent.alone THEN 'ONLY ' ELSE '' END, lent.relation);
        EXECUTE format('ALTER VIEW loxo.%I OWNER TO %I', lent.view, lent.owner);
        EXECUTE format('GRANT SELECT ON loxo.%I TO %I', lent.view, caller);
    END LOOP;
END
$$;
COMMENT ON FUNCTION loxo.lend(bytea, name[], name[], text[], bool[]) IS
    'Lets the caller read tables with the rights of others, by views of these names in schema loxo, until loxo.take_back().';

CREATE FUNCTION loxo.take_back(proof bytea, views name[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('take_back', proof);
    EXECUTE (SELECT format('DROP VIEW %s', string_agg(format('loxo.%I', u.view), ', ')) FROM unnest(views) AS u (view));
END
$$;
COMMENT ON FUNCTION loxo.take_back(bytea, name[]) IS 'Drops the views that loxo.lend() or loxo.lend_change() has made.';

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

-- Temp tables for those who may make none: PostgreSQL needs none for what a coordinator needs them for. Everything else, rows
-- first of all, is done with the caller's own rights; he owns the table. Nothing is computed here. It lies in the database's
-- tablespace: he need not have a right to those that his temp_tablespaces names.
CREATE FUNCTION loxo.make_temp(
        proof bytea, name name, columns name[], types oid[], modifiers int4[], collations oid[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET temp_tablespaces = ''
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    definitions text;
BEGIN
    PERFORM loxo.check_proof('make_temp', proof);
    SELECT string_agg(
        format('%I %s', u.name, format_type(u.type, u.modifier))
        || coalesce((SELECT format(' COLLATE %I.%I', n.nspname, c.collname)
                     FROM pg_collation AS c JOIN pg_namespace AS n ON n.oid = c.collnamespace WHERE c.oid = u.coll), ''),
        ', ' ORDER BY u.place)
    INTO definitions
    FROM unnest(columns, types, modifiers, collations) WITH ORDINALITY AS u (name, type, modifier, coll, place);
    EXECUTE format('CREATE TEMP TABLE %I (%s) ON COMMIT DROP', name, definitions);
    EXECUTE format('ALTER TABLE pg_temp.%I OWNER TO %I', name, caller);
END
$$;
COMMENT ON FUNCTION loxo.make_temp(bytea, name, name[], oid[], int4[], oid[]) IS
    'Makes an empty temp table that is the caller''s and ends with the transaction; a column''s collation is 0 if it has none.';

CREATE FUNCTION loxo.index_temp(proof bytea, name name, columns name[], is_key bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    list text := (SELECT string_agg(quote_ident(u.name), ', ' ORDER BY u.place)
                  FROM unnest(columns) WITH ORDINALITY AS u (name, place));
BEGIN
    PERFORM loxo.check_proof('index_temp', proof);
    EXECUTE format(
        CASE WHEN is_key THEN 'ALTER TABLE pg_temp.%I ADD PRIMARY KEY (%s)' ELSE 'CREATE INDEX ON pg_temp.%I (%s)' END, name, list);
END
$$;
COMMENT ON FUNCTION loxo.index_temp(bytea, name, name[], bool) IS 'Gives such a table an index, or its primary key.';

-- Where a coordinator has PostgreSQL read a statement as the body of a function, for those who may make none in pg_temp.
CREATE FUNCTION loxo.make_schema(proof bytea) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    schema name := format('loxo_analyse_%s', pg_backend_pid());
BEGIN
    PERFORM loxo.check_proof('make_schema', proof);
    EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %I', schema, caller);
    RETURN schema;
END
$$;
COMMENT ON FUNCTION loxo.make_schema(bytea) IS 'Makes a schema that is the caller''s, which the coordinator takes back; gives its name.';

-- Locked by each SERIALIZABLE transaction before it takes a snapshot, see the executor's serializable.rs. The right to delete
-- from a table that nobody can fill is the right to lock it.
CREATE TABLE loxo.serializable ();
GRANT DELETE ON loxo.serializable TO PUBLIC;
COMMENT ON TABLE loxo.serializable IS
    'Stays empty. Locked by SERIALIZABLE transactions: in ROW SHARE by those of one datanode, in EXCLUSIVE by those of several.';

-- Triggers that no datanode can run by itself, since their functions read or write tables. The coordinator runs them: on the
-- datanodes such a trigger is disabled, and beside it lies one that calls loxo.capture() at the very same events, by which the
-- coordinator learns of each row. Its name is the other's after "loxo:", so that several fire in order. For a trigger BEFORE ... FOR
-- EACH ROW the coordinator makes the rows first and then stores them: here loxo.capture() lets in such rows only.

CREATE TABLE loxo.capture_token (
    one   bool PRIMARY KEY DEFAULT true CHECK (one),
    token text NOT NULL
);
COMMENT ON TABLE loxo.capture_token IS
    'What loxo.capture() proves itself by: nobody else can make a coordinator run the function of a trigger.';

-- Says that the coordinator has made the rows for a table, in a setting that users can read: so it is of use to nobody, elsewhere or later.
CREATE FUNCTION loxo.rows_made(relation oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT encode(sha256(convert_to(
        concat_ws(' ', t.token, relation, pg_backend_pid(), pg_current_xact_id()), 'UTF8')), 'hex')
    FROM loxo.capture_token AS t
$$;
COMMENT ON FUNCTION loxo.rows_made(oid) IS 'What loxo.let_rows() says about a table in this transaction.';

CREATE FUNCTION loxo.capture() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
    AS $$
BEGIN
    IF TG_WHEN = 'BEFORE' AND TG_LEVEL = 'ROW' THEN
        -- What a foreign key changes comes from a trigger inside the statement, whatever table that is about. Copies get the
        -- rows that the first one has let in.
        IF (pg_trigger_depth() > 1 OR current_setting('loxo.rows_made', true) IS DISTINCT FROM loxo.rows_made(TG_RELID))
                AND NOT loxo.follows(TG_RELID) THEN
            RAISE feature_not_supported USING
                MESSAGE = format('a trigger BEFORE ... FOR EACH ROW that reads or writes tables, "%s" of table "%s", '
                    'fired by this statement, is not supported', substr(TG_NAME, 6), TG_TABLE_NAME),
                HINT = 'Change the table by an INSERT, UPDATE, DELETE or COPY of its own, before others that lead to it.';
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    END IF;
    -- INFO is sent whatever client_min_messages says. format() takes the row's own text, not a cast of the user's.
    RAISE INFO USING ERRCODE = 'LX001', MESSAGE = substr(TG_NAME, 6), COLUMN = TG_OP,
        SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, DETAIL = format('%s', OLD), HINT = format('%s', NEW),
        CONSTRAINT = (SELECT t.token FROM loxo.capture_token AS t);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION loxo.capture() IS
    'Tells the coordinator of a row for whose sake a trigger has to run, or sees to it that one BEFORE the row has run.';

CREATE FUNCTION loxo.let_rows(proof bytea, relation regclass, wanted bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('let_rows', proof);
    IF wanted AND current_setting('session_replication_role') = 'replica' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'a trigger BEFORE ... FOR EACH ROW that reads or writes tables, with session_replication_role = replica, '
                'is not supported',
            HINT = 'Use ALTER TABLE ... DISABLE TRIGGER.';
    END IF;
    PERFORM set_config('loxo.rows_made', CASE WHEN wanted THEN loxo.rows_made(relation) ELSE '' END, true);
END
$$;
COMMENT ON FUNCTION loxo.let_rows(bytea, regclass, bool) IS
    'The rows for this table have passed the triggers BEFORE ... FOR EACH ROW that the coordinator runs; up to the end of the transaction.';

-- A change of a replicated table that may come out differently on each copy is made on the first copy alone. There a trigger says
-- which rows have become what, and the coordinator gives the other copies these rows as plain values. So the user's triggers fire
-- on the first copy only: on the others they are to PostgreSQL triggers for replicas.

CREATE FUNCTION loxo.follows(relation regclass) RETURNS bool
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce((
        SELECT own.node_id = ANY (k.nodes) AND own.node_id <> coalesce(
                   (SELECT n.id FROM loxo.node AS n WHERE n.is_primary AND n.type = 'D' AND n.id = ANY (k.nodes)), k.nodes[1])
        FROM loxo.class AS k, loxo.identity AS own
        WHERE k.relid = relation AND k.locator = 'R'), false)
$$;
COMMENT ON FUNCTION loxo.follows(regclass) IS 'Is the table here a copy of a replicated one, but not the first?';

CREATE FUNCTION loxo.tell_row() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
    AS $$
BEGIN
    RAISE INFO USING ERRCODE = 'LX002', MESSAGE = TG_NAME, COLUMN = TG_OP,
        SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, DETAIL = format('%s', OLD), HINT = format('%s', NEW),
        CONSTRAINT = (SELECT t.token FROM loxo.capture_token AS t);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION loxo.tell_row() IS 'Tells the coordinator what has become of a row of a replicated table.';

CREATE FUNCTION loxo.tell_rows(proof bytea, wanted bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('tell_rows', proof);
    IF wanted AND current_setting('session_replication_role') = 'replica' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'this change of a replicated table, with session_replication_role = replica, is not supported',
            HINT = 'SET session_replication_role TO origin.';
    END IF;
    IF NOT wanted AND current_setting('loxo.tell_rows', true) IS DISTINCT FROM 'on' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'a change of a replicated table in whose course loxo.tell_rows is set is not supported',
            HINT = 'Leave this setting to the coordinator.';
    END IF;
    PERFORM set_config('loxo.tell_rows', CASE WHEN wanted THEN 'on' ELSE '' END, true);
END
$$;
COMMENT ON FUNCTION loxo.tell_rows(bytea, bool) IS 'Has loxo.tell_row() speak, up to the end of the transaction, or be silent.';

-- PostgreSQL asks for this right where a trigger is made, for ownership where one is switched off.
CREATE FUNCTION loxo.check_trigger_right(relation regclass) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    IF NOT has_table_privilege(caller, relation, 'TRIGGER')
            AND NOT pg_has_role(session_user, (SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation), 'MEMBER') THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('permission denied for table %s', (SELECT c.relname FROM pg_class AS c WHERE c.oid = relation));
    END IF;
END
$$;
COMMENT ON FUNCTION loxo.check_trigger_right(regclass) IS 'May the caller make triggers of the table?';

-- Called wherever a table becomes replicated, ceases to be, or gets a trigger. A partition has its own trigger, not its parent's.
CREATE FUNCTION loxo.tend_copy(relation regclass, followed bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    is_copy bool := EXISTS (
        SELECT FROM loxo.class AS k WHERE k.relid = relation AND k.locator = 'R' AND cardinality(k.nodes) > 1);
    tells bool := EXISTS (
        SELECT FROM pg_trigger AS t WHERE t.tgrelid = relation AND t.tgfoid = 'loxo.tell_row()'::regprocedure);
    follows bool := loxo.follows(relation);
    kind "char";
    name name;
    part regclass;
BEGIN
    SELECT c.relkind INTO kind FROM pg_class AS c WHERE c.oid = relation;
    IF kind = 'r' AND is_copy AND NOT tells THEN
        EXECUTE format($sql$CREATE TRIGGER "loxo.tell_row" AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW
            WHEN (pg_catalog.current_setting('loxo.tell_rows', true) OPERATOR(pg_catalog.=) 'on')
            EXECUTE FUNCTION loxo.tell_row()$sql$, relation);
    ELSIF tells AND NOT is_copy THEN
        EXECUTE format('DROP TRIGGER "loxo.tell_row" ON %s', relation);
    END IF;
    -- Whatever role the session has, and whatever the owner has switched off.
    IF kind = 'r' AND is_copy THEN
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "loxo.tell_row"', relation);
    END IF;
    FOR name IN
        SELECT t.tgname FROM pg_trigger AS t
        WHERE t.tgrelid = relation AND NOT t.tgisinternal
          AND t.tgfoid NOT IN ('loxo.tell_row()'::regprocedure, 'loxo.capture()'::regprocedure, 'loxo.tell_move()'::regprocedure)
          AND CASE WHEN follows THEN t.tgenabled IN ('O', 'A') ELSE followed AND t.tgenabled = 'R' END
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE %s TRIGGER %I', relation, CASE WHEN follows THEN 'REPLICA' ELSE '' END, name);
    END LOOP;
    FOR part IN SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = relation AND kind = 'p' LOOP
        PERFORM loxo.tend_copy(part, followed);
    END LOOP;
END
$$;
COMMENT ON FUNCTION loxo.tend_copy(regclass, bool) IS
    'Has a table tell of its rows if it is replicated, and the triggers of users fire on its first copy only.';

CREATE FUNCTION loxo.tend_copy(proof bytea, relation regclass) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('tend_copy', proof);
    PERFORM loxo.check_trigger_right(relation);
    PERFORM loxo.tend_copy(relation, false);
END
$$;
COMMENT ON FUNCTION loxo.tend_copy(bytea, regclass) IS 'The same for coordinators.';

-- What a foreign key does to rows it does where they are. If it gives them another distribution key, they belong to another node: the
-- coordinator hears of that, and moves them when the statement is done.

CREATE FUNCTION loxo.tell_move() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    key name;
    differs bool;
BEGIN
    FOR key IN
        SELECT a.attname FROM loxo.class AS k JOIN pg_attribute AS a ON a.attrelid = k.relid AND a.attnum = ANY (k.key_columns)
        WHERE k.relid = TG_RELID
    LOOP
        EXECUTE format('SELECT ($1).%1$I IS DISTINCT FROM ($2).%1$I', key) INTO differs USING OLD, NEW;
        IF differs THEN
            RAISE INFO USING ERRCODE = 'LX003', MESSAGE = TG_NAME, SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
                CONSTRAINT = (SELECT t.token FROM loxo.capture_token AS t);
            EXIT;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION loxo.tell_move() IS 'Tells the coordinator of a row that has got another distribution key.';

-- Called wherever a table gets a foreign key, another distribution, or its triggers are switched on or off.
CREATE FUNCTION loxo.watch_moves(proof bytea, relation regclass) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    wanted bool := EXISTS (
        SELECT FROM pg_constraint AS c JOIN loxo.class AS k ON k.relid = c.conrelid
            LEFT JOIN loxo.class AS r ON r.relid = c.confrelid
        WHERE c.conrelid = relation AND c.contype = 'f' AND k.locator IN ('H', 'M') AND (
            c.confupdtype IN ('n', 'd') AND c.conkey && k.key_columns
            OR c.confdeltype IN ('n', 'd') AND coalesce(c.confdelsetcols, c.conkey) && k.key_columns
            OR c.confupdtype = 'c' AND c.conkey && k.key_columns AND r.locator = 'R'));
    -- A partition has its parent's too, until it is detached; they must not meet by their names.
    name name := format('loxo.tell_move.%s', relation::oid);
    state "char" := (SELECT t.tgenabled FROM pg_trigger AS t
        WHERE t.tgrelid = relation AND t.tgfoid = 'loxo.tell_move()'::regprocedure AND t.tgparentid = 0);
BEGIN
    PERFORM loxo.check_proof('watch_moves', proof);
    PERFORM FROM pg_class AS c WHERE c.oid = relation AND pg_has_role(session_user, c.relowner, 'MEMBER');
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of table %s', relation);
    END IF;
    IF wanted AND state IS NULL THEN
        EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION loxo.tell_move()', name, relation);
    END IF;
    IF wanted AND state IS DISTINCT FROM 'A' THEN
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', relation, name);
    END IF;
END
$$;
COMMENT ON FUNCTION loxo.watch_moves(bytea, regclass) IS
    'Has a table tell of rows with another distribution key, if a foreign key may give them one.';

CREATE FUNCTION loxo.tie(relation regclass, trigger name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
    SELECT 'pg_trigger'::regclass, c.oid, 0, 'pg_trigger'::regclass, t.oid, 0, 'a'
    FROM pg_trigger AS t JOIN pg_trigger AS c ON c.tgrelid = t.tgrelid AND c.tgname = 'loxo:' || t.tgname
    WHERE t.tgrelid = relation AND t.tgname = trigger AND c.tgfoid = 'loxo.capture()'::regprocedure
      AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_trigger'::regclass AND d.objid = c.oid
          AND d.refclassid = 'pg_trigger'::regclass AND d.refobjid = t.oid);
END
$$;
COMMENT ON FUNCTION loxo.tie(regclass, name) IS 'Has what captures for a trigger go when the trigger goes.';

CREATE FUNCTION loxo.tie_capture(proof bytea, relation regclass, trigger name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('tie_capture', proof);
    PERFORM loxo.check_trigger_right(relation);
    EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', relation, trigger);
    PERFORM loxo.tie(relation, trigger);
END
$$;
COMMENT ON FUNCTION loxo.tie_capture(bytea, regclass, name) IS 'The same for coordinators, and no node fires the trigger any more.';

CREATE FUNCTION loxo.untie_capture(proof bytea, relation regclass, trigger name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('untie_capture', proof);
    PERFORM loxo.check_trigger_right(relation);
    EXECUTE format('DROP TRIGGER %I ON %s', 'loxo:' || trigger, relation);
END
$$;
COMMENT ON FUNCTION loxo.untie_capture(bytea, regclass, name) IS
    'The nodes fire the trigger, which somebody has made anew, by themselves.';

-- Triggers BEFORE ... FOR EACH ROW fire in the order of their names, so those in PL/pgSQL beside one that the coordinator runs are
-- run by it too. What is in another language stays on the nodes, after all others: the planner sees to that.
CREATE FUNCTION loxo.capture_others(proof bytea, relation regclass) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    one record;
BEGIN
    PERFORM loxo.check_proof('capture_others', proof);
    PERFORM loxo.check_trigger_right(relation);
    FOR one IN
        SELECT t.tgname AS name, 'loxo:' || t.tgname AS captured, t.tgenabled AS enabled, concat_ws(' OR ',
            CASE WHEN t.tgtype & 4 <> 0 THEN 'INSERT' END, CASE WHEN t.tgtype & 8 <> 0 THEN 'DELETE' END,
            CASE WHEN t.tgtype & 16 <> 0 THEN concat('UPDATE', (
                SELECT ' OF ' || string_agg(quote_ident(a.attname), ', ') FROM pg_attribute AS a
                WHERE a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr::int2[]))) END) AS events
        FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid JOIN pg_language AS l ON l.oid = p.prolang
        WHERE t.tgrelid = relation AND t.tgtype & 67 = 3 AND NOT t.tgisinternal AND l.lanname = 'plpgsql'
          AND t.tgfoid <> 'loxo.capture()'::regprocedure
          AND NOT EXISTS (SELECT FROM pg_trigger AS c WHERE c.tgrelid = t.tgrelid AND c.tgname = 'loxo:' || t.tgname)
    LOOP
        IF octet_length(one.captured) > 63 OR one.enabled = 'A' OR (one.enabled = 'R' AND NOT loxo.follows(relation)) THEN
            RAISE feature_not_supported USING
                MESSAGE = format('trigger "%s" beside one that reads or writes tables is not supported', one.name),
                HINT = 'Give it a name of at most 58 bytes, and the state of ENABLE TRIGGER.';
        END IF;
        EXECUTE format('CREATE TRIGGER %I BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION loxo.capture()',
            one.captured, one.events, relation);
        IF one.enabled = 'D' THEN
            EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', relation, one.captured);
        END IF;
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', relation, one.name);
        PERFORM loxo.tie(relation, one.name);
    END LOOP;
END
$$;
COMMENT ON FUNCTION loxo.capture_others(bytea, regclass) IS 'Has the coordinator run all triggers BEFORE ... FOR EACH ROW of a table.';

CREATE FUNCTION loxo.pg_trigger() RETURNS TABLE (
        oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled "char", tgisinternal bool,
        tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2,
        tgattr int2vector, tgargs bytea, tgqual pg_node_tree, tgoldtable name, tgnewtable name, tableoid oid)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
    SELECT t.oid, t.tgrelid, t.tgparentid, t.tgname, t.tgfoid, t.tgtype, coalesce(c.tgenabled, t.tgenabled),
           t.tgisinternal, t.tgconstrrelid, t.tgconstrindid, t.tgconstraint, t.tgdeferrable, t.tginitdeferred, t.tgnargs,
           t.tgattr, t.tgargs, t.tgqual, t.tgoldtable, t.tgnewtable, t.tableoid
    FROM pg_catalog.pg_trigger AS t
    LEFT JOIN pg_catalog.pg_trigger AS c
        ON c.tgrelid = t.tgrelid AND c.tgname = 'loxo:' || t.tgname AND c.tgfoid = 'loxo.capture()'::pg_catalog.regprocedure
    WHERE t.tgfoid NOT IN ('loxo.capture()'::pg_catalog.regprocedure, 'loxo.tell_row()'::pg_catalog.regprocedure,
                           'loxo.tell_move()'::pg_catalog.regprocedure);
    END;
COMMENT ON FUNCTION loxo.pg_trigger() IS
    'The triggers as users made them. Coordinators read it wherever a query names pg_trigger.';

-- Coordinators follow rules, datanodes do not: those of tables are, to PostgreSQL, rules for replicas.
CREATE FUNCTION loxo.pg_rewrite() RETURNS TABLE (
        oid oid, rulename name, ev_class oid, ev_type "char", ev_enabled "char", is_instead bool, ev_qual pg_node_tree,
        ev_action pg_node_tree, tableoid oid)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
    SELECT r.oid, r.rulename, r.ev_class, r.ev_type,
           CASE r.ev_enabled WHEN 'R' THEN 'O' ELSE r.ev_enabled END,
           r.is_instead, r.ev_qual, r.ev_action, r.tableoid
    FROM pg_catalog.pg_rewrite AS r;
    END;
COMMENT ON FUNCTION loxo.pg_rewrite() IS
    'The rules as users made them. Coordinators read it wherever a query names pg_rewrite.';

-- A database's limit as a datanode has it: that of users (-1: none), 2^30 more since a datanode would count coordinators' pooled
-- connections, and another 2^29 more if no client may connect: coordinators and gtms must, so the datanode itself lets everybody in.
CREATE FUNCTION loxo.is_closed(stored int4) RETURNS bool
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN stored >= 1610612736;
COMMENT ON FUNCTION loxo.is_closed(int4) IS 'Does a database of this datconnlimit take no clients?';

CREATE FUNCTION loxo.connection_limit(stored int4) RETURNS int4
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN stored = 2147483647 THEN -1
        WHEN stored >= 1610612736 THEN stored - 1610612736
        WHEN stored >= 1073741824 THEN stored - 1073741824
        ELSE stored END;
COMMENT ON FUNCTION loxo.connection_limit(int4) IS 'The CONNECTION LIMIT that users have set, by datconnlimit.';

CREATE FUNCTION loxo.stored_limit(most int4, is_closed bool) RETURNS int4
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN is_closed AND most < 0 THEN 2147483647
        WHEN is_closed THEN 1610612736 + least(most, 536870910)
        WHEN most < 0 THEN most
        ELSE 1073741824 + least(most, 536870911) END;
COMMENT ON FUNCTION loxo.stored_limit(int4, bool) IS 'The other way round: the datconnlimit of a database with this CONNECTION LIMIT.';

CREATE FUNCTION loxo.set_connections(proof bytea, database name, most int4, is_allowed bool) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('set_connections', proof);
    IF NOT pg_has_role(session_user, (SELECT d.datdba FROM pg_database AS d WHERE d.datname = database), 'MEMBER') THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of database %s', database);
    END IF;
    IF NOT is_allowed AND database = current_database() THEN
        RAISE invalid_parameter_value USING MESSAGE = 'cannot disallow connections for current database';
    END IF;
    IF is_allowed AND (SELECT d.oid = 1 OR NOT d.datallowconn FROM pg_database AS d WHERE d.datname = database) THEN
        RAISE feature_not_supported USING MESSAGE = format('ALLOW_CONNECTIONS of database "%s" is not supported', database),
            HINT = 'It is each datanode''s own.';
    END IF;
    UPDATE pg_database AS d
    SET datconnlimit = loxo.stored_limit(
        coalesce(most, loxo.connection_limit(d.datconnlimit)), coalesce(NOT is_allowed, loxo.is_closed(d.datconnlimit)))
    WHERE d.datname = database;
END
$$;
COMMENT ON FUNCTION loxo.set_connections(bytea, name, int4, bool) IS
    'ALTER DATABASE CONNECTION LIMIT and ALLOW_CONNECTIONS, which stay as they are where NULL is given; only for its owner.';

-- PostgreSQL's own template is not served. Limits of connections, and whether there may be any, are what users have set.
DO $$
DECLARE
    relation regclass;
    columns text;
    outputs text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['pg_catalog.pg_database', 'pg_catalog.pg_authid', 'pg_catalog.pg_roles']::regclass[] LOOP
        SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum),
            string_agg(CASE
                WHEN attname = 'datallowconn' THEN 'r.datallowconn AND r.oid <> 1 AND NOT loxo.is_closed(r.datconnlimit)'
                WHEN attname = 'datconnlimit' THEN 'loxo.connection_limit(r.datconnlimit)'
                WHEN attname = 'rolconnlimit'
                    THEN 'CASE WHEN r.rolconnlimit >= 1073741824 THEN r.rolconnlimit - 1073741824 ELSE r.rolconnlimit END'
                ELSE format('r.%I', attname) END, ', ' ORDER BY attnum)
        INTO columns, outputs FROM pg_catalog.pg_attribute WHERE attrelid = relation AND attnum > 0;
        IF relation = 'pg_catalog.pg_database'::regclass THEN
            columns := columns || ', tableoid oid';
            outputs := outputs || ', r.tableoid';
        END IF;
        EXECUTE format('CREATE FUNCTION loxo.%s() RETURNS TABLE (%s) LANGUAGE sql STABLE
            BEGIN ATOMIC SELECT %s FROM pg_catalog.%1$s AS r; END', relation, columns, outputs);
    END LOOP;
END
$$;
COMMENT ON FUNCTION loxo.pg_database() IS
    'The databases as clients can connect to them. Coordinators read it wherever a query names pg_database.';
COMMENT ON FUNCTION loxo.pg_authid() IS
    'The roles with their limits as users have set them. Coordinators read it wherever a query names pg_authid.';
COMMENT ON FUNCTION loxo.pg_roles() IS 'The roles with their limits as users have set them. Coordinators read it wherever a query names pg_roles.';

-- Coordinators count sessions; a datanode would count their pooled connections, so it has limits that it never meets.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT rolname AS name, rolconnlimit AS most FROM pg_catalog.pg_authid WHERE rolconnlimit BETWEEN 0 AND 1073741823 LOOP
        EXECUTE format('ALTER ROLE %I CONNECTION LIMIT %s', one.name, one.most + 1073741824);
    END LOOP;
    FOR one IN SELECT datname AS name, datconnlimit AS most FROM pg_catalog.pg_database WHERE datconnlimit BETWEEN 0 AND 1073741823 LOOP
        EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT %s', one.name, loxo.stored_limit(one.most, false));
    END LOOP;
END
$$;

CREATE VIEW loxo.triggers AS
    SELECT * FROM information_schema.triggers
    WHERE action_statement NOT IN ('EXECUTE FUNCTION loxo.capture()', 'EXECUTE FUNCTION loxo.tell_row()',
                                   'EXECUTE FUNCTION loxo.tell_move()');
COMMENT ON VIEW loxo.triggers IS 'The same for information_schema.triggers.';
GRANT SELECT ON loxo.triggers TO PUBLIC;

-- The values that a backend has drawn from sequences, before it is given to another session, and what stands for them afterwards.
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

-- PostgreSQL draws the number of an identity column for everybody who may insert, with no right on the sequence. nextval() asks for one.
-- IMMUTABLE as a name's cast to regclass is: looked up once a statement, not for each row.
CREATE FUNCTION loxo.identity_sequence(relation text, name text) RETURNS oid
    LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    target oid := loxo.relation_id(relation);
    sequence oid;
BEGIN
    SELECT d.objid INTO sequence
    FROM pg_attribute AS a
    JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
        AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
    WHERE a.attname = name AND a.attidentity <> '' AND a.attrelid IN (target, pg_partition_root(target));
    -- A table that is younger than the transaction's snapshot is found by PostgreSQL's own functions alone.
    RETURN coalesce(sequence, pg_get_serial_sequence(relation, name)::regclass);
END
$$;
COMMENT ON FUNCTION loxo.identity_sequence(text, text) IS 'The sequence of an identity column.';

-- For those who have no right on the sequence: it has to be an identity column's. No proof is wanted, since an INSERT would do the same.
CREATE FUNCTION loxo.draw_identity(sequence oid) RETURNS int8
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
    relation oid;
BEGIN
    SELECT a.attrelid INTO relation
    FROM pg_depend AS d JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE d.classid = 'pg_class'::regclass AND d.objid = sequence AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
        AND a.attidentity <> '';
    IF relation IS NULL OR NOT loxo.reaches(caller, relation, 'INSERT, UPDATE') THEN
        RAISE insufficient_privilege USING MESSAGE = (
            SELECT format('permission denied for %s %s', CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname)
            FROM pg_class AS c WHERE c.oid = coalesce(relation, sequence));
    END IF;
    RETURN nextval(sequence);
END
$$;
COMMENT ON FUNCTION loxo.draw_identity(oid) IS
    'nextval() for those who may insert into or update the table whose identity column the sequence is of.';

-- Most who insert own the table. It runs for each row and has no SET, which takes as long as the rest.
CREATE FUNCTION loxo.next_identity(sequence oid) RETURNS int8
    LANGUAGE plpgsql STRICT
    AS $$
BEGIN
    IF pg_catalog.has_sequence_privilege(sequence, 'USAGE, UPDATE') THEN
        RETURN pg_catalog.nextval(sequence);
    END IF;
    RETURN loxo.draw_identity(sequence);
END
$$;
COMMENT ON FUNCTION loxo.next_identity(oid) IS 'The next number of an identity column.';

-- Everything else in the schema is for superusers: PostgreSQL lets everybody call a new function.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA loxo FROM PUBLIC;
GRANT EXECUTE ON FUNCTION loxo.relation, loxo.lend_change, loxo.begin_schema_change, loxo.lock_for_commit, loxo.register_table, loxo.keep_writers_off,
    loxo.join_writers, loxo.forget_missing, loxo.open_matview, loxo.close_matview, loxo.tie_capture, loxo.untie_capture,
    loxo.capture_others, loxo.tell_rows, loxo.let_rows, loxo.watch_moves, loxo.set_connections,
    loxo.lend_rights, loxo.take_rights_back, loxo.lend_address, loxo.take_address_back, loxo.lend, loxo.take_back, loxo.make_temp, loxo.index_temp, loxo.make_schema,
    loxo.tend_copy(bytea, regclass) TO PUBLIC;
-- A trigger function is called by triggers only, and those who make one need the right to; the others read what everybody may read.
GRANT EXECUTE ON FUNCTION loxo.capture, loxo.pg_trigger, loxo.pg_rewrite, loxo.pg_database, loxo.is_closed, loxo.connection_limit, loxo.pg_authid, loxo.pg_roles, loxo.values_drawn, loxo.value_drawn,
    loxo.last_value_drawn, loxo.identity_sequence, loxo.draw_identity, loxo.next_identity TO PUBLIC;
