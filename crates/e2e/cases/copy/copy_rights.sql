-- Rights on the columns of a COPY, on some of which there are grants.
CREATE SCHEMA e2e_cr;
SET search_path = e2e_cr;
CREATE ROLE e2e_c;
GRANT USAGE ON SCHEMA e2e_cr TO e2e_c;
CREATE TABLE t (k int, v int, w int) /*dist: hash(k) | replication | roundrobin */;
CREATE TABLE s (k serial, v int, w int) /*dist: hash(k) | replication | roundrobin */;
CREATE TABLE n (k int, v int) /*dist: hash(k) | replication | roundrobin */;
GRANT INSERT (k, v), SELECT (k, v) ON t TO e2e_c;
GRANT INSERT (v), SELECT (v) ON s TO e2e_c;
SET SESSION AUTHORIZATION e2e_c;
COPY t FROM STDIN;
1	2	3
\.
COPY t (k, v) FROM STDIN;
2	2
\.
COPY t (k, w) FROM STDIN;
3	2
\.
COPY s FROM STDIN;
1	2	3
\.
COPY s (v) FROM STDIN;
2
\.
COPY s (v, w) FROM STDIN;
3	2
\.
COPY n FROM STDIN;
3	2
\.
COPY n (k) FROM STDIN;
3
\.
COPY t TO STDOUT;
COPY t (k, v) TO STDOUT;
COPY t (w) TO STDOUT;
COPY s TO STDOUT;
COPY s (v) TO STDOUT;
COPY n TO STDOUT;
COPY n (v) TO STDOUT;
COPY (SELECT w FROM t) TO STDOUT;
COPY t (k, v) FROM STDIN WHERE w > 1;
4	2
\.
COPY t (k, v) FROM STDIN WHERE v > 1;
5	2
\.
RESET SESSION AUTHORIZATION;
SELECT * FROM t ORDER BY k;
DROP SCHEMA e2e_cr CASCADE;
DROP ROLE e2e_c;
