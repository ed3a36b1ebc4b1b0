// Upserts, errors, transactions and locks of GORM; main.go says the rest.
package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

func inserts() {
	sad, glad := "sad", "glad"
	upsert := clause.OnConflict{Columns: []clause.Column{{Name: "name"}},
		DoUpdates: clause.AssignmentColumns([]string{"mood"})}
	first, second := Author{Name: "Dan", Mood: &sad}, Author{Name: "Dan", Mood: &glad}
	must(db.Clauses(upsert).Create(&first).Error)
	must(db.Clauses(upsert).Create(&second).Error)
	expect(second.ID, first.ID)
	ignored := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Author{Name: "Dan"})
	must(ignored.Error)
	expect(ignored.RowsAffected, int64(0))
	var found Author
	must(db.FirstOrCreate(&found, Author{Name: "Dan"}).Error)
	expect([]any{found.ID, *found.Mood}, []any{first.ID, "glad"})
	var made Author
	must(db.Where(Author{Name: "Eve"}).Attrs(Author{Tags: "{new}"}).FirstOrCreate(&made).Error)
	expect([]any{made.Name, made.Tags, made.ID > first.ID}, []any{"Eve", "{new}", true})
	made.Home.Zip = "89073"
	must(db.Save(&made).Error)
	var gone []Author
	both := db.Where("name in ?", []string{"Dan", "Eve"})
	deleted := both.Clauses(clause.Returning{}).Delete(&gone)
	must(deleted.Error)
	expect([]any{deleted.RowsAffected, len(gone), gone[1].Home.Zip}, []any{int64(2), 2, "89073"})
}

// The code of PostgreSQL and the constraint that an error names.
func cause(err error) []string {
	var found *pgconn.PgError
	if !errors.As(err, &found) {
		fail(fmt.Sprintf("%v is not of pgx", err))
	}
	return []string{found.Code, found.ConstraintName}
}

func refuses() {
	err := db.Create(&Author{Name: "Ann"}).Error
	fails(err, gorm.ErrDuplicatedKey)
	expect(cause(err), []string{"23505", "authors_name"})
	err = db.Create(&Book{AuthorID: 999, Title: "x", Price: "1"}).Error
	fails(err, gorm.ErrForeignKeyViolated)
	expect(cause(err), []string{"23503", "fk_authors_books"})
	var ann Author
	must(db.Take(&ann, "name = 'Ann'").Error)
	err = db.Create(&Book{AuthorID: ann.ID, Title: "x", Price: "-1"}).Error
	fails(err, gorm.ErrCheckConstraintViolated)
	expect(cause(err), []string{"23514", "books_price"})
	fails(db.Delete(&Genre{Name: "love"}).Error, gorm.ErrForeignKeyViolated)
	fails(db.Take(&Author{}, "name = 'Zoe'").Error, gorm.ErrRecordNotFound)
	expect(cause(db.Take(&Author{}, "none = 1").Error)[0], "42703")
	fails(db.Delete(&Author{}).Error, gorm.ErrMissingWhereClause)
	expect(cause(db.Take(&Author{}, "mood = 'odd'").Error)[0], "22P02")
}

// Books that are deleted stay until they are deleted for good.
func restores() {
	count := func(db *gorm.DB) (count int64) {
		must(db.Model(&Book{}).Count(&count).Error)
		return count
	}
	must(db.Where("title = ?", "t12").Delete(&Book{}).Error)
	expect([]int64{count(db), count(db.Unscoped())}, []int64{11, 12})
	must(db.Unscoped().Model(&Book{}).Where("title = 't12'").Update("deleted_at", nil).Error)
	expect(count(db), int64(12))
	must(db.Unscoped().Where("title = ?", "t12").Delete(&Book{}).Error)
	expect(count(db.Unscoped()), int64(11))
}

func authorNames(db *gorm.DB) (names []string) {
	must(db.Model(&Author{}).Order("id").Pluck("name", &names).Error)
	return names
}

func takesBack() {
	back := errors.New("back")
	fails(db.Transaction(func(t *gorm.DB) error {
		must(t.Create(&Author{Name: "gone"}).Error)
		return back
	}), back)
	must(db.Transaction(func(outer *gorm.DB) error {
		must(outer.Create(&Author{Name: "outer"}).Error)
		fails(outer.Transaction(func(inner *gorm.DB) error {
			must(inner.Create(&Author{Name: "inner"}).Error)
			return inner.Create(&Author{Name: "outer"}).Error
		}), gorm.ErrDuplicatedKey)
		return outer.Transaction(func(inner *gorm.DB) error {
			return inner.Create(&Author{Name: "second"}).Error
		})
	}))
	expect(authorNames(db), []string{"Ann", "Bob", "Cid", "outer", "second"})
	t := db.Begin()
	must(t.Where("name = 'outer'").Delete(&Author{}).Error)
	must(t.SavePoint("here").Error)
	must(t.Where("name = 'second'").Delete(&Author{}).Error)
	must(t.RollbackTo("here").Error)
	must(t.Commit().Error)
	expect(authorNames(db), []string{"Ann", "Bob", "Cid", "second"})
	snapshot := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	err := db.Transaction(func(t *gorm.DB) error {
		expect(len(authorNames(t)), 4)
		must(db.Create(&Author{Name: "later"}).Error)
		expect(len(authorNames(t)), 4)
		return t.Create(&Author{Name: "no"}).Error
	}, snapshot)
	expect(cause(err)[0], "25006")
	must(db.Where("name in ?", []string{"second", "later"}).Delete(&Author{}).Error)
	expect(authorNames(db), []string{"Ann", "Bob", "Cid"})
}

func locks() {
	lock := func(strength, options string) clause.Locking {
		return clause.Locking{Strength: strength, Options: options}
	}
	one := db.Begin()
	expect(authorNames(one.Clauses(lock("UPDATE", "")).Where("name = 'Ann'")), []string{"Ann"})
	two := db.Begin()
	expect(authorNames(two.Clauses(lock("NO KEY UPDATE", "SKIP LOCKED"))), []string{"Bob", "Cid"})
	must(two.Rollback().Error)
	three := db.Begin()
	var names []string
	err := three.Clauses(lock("SHARE", "NOWAIT")).Model(&Author{}).Pluck("name", &names).Error
	expect(cause(err)[0], "55P03")
	must(three.Rollback().Error)
	must(one.Commit().Error)
}

func ends() {
	// A cascade stops at the table between books and genres, which does not cascade.
	fails(db.Where("name = ?", "Ann").Delete(&Author{}).Error, gorm.ErrForeignKeyViolated)
	must(db.Exec("delete from book_genres").Error)
	must(db.Where("name = ?", "Ann").Delete(&Author{}).Error)
	var count int64
	must(db.Unscoped().Model(&Book{}).Count(&count).Error)
	expect(count, int64(3))
	must(db.Migrator().DropTable(&Author{}, &Book{}, &Genre{}, "book_genres"))
	tables, err := db.Migrator().GetTables()
	must(err)
	expect(len(tables), 0)
	must(db.Exec("drop type mood").Error)
}

// The version of GORM that the program is built with.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "gorm.io/gorm" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	open(os.Args[1], os.Args[2])
	checks := []func(){makesTables, changesTables, readsColumns, changesByHand, writesRows, reads,
		changesAssociations, pages, inserts, refuses, restores, takesBack, locks, ends}
	for _, check := range checks {
		check()
	}
	fmt.Println("gorm", version(), "works")
}
