// GORM against a server: `gorm PORT DATABASE`. Models make tables, a second version of the models
// changes them by AutoMigrate, of which another one changes nothing, and the Migrator renames,
// alters and drops; after each step the catalogs are asked. Then rows are written, joined, locked
// and taken back. Left out are serializable transactions, ranges and GIN indexes.
package main

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

var db *gorm.DB

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

// Ends the program, and says where.
func fail(text string) {
	fmt.Fprintln(os.Stderr, "gorm:", text)
	debug.PrintStack()
	os.Exit(1)
}

func expect(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		fail(fmt.Sprintf("%#v instead of %#v", got, wanted))
	}
}

// A statement has to fail with an error of GORM.
func fails(err, wanted error) {
	if !errors.Is(err, wanted) {
		fail(fmt.Sprintf("%v instead of %v", err, wanted))
	}
}

// Data is a column of JSON.
type Data map[string]any

func (d Data) Value() (driver.Value, error) {
	text, err := json.Marshal(d)
	return string(text), err
}

func (d *Data) Scan(value any) error {
	switch text := value.(type) {
	case string:
		return json.Unmarshal([]byte(text), d)
	case []byte:
		return json.Unmarshal(text, d)
	}
	return fmt.Errorf("JSON of %T", value)
}

// The first version of the tables.
type firstAuthor struct {
	ID   uint
	Name string `gorm:"size:80;not null"`
	Mood string `gorm:"type:mood;default:glad"`
}

func (firstAuthor) TableName() string { return "authors" }

type firstBook struct {
	ID       uint
	AuthorID uint
	Author   firstAuthor
	Title    string `gorm:"size:100;index:books_title"`
	Price    int
}

func (firstBook) TableName() string { return "books" }

// Author is of the second version, as are the types below.
type Author struct {
	ID        uint
	Name      string     `gorm:"size:120;not null;uniqueIndex:authors_name"`
	Mood      *string    `gorm:"type:mood;default:glad"`
	Tags      string     `gorm:"type:text[];not null;default:'{}'"`
	Born      *time.Time `gorm:"type:date"`
	Home      Home       `gorm:"embedded;embeddedPrefix:home_"`
	CreatedAt time.Time
	Books     []Book `gorm:"constraint:OnUpdate:CASCADE,OnDelete:CASCADE"`
}

// Home lies in the columns of an author.
type Home struct {
	Town string `gorm:"comment:where letters go"`
	Zip  string `gorm:"size:10"`
}

// Book belongs to an author and has many genres().
type Book struct {
	ID        uint
	AuthorID  uint `gorm:"uniqueIndex:books_once,priority:1"`
	Author    *Author
	Title     string `gorm:"type:text;not null;index:books_title;uniqueIndex:books_once,priority:2"`
	Price     string `gorm:"type:numeric(10,2);not null;default:1.5;check:books_price,price > 0"`
	Data      Data   `gorm:"type:jsonb"`
	Cover     []byte
	Pages     int64  `gorm:"index:books_long,where:pages > 100,sort:desc"`
	Code      string `gorm:"type:uuid;default:gen_random_uuid()"`
	Printed   time.Time
	Genres    []Genre        `gorm:"many2many:book_genres"`
	DeletedAt gorm.DeletedAt `gorm:"index"`
}

// Genre has a name as its key.
type Genre struct {
	Name string `gorm:"primaryKey;size:40"`
}

// A recorder keeps the statements that GORM runs.
type recorder struct {
	logger.Interface
	statements []string
}

func (r *recorder) Trace(_ context.Context, _ time.Time, run func() (string, int64), _ error) {
	statement, _ := run()
	r.statements = append(r.statements, statement)
}

// Statements of a piece of work that change tables.
func changes(work func(*gorm.DB)) []string {
	record := &recorder{Interface: logger.Discard}
	work(db.Session(&gorm.Session{Logger: record}))
	found := []string{}
	pattern := regexp.MustCompile(`(?i)^\s*(create|alter|drop|comment)`)
	for _, statement := range record.statements {
		if pattern.MatchString(statement) {
			found = append(found, statement)
		}
	}
	return found
}

func open(port, database string) {
	where := "host=127.0.0.1 user=rightlink TimeZone=UTC port=" + port + " dbname=" + database
	opened, err := gorm.Open(postgres.Open(where), &gorm.Config{
		TranslateError: true, Logger: logger.Discard,
	})
	must(err)
	db = opened
	expect(db.Migrator().CurrentDatabase(), database)
}

// The types of a table's columns, with their lengths and whether they may be null.
func types(table any) []string {
	columns, err := db.Migrator().ColumnTypes(table)
	must(err)
	found := []string{}
	for _, column := range columns {
		full, _ := column.ColumnType()
		if nullable, _ := column.Nullable(); !nullable {
			full += " not null"
		}
		found = append(found, column.Name()+" "+full)
	}
	return found
}

func indexes(table any) []string {
	read, err := db.Migrator().GetIndexes(table)
	must(err)
	found := []string{}
	for _, index := range read {
		text := index.Name() + "(" + strings.Join(index.Columns(), ",") + ")"
		if unique, _ := index.Unique(); unique {
			text += " unique"
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return found
}

func makesTables() {
	must(db.Exec("create type mood as enum ('glad', 'sad')").Error)
	must(db.AutoMigrate(&firstAuthor{}, &firstBook{}))
	expect(types(&firstBook{}), []string{"id bigint not null", "author_id bigint",
		"title character varying(100)", "price bigint"})
	tables, err := db.Migrator().GetTables()
	must(err)
	slices.Sort(tables)
	expect(tables, []string{"authors", "books"})
	expect(indexes(&firstBook{}), []string{"books_title(title)"})
	expect(db.Migrator().HasConstraint(&firstBook{}, "fk_books_author"), true)
	expect(db.Migrator().HasColumn(&firstBook{}, "pages"), false)
	book := firstBook{Title: "first", Price: 7, Author: firstAuthor{Name: "old"}}
	must(db.Create(&book).Error)
	expect([]any{book.ID, book.AuthorID, book.Author.Mood}, []any{uint(1), uint(1), "glad"})
	none := changes(func(db *gorm.DB) { must(db.AutoMigrate(&firstAuthor{}, &firstBook{})) })
	expect(none, []string{})
}

func changesTables() {
	must(db.Migrator().DropConstraint(&firstBook{}, "fk_books_author"))
	expect(db.Migrator().HasConstraint(&firstBook{}, "fk_books_author"), false)
	migrate := func(db *gorm.DB) { must(db.AutoMigrate(&Author{}, &Book{}, &Genre{})) }
	if len(changes(migrate)) < 10 {
		fail("too few statements")
	}
	expect(changes(migrate), []string{})
	expect(types(&Book{}), []string{"id bigint not null", "author_id bigint",
		"title text not null", "price numeric(10,2) not null", "data jsonb", "cover bytea",
		"pages bigint", "code uuid", "printed timestamp with time zone",
		"deleted_at timestamp with time zone"})
	expect(types(&Author{}), []string{"id bigint not null", "name character varying(120) not null",
		"mood mood", "tags text[] not null", "born date", "home_town text",
		"home_zip character varying(10)", "created_at timestamp with time zone"})
	expect(indexes(&Book{}), []string{"books_long(pages)", "books_once(author_id,title) unique",
		"books_title(title)", "idx_books_deleted_at(deleted_at)"})
	for _, name := range []string{"fk_authors_books", "books_price"} {
		expect(db.Migrator().HasConstraint(&Book{}, name), true)
	}
	var old Book
	must(db.Preload("Author").First(&old).Error)
	expect([]any{old.Title, old.Price, old.Author.Name, old.Author.Tags},
		[]any{"first", "7.00", "old", "{}"})
	must(db.Unscoped().Where("true").Delete(&Book{}).Error)
	must(db.Where("true").Delete(&Author{}).Error)
}

// What ColumnTypes says of some columns.
func readsColumns() {
	columns, err := db.Migrator().ColumnTypes(&Author{})
	must(err)
	for _, column := range columns {
		length, hasLength := column.Length()
		primary, _ := column.PrimaryKey()
		increments, _ := column.AutoIncrement()
		comment, _ := column.Comment()
		value, hasDefault := column.DefaultValue()
		seen := []any{length, hasLength, primary, increments, comment, value, hasDefault}
		switch column.Name() {
		case "id":
			expect(seen[2:4], []any{true, true})
		case "name":
			unique, _ := column.Unique()
			expect(seen, []any{int64(120), true, false, false, "", "", false})
			expect(unique, false)
		case "mood":
			expect(seen[5:], []any{"glad", true})
		case "home_town":
			expect(comment, "where letters go")
		}
	}
	columns, err = db.Migrator().ColumnTypes(&Book{})
	must(err)
	precision, scale, found := columns[3].DecimalSize()
	expect([]any{precision, scale, found}, []any{int64(10), int64(2), true})
}

type shelf struct {
	ID    uint
	Place string `gorm:"size:10"`
	Hall  string
}

type wideShelf struct {
	ID    uint
	Place int    `gorm:"index:shelves_place"`
	Room  string `gorm:"size:30;not null;default:main;check:room_is_named,room <> ''"`
	Width float64
}

func (wideShelf) TableName() string { return "shelves" }

func changesByHand() {
	m := db.Migrator()
	must(m.CreateTable(&shelf{}))
	must(db.Create([]shelf{{Place: "7", Hall: "a"}, {Place: "12", Hall: "b"}}).Error)
	must(m.RenameTable("shelves", "racks"))
	expect([]bool{m.HasTable("shelves"), m.HasTable("racks")}, []bool{false, true})
	must(m.RenameTable("racks", "shelves"))
	must(m.RenameColumn(&wideShelf{}, "hall", "room"))
	must(m.AlterColumn(&wideShelf{}, "Place"))
	must(m.AlterColumn(&wideShelf{}, "Room"))
	must(m.AddColumn(&wideShelf{}, "Width"))
	must(m.CreateIndex(&wideShelf{}, "shelves_place"))
	must(m.RenameIndex(&wideShelf{}, "shelves_place", "shelves_spot"))
	must(m.CreateConstraint(&wideShelf{}, "room_is_named"))
	expect(indexes(&wideShelf{}), []string{"shelves_spot(place)"})
	expect(m.HasIndex(&wideShelf{}, "shelves_place"), false)
	expect(m.HasIndex(&wideShelf{}, "shelves_spot"), true)
	expect(m.HasConstraint(&wideShelf{}, "room_is_named"), true)
	var rows []wideShelf
	must(db.Order("place").Find(&rows).Error)
	expect([]any{rows[0].Place, rows[0].Room, rows[1].Place}, []any{7, "a", 12})
	fails(db.Model(&rows[0]).Update("room", "").Error, gorm.ErrCheckConstraintViolated)
	must(m.CreateView("halls", gorm.ViewOption{Query: db.Model(&wideShelf{}).Select("room")}))
	var rooms []string
	must(db.Table("halls").Order("room").Pluck("room", &rooms).Error)
	expect(rooms, []string{"a", "b"})
	must(m.DropView("halls"))
	must(m.DropConstraint(&wideShelf{}, "room_is_named"))
	must(m.DropIndex(&wideShelf{}, "shelves_spot"))
	must(m.DropColumn(&wideShelf{}, "Width"))
	expect(m.HasColumn(&wideShelf{}, "width"), false)
	must(m.DropTable(&wideShelf{}))
	expect(m.HasTable("shelves"), false)
}

func day(n int) time.Time { return time.Date(2024, 1, n, 12, 30, 15, 250_000_000, time.UTC) }

func writesRows() {
	calm, born := "sad", time.Date(1911, 2, 3, 0, 0, 0, 0, time.UTC)
	authors := []Author{
		{Name: "Ann", Mood: &calm, Tags: `{a,"b c"}`, Born: &born, Home: Home{Town: "Ulm"}},
		{Name: "Bob"}, {Name: "Cid"},
	}
	must(db.Create(&authors).Error)
	expect([]any{*authors[1].Mood, authors[1].Tags, authors[2].ID - authors[0].ID},
		[]any{"glad", "{}", uint(2)})
	for n := 1; n <= 12; n++ {
		genres := []Genre{{Name: "war"}}
		if n%2 == 1 {
			genres = []Genre{{Name: "crime"}, {Name: "love"}}
		}
		author := &authors[0]
		if n%3 == 0 {
			author = &authors[1]
		}
		book := Book{AuthorID: author.ID, Title: fmt.Sprintf("t%d", n), Pages: int64(n),
			Price: fmt.Sprintf("%d.25", n), Cover: []byte{0, byte(n), 255}, Printed: day(n),
			Data: Data{"n": n, "deep": Data{"odd": n%2 == 1}}, Genres: genres}
		must(db.Create(&book).Error)
		expect(len(book.Code), 36)
	}
	var ann Author
	must(db.First(&ann, "name = ?", "Ann").Error)
	expect([]any{*ann.Mood, ann.Tags, ann.Born.Equal(born), ann.Home},
		[]any{"sad", `{a,"b c"}`, true, Home{Town: "Ulm"}})
	var book Book
	must(db.Where(&Book{Title: "t4"}).Take(&book).Error)
	expect([]any{book.Price, book.Cover, book.Printed.Equal(day(4)), book.Data["deep"]},
		[]any{"4.25", []byte{0, 4, 255}, true, map[string]any{"odd": false}})
	dearer := map[string]any{"price": gorm.Expr("price + ?", 2), "pages": 40}
	must(db.Model(&book).Updates(dearer).Error)
	must(db.Take(&book).Error)
	expect([]any{book.Price, book.Pages}, []any{"6.25", int64(40)})
	changed := db.Model(&Book{}).Where("title in ?", []string{"t1", "t2"}).Update("price", "99")
	must(changed.Error)
	expect(changed.RowsAffected, int64(2))
}

// An author's name and the titles of his books.
func titles(authors []Author) []string {
	found := []string{}
	for _, author := range authors {
		text := author.Name
		for _, book := range author.Books {
			text += " " + book.Title
			for _, genre := range book.Genres {
				text += "/" + genre.Name
			}
		}
		found = append(found, text)
	}
	return found
}

func reads() {
	var authors []Author
	must(db.Preload("Books", func(db *gorm.DB) *gorm.DB {
		return db.Where("price > ?", 11).Order("title desc")
	}).Preload("Books.Genres", func(db *gorm.DB) *gorm.DB {
		return db.Order("name")
	}).Order("name").Find(&authors).Error)
	expect(titles(authors),
		[]string{"Ann t2/war t11/crime/love t1/crime/love", "Bob t12/war", "Cid"})
	var books []Book
	ofBob := db.Joins("Author").Where(`"Author"."name" = ?`, "Bob")
	must(ofBob.Order("books.id").Find(&books).Error)
	expect([]any{len(books), books[3].Title, books[3].Author.Name}, []any{4, "t12", "Bob"})
	type total struct {
		Name string
		N    int
		Sum  string
	}
	var sums []total
	must(db.Model(&Author{}).Select("authors.name, count(*) as n, sum(b.price) as sum").
		Joins("join books b on b.author_id = authors.id").Group("authors.name").
		Having("count(*) > ?", 1).Order("name").Scan(&sums).Error)
	expect(sums, []total{{"Ann", 8, "246.50"}, {"Bob", 4, "31.00"}})
	var names []string
	lonely := db.Model(&Book{}).Select("author_id")
	must(db.Model(&Author{}).Where("id not in (?)", lonely).Pluck("name", &names).Error)
	expect(names, []string{"Cid"})
	var odd []string
	must(db.Model(&Book{}).Where("data @> ?", Data{"deep": Data{"odd": true}}).
		Where("(data->>'n')::int < ?", 6).Order("id").Pluck("title", &odd).Error)
	expect(odd, []string{"t1", "t3", "t5"})
	var tagged Author
	must(db.Where("? = any(tags)", "b c").Take(&tagged).Error)
	expect(tagged.Name, "Ann")
	expect(db.Model(&tagged).Association("Books").Count(), int64(8))
	var dear int64
	sub := db.Model(&Book{}).Select("author_id, max(price) as top").Group("author_id")
	must(db.Table("(?) as best", sub).Where("top > ?", 50).Count(&dear).Error)
	expect(dear, int64(1))
}

func changesAssociations() {
	var book Book
	must(db.Take(&book, "title = ?", "t12").Error)
	genres := func() *gorm.Association { return db.Model(&book).Association("Genres") }
	must(genres().Append(&Genre{Name: "epic"}, &Genre{Name: "war"}))
	expect(genres().Count(), int64(2))
	must(genres().Replace(&Genre{Name: "love"}))
	var found []Genre
	must(genres().Find(&found))
	expect(found, []Genre{{Name: "love"}})
	must(genres().Clear())
	expect(genres().Count(), int64(0))
}

func pages() {
	scope := db.Model(&Book{}).Where("price > ?", 5).Session(&gorm.Session{})
	var count int64
	must(scope.Count(&count).Error)
	var found []string
	must(scope.Order("printed").Limit(3).Offset(8).Pluck("title", &found).Error)
	expect([]any{count, found}, []any{int64(11), []string{"t10", "t11", "t12"}})
	seen := 0
	batch := []Book{}
	must(db.FindInBatches(&batch, 5, func(_ *gorm.DB, _ int) error {
		seen += len(batch)
		return nil
	}).Error)
	expect(seen, 12)
	rows, err := db.Model(&Book{}).Rows()
	must(err)
	defer rows.Close()
	for rows.Next() {
		var book Book
		must(db.ScanRows(rows, &book))
		seen--
	}
	expect(seen, 0)
}
