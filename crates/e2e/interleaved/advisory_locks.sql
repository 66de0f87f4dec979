-- Advisory locks, of sessions and of transactions, shared and not.
-- @a
SELECT pg_advisory_lock(42);
SELECT pg_try_advisory_lock(42);
-- @b
SELECT pg_try_advisory_lock(42);
SELECT pg_advisory_lock(42);
-- @a
SELECT pg_advisory_unlock(42);
SELECT pg_advisory_unlock(42);
SELECT pg_advisory_unlock(42);
-- @b
SELECT pg_advisory_unlock(42);

-- @a
BEGIN;
SELECT pg_advisory_xact_lock(1, 2);
-- @b
SELECT pg_try_advisory_xact_lock(1, 2);
SELECT pg_try_advisory_xact_lock(2, 1);
BEGIN;
SELECT pg_advisory_xact_lock_shared(1, 2);
-- @a
ROLLBACK;
SELECT pg_try_advisory_lock_shared(1, 2);
SELECT pg_try_advisory_lock(1, 2);
-- @b
COMMIT;
-- @a
SELECT pg_advisory_unlock_shared(1, 2);
SELECT pg_try_advisory_lock(1, 2);
SELECT pg_advisory_unlock_all();
-- @b
SELECT pg_try_advisory_lock(1, 2);
