package estimates

import (
	"context"
	"fmt"

	"gorm.io/gorm/clause"

	"github.com/supplyhub/supplyhub/internal/database"
)

// The card's table. A service whose price changes gets a new row with the day from which it counts; old rows stay, so
// that it can be seen what an estimate was made from.

// store is the table of services.
type store struct{ db *database.DB }

// serviceRow is a service as it is stored.
type serviceRow struct {
	Name          string `gorm:"primaryKey"`
	EffectiveFrom string `gorm:"primaryKey"`
	Carrier       string
	BaseCents     int64
	PerKgCents    int64
	MinimumCents  int64
	CubageKgM3    float64 `gorm:"column:cubage_kg_m3"`
	MaxSideCm     float64
	MaxWeightKg   float64
	TransitDays   int
}

// TableName returns gorm's name for the rows.
func (serviceRow) TableName() string { return "rate_services" }

// service returns the service of a row.
func (r serviceRow) service() Service {
	return Service{
		Name: r.Name, Carrier: r.Carrier, BaseCents: r.BaseCents, PerKgCents: r.PerKgCents, MinimumCents: r.MinimumCents,
		CubageKgM3: r.CubageKgM3, MaxSideCm: r.MaxSideCm, MaxWeightKg: r.MaxWeightKg, TransitDays: r.TransitDays,
		EffectiveFrom: r.EffectiveFrom,
	}
}

// all returns the whole card, ordered by service and day.
func (s *store) all(ctx context.Context) ([]Service, error) {
	var rows []serviceRow
	if err := s.db.Reader(ctx).Order("name, effective_from").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read rate card: %w", err)
	}
	services := make([]Service, len(rows))
	for i, row := range rows {
		services[i] = row.service()
	}
	return services, nil
}

// save inserts the service's version of its day, or replaces it.
func (s *store) save(ctx context.Context, v Service) error {
	row := serviceRow{
		Name: v.Name, EffectiveFrom: v.EffectiveFrom, Carrier: v.Carrier, BaseCents: v.BaseCents, PerKgCents: v.PerKgCents,
		MinimumCents: v.MinimumCents, CubageKgM3: v.CubageKgM3, MaxSideCm: v.MaxSideCm, MaxWeightKg: v.MaxWeightKg,
		TransitDays: v.TransitDays,
	}
	if err := s.db.From(ctx).Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
		return fmt.Errorf("store service: %w", err)
	}
	return nil
}

// remove deletes all versions of the service when allow agrees with what is left. Two at once exclude each other.
func (s *store) remove(ctx context.Context, name string, allow func(rest []Service) error) error {
	err := s.db.InTx(ctx, "remove a delivery service", func(ctx context.Context) error {
		if s.db.Engine() == database.Postgres {
			if _, err := database.Exec(ctx, s.db.SQL(ctx), `LOCK TABLE rate_services IN SHARE ROW EXCLUSIVE MODE`); err != nil {
				return err
			}
		}
		deleted := s.db.From(ctx).Where("name = ?", name).Delete(&serviceRow{})
		if deleted.Error != nil {
			return deleted.Error
		}
		if deleted.RowsAffected == 0 {
			return unknownService(name)
		}
		rest, err := s.all(ctx)
		if err != nil {
			return err
		}
		return allow(rest)
	})
	if err != nil {
		return fmt.Errorf("remove service: %w", err)
	}
	return nil
}
