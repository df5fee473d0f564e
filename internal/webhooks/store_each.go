package webhooks

import (
	"context"
	"fmt"

	"gorm.io/gorm"
)

const newestFirst = "created_at DESC, id DESC"

// chosen returns the deliveries that the filter chooses.
func (s *store) chosen(ctx context.Context, filter Filter) *gorm.DB {
	query := filter.on(s.db.Reader(ctx).Model(&deliveryRow{}))
	if filter.Latest != nil {
		query = query.Where(s.db.Reader(ctx).Where("id IN ?", webhookIDs(*filter.Latest)).Or("uid = ? AND id < 'msg_1'",
			filter.Latest.UID))
	}
	return query
}

// on adds the filter's conditions but Latest.
func (f Filter) on(query *gorm.DB) *gorm.DB {
	if f.Status != "" {
		query = query.Where("status = ?", f.Status)
	}
	if f.SupplierID != "" {
		query = query.Where("supplier_id = ?", f.SupplierID)
	}
	if f.RequestID != nil {
		query = query.Where("request_id = ?", *f.RequestID)
	}
	if !f.Since.IsZero() {
		query = query.Where("created_at >= ?", f.Since.UnixMicro())
	}
	return query
}

// readAtOnce is how many deliveries are read by one statement where all are listed.
const readAtOnce = 500

// each hands the chosen deliveries over one by one, newest first, at most limit of them; 0: all. The database orders
// their ids alone, in one statement: what is listed is what there was when it began, and none of it is held here.
func (s *store) each(ctx context.Context, filter Filter, limit int, fn func(Delivery) error) error {
	query := s.chosen(ctx, filter).Select("id").Order(newestFirst)
	if limit > 0 {
		query = query.Limit(limit)
	}
	rows, err := query.Rows()
	if err != nil {
		return fmt.Errorf("list webhook deliveries: %w", err)
	}
	defer rows.Close()
	ids := make([]string, 0, readAtOnce)
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("list webhook deliveries: %w", err)
		}
		if ids = append(ids, id); len(ids) == readAtOnce {
			if err := s.eachOf(ctx, ids, fn); err != nil {
				return err
			}
			ids = ids[:0]
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list webhook deliveries: %w", err)
	}
	return s.eachOf(ctx, ids, fn)
}

func (s *store) eachOf(ctx context.Context, ids []string, fn func(Delivery) error) error {
	if len(ids) == 0 {
		return nil
	}
	page, err := deliveries(s.db.Reader(ctx).Where("id IN ?", ids).Order(newestFirst))
	if err != nil {
		return err
	}
	for _, one := range page {
		if err := fn(one); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) countChosen(ctx context.Context, filter Filter) (n int64, err error) {
	if err := s.chosen(ctx, filter).Count(&n).Error; err != nil {
		return 0, fmt.Errorf("count webhook deliveries: %w", err)
	}
	return n, nil
}
