-- Who listens hears what is committed, once, in its order.
-- @a
LISTEN news;
-- @b
NOTIFY news, 'one';
-- @a
-- hears
SELECT 1;
-- @b
BEGIN;
NOTIFY news, 'never';
ROLLBACK;
BEGIN;
SELECT pg_notify('news', 'two');
NOTIFY news, 'two';
NOTIFY other, 'not for a';
-- @a
SELECT 2;
-- @b
COMMIT;
-- @a
-- hears
SELECT 3;
UNLISTEN news;
-- @b
NOTIFY news, 'four';
LISTEN own;
-- hears
NOTIFY own, 'to myself';
-- @a
SELECT 5;
