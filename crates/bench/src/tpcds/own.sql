-- Queries of our own over TPC-DS's tables, in the form of dsqgen's streams: joins of facts and dimensions, of facts with each other,
-- aggregates over grouping sets, windows, sub-selects of all kinds, and set operations.

-- start query 1
SELECT d_year, i_category, sum(ss_net_paid) AS paid, count(*) AS sales
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
GROUP BY ROLLUP (d_year, i_category)
ORDER BY d_year NULLS LAST, i_category NULLS LAST, sales;
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

-- start query 4
WITH stores AS (
    SELECT d_month_seq AS month, sum(ss_net_paid) AS paid
    FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk
    WHERE d_moy <> 7
    GROUP BY d_month_seq),
web AS (
    SELECT d_month_seq AS month, sum(ws_net_paid) AS paid
    FROM web_sales JOIN date_dim ON d_date_sk = ws_sold_date_sk
    WHERE d_moy <> 3
    GROUP BY d_month_seq)
SELECT coalesce(stores.month, web.month) AS month, stores.paid AS in_stores, web.paid AS on_the_web
FROM stores FULL JOIN web ON web.month = stores.month
ORDER BY 1;
-- end query 4

-- start query 5
SELECT count(*) AS customers_of_all_channels
FROM (SELECT ss_customer_sk FROM store_sales WHERE ss_customer_sk IS NOT NULL
      INTERSECT
      SELECT cs_bill_customer_sk FROM catalog_sales
      INTERSECT
      SELECT ws_bill_customer_sk FROM web_sales) AS everywhere;
-- end query 5

-- start query 6
SELECT c_birth_country, count(*) AS customers
FROM customer
WHERE EXISTS (SELECT 1 FROM store_sales WHERE ss_customer_sk = c_customer_sk)
  AND NOT EXISTS (SELECT 1 FROM store_returns WHERE sr_customer_sk = c_customer_sk)
GROUP BY c_birth_country
HAVING count(*) > 1
ORDER BY customers DESC, c_birth_country
LIMIT 50;
-- end query 6

-- start query 7
SELECT i_item_id, i_category, i_current_price, count(*) AS sales
FROM store_sales
JOIN item ON i_item_sk = ss_item_sk
WHERE i_current_price > 1.5 * (SELECT avg(other.i_current_price) FROM item AS other WHERE other.i_category = item.i_category)
GROUP BY i_item_id, i_category, i_current_price
ORDER BY sales DESC, i_item_id, i_current_price
LIMIT 100;
-- end query 7

-- start query 8
SELECT w_warehouse_name, i_item_id,
       sum(CASE WHEN d_date < date '2000-06-01' THEN inv_quantity_on_hand ELSE 0 END) AS before,
       sum(CASE WHEN d_date >= date '2000-06-01' THEN inv_quantity_on_hand ELSE 0 END) AS after
FROM inventory
JOIN warehouse ON w_warehouse_sk = inv_warehouse_sk
JOIN item ON i_item_sk = inv_item_sk
JOIN date_dim ON d_date_sk = inv_date_sk
WHERE d_date BETWEEN date '2000-05-01' AND date '2000-06-30'
GROUP BY w_warehouse_name, i_item_id
HAVING sum(CASE WHEN d_date < date '2000-06-01' THEN inv_quantity_on_hand ELSE 0 END) > 0
ORDER BY w_warehouse_name NULLS FIRST, i_item_id
LIMIT 200;
-- end query 8

-- start query 9
SELECT week, paid, avg(paid) OVER (ORDER BY week ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS of_four_weeks,
       sum(paid) OVER (ORDER BY week) AS until_then
FROM (SELECT d_week_seq AS week, sum(cs_net_paid) AS paid
      FROM catalog_sales JOIN date_dim ON d_date_sk = cs_sold_date_sk
      GROUP BY d_week_seq) AS weekly
ORDER BY week;
-- end query 9

-- start query 10
WITH yearly AS (
    SELECT i_category_id AS category, d_year AS year, sum(ss_net_profit) AS profit
    FROM store_sales
    JOIN date_dim ON d_date_sk = ss_sold_date_sk
    JOIN item ON i_item_sk = ss_item_sk
    GROUP BY i_category_id, d_year)
SELECT this.category, this.year, this.profit, this.profit - before.profit AS more
FROM yearly AS this
JOIN yearly AS before ON before.category = this.category AND before.year = this.year - 1
ORDER BY this.category, this.year;
-- end query 10

-- start query 11
SELECT cd_education_status, cd_gender, count(*) AS sales, avg(cs_quantity) AS quantity, min(cs_list_price), max(cs_list_price)
FROM catalog_sales
JOIN customer_demographics ON cd_demo_sk = cs_bill_cdemo_sk
JOIN promotion ON p_promo_sk = cs_promo_sk
WHERE cd_marital_status IN ('M', 'S') AND (p_channel_email = 'N' OR p_channel_event = 'N')
GROUP BY cd_education_status, cd_gender
ORDER BY cd_education_status, cd_gender;
-- end query 11

-- start query 12
SELECT sm_type, d_qoy AS quarter, grouping(sm_type) AS all_types, grouping(d_qoy) AS all_quarters, sum(cs_ext_ship_cost) AS cost
FROM catalog_sales
JOIN ship_mode ON sm_ship_mode_sk = cs_ship_mode_sk
JOIN date_dim ON d_date_sk = cs_ship_date_sk
GROUP BY GROUPING SETS ((sm_type, d_qoy), (sm_type), (d_qoy), ())
ORDER BY all_types, all_quarters, sm_type, quarter;
-- end query 12

-- start query 13
SELECT t_hour, count(*) FILTER (WHERE hd_dep_count = 0) AS alone, count(*) FILTER (WHERE hd_dep_count BETWEEN 1 AND 3) AS some,
       count(*) FILTER (WHERE hd_dep_count > 3) AS many
FROM store_sales
JOIN time_dim ON t_time_sk = ss_sold_time_sk
JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
GROUP BY t_hour
ORDER BY t_hour;
-- end query 13

-- start query 14
SELECT i_class, count(*) AS items
FROM item
WHERE i_item_sk IN (SELECT ws_item_sk FROM web_sales WHERE ws_quantity > 90
                    EXCEPT
                    SELECT ss_item_sk FROM store_sales WHERE ss_quantity > 90)
GROUP BY i_class
ORDER BY items DESC, i_class
LIMIT 30;
-- end query 14

-- start query 15
SELECT substr(w_warehouse_name, 1, 20) AS warehouse, sm_type, cc_name,
       sum(CASE WHEN cs_ship_date_sk - cs_sold_date_sk <= 30 THEN 1 ELSE 0 END) AS days_30,
       sum(CASE WHEN cs_ship_date_sk - cs_sold_date_sk BETWEEN 31 AND 60 THEN 1 ELSE 0 END) AS days_60,
       sum(CASE WHEN cs_ship_date_sk - cs_sold_date_sk > 60 THEN 1 ELSE 0 END) AS later
FROM catalog_sales
JOIN warehouse ON w_warehouse_sk = cs_warehouse_sk
JOIN ship_mode ON sm_ship_mode_sk = cs_ship_mode_sk
JOIN call_center ON cc_call_center_sk = cs_call_center_sk
GROUP BY 1, sm_type, cc_name
ORDER BY warehouse NULLS LAST, sm_type, cc_name;
-- end query 15

-- start query 16
SELECT count(DISTINCT ws_order_number) AS orders, sum(ws_ext_ship_cost) AS shipping, sum(ws_net_profit) AS profit
FROM web_sales AS sold
WHERE EXISTS (SELECT 1 FROM web_sales AS other
              WHERE other.ws_order_number = sold.ws_order_number AND other.ws_item_sk <> sold.ws_item_sk)
  AND ws_order_number NOT IN (SELECT wr_order_number FROM web_returns WHERE wr_return_quantity > 20);
-- end query 16

-- start query 17
SELECT inv_warehouse_sk, inv_item_sk, d_moy, avg(inv_quantity_on_hand) AS mean, stddev_samp(inv_quantity_on_hand) AS deviation
FROM inventory
JOIN date_dim ON d_date_sk = inv_date_sk
WHERE d_year = 2001
GROUP BY inv_warehouse_sk, inv_item_sk, d_moy
HAVING stddev_samp(inv_quantity_on_hand) > 0.8 * avg(inv_quantity_on_hand)
ORDER BY inv_warehouse_sk, inv_item_sk, d_moy
LIMIT 100;
-- end query 17

-- start query 18
SELECT ca_state, c_customer_id, paid, place
FROM (SELECT ca_state, c_customer_id, sum(ss_net_paid) AS paid,
             row_number() OVER (PARTITION BY ca_state ORDER BY sum(ss_net_paid) DESC NULLS LAST, c_customer_id) AS place
      FROM store_sales
      JOIN customer ON c_customer_sk = ss_customer_sk
      JOIN customer_address ON ca_address_sk = c_current_addr_sk
      GROUP BY ca_state, c_customer_id) AS ranked
WHERE place <= 3
ORDER BY ca_state NULLS LAST, place;
-- end query 18

-- start query 19
SELECT c_last_name, c_first_name, current.ca_city, sold.ca_city AS city_of_sale, ss_ticket_number, sum(ss_coupon_amt) AS coupons
FROM store_sales
JOIN customer ON c_customer_sk = ss_customer_sk
JOIN customer_address AS current ON current.ca_address_sk = c_current_addr_sk
JOIN customer_address AS sold ON sold.ca_address_sk = ss_addr_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
WHERE current.ca_city <> sold.ca_city AND d_dow IN (0, 6) AND d_year = 1999
GROUP BY c_customer_sk, c_last_name, c_first_name, current.ca_city, sold.ca_city, ss_ticket_number
ORDER BY c_last_name, c_first_name, current.ca_city, city_of_sale, ss_ticket_number
LIMIT 100;
-- end query 19

-- start query 20
SELECT promoted.paid, everything.paid, round(promoted.paid / everything.paid * 100, 4) AS percent
FROM (SELECT sum(ss_ext_sales_price) AS paid
      FROM store_sales JOIN promotion ON p_promo_sk = ss_promo_sk
      WHERE p_channel_dmail = 'Y' OR p_channel_tv = 'Y') AS promoted,
     (SELECT sum(ss_ext_sales_price) AS paid FROM store_sales) AS everything;
-- end query 20

-- start query 21
SELECT c_customer_id, sum(ws_net_paid) AS paid, coalesce(sum(wr_refunded_cash), 0) AS refunded, count(wr_order_number) AS returns
FROM web_sales
LEFT JOIN web_returns ON wr_order_number = ws_order_number AND wr_item_sk = ws_item_sk
JOIN customer ON c_customer_sk = ws_bill_customer_sk
GROUP BY c_customer_id
HAVING count(wr_order_number) > 0
ORDER BY refunded DESC, c_customer_id
LIMIT 100;
-- end query 21

-- start query 22
WITH monthly AS (
    SELECT i_brand_id AS brand, d_year AS year, d_moy AS month, sum(ss_sales_price) AS sales
    FROM store_sales
    JOIN item ON i_item_sk = ss_item_sk
    JOIN date_dim ON d_date_sk = ss_sold_date_sk
    WHERE d_year IN (1999, 2000)
    GROUP BY i_brand_id, d_year, d_moy)
SELECT brand, year, month, sales, lag(sales) OVER w AS before, lead(sales) OVER w AS after, avg(sales) OVER (PARTITION BY brand, year) AS mean
FROM monthly
WINDOW w AS (PARTITION BY brand ORDER BY year, month)
ORDER BY brand, year, month
LIMIT 200;
-- end query 22

-- start query 23
SELECT ib_lower_bound, ib_upper_bound, count(*) AS sales, sum(ss_net_profit) AS profit
FROM store_sales
JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
JOIN income_band ON ib_income_band_sk = hd_income_band_sk
WHERE ss_store_sk IN (SELECT s_store_sk FROM store WHERE s_number_employees >= 200)
  AND hd_buy_potential IN ('>10000', '1001-5000', 'Unknown')
GROUP BY ib_lower_bound, ib_upper_bound
ORDER BY ib_lower_bound;
-- end query 23

-- start query 24
SELECT channel, category, sum(sold) AS sold, sum(returned) AS returned
FROM (SELECT 'store' AS channel, ss_item_sk AS item, ss_ext_sales_price AS sold, 0::numeric AS returned FROM store_sales
      UNION ALL
      SELECT 'store', sr_item_sk, 0, sr_return_amt FROM store_returns
      UNION ALL
      SELECT 'catalog', cs_item_sk, cs_ext_sales_price, 0 FROM catalog_sales
      UNION ALL
      SELECT 'catalog', cr_item_sk, 0, cr_return_amount FROM catalog_returns
      UNION ALL
      SELECT 'web', ws_item_sk, ws_ext_sales_price, 0 FROM web_sales
      UNION ALL
      SELECT 'web', wr_item_sk, 0, wr_return_amt FROM web_returns) AS moves
JOIN (SELECT i_item_sk, i_category AS category FROM item) AS named ON i_item_sk = item
GROUP BY CUBE (channel, category)
ORDER BY channel NULLS LAST, category NULLS LAST, sold;
-- end query 24

-- start query 25
SELECT substr(ca_zip, 1, 2) AS region, count(DISTINCT ws_bill_customer_sk) AS customers, sum(ws_sales_price) AS sales
FROM web_sales
JOIN customer_address ON ca_address_sk = ws_bill_addr_sk
JOIN web_site ON web_site_sk = ws_web_site_sk
JOIN web_page ON wp_web_page_sk = ws_web_page_sk
WHERE ca_country = 'United States' AND wp_char_count > 100
GROUP BY 1
ORDER BY sales DESC NULLS LAST, region
LIMIT 50;
-- end query 25

-- start query 26
SELECT cp_department, s_state, sum(ss_net_profit) AS in_stores, sum(sr_net_loss) AS lost, sum(cs_net_profit) AS by_catalog
FROM store_sales
JOIN store_returns ON sr_customer_sk = ss_customer_sk AND sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number
JOIN catalog_sales ON cs_bill_customer_sk = sr_customer_sk
JOIN catalog_page ON cp_catalog_page_sk = cs_catalog_page_sk
JOIN store ON s_store_sk = ss_store_sk
GROUP BY cp_department, s_state
ORDER BY cp_department NULLS LAST, s_state NULLS LAST;
-- end query 26
