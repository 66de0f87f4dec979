//! What a load of the catalog asks: see [`catalog_load`](crate::shared::catalog_load), which decodes the answers.

use catalog::AttNum;
use pgerror::Result;

use crate::shared::catalog_load::numbers;

pub(super) const VERSION: &str = "SELECT version, current_setting('server_version_num'), \
     EXISTS (SELECT FROM pg_trigger WHERE tginitdeferred), (SELECT layout FROM loxo.identity), \
     NOT has_database_privilege('public', current_database(), 'TEMP') \
       OR EXISTS (SELECT FROM pg_default_acl d WHERE d.defaclobjtype = 'r' AND d.defaclnamespace = 0 \
         AND (SELECT count(*) FROM aclexplode(d.defaclacl) a WHERE a.grantee = d.defaclrole) \
           < (SELECT count(*) FROM aclexplode(acldefault('r', d.defaclrole)))), \
     EXISTS (SELECT FROM loxo.rebalance WHERE state IN ('running', 'paused')), version - moves FROM loxo.catalog_version";

pub(super) const SCHEMAS: &str = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'";

pub(super) const TYPES: &str = "SELECT t.oid, n.nspname, t.typname, t.typtype, \
     CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END, t.typcategory = 'A', t.typtypmod, \
     coalesce(pg_get_expr(t.typdefaultbin, 0), quote_literal(t.typdefault) || '::' || format_type(t.oid, NULL)), \
     (SELECT array_agg(coalesce(o.oprcode::oid, d.refobjid)) FROM pg_constraint c \
       JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = c.oid \
         AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384 \
       LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid WHERE c.contypid = t.oid), \
     (SELECT array_agg(c.castfunc) FROM pg_cast c WHERE t.oid IN (c.castsource, c.casttarget) AND c.castfunc >= 16384), \
     EXISTS (SELECT FROM pg_constraint c WHERE c.contypid = t.oid AND (c.conbin::text ~ '[{]JSON[A-Z]*EXPR ' OR EXISTS ( \
       SELECT FROM regexp_matches(c.conbin::text, ':(?:funcid|opfuncid|hashfuncid|negfuncid) ([1-9][0-9]*)', 'g') m(found) \
       JOIN pg_proc p ON p.oid = m.found[1]::oid WHERE p.oid >= 16384 OR p.provolatile <> 'i') \
       OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_constraint'::regclass AND d.objid = c.oid \
         AND d.refclassid = 'pg_operator'::regclass AND d.refobjid >= 16384))), \
     (SELECT array_agg(a.atttypid) FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND a.atttypid >= 16384) \
       || (SELECT array_agg(r.rngsubtype) FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid) AND r.rngsubtype >= 16384) \
     FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace \
     WHERE t.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_(toast|temp)'";

/// Names of PostgreSQL's own functions, operators and types that users have given to theirs.
pub(super) const LOOK_ALIKES: &str = "SELECT 'f', proname FROM pg_proc WHERE pronamespace <> 'loxo'::regnamespace AND oid >= 16384 \
       INTERSECT SELECT 'f', proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace \
     UNION (SELECT 'o', oprname FROM pg_operator WHERE oid >= 16384 \
       INTERSECT SELECT 'o', oprname FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace) \
     UNION (SELECT 't', typname FROM pg_type WHERE oid >= 16384 \
       INTERSECT SELECT 't', typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace)";

/// Views that use a user's operator `=`, or read another that does.
pub(super) const VIEWS_OF_LOOK_ALIKES: &str = "WITH RECURSIVE found(view) AS (\
       SELECT r.ev_class FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_operator o ON o.oid = d.refobjid \
       WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_operator'::regclass AND o.oid >= 16384 AND o.oprname = '=' \
       UNION SELECT r.ev_class FROM found f JOIN pg_depend d ON d.refobjid = f.view JOIN pg_rewrite r ON r.oid = d.objid \
       WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass) SELECT view FROM found";

/// Views that compare by a user's operator `=`, not only group or sort by it, or compare rows.
pub(crate) const HIDING: &str = "SELECT DISTINCT r.ev_class FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1' \
     JOIN pg_operator o ON o.oid = d.refobjid \
     WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_operator'::regclass AND o.oid >= 16384 \
     AND (o.oprname = '=' AND strpos(r.ev_action::text, concat('EXPR :opno ', o.oid, ' ')) > 0 \
       OR strpos(r.ev_action::text, '{ROWCOMPAREEXPR ') > 0)";

pub(super) const DOMAIN_BASES: &str = "SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'";

/// What is known of a function, each `p` of FUNCTION_FROM.
pub(crate) const FUNCTION_COLUMNS: &str = "p.oid, n.nspname, p.proname, l.lanname, p.provolatile, p.prokind, \
     CASE WHEN l.lanname = 'c' THEN p.probin WHEN p.prokind IN ('f', 'p') AND l.lanname <> 'internal' \
       THEN pg_get_functiondef(p.oid) END, \
     p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE'), \
     (SELECT array_agg(part) FROM pg_aggregate g, unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, \
       aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn]::oid[]) part \
       WHERE g.aggfnoid = p.oid AND (part >= 16384 OR EXISTS (SELECT FROM pg_proc b WHERE b.oid = part AND b.provolatile <> 'i'))), \
     p.proparallel = 's', p.prorettype = 'trigger'::regtype, \
     EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c LIKE 'search\\_path=%'), \
     CASE WHEN p.prokind = 'a' THEN 0 ELSE a.most - greatest(p.pronargdefaults, (p.provariadic <> 0)::int) END, \
     CASE WHEN p.prokind <> 'a' AND p.provariadic = 0 THEN a.most END, p.prosecdef";

pub(crate) const FUNCTION_FROM: &str = "pg_proc p CROSS JOIN LATERAL (\
       SELECT CASE p.prokind WHEN 'p' THEN coalesce(cardinality(p.proallargtypes), p.pronargs) ELSE p.pronargs END) a(most) JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang";

pub(super) fn functions() -> String {
    format!(
        "SELECT {FUNCTION_COLUMNS} FROM {FUNCTION_FROM} WHERE p.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_temp'"
    )
}

/// What uses a function and is neither another function nor a table's, nor runs in DDL alone: a statement may call it without a
/// name that says so. Those in C are what types are made of; the parts of aggregates come with these.
pub(super) const UNNAMED_FUNCTIONS: &str = "SELECT DISTINCT d.refobjid FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid \
     JOIN pg_language l ON l.oid = p.prolang \
     WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid >= 16384 AND l.lanname NOT IN ('c', 'internal') \
     AND p.pronamespace <> 'loxo'::regnamespace \
     AND d.classid NOT IN ('pg_proc'::regclass, 'pg_trigger'::regclass, 'pg_attrdef'::regclass, 'pg_policy'::regclass, \
       'pg_rewrite'::regclass, 'pg_class'::regclass, 'pg_event_trigger'::regclass) \
     AND NOT (d.classid = 'pg_constraint'::regclass AND EXISTS ( \
       SELECT FROM pg_constraint c WHERE c.oid = d.objid AND c.conrelid <> 0))";

/// Operators whose function has a body that could read tables, or is one of PostgreSQL's own that does more than compute.
pub(super) const OPERATORS: &str = "SELECT o.oprname, n.nspname, p.oid FROM pg_operator o \
     JOIN pg_namespace n ON n.oid = o.oprnamespace JOIN pg_proc p ON p.oid = o.oprcode \
     JOIN pg_language l ON l.oid = p.prolang \
     WHERE o.oid >= 16384 AND (l.lanname NOT IN ('c', 'internal') OR p.oid < 16384 AND p.provolatile <> 'i')";

pub(super) const SYSTEM_NAMES: &str = "SELECT c.relname FROM pg_class c JOIN pg_class s ON s.relname = c.relname \
     WHERE c.oid >= 16384 AND s.relnamespace = 'pg_catalog'::regnamespace AND c.relnamespace <> s.relnamespace";

/// See [`catalog::Builtins::from_lines`]. What is not IMMUTABLE in one variant is left out, and aggregates are.
pub(super) const BUILTINS: &str = "WITH RECURSIVE counted AS ( \
     SELECT c.oid, c.relname FROM pg_class c JOIN pg_rewrite r ON r.ev_class = c.oid \
     WHERE c.oid < 16384 AND c.relkind = 'v' AND c.relnamespace = 'pg_catalog'::regnamespace \
       AND EXISTS (SELECT FROM regexp_matches(r.ev_action::text, 'funcid ([0-9]+)', 'g') m \
         JOIN pg_proc p ON p.oid = m[1]::oid WHERE starts_with(p.proname, 'pg_stat_get_')) \
     UNION SELECT c.oid, c.relname FROM counted v JOIN pg_depend d ON d.refobjid = v.oid AND d.refclassid = 'pg_class'::regclass \
       AND d.classid = 'pg_rewrite'::regclass JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class c ON c.oid = r.ev_class \
     WHERE c.oid < 16384 AND c.relkind = 'v' AND c.relnamespace = 'pg_catalog'::regnamespace) \
     SELECT string_agg(line, E'\n' ORDER BY line) FROM (\
     SELECT concat_ws(E'\t', 't', t.typname, t.oid, t.typcategory, CASE p.provolatile WHEN 'i' THEN 't' ELSE 'f' END, \
       t.oid = 'oid'::regtype OR p.provolatile <> 'i' AND EXISTS (SELECT FROM pg_cast c WHERE c.castsource = t.oid AND c.casttarget = 'oid'::regtype \
         AND c.castmethod = 'b')) COLLATE \"C\" AS line \
     FROM pg_type t JOIN pg_proc p ON p.oid = t.typinput WHERE t.oid < 16384 AND t.typnamespace = 'pg_catalog'::regnamespace \
       AND t.typtype = 'b' \
     UNION ALL SELECT concat_ws(E'\t', 'o', o.oprname, o.oprleft::oid, o.oprright::oid, o.oprresult::oid, \
       CASE p.provolatile WHEN 'i' THEN 't' ELSE 'f' END) \
     FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode WHERE o.oid < 16384 \
     UNION ALL SELECT concat_ws(E'\t', 'f', p.proname, p.oid, \
       concat(p.prokind, p.provolatile, p.proparallel, p.proretset, p.provariadic <> 0), p.prorettype::oid, p.proargtypes::text, \
       p.pronargdefaults, CASE WHEN a.aggfnoid IS NULL THEN '' ELSE concat_ws(' ', a.aggtransfn::oid, a.aggcombinefn::oid, \
         a.aggfinalfn::oid, a.aggtranstype::oid, (a.aggsortop <> 0)::int, (a.agginitval IS NULL)::int) END, \
       CASE l.lanname WHEN 'sql' THEN translate(coalesce(\
         'CREATE FUNCTION f() RETURNS void ' || pg_get_function_sqlbody(p.oid), p.prosrc), E'\t\n', '  ') ELSE '' END) \
     FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid \
     WHERE p.oid < 16384 AND p.pronamespace = 'pg_catalog'::regnamespace \
       AND NOT 'internal'::regtype = ANY (p.proargtypes) \
     UNION ALL SELECT concat_ws(E'\t', 'p', typname) FROM pg_type WHERE oid < 16384 AND typtype = 'p' \
     UNION ALL SELECT concat_ws(E'\t', 's', lower(name)) FROM pg_settings \
     WHERE context IN ('internal', 'postmaster', 'sighup') \
     UNION ALL SELECT concat_ws(E'\t', 'v', relname) FROM counted) AS x";

pub(super) const OWN_OPERATORS: &str =
    "SELECT DISTINCT oprname FROM pg_operator WHERE oid >= 16384 AND oprleft < 16384 AND oprright < 16384";

pub(super) const NONDETERMINISTIC_COLLATIONS: &str =
    "SELECT DISTINCT collname FROM pg_collation WHERE NOT collisdeterministic";

/// Relations of users: not ours, not PostgreSQL's own, not other sessions' temp tables.
pub(super) const RELATIONS: &str = "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, \
     (SELECT r.oid FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type = '1'), \
     c.relrowsecurity OR EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o \
       WHERE o.option_name = 'security_barrier' AND o.option_value::bool), \
     (SELECT array_agg(i.inhparent ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = c.oid), \
     c.relispartition, \
     c.relhassubclass AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid), \
     EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
       AND t.tgfoid NOT IN ('loxo.tell_row()'::regprocedure, 'loxo.tell_move()'::regprocedure)), \
     c.reltuples * CASE WHEN k.locator IN ('H', 'M', 'N') THEN (SELECT count(*) FROM loxo.node WHERE type = 'D') ELSE 1 END, \
     k.locator, k.key_columns, k.map_id, k.nodes, \
     coalesce(c.reloptions && ARRAY['check_option=local', 'check_option=cascaded'], false), coalesce(k.by_default, false), \
     (SELECT string_agg(coalesce((SELECT string_agg(e.key::text, ' ') FROM unnest( \
           x.conkey, x.conexclop, (SELECT i.indcollation::oid[] FROM pg_index i WHERE i.indexrelid = x.conindid)) AS e (key, op, of) \
         WHERE e.key > 0 AND e.op < 16384 AND EXISTS (SELECT FROM pg_amop o JOIN pg_am m ON m.oid = o.amopmethod \
             WHERE o.amopopr = e.op AND m.amname = 'hash') \
           AND NOT EXISTS (SELECT FROM pg_collation l WHERE l.oid = e.of AND NOT l.collisdeterministic)), ''), ',') \
       FROM pg_constraint x WHERE x.conrelid = c.oid AND x.contype = 'x'), \
     EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL), \
     CASE WHEN c.relkind = 'v' AND NOT EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o \
       WHERE o.option_name = 'security_invoker' AND o.option_value::bool) THEN pg_get_userbyid(c.relowner) END, \
     EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
       AND t.tgfoid NOT IN ('loxo.tell_row()'::regprocedure, 'loxo.tell_move()'::regprocedure) AND (t.tgtype & 3 <> 3 OR NOT EXISTS ( \
         SELECT FROM pg_trigger p WHERE p.tgrelid = t.tgrelid AND p.tgfoid = 'loxo.capture()'::regprocedure \
         AND p.tgname IN (t.tgname, 'loxo:' || t.tgname)))), \
     k.xmin \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN loxo.class k ON k.relid = c.oid \
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c') \
     AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'loxo') AND n.nspname !~ '^pg_(toast|temp)'";

/// A column without a default has its type's, as in `build_column_default` (PostgreSQL's `rewriteHandler.c`). A default names no
/// column: printed without its table, it is printed without a lock. Of a generated column comes, last, the place in `pg_attrdef`.
pub(super) const COLUMNS: &str = "SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod), \
     a.attnotnull, CASE WHEN a.attgenerated <> '' THEN NULL WHEN d.adbin IS NOT NULL THEN pg_get_expr(d.adbin, 0) \
       ELSE coalesce(pg_get_expr(e.bin, 0), quote_literal(e.text) || '::' || format_type(a.atttypid, NULL)) END, \
     a.attgenerated, a.attidentity, \
     a.attidentity = '' AND (e.bin IS NULL OR NOT EXISTS (SELECT FROM regexp_matches(e.bin::text, 'funcid ([0-9]+)', 'g') m \
       JOIN pg_proc p ON p.oid = m[1]::oid WHERE p.provolatile = 'v') AND e.bin::text !~ 'NEXTVALUEEXPR'), \
     coalesce((SELECT collisdeterministic FROM pg_collation l WHERE l.oid = a.attcollation), true), \
     a.attcollation = 0 OR a.attcollation = (SELECT typcollation FROM pg_type t WHERE t.oid = a.atttypid), \
     a.attcollation = ANY (ARRAY(SELECT l.oid FROM pg_collation l JOIN pg_database b ON b.datname = current_database() \
       WHERE CASE WHEN l.collprovider = 'd' THEN b.datlocprovider ELSE l.collprovider END = 'b' \
       OR CASE WHEN l.collprovider = 'd' THEN b.datlocprovider ELSE l.collprovider END = 'c' \
       AND CASE WHEN l.collprovider = 'd' THEN b.datcollate ELSE l.collcollate END IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8'))), \
     CASE WHEN a.attgenerated <> '' THEN d.oid END \
     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
     LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     LEFT JOIN pg_type y ON y.oid = a.atttypid AND d.adbin IS NULL AND a.attgenerated = '' AND a.attidentity = '' \
     CROSS JOIN LATERAL (SELECT coalesce(d.adbin, y.typdefaultbin) AS bin, y.typdefault AS text) e \
     WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c') \
     AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'loxo') AND n.nspname !~ '^pg_(toast|temp)' \
     ORDER BY a.attrelid, a.attnum";

/// Columns count that the index keeps apart as their hash does: by plain equality, not by a collation or an operator class of
/// its own under which other values are equal. Last, whether that is all of the index.
pub(super) const UNIQUE: &str = "SELECT i.indrelid, c.relname, k.columns, i.indisprimary, \
     i.indisvalid AND i.indpred IS NULL AND coalesce(cardinality(k.columns), 0) = i.indnkeyatts \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid CROSS JOIN LATERAL ( \
       SELECT array_agg(i.indkey[p] ORDER BY p) AS columns FROM generate_series(0, i.indnkeyatts - 1) p \
       JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p] JOIN pg_opclass o ON o.oid = i.indclass[p] \
       WHERE (a.attcollation = i.indcollation[p] OR 2 = (SELECT count(*) FROM pg_collation l \
           WHERE l.oid IN (a.attcollation, i.indcollation[p]) AND l.collisdeterministic)) \
         AND (o.opcdefault OR EXISTS (SELECT FROM pg_amop e JOIN pg_amop f ON f.amopopr = e.amopopr AND f.amopstrategy = 3 \
           JOIN pg_opclass d ON d.opcfamily = f.amopfamily AND d.opcdefault AND d.opcmethod = o.opcmethod \
             AND d.opcintype = o.opcintype \
           WHERE e.amopfamily = o.opcfamily AND e.amopstrategy = 3 \
             AND e.amoplefttype = o.opcintype AND e.amoprighttype = o.opcintype))) k \
     WHERE i.indisunique AND i.indrelid >= 16384";

/// The triggers that the coordinator runs, and all of views.
pub(super) const CAPTURED: &str = "SELECT t.tgrelid, t.tgname, t.tgtype, coalesce(t.tgoldtable, t.tgnewtable) IS NOT NULL, \
     c.tgenabled <> 'D', t.tgattr, t.tgfoid FROM pg_trigger t JOIN pg_trigger c ON c.tgrelid = t.tgrelid AND c.tgname = 'loxo:' || t.tgname \
     WHERE c.tgfoid = 'loxo.capture()'::regprocedure \
     UNION ALL SELECT t.tgrelid, t.tgname, t.tgtype, false, t.tgenabled <> 'D', t.tgattr, t.tgfoid FROM pg_trigger t \
     JOIN pg_class v ON v.oid = t.tgrelid WHERE v.relkind = 'v' AND NOT t.tgisinternal";

pub(super) const RULES: &str = "SELECT r.ev_class, r.rulename, r.ev_type, r.ev_enabled, r.oid, c.relkind \
     FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE r.ev_type <> '1' AND c.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_(toast|temp)' \
     ORDER BY r.ev_class, r.rulename";

/// User functions that a node calls by itself for the rows of a table: of `t`riggers, in `p`olicies, in other `e`xpressions;
/// what policies `r`ead; that there are `c`aptured triggers, others that may `m`ake other rows of those that come, and those that
/// tell of rows with another `k`ey.
/// A change of a table goes on to its children and along cascading foreign keys.
pub(super) const CODE: &str = "WITH RECURSIVE used(classid, objid, function) AS (\
       SELECT classid, objid, refobjid FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid >= 16384 \
       UNION SELECT d.classid, d.objid, o.oprcode FROM pg_depend d JOIN pg_operator o ON o.oid = d.refobjid \
       WHERE d.refclassid = 'pg_operator'::regclass AND d.refobjid >= 16384 AND o.oprcode >= 16384), \
     of_type(type, function) AS (\
       SELECT c.contypid, u.function FROM used u JOIN pg_constraint c ON c.oid = u.objid \
       WHERE u.classid = 'pg_constraint'::regclass AND c.contypid <> 0 \
       UNION SELECT objid, function FROM used WHERE classid = 'pg_type'::regclass \
       UNION SELECT t.oid, o.function FROM of_type o JOIN pg_type t ON o.type IN (t.typbasetype, t.typelem)), \
     own(relid, kind, function) AS (\
       SELECT tgrelid, CASE tgfoid WHEN 'loxo.capture()'::regprocedure THEN 'c' WHEN 'loxo.tell_move()'::regprocedure THEN 'k' \
         ELSE 't' END, tgfoid FROM pg_trigger \
       WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgfoid >= 16384 AND tgfoid <> 'loxo.tell_row()'::regprocedure \
       UNION SELECT tgrelid, 'm', 0 FROM pg_trigger \
       WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 3 = 3 AND tgfoid <> 'loxo.capture()'::regprocedure \
       UNION SELECT t.tgrelid, 't', u.function FROM used u JOIN pg_trigger t ON t.oid = u.objid \
       WHERE u.classid = 'pg_trigger'::regclass \
       AND u.function NOT IN ('loxo.capture()'::regprocedure, 'loxo.tell_row()'::regprocedure, 'loxo.tell_move()'::regprocedure) \
       AND NOT t.tgisinternal AND t.tgenabled <> 'D' \
       UNION SELECT c.conrelid, 'e', u.function FROM used u JOIN pg_constraint c ON c.oid = u.objid \
       WHERE u.classid = 'pg_constraint'::regclass AND c.conrelid <> 0 \
       UNION SELECT d.adrelid, 'e', u.function FROM used u JOIN pg_attrdef d ON d.oid = u.objid \
       WHERE u.classid = 'pg_attrdef'::regclass \
       UNION SELECT coalesce(i.indrelid, u.objid), 'e', u.function FROM used u \
       LEFT JOIN pg_index i ON i.indexrelid = u.objid WHERE u.classid = 'pg_class'::regclass \
       UNION SELECT a.attrelid, 'e', o.function FROM of_type o JOIN pg_attribute a ON a.atttypid = o.type \
       UNION SELECT p.polrelid, 'p', u.function FROM used u JOIN pg_policy p ON p.oid = u.objid \
       JOIN pg_class c ON c.oid = p.polrelid WHERE u.classid = 'pg_policy'::regclass AND c.relrowsecurity \
       UNION SELECT p.polrelid, 'r', d.refobjid FROM pg_depend d JOIN pg_policy p ON p.oid = d.objid \
       JOIN pg_class c ON c.oid = p.polrelid WHERE d.classid = 'pg_policy'::regclass \
       AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> p.polrelid AND c.relrowsecurity), \
     next(relid, reached) AS (\
       SELECT inhparent, inhrelid FROM pg_inherits UNION SELECT confrelid, conrelid FROM pg_constraint \
       WHERE contype = 'f' AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))), \
     called(relid, kind, function) AS (\
       SELECT relid, kind, function FROM own \
       UNION SELECT n.relid, c.kind, c.function FROM called c JOIN next n ON n.reached = c.relid WHERE c.kind NOT IN ('p', 'r')) \
     SELECT relid, kind, function::oid FROM called";

pub(super) const FOREIGN_KEYS: &str = "SELECT conrelid, conname, conkey, confrelid, confkey, confupdtype = 'c', \
     CASE WHEN confupdtype IN ('n', 'd') THEN conkey WHEN confdeltype IN ('n', 'd') THEN coalesce(confdelsetcols, conkey) END, \
     confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'), confdeltype, confupdtype \
     FROM pg_constraint WHERE contype = 'f' AND conrelid >= 16384";

/// Of each EXCLUDE constraint the columns that it compares by PostgreSQL's own equality.
pub(super) fn exclusions(list: Option<&str>) -> Result<Vec<Vec<AttNum>>> {
    list.map_or(Ok(Vec::new()), |list| list.split(',').map(|columns| numbers(Some(columns))).collect())
}
