package estimates

import (
	"context"
	"fmt"

	"gorm.io/gorm/clause"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// The card's table. A service whose price changes gets a new row with the day from which it counts; old rows stay, so
// that it can be seen what an estimate was made from.

// store is the table of services, whose rows are Services.
type store struct{ db *database.DB }

// TableName returns gorm's name for the rows.
func (Service) TableName() string { return "rate_services" }

// all returns the whole card, ordered by service and day.
func (s *store) all(ctx context.Context) (card []Service, err error) {
	err = s.db.Reader(ctx).Order("name, effective_from").Find(&card).Error
	return card, errs.Doing("read rate card", err)
}

// save inserts the service's version of its day, or replaces it.
func (s *store) save(ctx context.Context, v Service) error {
	return errs.Doing("store service", s.db.From(ctx).Clauses(clause.OnConflict{UpdateAll: true}).Create(&v).Error)
}

// alone lets the transaction in ctx change the card: two at once exclude each other, as they do on SQLite anyway.
func (s *store) alone(ctx context.Context) (err error) {
	if s.db.Engine() == database.Postgres {
		_, err = database.Exec(ctx, s.db.SQL(ctx), `LOCK TABLE rate_services IN SHARE ROW EXCLUSIVE MODE`)
	}
	return err
}

// remove deletes all versions of the service when allow agrees with what is left.
func (s *store) remove(ctx context.Context, name string, allow func(rest []Service) error) error {
	err := s.db.InTx(ctx, "remove a delivery service", func(ctx context.Context) error {
		if err := s.alone(ctx); err != nil {
			return err
		}
		deleted := s.db.From(ctx).Where("name = ?", name).Delete(&Service{})
		if deleted.Error != nil {
			return deleted.Error
		}
		if deleted.RowsAffected == 0 {
			return errs.New(errs.NotFound, fmt.Sprintf("The rate card has no service %q.", name))
		}
		rest, err := s.all(ctx)
		if err != nil {
			return err
		}
		return allow(rest)
	})
	return errs.Doing("remove service", err)
}
