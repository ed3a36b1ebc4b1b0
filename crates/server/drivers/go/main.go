// pgx against a server at PGHOST and PGPORT, with PGUSER and PGPASSWORD.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expect(what string, got, wanted any) {
	if got != wanted {
		must(fmt.Errorf("%s: %v instead of %v", what, got, wanted))
	}
}

func code(err error) string {
	var found *pgconn.PgError
	if errors.As(err, &found) {
		return found.Code
	}
	return fmt.Sprint(err)
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "dbname=test sslmode=require")
	must(err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "drop table if exists g")
	must(err)
	_, err = conn.Exec(ctx, "create table g (id bigint primary key, name text, price float8)")
	must(err)
	rows := [][]any{}
	for id := int64(0); id < 1000; id++ {
		rows = append(rows, []any{id, fmt.Sprint("n", id), float64(id) / 2})
	}
	columns := []string{"id", "name", "price"}
	copied, err := conn.CopyFrom(ctx, pgx.Identifier{"g"}, columns, pgx.CopyFromRows(rows))
	must(err)
	expect("copied", copied, int64(1000))
	var name string
	var price float64
	must(conn.QueryRow(ctx, "select name, price from g where id = $1", 5).Scan(&name, &price))
	expect("row", name, "n5")
	expect("row", price, 2.5)
	tag, err := conn.Exec(ctx, "update g set name = $1 where id < $2", "x", 10)
	must(err)
	expect("tag", tag.RowsAffected(), int64(10))
	var found int64
	some := []int64{3, 5, 5000}
	must(conn.QueryRow(ctx, "select count(*) from g where id = any($1)", some).Scan(&found))
	expect("found", found, int64(2))
	var words []string
	given := []string{"a", "b c"}
	must(conn.QueryRow(ctx, "select $1::text[] || array['d']", given).Scan(&words))
	expect("words", fmt.Sprintf("%q", words), `["a" "b c" "d"]`)
	batch := &pgx.Batch{}
	for id := 2000; id < 2010; id++ {
		batch.Queue("insert into g (id) values ($1)", id)
	}
	must(conn.SendBatch(ctx, batch).Close())
	_, err = conn.Exec(ctx, "insert into g (id) values ($1)", 5)
	expect("code", code(err), "23505")
	_, err = conn.Exec(ctx, "select 1 / 0")
	expect("code", code(err), "22012")
	tx, err := conn.Begin(ctx)
	must(err)
	_, err = tx.Exec(ctx, "delete from g")
	must(err)
	must(tx.Rollback(ctx))
	var count int64
	must(conn.QueryRow(ctx, "select count(*) from g").Scan(&count))
	expect("count", count, int64(1010))
	go func() {
		time.Sleep(200 * time.Millisecond)
		must(conn.PgConn().CancelRequest(ctx))
	}()
	_, err = conn.Exec(ctx, "select pg_sleep(60)")
	expect("code", code(err), "57014")
	fmt.Println("pgx v5 works")
}
