-- Layout 12: rows that fire triggers of the coordinator's are told in words that do not depend on a session's settings.

ALTER FUNCTION loxo.capture() SET datestyle = 'ISO, YMD';
ALTER FUNCTION loxo.capture() SET intervalstyle = 'postgres';
ALTER FUNCTION loxo.capture() SET extra_float_digits = 1;
ALTER FUNCTION loxo.capture() SET bytea_output = 'hex';
