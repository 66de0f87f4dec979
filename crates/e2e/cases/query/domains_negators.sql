-- PostgreSQL puts an operator's negator in the place of NOT when it plans a CHECK; nothing but the operator tells of it.
CREATE ROLE e2e_negators;
CREATE FUNCTION differs(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1 <> $2; END $$;
CREATE OPERATOR !== (FUNCTION = differs, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR === (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int, NEGATOR = !==);
CREATE DOMAIN filled AS int CHECK (NOT (VALUE === 0));
CREATE TABLE d (id int, k int, v filled) /*dist: hash(id)*/;
INSERT INTO d SELECT g, 10 - g, g FROM generate_series(1, 9) g;
SELECT a.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
ALTER FUNCTION differs(int, int) OWNER TO e2e_negators;
-- refused
SELECT a.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
SELECT a.v + 0 AS v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
-- refused
CREATE TABLE of_d AS SELECT a.v FROM d a JOIN d b ON a.k = b.id;
ALTER FUNCTION differs(int, int) OWNER TO CURRENT_USER;
SELECT a.v FROM d a JOIN d b ON a.k = b.id ORDER BY 1;
DROP TABLE d;
DROP DOMAIN filled;
DROP OPERATOR === (int, int);
DROP OPERATOR !== (int, int);
DROP FUNCTION differs(int, int);
DROP ROLE e2e_negators;
