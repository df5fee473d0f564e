package clienttest

import (
	"cmp"
	"math"
	"net/http"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/pkg/client"
)

type product struct {
	client.Product
	updatedAt time.Time
	inactive  bool
}

func (s *Server) syncProduct(r *http.Request) answer {
	body, refused := readBody[change](r, changeShape)
	if refused != nil {
		return *refused
	}
	status, found := s.store(body)
	if !found {
		return refuse(http.StatusNotFound, "You have no product with this sku.")
	}
	return ok(map[string]string{"sku": body.Product.SKU, "status": status})
}

// change is the body of a synchronisation.
type change struct {
	Action    string         `json:"action"`
	UpdatedAt time.Time      `json:"updated_at"`
	Product   client.Product `json:"product"`
}

func changeShape(c *check, at string, body jsontext.Value) {
	var change struct {
		Action string `json:"action"`
	}
	required := "sku"
	if json.Unmarshal(body, &change) == nil && change.Action == "upsert" {
		required = "sku material_id material"
	}
	members("action product", map[string]shape{"action": oneOf("upsert", "deactivate"), "updated_at": moment(),
		"product": members(required, map[string]shape{
			"sku": name(), "material_id": anyInteger(), "material": name(), "material_variant_id": anyInteger(),
			"material_variant": upTo(math.MaxInt32), "width": number(maxSize), "height": number(maxSize),
			"depth": number(maxSize), "weight_kg": number(math.MaxFloat64), "production_days": integer(0, math.MaxInt32),
		})})(c, at, body)
}

// store applies the change and returns what became of the product; found is false when there is none to deactivate.
func (s *Server) store(c change) (status string, found bool) {
	known, at := s.products[c.Product.SKU], cmp.Or(c.UpdatedAt, time.Now())
	switch {
	case known == nil && c.Action == "deactivate":
		return "", false
	case known == nil:
		s.products[c.Product.SKU] = &product{Product: c.Product, updatedAt: at}
		return "created", true
	case !c.UpdatedAt.IsZero() && c.UpdatedAt.Before(known.updatedAt):
		return "stale", true
	}
	if at.After(known.updatedAt) {
		known.updatedAt = at
	}
	switch {
	case c.Action == "deactivate" && !known.inactive:
		known.inactive = true
		return "deactivated", true
	case c.Action == "deactivate":
		return "unchanged", true
	case reflect.DeepEqual(known.Product, c.Product) && !known.inactive:
		return "unchanged", true
	default:
		known.Product, known.inactive = c.Product, false
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
