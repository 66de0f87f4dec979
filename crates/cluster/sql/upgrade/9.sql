-- From layout 8 to layout 9: what statements have cost; loxo.settle() is called read_barrier; triggers that tell of rows fire always;
-- who may make a trigger need not own the table; row locks of who may read some columns only.

SET LOCAL search_path = pg_catalog, pg_temp;

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

CREATE OR REPLACE FUNCTION loxo.tell_rows(proof bytea, wanted bool) RETURNS void
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

CREATE OR REPLACE FUNCTION loxo.check_trigger_right(relation regclass) RETURNS void
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
REVOKE EXECUTE ON FUNCTION loxo.check_trigger_right(regclass) FROM PUBLIC;

CREATE OR REPLACE FUNCTION loxo.tend_copy(relation regclass, followed bool) RETURNS void
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

CREATE OR REPLACE FUNCTION loxo.tend_copy(proof bytea, relation regclass) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM loxo.check_proof('tend_copy', proof);
    PERFORM loxo.check_trigger_right(relation);
    PERFORM loxo.tend_copy(relation, false);
END
$$;

CREATE OR REPLACE FUNCTION loxo.tie_capture(proof bytea, relation regclass, trigger name) RETURNS void
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

CREATE OR REPLACE FUNCTION loxo.untie_capture(proof bytea, relation regclass, trigger name) RETURNS void
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

CREATE OR REPLACE FUNCTION loxo.capture_others(proof bytea, relation regclass) RETURNS void
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

CREATE OR REPLACE FUNCTION loxo.lend_address(proof bytea, relation regclass) RETURNS text
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

GRANT EXECUTE ON FUNCTION loxo.untie_capture TO PUBLIC;

DO $$
DECLARE
    told regclass;
BEGIN
    FOR told IN SELECT t.tgrelid FROM pg_trigger AS t WHERE t.tgfoid = 'loxo.tell_row()'::regprocedure LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "loxo.tell_row"', told);
    END LOOP;
END
$$;

-- What has no schema loxo is not served: clients cannot connect to templates.
DO $$
DECLARE
    columns text := (SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
                     FROM pg_catalog.pg_attribute WHERE attrelid = 'pg_catalog.pg_database'::pg_catalog.regclass AND attnum > 0);
    outputs text := (SELECT string_agg(CASE attname WHEN 'datallowconn' THEN 'd.datallowconn AND NOT d.datistemplate'
                                       ELSE format('d.%I', attname) END, ', ' ORDER BY attnum)
                     FROM pg_catalog.pg_attribute WHERE attrelid = 'pg_catalog.pg_database'::pg_catalog.regclass AND attnum > 0);
BEGIN
    EXECUTE format(
        'CREATE FUNCTION loxo.pg_database() RETURNS TABLE (%s, tableoid oid) LANGUAGE sql STABLE
         BEGIN ATOMIC SELECT %s, d.tableoid FROM pg_catalog.pg_database AS d; END', columns, outputs);
END
$$;
COMMENT ON FUNCTION loxo.pg_database() IS
    'The databases as clients can connect to them. Coordinators read it wherever a query names pg_database.';
GRANT EXECUTE ON FUNCTION loxo.pg_database() TO PUBLIC;
