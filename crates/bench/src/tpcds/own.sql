-- Queries of our own over TPC-DS's tables.

-- start query 1
SELECT d_year, i_category, sum(ss_net_paid) AS paid, count(*) AS sales
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
GROUP BY ROLLUP (d_year, i_category)
ORDER BY d_year NULLS LAST, i_category NULLS LAST;
-- end query 1
-- start query 2
SELECT r_reason_desc, count(*) AS returns, avg(ss_sales_price - sr_return_amt / sr_return_quantity) AS lost
FROM store_returns
JOIN store_sales ON ss_item_sk = sr_item_sk AND ss_ticket_number = sr_ticket_number
JOIN reason ON r_reason_sk = sr_reason_sk
WHERE sr_return_quantity > 0
GROUP BY r_reason_desc
ORDER BY returns DESC, r_reason_desc
LIMIT 20;
-- end query 2
-- start query 3
SELECT i_brand, month, paid, rank() OVER (PARTITION BY month ORDER BY paid DESC) AS place
FROM (SELECT i_brand, d_moy AS month, sum(ws_net_paid) AS paid
      FROM web_sales
      JOIN date_dim ON d_date_sk = ws_sold_date_sk
      JOIN item ON i_item_sk = ws_item_sk
      WHERE d_year = 2000
      GROUP BY i_brand, d_moy) AS monthly
ORDER BY month, place, i_brand
LIMIT 100;
-- end query 3
