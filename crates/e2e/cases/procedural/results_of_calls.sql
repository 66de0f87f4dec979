-- What functions give that the coordinator runs: types without a length, and composite columns, in every place of a call.
CREATE TABLE t (id int, p char(4), b bit(3), owner text, n numeric) /*dist: hash(id) | roundrobin | replication | hash(id)*/;
INSERT INTO t SELECT i, 'ab' || i % 7, (i % 8)::bit(3), 'o' || i % 3, i * 10 FROM generate_series(1, 12) i;
CREATE TABLE stored (id int, p char(4), q text) /*dist: hash(id) | hash(id) | replication | roundrobin*/;
CREATE FUNCTION p(x int) RETURNS char(4) LANGUAGE plpgsql AS $$ DECLARE r char(4); BEGIN SELECT t.p INTO r FROM t WHERE id = x; RETURN r; END $$;
CREATE FUNCTION ps(x int) RETURNS SETOF char(4) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT t.p FROM t WHERE id > x ORDER BY id; END $$;
CREATE FUNCTION pt(x int) RETURNS TABLE (a char(4), c varchar(2)) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT t.p, t.owner::varchar FROM t WHERE id = x; END $$;
CREATE FUNCTION po(x int, OUT a char(4), INOUT c char(3)) LANGUAGE plpgsql AS $$ BEGIN SELECT t.p INTO a FROM t WHERE id = x; c := c || 'z'; END $$;
CREATE FUNCTION pa(x int) RETURNS char(4)[] LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT array_agg(t.p ORDER BY id) FROM t WHERE id <= x); END $$;
CREATE FUNCTION pv(x int) RETURNS varchar(2) LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN SELECT t.p INTO r FROM t WHERE id = x; RETURN r; END $$;
CREATE FUNCTION pn(x int) RETURNS numeric(4, 1) LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT n / 7 FROM t WHERE id = x); END $$;
CREATE FUNCTION pu(x int) RETURNS char(4) LANGUAGE sql AS $$ UPDATE t SET n = n WHERE id = x; SELECT p FROM t WHERE id = x $$;
CREATE FUNCTION pc(x char(2)) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM t WHERE p = x); END $$;
SELECT p(3), pv(3), pn(3), pa(2), pc('ab3');
SELECT pu(3);
SELECT ps(9);
SELECT * FROM ps(9);
SELECT * FROM pt(3);
SELECT * FROM po(3, 'xyz');
SELECT po(3, 'xyz'), (po(3, 'xy')).c;
SELECT id, p(id), pv(id), pn(id), pa(2) FROM t ORDER BY id;
SELECT p(id) q, count(*) FROM t GROUP BY 1 ORDER BY 1;
SELECT t.id, x.a, x.c FROM t, pt(t.id) x ORDER BY 1;
SELECT t.id, x FROM t, ps(t.id) x WHERE t.id > 10 ORDER BY 1, 2;
SELECT t.id, x.* FROM t LEFT JOIN LATERAL po(t.id, 'ab') x ON x.a > 'ab3' ORDER BY 1;
INSERT INTO stored SELECT id, p(id), pu(id) FROM t;
-- refused: mixed | v1 | v2 | v4
UPDATE stored SET q = p(id + 1) WHERE id < 4;
SELECT * FROM stored ORDER BY id;
CREATE TABLE made AS SELECT id, p(id) AS q FROM t;
SELECT id, q, length(q) FROM made ORDER BY id;
DO $$ DECLARE r text; BEGIN r := p(3) || '|'; RAISE NOTICE '%', r; END $$;

-- Composite columns.
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN own_pair AS pair CHECK ((VALUE).a > 0);
CREATE FUNCTION outs(x int, OUT b int, INOUT c text, OUT d t) LANGUAGE plpgsql AS $$ BEGIN b := x * 2; c := c || b; SELECT * INTO d FROM t WHERE id = x; END $$;
CREATE FUNCTION pairs(x int) RETURNS TABLE (k int, d pair, e pair[]) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT t.id, (t.id, t.owner)::pair, ARRAY[(t.id, 'x')::pair] FROM t WHERE id BETWEEN x AND x + 1; END $$;
CREATE FUNCTION few(x int) RETURNS TABLE (k int, d pair) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT t.id, (t.id, t.owner)::pair FROM t WHERE id BETWEEN x AND x + 1 ORDER BY id; END $$;
CREATE FUNCTION whole(x int) RETURNS t LANGUAGE plpgsql AS $$ DECLARE r t; BEGIN SELECT * INTO r FROM t WHERE id = x; RETURN r; END $$;
SELECT a.id, o.* FROM t a, outs(a.id, 'q') o WHERE a.id < 3 ORDER BY 1;
SELECT a.id, o.d FROM t a, outs(a.id, 'q') o WHERE a.id < 3 ORDER BY 1;
SELECT a.id, (o.d).n, o.b FROM t a, outs(a.id, 'q') o WHERE a.id < 3 ORDER BY 1;
SELECT a.id, o.d FROM t a LEFT JOIN LATERAL outs(a.id, 'q') o ON o.b > 3 WHERE a.id < 4 ORDER BY 1;
SELECT a.id, f.* FROM t a, few(a.id) f WHERE a.id < 3 ORDER BY 1, 2;
-- refused: mixed | v1 | v2 | v4
SELECT a.id, f.k, f.n, (f.d).b FROM t a, few(a.id) WITH ORDINALITY f (k, d, n) WHERE a.id < 3 ORDER BY 1, 2;
SELECT a.id, f FROM t a, few(a.id) f WHERE a.id < 3 ORDER BY 1, 2;
SELECT a.id, w.id, w.n, w FROM t a, whole(a.id) w WHERE a.id < 3 ORDER BY 1;
SELECT a.id, w.id, w.owner FROM t a CROSS JOIN LATERAL whole(a.id + 1) AS w WHERE a.id < 3 ORDER BY 1;
SELECT a.id, o.d FROM t a, pairs(a.id) o WHERE a.id < 3 ORDER BY 1, 2;
INSERT INTO stored SELECT a.id + 100, 'c', o.d::text FROM t a, outs(a.id, 'q') o WHERE a.id < 3;
SELECT * FROM stored WHERE id > 100 ORDER BY id;
SELECT a.id, u.x FROM t a, p(a.id) AS u (x) ORDER BY 1;
SELECT a.id, sum((f.d).a) FROM t a, few(a.id) f GROUP BY a.id HAVING count(*) > 1 ORDER BY 1;
-- Arrays.
CREATE FUNCTION outa(x int, OUT a int, OUT l int[], OUT c char(4)) LANGUAGE plpgsql AS $$ BEGIN a := x; SELECT array_agg(id ORDER BY id) INTO l FROM t WHERE id <= x; c := 'abc'; END $$;
-- refused: mixed | v1 | v2 | v4
SELECT id, o.* FROM t, outa(id) o ORDER BY 1 LIMIT 3;
SELECT outa(2), (outa(3)).l;
SELECT p(3) || 'x', length(p(3)), pc('ab3'), (SELECT count(*) FROM t);
-- A NULL row that RETURN NEXT puts aside is one of nulls.
CREATE TYPE e2e_pair AS (x int, y text);
CREATE FUNCTION nulls() RETURNS SETOF e2e_pair LANGUAGE plpgsql AS $$ DECLARE p e2e_pair; BEGIN PERFORM 1 FROM t; RETURN NEXT p; RETURN NEXT NULL::e2e_pair; p.x := 1; RETURN NEXT p; END $$;
SELECT nulls();
SELECT (nulls()).y;
SELECT * FROM nulls();
SELECT n, n IS NULL FROM nulls() n;
DROP FUNCTION nulls();
DROP TYPE e2e_pair;
-- Names of OUT parameters, where others read them.
CREATE FUNCTION outs(a int, OUT x int, OUT y text) LANGUAGE sql AS $$ SELECT a, 'y' || count(*) FROM t $$;
CREATE FUNCTION outp(a int, OUT x int, OUT "Y y" text) LANGUAGE plpgsql AS $$ BEGIN x := a; SELECT 'y' || count(*) INTO "Y y" FROM t; END $$;
SELECT row_to_json(outs(3)), to_jsonb(outs(3)), jsonb_build_object('a', outs(3)), to_jsonb(outs(3)) -> 'x';
SELECT row_to_json(outp(3)), outp(3), to_jsonb(outp(4)) ->> 'Y y';
CREATE FUNCTION outn(a int, OUT int, OUT text) LANGUAGE plpgsql AS $$ BEGIN $2 := a; SELECT 'n' || count(*) INTO $3 FROM t; END $$;
SELECT to_jsonb(outn(3)), outn(3);
SELECT * FROM outn(3);
DROP FUNCTION outn(int);
SELECT jsonb_agg(outs(id) ORDER BY id) FROM t WHERE id < 4;
SELECT to_jsonb(outp(id)) FROM t WHERE id < 4 ORDER BY id;
SELECT id, outs(id), outp(id) FROM t WHERE id < 4 ORDER BY id;
SELECT * FROM json_each(row_to_json(outs(3)));
SELECT to_jsonb(array_agg(outs(id) ORDER BY id)) FROM t WHERE id < 3;
SELECT outs(3) = ROW(3, 'y12'::text), outs(3) IS NULL, (outs(3)).x, count(*) FROM t;
CREATE TABLE js (id int, j jsonb) /*dist: hash(id) | replication*/;
INSERT INTO js SELECT id, to_jsonb(outs(id)) FROM t WHERE id < 4;
INSERT INTO js VALUES (7, to_jsonb(outs(7))), (8, to_jsonb(outp(8)));
-- refused: mixed | v1 | v2 | v4
UPDATE js SET j = to_jsonb(outp(id)) WHERE id = 1;
SELECT * FROM js ORDER BY id;
DROP TABLE js;
DROP FUNCTION outs(int);
DROP FUNCTION outp(int);
