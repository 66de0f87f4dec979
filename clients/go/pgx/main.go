// pgx: its pool, batches, COPY, types of our own, nested transactions, notifications, large objects.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func report(label string, rows [][]any, err error) {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		fmt.Printf("%s: ERROR %s %s\n", label, failure.Code, failure.Message)
		return
	}
	if err != nil {
		fmt.Printf("%s: ERROR %T %v\n", label, err, err)
		return
	}
	fmt.Printf("%s: %d\n", label, len(rows))
	for _, row := range rows {
		fmt.Printf("    %v\n", row)
	}
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func query(ctx context.Context, on querier, sql string, args ...any) ([][]any, error) {
	rows, err := on.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
}

func main() {
	ctx := context.Background()
	uri := os.Args[len(os.Args)-1]
	conn, err := pgx.Connect(ctx, uri)
	if err != nil {
		panic(err)
	}
	ask := func(label, sql string, args ...any) {
		rows, err := query(ctx, conn, sql, args...)
		report(label, rows, err)
	}
	_, err = conn.Exec(ctx, `CREATE TYPE size AS ENUM ('s', 'm', 'l'); CREATE TYPE spot AS (x int, s size);
		CREATE TABLE shirt (id int PRIMARY KEY, name text, price numeric(8,2), size size, at timestamptz, tags text[], doc jsonb);
		CREATE TABLE sold (id bigserial PRIMARY KEY, shirt int REFERENCES shirt, n int)`)
	report("tables", nil, err)
	types, err := conn.LoadTypes(ctx, []string{"size", "spot"})
	report("types", [][]any{{len(types)}}, err)
	conn.TypeMap().RegisterTypes(types)
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	batch := &pgx.Batch{}
	for i := range 50 {
		batch.Queue("INSERT INTO shirt VALUES ($1, $2, $3, $4, $5, $6, $7)", i, fmt.Sprintf("s%d", i), fmt.Sprintf("%d.25", i), []string{"s", "m", "l"}[i%3], at.Add(time.Duration(i)*time.Hour), []string{"a", fmt.Sprint(i % 4)}, map[string]any{"i": i})
	}
	batch.Queue("SELECT count(*) FROM shirt")
	results := conn.SendBatch(ctx, batch)
	for range 50 {
		if _, err := results.Exec(); err != nil {
			report("batch", nil, err)
			break
		}
	}
	var count int
	report("batch", [][]any{{count}}, results.QueryRow().Scan(&count))
	report("batch closed", [][]any{{count}}, results.Close())
	copied, err := conn.CopyFrom(ctx, pgx.Identifier{"sold"}, []string{"shirt", "n"}, pgx.CopyFromSlice(200, func(i int) ([]any, error) { return []any{i % 50, i}, nil }))
	report("copy", [][]any{{copied}}, err)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for range 3 {
			ask("one "+mode.String(), "SELECT id, name, size, tags FROM shirt WHERE id = $1", mode, 7)
		}
		ask("join "+mode.String(), "SELECT s.name, sum(n) FROM shirt s JOIN sold o ON o.shirt = s.id WHERE s.price > $1 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3", mode, 10.5)
	}
	ask("grouped", "SELECT size, count(*), max(price)::text, array_agg(id ORDER BY id DESC) FROM shirt WHERE id < 12 GROUP BY size ORDER BY size")
	ask("enum", "SELECT id FROM shirt WHERE size = ANY($1) AND id < 9 ORDER BY id", []string{"s", "l"})
	ask("composite", "SELECT ROW(id, size)::spot FROM shirt WHERE id < 5 ORDER BY id")
	ask("composites", "SELECT array_agg(ROW(id, size)::spot ORDER BY id) FROM shirt WHERE id < 5")
	ask("unique", "INSERT INTO shirt (id) VALUES ($1)", 1)
	ask("foreign", "INSERT INTO sold (shirt) VALUES (999)")
	ask("syntax", "SELECT FROM WHERE")
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE sold SET n = n + 1 WHERE shirt < 10"); err != nil {
			return err
		}
		inner := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
			_, err := nested.Exec(ctx, "DELETE FROM sold; SELECT 1/0")
			return err
		})
		report("nested", nil, inner)
		rows, err := query(ctx, tx, "SELECT count(*), sum(n) FROM sold")
		report("in it", rows, err)
		return nil
	})
	report("transaction", nil, err)
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM sold")
		return err
	})
	report("read only", nil, err)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		objects := tx.LargeObjects()
		oid, err := objects.Create(ctx, 0)
		if err != nil {
			return err
		}
		object, err := objects.Open(ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
		if err != nil {
			return err
		}
		object.Write([]byte("large object"))
		object.Seek(6, 0)
		text := make([]byte, 6)
		object.Read(text)
		report("large object", [][]any{{string(text)}}, nil)
		return objects.Unlink(ctx, oid)
	})
	report("large objects", nil, err)
	pool, err := pgxpool.New(ctx, uri)
	report("pool", nil, err)
	ends := make(chan error)
	for i := range 12 {
		go func() {
			_, err := pool.Exec(ctx, "INSERT INTO sold (shirt, n) VALUES ($1, -1)", i)
			ends <- err
		}()
	}
	for range 12 {
		if err := <-ends; err != nil {
			report("pooled", nil, err)
		}
	}
	ask("after the pool", "SELECT count(*), sum(n) FROM sold WHERE n = -1")
	_, err = conn.Exec(ctx, "LISTEN news")
	report("listen", nil, err)
	_, err = pool.Exec(ctx, "SELECT pg_notify('news', 'today')")
	report("notify", nil, err)
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	heard, err := conn.WaitForNotification(limited)
	if err == nil {
		report("heard", [][]any{{heard.Channel, heard.Payload}}, nil)
	} else {
		report("heard", nil, err)
	}
	_, err = pool.Exec(ctx, "ALTER TABLE shirt ADD COLUMN more int DEFAULT 5")
	report("alter", nil, err)
	ask("after alter", "SELECT id, name, size, tags FROM shirt WHERE id = $1", 7)
	ask("all of it", "SELECT * FROM sold WHERE id < 3 ORDER BY id")
	pool.Close()
}
