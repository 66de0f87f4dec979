-- Bodies that the coordinator runs, under settings whose texts are ambiguous or rounded: values pass through variables exactly, and what
-- is made text is made under the user's settings.
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TYPE visit AS (at timestamptz, how mood, weight float8);
CREATE TABLE days (
    id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, i interval, f8 float8, f4 float4, b bytea, a date[], m mood, flag bool, c char(4),
    n numeric(10, 3), big int8, small int2
) /*dist: hash(id) | replication*/;
SET timezone = 'Europe/Berlin';
SET datestyle = 'SQL, DMY';
SET extra_float_digits = -5;
SET intervalstyle = 'sql_standard';
INSERT INTO days VALUES
    (1, '02/03/2024', '02/03/2024 04:05:06.789', '02/03/2024 04:05:06 UTC', '1-2 3 04:05:06.7', 1.0 / 3, 0.1, '\x00ff', '{02/03/2024,03/04/2024}', 'low', true, 'ab', 1.5, 9007199254740993, -3),
    (2, NULL, 'infinity', '12/11/2023', '-3 days', 'NaN', 'Infinity', '', '{}', 'high', false, '', NULL, -9223372036854775808, 32767),
    (3, 'today'::date - 'today'::date + '11/12/2020'::date, NULL, NULL, NULL, 123456789.123456789, 1e-20, NULL, NULL, NULL, NULL, NULL, -0.001, 0, 0);

-- Values that pass through variables of each type.
CREATE FUNCTION passed() RETURNS SETOF days LANGUAGE plpgsql AS $$
DECLARE r record; row days; vd date; vf float8; va date[];
BEGIN
    FOR r IN SELECT * FROM days ORDER BY id LOOP
        vd := r.d; vf := r.f8; va := r.a;
        RAISE NOTICE '% % % % %', vd, r.ts, r.i, vf, va;
        RAISE NOTICE '%', r;
        SELECT * INTO row FROM days WHERE days.d IS NOT DISTINCT FROM vd AND days.f8 IS NOT DISTINCT FROM vf;
        RAISE NOTICE 'row %', row;
        RAISE NOTICE 'text %', vd || ' ' || vf || ' ' || va::text || ' ' || r.tz;
        RETURN NEXT row;
    END LOOP;
END $$;
SELECT * FROM passed();
SELECT d, f8, a FROM passed() WHERE id = 1;
SELECT count(*) FROM passed() p JOIN days USING (id, d, f8, i, ts, tz, f4);

CREATE FUNCTION moved(of int, by interval) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE was timestamptz; became timestamptz; said text;
BEGIN
    SELECT tz INTO was FROM days WHERE id = of;
    became := was + by;
    UPDATE days SET tz = became, d = became::date, f8 = f8 + 1 WHERE id = of RETURNING tz, tz::text INTO became, said;
    RAISE NOTICE 'from % to % (%)', was, became, said;
    RETURN became;
END $$;
SELECT moved(1, '1 month 2 days 03:00:00');
SELECT moved(2, '-1-6');
SELECT moved(1, '0.000001 seconds'), (SELECT count(*) FROM days);
SELECT id, d, tz, f8 FROM days ORDER BY id;
SET datestyle = 'ISO';
SET extra_float_digits = 3;
SELECT id, d, tz, f8 FROM days ORDER BY id;
SET datestyle = 'German';
SET extra_float_digits = 0;

-- Values of one's own types, and DO.
CREATE FUNCTION seen(of int) RETURNS visit LANGUAGE plpgsql AS $$
DECLARE v visit;
BEGIN
    SELECT tz, m, f8 INTO v FROM days WHERE id = of;
    IF v.at < '01.01.2024'::timestamptz THEN v.weight := v.weight * 2; END IF;
    RETURN v;
END $$;
SELECT (seen(1)).at, (seen(2)).how;
SELECT seen(id) FROM days WHERE id < 3 ORDER BY id;
DO $$
DECLARE m mood; total float8 := 0; first date;
BEGIN
    FOR m, total, first IN SELECT days.m, sum(f4), min(d) FROM days WHERE f4 < 1 GROUP BY 1 ORDER BY 1 LOOP
        RAISE NOTICE '% % %', m, total, first;
    END LOOP;
    ASSERT (SELECT max(d) FROM days) > '31.12.2000'::date;
END $$;

-- Triggers that read tables see rows of these types.
CREATE TABLE seen_rows (n int PRIMARY KEY, said text, at date, f float8) /*dist: hash(n) | replication*/;
CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ts := NEW.ts + interval '1 day';
    IF EXISTS (SELECT 1 FROM seen_rows WHERE n = NEW.id) THEN
        UPDATE seen_rows SET at = NEW.d, f = NEW.f8, said = NEW::text WHERE n = NEW.id;
    ELSE
        INSERT INTO seen_rows VALUES (NEW.id, NEW.ts || '/' || NEW.f8, NEW.d, NEW.f8);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER notes BEFORE INSERT OR UPDATE ON days FOR EACH ROW EXECUTE FUNCTION notes();
UPDATE days SET flag = true WHERE id = 1;
INSERT INTO days (id, d, ts, f8, i, m) VALUES (4, '05.06.2022', '07.08.2022 09:10:11', 2.0 / 3, '1 2:03:04', 'high');
UPDATE days SET f8 = f8 / 3, d = d + 1 WHERE id = 4;
SELECT id, ts, f8, d FROM days ORDER BY id;
SELECT * FROM seen_rows ORDER BY n;
SET extra_float_digits = 3;
SELECT id, ts, f8, d FROM days ORDER BY id;
SELECT n, at, f FROM seen_rows ORDER BY n;

-- INSTEAD OF.
CREATE VIEW shown AS SELECT id, d, f8, m FROM days;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE NOTICE 'gone: %', OLD;
        DELETE FROM days WHERE id = OLD.id;
        RETURN OLD;
    END IF;
    RAISE NOTICE 'comes: % %', NEW, NEW.d;
    UPDATE days SET d = NEW.d, f8 = NEW.f8 WHERE id = NEW.id;
    IF NOT FOUND THEN INSERT INTO days (id, d, f8, m) VALUES (NEW.id, NEW.d, NEW.f8, NEW.m); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER instead INSTEAD OF INSERT OR UPDATE OR DELETE ON shown FOR EACH ROW EXECUTE FUNCTION instead();
SET extra_float_digits = -2;
INSERT INTO shown VALUES (5, '09.10.2021', 1.0 / 7, 'low') RETURNING *;
UPDATE shown SET f8 = f8 * 3, d = d - 1 WHERE id = 4 RETURNING id, d, f8, m;
UPDATE shown SET f8 = f8 * 3, d = d - 1 WHERE id = 5 RETURNING id, d, f8, m;
DELETE FROM shown WHERE d < '01.01.2022' AND id > 3 RETURNING d, f8;
SELECT * FROM shown ORDER BY id;

-- The settings change inside.
CREATE FUNCTION changes() RETURNS text LANGUAGE plpgsql AS $$
DECLARE v date; t text;
BEGIN
    SELECT min(d) INTO v FROM days;
    t := v::text;
    PERFORM set_config('datestyle', 'ISO', true);
    t := t || ' ' || v;
    RAISE NOTICE '%', v;
    SET LOCAL datestyle = 'Postgres, MDY';
    RAISE NOTICE '%', v;
    RETURN t || ' ' || v || ' ' || (SELECT max(d) FROM days);
END $$;
BEGIN;
SELECT changes();
SHOW datestyle;
ROLLBACK;
SHOW datestyle;
SELECT min(d) FROM days;

-- A transaction may still say how it is isolated.
CREATE PROCEDURE parts() LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL datestyle = 'SQL, MDY';
    UPDATE days SET flag = false WHERE id = 1;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    RAISE NOTICE '% %', current_setting('transaction_isolation'), (SELECT min(d) FROM days);
END $$;
CALL parts();
