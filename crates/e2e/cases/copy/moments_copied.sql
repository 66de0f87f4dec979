-- Words that are read by the clock, in rows that all copies get.
CREATE TABLE m (k int PRIMARY KEY, at timestamptz, day date) /*dist: replication*/;
CREATE TABLE raw (k int PRIMARY KEY, at timestamptz, t time, list int[]) /*dist: replication*/;
COPY m FROM STDIN;
1	now	today
2	now	tomorrow
3	2024-01-01	2024-01-01
4	12:00 today	today
\.
SELECT count(*), count(DISTINCT at), count(DISTINCT day) FROM m;
COPY raw FROM STDIN;
1	2024-01-01 10:00:00Z	10:00 PM	{1}
2	\N	\N	\N
3	infinity	allballs	{}
\.
-- refused
COPY raw FROM STDIN;
4	now	10:00	{1}
\.
-- refused
COPY raw FROM STDIN (FORMAT csv);
5,2024-01-01,"NOW",{1}
\.
SELECT * FROM raw ORDER BY k;
