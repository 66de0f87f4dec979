-- Locked rows: who waits, who is told at once, who passes over them, and what a waiter finds afterwards.
CREATE TABLE account (id int PRIMARY KEY, owner text, amount int NOT NULL) /*dist: hash(id) | replication*/;
INSERT INTO account SELECT g, 'o' || g, 100 FROM generate_series(1, 8) g;

-- An update that waits adds to what was committed: no update is lost.
-- @a
BEGIN;
UPDATE account SET amount = amount + 10 WHERE id = 1 RETURNING amount;
-- @b
UPDATE account SET amount = amount + 5 WHERE id = 1 RETURNING amount;
-- @a
COMMIT;
-- @b
SELECT amount FROM account WHERE id = 1;

-- What is rolled back was never there.
-- @a
BEGIN;
DELETE FROM account WHERE id = 2;
-- @b
UPDATE account SET amount = 0 WHERE id = 2 RETURNING id;
-- @a
ROLLBACK;
-- @b
SELECT id, amount FROM account WHERE id = 2;

-- What is deleted is not found by who waited for it.
-- @a
BEGIN;
DELETE FROM account WHERE id = 2;
-- @b
UPDATE account SET amount = 1 WHERE id = 2;
-- @a
COMMIT;

-- A row that no longer meets the condition is left alone.
BEGIN;
UPDATE account SET owner = 'closed' WHERE id IN (3, 4);
-- @b
UPDATE account SET amount = amount - 1 WHERE owner <> 'closed' AND id IN (3, 4, 5) RETURNING id;
-- @a
COMMIT;

-- FOR UPDATE, FOR SHARE and their weaker kin.
BEGIN;
SELECT id FROM account WHERE id = 5 FOR SHARE;
-- @b
SELECT id FROM account WHERE id = 5 FOR SHARE NOWAIT;
SELECT id FROM account WHERE id = 5 FOR KEY SHARE NOWAIT;
SELECT id FROM account WHERE id = 5 FOR UPDATE NOWAIT;
SELECT id FROM account WHERE id = 5 FOR NO KEY UPDATE NOWAIT;
SELECT id FROM account WHERE id IN (5, 6) ORDER BY id FOR UPDATE SKIP LOCKED;
UPDATE account SET amount = 7 WHERE id = 5;
-- @a
COMMIT;
BEGIN;
SELECT id FROM account WHERE id = 6 FOR NO KEY UPDATE;
-- @b
SELECT id FROM account WHERE id = 6 FOR KEY SHARE;
SELECT id FROM account WHERE id = 6 FOR SHARE;
-- @c
SELECT id FROM account WHERE id >= 5 ORDER BY id FOR UPDATE SKIP LOCKED;
-- @a
SAVEPOINT s;
UPDATE account SET amount = 66 WHERE id = 6;
ROLLBACK TO s;
COMMIT;

-- A lock of a savepoint that was rolled back is free.
BEGIN;
SAVEPOINT s;
SELECT id FROM account WHERE id = 7 FOR UPDATE;
-- @b
SELECT id, amount FROM account WHERE id = 7 FOR UPDATE;
-- @a
ROLLBACK TO s;
COMMIT;

-- Who waits too long is told so.
BEGIN;
SELECT id FROM account WHERE id = 8 FOR UPDATE;
-- @b
SET lock_timeout = '200ms';
-- @a
SELECT count(*) FROM account;
COMMIT;
-- @b
RESET lock_timeout;

-- Two wait for one: they go on one after the other.
-- @a
BEGIN;
UPDATE account SET amount = 1 WHERE id = 8;
-- @b
UPDATE account SET amount = amount * 2 WHERE id = 8 RETURNING amount;
-- @c
SELECT amount FROM account WHERE id = 8;
-- @a
COMMIT;
-- @c
SELECT amount FROM account WHERE id = 8;
-- @b
SELECT id, owner, amount FROM account ORDER BY id;
