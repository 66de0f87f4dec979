// GORM: migration of models, associations, preloads, upserts, hooks, transactions; and database/sql under it.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Owner struct {
	gorm.Model
	Name  string `gorm:"uniqueIndex;size:60"`
	Born  *time.Time
	Pets  []Pet
	Clubs []Club `gorm:"many2many:owner_clubs"`
}

type Pet struct {
	ID      uint
	OwnerID uint   `gorm:"index"`
	Kind    string `gorm:"default:cat;check:kind <> 'wolf'"`
	Chip    *string `gorm:"unique"`
	Weight  float64 `gorm:"type:numeric(6,2)"`
	Data    map[string]any `gorm:"serializer:json"`
}

type Club struct {
	Code string `gorm:"primaryKey"`
	Name string
}

func report(label string, rows any, err error) {
	var failure *pgconn.PgError
	switch {
	case errors.As(err, &failure):
		fmt.Printf("%s: ERROR %s %s\n", label, failure.Code, failure.Message)
	case err != nil:
		fmt.Printf("%s: ERROR %v\n", label, err)
	default:
		fmt.Printf("%s: %v\n", label, rows)
	}
}

func main() {
	uri := os.Args[len(os.Args)-1]
	db, err := gorm.Open(postgres.Open(uri), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		panic(err)
	}
	report("migrate", nil, db.AutoMigrate(&Owner{}, &Pet{}, &Club{}))
	owners := make([]Owner, 25)
	for i := range owners {
		owners[i] = Owner{Name: fmt.Sprintf("o%02d", i)}
		for n := range i % 4 {
			chip := fmt.Sprintf("c%d-%d", i, n)
			owners[i].Pets = append(owners[i].Pets, Pet{Chip: &chip, Weight: float64(n) + 0.25, Data: map[string]any{"n": n}})
		}
		if i%5 == 0 {
			owners[i].Clubs = []Club{{Code: "a", Name: "A"}, {Code: fmt.Sprint(i), Name: "B"}}
		}
	}
	report("create", len(owners), db.Create(&owners).Error)
	report("ids", []any{owners[0].ID, owners[24].ID, owners[3].Pets[2].Kind}, nil)
	var found []Owner
	err = db.Preload("Pets", func(db *gorm.DB) *gorm.DB { return db.Order("pets.id") }).Preload("Clubs").Where("name LIKE ?", "o1%").Order("id").Find(&found).Error
	for _, owner := range found {
		report("  preload", []any{owner.Name, len(owner.Pets), len(owner.Clubs)}, nil)
	}
	report("preload", len(found), err)
	type sum struct {
		Name  string
		Total float64
		N     int
	}
	var sums []sum
	err = db.Model(&Owner{}).Select("owners.name, sum(pets.weight) AS total, count(*) AS n").Joins("JOIN pets ON pets.owner_id = owners.id").Group("owners.name").Having("count(*) > ?", 2).Order("owners.name").Scan(&sums).Error
	report("sums", sums, err)
	var first Owner
	report("first", first.Name, db.Where(&Owner{Name: "o07"}).First(&first).Error)
	report("none", nil, db.First(&Owner{}, "name = ?", "nobody").Error)
	report("update", nil, db.Model(&first).Updates(map[string]any{"name": "renamed"}).Error)
	result := db.Model(&Pet{}).Where("weight > ?", 1).Update("weight", gorm.Expr("weight * ?", 2))
	report("updates", result.RowsAffected, result.Error)
	result = db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.Assignments(map[string]any{"born": time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)})}).Create(&Owner{Name: "o01"})
	report("upsert", result.RowsAffected, result.Error)
	result = db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Club{Code: "a"})
	report("nothing", result.RowsAffected, result.Error)
	report("duplicate", nil, db.Create(&Owner{Name: "o02"}).Error)
	report("check", nil, db.Create(&Pet{OwnerID: 1, Kind: "wolf"}).Error)
	report("foreign", nil, db.Create(&Pet{OwnerID: 4000}).Error)
	err = db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Delete(&Owner{}, "name = ?", "o03").Error; err != nil {
			return err
		}
		nested := tx.Transaction(func(inner *gorm.DB) error {
			inner.Unscoped().Where("1 = 1").Delete(&Pet{})
			return errors.New("taken back")
		})
		report("nested", nil, nested)
		var locked []Pet
		err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).Where("owner_id < ?", 5).Order("id").Find(&locked).Error
		report("locked", len(locked), err)
		return err
	})
	report("transaction", nil, err)
	var count, all int64
	db.Model(&Owner{}).Count(&count)
	db.Unscoped().Model(&Owner{}).Count(&all)
	report("soft deletes", []any{count, all}, nil)
	err = db.Model(&owners[0]).Association("Clubs").Clear()
	report("cleared", db.Model(&owners[0]).Association("Clubs").Count(), err)
	var pets []Pet
	seen := 0
	err = db.Order("id").FindInBatches(&pets, 7, func(tx *gorm.DB, batch int) error { seen += len(pets); return nil }).Error
	report("batches", seen, err)
	columns, err := db.Migrator().ColumnTypes(&Pet{})
	for _, column := range columns {
		nullable, _ := column.Nullable()
		report("  column", []any{column.Name(), column.DatabaseTypeName(), nullable}, nil)
	}
	report("columns", len(columns), err)
	report("again", nil, db.AutoMigrate(&Owner{}, &Pet{}, &Club{}))
	report("column", nil, db.Exec("ALTER TABLE pets ADD COLUMN age int").Error)
	report("index", nil, db.Exec("CREATE UNIQUE INDEX pets_pair ON pets (owner_id, chip)").Error)
	report("drop", nil, db.Migrator().DropTable("owner_clubs", &Pet{}, &Owner{}, &Club{}))
}
