-- What acts on a server is done on all of them; what would act on one, or tell what one has, is refused.
CREATE TABLE t (id int PRIMARY KEY, v text) /*dist: hash(id) | replication*/;
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2';
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 30) g;
SELECT pg_stat_reset();
SELECT pg_stat_reset() AS done;
SELECT pg_catalog.pg_stat_reset_shared('bgwriter');
SELECT pg_stat_reset_shared('nothing');
SELECT pg_stat_reset_single_table_counters('t'::regclass);
SELECT pg_stat_reset_single_table_counters('t_pkey'::regclass::oid);
SELECT pg_stat_reset_single_table_counters('missing'::regclass);
SELECT pg_stat_reset_single_function_counters('twice(int)'::regprocedure);
SELECT pg_reload_conf();
BEGIN;
INSERT INTO t VALUES (31, 'v31');
SELECT pg_reload_conf() AS again;
COMMIT;
BEGIN READ ONLY;
SELECT pg_stat_reset();
COMMIT;
DO $$ BEGIN PERFORM pg_stat_reset(); END $$;
SELECT count(*) FROM t;

-- Elsewhere it would be one node's.
-- refused
SELECT pg_reload_conf() AND true;
-- refused
SELECT pg_reload_conf() FROM t;
-- refused
SELECT * FROM pg_reload_conf();
-- refused
SELECT pg_stat_reset_single_table_counters(oid) FROM pg_class WHERE relname = 't';
-- refused
SELECT pg_stat_reset_single_table_counters(0);
-- refused
SELECT pg_switch_wal() IS NULL;
-- refused
SELECT pg_create_restore_point('here') IS NULL;
-- refused
SELECT pg_stat_get_live_tuples('t'::regclass) IS NULL;
-- refused
SELECT relname FROM pg_class WHERE relname = 't' AND pg_stat_get_tuples_inserted(oid) < 0;
-- refused
SELECT pg_tablespace_size('pg_default') > 0;
-- refused
SELECT spcname, pg_catalog.pg_tablespace_size(oid) > 0 FROM pg_tablespace;
-- refused
SELECT brin_summarize_new_values('t_pkey'::regclass);
-- refused
SELECT gin_clean_pending_list('t_pkey'::regclass);

-- Views of what a server has counted.
-- refused
SELECT count(*) >= 0 FROM pg_stat_sys_tables;
-- refused
SELECT count(*) >= 0 FROM pg_catalog.pg_statio_sys_indexes s, t;
-- refused
SELECT count(*) >= 0 FROM pg_stat_wal_receiver, pg_stat_recovery_prefetch;
-- refused
SELECT count(*) >= 0 FROM pg_stat_replication_slots WHERE EXISTS (SELECT FROM pg_stat_subscription_stats);
-- refused
DO $$ BEGIN PERFORM count(*) FROM pg_stat_xact_sys_tables; END $$;
CREATE SCHEMA own;
CREATE TABLE own.pg_stat_sys_tables (a int) /*dist: hash(a) | replication*/;
SELECT count(*) FROM own.pg_stat_sys_tables;
DROP SCHEMA own CASCADE;

-- Libraries that see one server's files, memory or log.
CREATE EXTENSION pg_prewarm;
CREATE EXTENSION amcheck;
CREATE EXTENSION pg_freespacemap;
-- refused
SELECT pg_prewarm('t') >= 0;
-- refused
SELECT bt_index_check('t_pkey');
-- refused
SELECT bt_index_check(oid) FROM pg_class WHERE relname = 't_pkey';
-- refused
SELECT count(*) >= 0 FROM verify_heapam('t');
-- refused
SELECT count(*) >= 0 FROM pg_freespace('t');
-- refused
DO $$ BEGIN PERFORM pg_prewarm('t'); END $$;
DROP EXTENSION pg_prewarm;
DROP EXTENSION amcheck;
DROP EXTENSION pg_freespacemap;
