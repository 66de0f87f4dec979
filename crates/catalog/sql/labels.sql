SELECT objoid, classoid, objsubid, provider, label FROM pg_catalog.pg_seclabels
UNION ALL
SELECT k.relid, 'pg_catalog.pg_class'::regclass::oid, 0, 'loxo', concat(
    'DISTRIBUTE BY ',
    CASE k.locator WHEN 'H' THEN 'HASH' WHEN 'M' THEN 'MODULO' WHEN 'R' THEN 'REPLICATION' ELSE 'ROUNDROBIN' END,
    (SELECT format(' (%s)', string_agg(quote_ident(a.attname), ', ' ORDER BY u.place))
     FROM unnest(k.key_columns) WITH ORDINALITY AS u (number, place)
     JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.relid AND a.attnum = u.number
     HAVING count(*) > 0),
    -- Map 1 is over all datanodes, or on its way there.
    (SELECT format(' TO NODE (%s)', string_agg(quote_ident(d.name), ', ' ORDER BY d.id))
     FROM loxo.node AS d
     WHERE d.type = 'D' AND d.id = ANY (coalesce(k.nodes, m.nodes))
     HAVING count(*) < (SELECT count(*) FROM loxo.node AS n WHERE n.type = 'D') AND k.map_id IS DISTINCT FROM 1))
FROM loxo.class AS k
LEFT JOIN loxo.bucket_map AS m ON m.id = k.map_id
JOIN pg_catalog.pg_class AS c ON c.oid = k.relid
WHERE NOT k.by_default AND c.relkind IN ('r', 'p')
    -- A child lies where its parent does; a partition is made by itself, and attached later.
    AND (c.relispartition OR NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhrelid = c.oid))
