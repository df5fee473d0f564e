package materials

import "time"

// Overview is a request in an operator's list.
type Overview struct {
	SupplierID string    `json:"supplier_id"`
	ID         int64     `json:"id"`
	UID        int64     `json:"-"`
	Status     Status    `json:"status"`
	ShopCode   string    `json:"shop_code"`
	Round      int64     `json:"round"`
	Failure    *string   `json:"failure"` // nil unless it is failed
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// RoundOverview is one round of a request.
type RoundOverview struct {
	Number    int64     `json:"number"`
	Status    Status    `json:"status"`  // as it is, or how the round ended
	Failure   *string   `json:"failure"` // nil unless it is failed
	CreatedAt time.Time `json:"created_at"`
}

// Filter chooses requests; a zero field chooses all.
type Filter struct {
	SupplierID string
	Status     Status
}
