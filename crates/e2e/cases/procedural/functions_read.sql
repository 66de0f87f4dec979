-- SQL functions that read tables, called from anywhere in a query.
CREATE TABLE t (id int, grp int, v text, n numeric(8,2)) /*dist: hash(id) | modulo(grp) | replication | roundrobin*/;
CREATE TABLE o (k int, t_id int, w text) /*dist: hash(k) | hash(t_id) | roundrobin | replication*/;
INSERT INTO t SELECT g, g % 4, 'v' || g, g * 1.25 FROM generate_series(1, 20) g;
INSERT INTO o SELECT g, g / 2, 'w' || g FROM generate_series(1, 30) g;
CREATE FUNCTION name_of(wanted int) RETURNS text LANGUAGE sql STABLE AS 'SELECT v FROM t WHERE id = wanted';
CREATE FUNCTION how_many(int) RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT count(*) FROM o WHERE t_id = $1 $$;
CREATE FUNCTION total(of_grp int DEFAULT 1, more numeric DEFAULT 0.5) RETURNS numeric LANGUAGE sql AS $$ SELECT sum(n) + more FROM t WHERE grp = of_grp $$;
CREATE FUNCTION known(a int, b int) RETURNS text LANGUAGE sql STRICT STABLE AS $$ SELECT v || a FROM t WHERE id = b $$;
CREATE FUNCTION both(a int) RETURNS text LANGUAGE sql STABLE AS $$ SELECT name_of(a) || ':' || how_many(a) $$;
CREATE FUNCTION of_group(g int) RETURNS TABLE (number int, word text) LANGUAGE sql STABLE AS $$ SELECT id, v FROM t WHERE grp = g ORDER BY id $$;
CREATE FUNCTION ids(least int) RETURNS SETOF bigint LANGUAGE sql AS $$ SELECT id FROM t WHERE id > least $$;
CREATE FUNCTION atomic(a int) RETURNS int LANGUAGE sql STABLE RETURN (SELECT max(k) FROM o WHERE t_id < a);
SELECT name_of(3), name_of(99), name_of(NULL);
SELECT how_many(4), how_many(4) + 1 AS one_more, 'x' || how_many(7);
SELECT total(), total(2), total(3, 10), total(77);
SELECT known(1, 2), known(NULL, 2), known(1, 200);
SELECT both(5);
SELECT atomic(5);
-- params: 6
SELECT name_of($1), how_many($1);
SELECT * FROM of_group(2) ORDER BY number;
SELECT g.word, o.w FROM of_group(1) AS g (i) JOIN o ON o.t_id = g.i ORDER BY o.k;
SELECT count(*), sum(ids) FROM ids(15);
SELECT i FROM ids(17) AS i ORDER BY i;
SELECT * FROM how_many(3);
SELECT id, name_of(id), how_many(id + 1) FROM t WHERE how_many(id) = 2 AND id < 6 ORDER BY id;
SELECT o.k, known(o.k, o.t_id) FROM o WHERE o.k < 6 ORDER BY o.k;
SELECT grp, sum(how_many(id)) FROM t GROUP BY grp ORDER BY grp;
SELECT k FROM o WHERE w = 'w' || how_many(2) ORDER BY k;
UPDATE o SET w = name_of(3) WHERE k = 1 RETURNING w;
INSERT INTO o VALUES (100, 7, name_of(7)) RETURNING *;
DELETE FROM o WHERE k = 100 AND how_many(7) = 3;
SELECT name_of('x');
SELECT name_of(1, 2);
SELECT nothing_like_it(1);
SELECT * FROM o WHERE k IN (1, 100);
CREATE FUNCTION p_name(wanted int) RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT v FROM t WHERE id = wanted); END';
CREATE FUNCTION p_count(least int) RETURNS int LANGUAGE plpgsql AS 'DECLARE many int; BEGIN SELECT count(*) INTO many FROM o WHERE t_id >= least; RETURN many; END';
CREATE FUNCTION p_rows(g int) RETURNS TABLE (number int, word text) LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT id, v FROM t WHERE grp = g ORDER BY id; END';
CREATE FUNCTION p_first(g int) RETURNS text LANGUAGE plpgsql AS 'DECLARE x text; BEGIN SELECT v INTO x FROM t WHERE grp = p_first.g ORDER BY id DESC; RETURN x; END';
CREATE FUNCTION p_loop(g int) RETURNS int LANGUAGE plpgsql AS 'DECLARE x int := 0; r record; BEGIN FOR r IN SELECT id FROM t WHERE grp = g LOOP x := x + r.id; END LOOP; RETURN x; END';
SELECT p_name(4), p_name(NULL), p_count(5), p_count(1000), p_first(2), p_first(99);
SELECT * FROM p_rows(3) ORDER BY number;
SELECT id, p_name(id), p_count(id) FROM t WHERE grp = 2 ORDER BY id;
SELECT p_loop(1);

-- Functions called as columns of a row.
CREATE TABLE owner (id int, name text, total int) /*dist: hash(id) | replication*/;
CREATE TABLE pet (owner int, call text) /*dist: hash(call) | replication*/;
INSERT INTO owner SELECT g, 'o' || g, g FROM generate_series(1, 9) g;
INSERT INTO pet SELECT 1 + g % 9, 'p' || g FROM generate_series(1, 20) g;
CREATE FUNCTION shouted(owner) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT upper($1.name)';
CREATE FUNCTION siblings(pet) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM pet p WHERE p.owner = $1.owner';
CREATE FUNCTION pets(owner) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM pet p WHERE p.owner = $1.id';
SELECT o.id, o.shouted FROM owner o;
SELECT o.total FROM owner o WHERE o.shouted < 'O4';
SELECT o.id, o.pets FROM owner o;
SELECT o.id FROM owner o ORDER BY o.pets DESC, o.id;
SELECT p.call, p.siblings FROM pet p WHERE p.call < 'p12';
SELECT s.pets FROM (SELECT count(*) AS pets FROM owner) s;
-- STRICT ones in FROM, of columns.
CREATE FUNCTION rows_of(b int, more text DEFAULT '') RETURNS TABLE (a int, word text) LANGUAGE sql STRICT STABLE AS $$ SELECT id, t.v || more FROM t WHERE grp = b $$;
SELECT x.n, r.* FROM (VALUES (1), (NULL), (3)) x (n), rows_of(x.n) r ORDER BY 1, 2;
SELECT x.n, r.word FROM (VALUES (2), (NULL)) x (n) LEFT JOIN LATERAL rows_of(x.n, '!') r ON r.a < 9 ORDER BY 1, 2;
SELECT o.k, count(r.a) FROM o LEFT JOIN rows_of(o.t_id) r ON true WHERE o.k < 9 GROUP BY o.k ORDER BY 1;
SELECT * FROM rows_of(NULL);
SELECT count(*) FROM rows_of(1, NULL);
-- params: 2
SELECT count(*) FROM rows_of($1);
-- Several of one name, told apart by how many arguments they take.
CREATE FUNCTION count_in() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
CREATE FUNCTION count_in(of_grp int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t WHERE grp = of_grp';
CREATE FUNCTION count_in(of_grp int, least int, OUT n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR n IN SELECT count(*) FROM t WHERE grp = of_grp AND id >= least LOOP END LOOP; END $$;
SELECT count_in(), count_in(1);
SELECT id, count_in(id) FROM t WHERE id < 4 ORDER BY id;
CREATE FUNCTION count_in(of_grp int, least int, most int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT of_grp + least + most';
SELECT count_in(1, 10);
SELECT id, count_in(id, 1, 2) FROM t WHERE id < 3 ORDER BY id;
