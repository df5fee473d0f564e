package clienttest

import (
	"encoding/json"
	"math"
	"net/http"
	"time"
)

type product struct {
	body      []byte // its canonical JSON
	updatedAt time.Time
	inactive  bool
}

func (s *Server) syncProduct(r *http.Request) answer {
	var action, sku string
	var updatedAt time.Time
	var body []byte
	if refused := readBody(r, func(c *check, f fields) {
		action = c.oneOf(f, "", "action", "upsert", "deactivate")
		updatedAt = c.moment(f, "", "updated_at", false)
		if value := c.member(f, "", "product", true); value != nil {
			if members := c.object("/product", value); members != nil {
				sku, body = readProduct(c, members, action == "upsert")
			}
		}
	}); refused != nil {
		return *refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status, found := s.store(action, sku, body, updatedAt)
	if !found {
		return refuse(http.StatusNotFound, "You have no product with this sku.")
	}
	return ok(map[string]string{"sku": sku, "status": status})
}

func readProduct(c *check, f fields, upsert bool) (sku string, body []byte) {
	const at = "/product"
	sku = c.name(f, at, "sku", true)
	body, _ = json.Marshal([]any{ // of strings and numbers, which always encode
		c.integer(f, at, "material_id", math.MinInt64, math.MaxInt64, upsert), c.name(f, at, "material", upsert),
		c.integer(f, at, "material_variant_id", math.MinInt64, math.MaxInt64, false),
		c.text(f, at, "material_variant", false),
		c.number(f, at, "width", maxSize, false), c.number(f, at, "height", maxSize, false),
		c.number(f, at, "depth", maxSize, false),
		c.number(f, at, "weight_kg", math.MaxFloat64, false), c.integer(f, at, "production_days", 0, math.MaxInt32, false),
	})
	return sku, body
}

// store applies the change and returns what became of the product; found is false when there is none to deactivate.
func (s *Server) store(action, sku string, body []byte, updatedAt time.Time) (status string, found bool) {
	known := s.products[sku]
	switch {
	case known == nil && action == "deactivate":
		return "", false
	case known == nil:
		s.products[sku] = &product{body: body, updatedAt: updatedAt}
		return "created", true
	case !updatedAt.IsZero() && updatedAt.Before(known.updatedAt):
		return "stale", true
	}
	if updatedAt.After(known.updatedAt) {
		known.updatedAt = updatedAt
	}
	switch {
	case action == "deactivate":
		known.inactive = true
		return "deactivated", true
	case string(known.body) == string(body) && !known.inactive:
		return "unchanged", true
	default:
		known.body, known.inactive = body, false
		return "updated", true
	}
}

// inactiveProduct returns why a request cannot be estimated, "" when it can; it needs the lock.
func (s *Server) inactiveProduct(r *request) string {
	for _, m := range r.Materials {
		if p := s.products[m.SKU]; p != nil && p.inactive {
			return "The product " + m.SKU + " is not active."
		}
	}
	return ""
}
