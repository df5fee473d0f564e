package materials

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// A request in its three forms: as it is posted (requestBody, where anything may be missing), as it is once it is
// valid (Request, stored as canonical JSON, whose digest says whether two are the same), and as it is shown (Record,
// with what became of it). Rules name every violation at once, by JSON pointer.

const (
	textLimit    = 255
	commentLimit = 4000
	sizeLimit    = 1_000_000 // centimetres
)

// Request is a valid material request.
type Request struct {
	SupplierID  string     `json:"-"`
	ID          int64      `json:"id"`
	ShopCode    string     `json:"shop_code"`
	Comment     *string    `json:"comment"`
	Materials   []Material `json:"materials"`
	TraceID     string     `json:"-"` // X-Request-Id of the call that made it
	TraceParent string     `json:"-"` // the span of that call (W3C Trace Context); empty: it is not traced
}

// Record is a material request as it is now: what was asked and what became of it.
type Record struct {
	Request
	Status             Status                `json:"status"`
	Round              int64                 `json:"-"`       // which estimation this is, from 1
	UID                int64                 `json:"-"`       // of the accepted request, never used again
	Failure            *string               `json:"failure"` // why it is failed, in one sentence; nil in any other status
	CreatedAt          time.Time             `json:"created_at"`
	UpdatedAt          time.Time             `json:"updated_at"`
	Estimates          []webhook.Estimate    `json:"estimates"`   // never nil
	Unavailable        []webhook.Unavailable `json:"unavailable"` // never nil
	SelectedEstimateID *string               `json:"selected_estimate_id"`
	SelectedAt         *time.Time            `json:"-"`
}

// mostShown is how many items a page shows of a request, which may have 15,000.
const mostShown = 200

// Shown returns the items that a page shows.
func (r Request) Shown() []Material { return r.Materials[:min(len(r.Materials), mostShown)] }

// Hidden returns how many items a page leaves out.
func (r Request) Hidden() int64 { return int64(len(r.Materials) - len(r.Shown())) }

// Material is one item of a valid request; materialBody is one that was posted and may lack what is required.
type (
	Material     = materialOf[int64, string, float64]
	materialBody = materialOf[*int64, *string, *float64]
)

// materialOf is an item of a request: Number, Text and Size are the types of the members that it must have, pointers
// where they may be missing. Sizes are centimetres of one piece. The names, their order and the types of Material are
// part of the canonical form (below), so a later member goes to the end and has omitzero.
type materialOf[Number, Text, Size any] struct {
	MaterialID        Number   `json:"material_id"`
	Material          Text     `json:"material"`
	MaterialVariantID *int64   `json:"material_variant_id"`
	MaterialVariant   *string  `json:"material_variant"`
	SKU               Text     `json:"sku"`
	Width             Size     `json:"width"`
	Height            Size     `json:"height"`
	Depth             *float64 `json:"depth"`
	Quantity          Number   `json:"quantity"`
}

// Duplicate is a combination that several items of one request share.
type Duplicate struct {
	MaterialID        int64  `json:"materialId"`
	MaterialVariantID *int64 `json:"materialVariantId"`
	SKU               string `json:"sku"`
}

// Duplicates returns the repeated combinations, each once, in the order of their first repetition.
func (r Request) Duplicates() []Duplicate {
	type combination struct {
		material, variant int64
		hasVariant        bool
		sku               string
	}
	seen := make(map[combination]int, len(r.Materials))
	var repeated []Duplicate
	for _, m := range r.Materials {
		c := combination{material: m.MaterialID, sku: m.SKU}
		if m.MaterialVariantID != nil {
			c.variant, c.hasVariant = *m.MaterialVariantID, true
		}
		if seen[c]++; seen[c] == 2 {
			repeated = append(repeated, Duplicate{m.MaterialID, m.MaterialVariantID, m.SKU})
		}
	}
	return repeated
}

// requestBody is a posted request; nil is missing or null.
type requestBody struct {
	ID        *int64          `json:"id"`
	ShopCode  *string         `json:"shop_code"`
	Comment   *string         `json:"comment"`
	Materials []*materialBody `json:"materials"`
}

// validate names every rule that the body breaks. Without any, request may be called.
func (b *requestBody) validate() []errs.Violation {
	var c errs.Check
	if b.ID == nil {
		c.Add("/id", errs.Required)
	}
	c.Text("/shop_code", b.ShopCode, textLimit)
	if b.Comment != nil && utf8.RuneCountInString(*b.Comment) > commentLimit {
		c.Add("/comment", fmt.Sprintf("must have at most %d characters", commentLimit))
	}
	switch {
	case b.Materials == nil:
		c.Add("/materials", errs.Required)
	case len(b.Materials) == 0:
		c.Add("/materials", "must have at least one item")
	}
	for i, m := range b.Materials {
		c.In("/materials/", i)
		if validateMaterial(m, &c); len(c.Found) >= httpapi.EnoughViolations {
			break // a body of 1 MiB can break two million rules
		}
	}
	return c.Found
}

// validateMaterial names every rule that an item breaks; nil is an item that is null.
func validateMaterial(m *materialBody, c *errs.Check) {
	if m == nil {
		c.Add("", errs.Required)
		return
	}
	if m.MaterialID == nil {
		c.Add("/material_id", errs.Required)
	}
	c.Text("/material", m.Material, textLimit)
	c.Text("/sku", m.SKU, textLimit)
	errs.Member(c, "/width", m.Width, isSize, sizeDetail)
	errs.Member(c, "/height", m.Height, isSize, sizeDetail)
	c.Number("/depth", m.Depth, sizeLimit, sizeDetail)
	errs.Member(c, "/quantity", m.Quantity, isQuantity, quantityDetail)
}

const (
	sizeDetail     = "must be a number of centimetres from 0 to 1000000"
	quantityDetail = "must be an integer from 1 to 2147483647"
)

func isSize(centimetres float64) bool { return centimetres >= 0 && centimetres <= sizeLimit }

func isQuantity(n int64) bool { return n >= 1 && n <= math.MaxInt32 }

// request returns the body without its nil pointers; validate must have found nothing.
func (b *requestBody) request() Request {
	r := Request{ID: *b.ID, ShopCode: *b.ShopCode, Comment: b.Comment, Materials: make([]Material, len(b.Materials))}
	for i, m := range b.Materials {
		r.Materials[i] = Material{
			MaterialID: *m.MaterialID, Material: *m.Material, MaterialVariantID: m.MaterialVariantID,
			MaterialVariant: m.MaterialVariant, SKU: *m.SKU, Width: positiveZero(*m.Width), Height: positiveZero(*m.Height),
			Depth: m.Depth, Quantity: *m.Quantity,
		}
		if m.Depth != nil {
			*m.Depth = positiveZero(*m.Depth)
		}
	}
	return r
}

// positiveZero makes -0 the 0 that it equals, so that equal requests have one text.
func positiveZero(size float64) float64 { return size + 0 }

// canonicalRequest is version 1 of the form by which two requests are compared: the JSON of these members, in this
// order, an absent optional one as null, encoded by encoding/json, unescaped. Stored digests hang on every byte of it,
// so it never changes: a member that comes later has omitzero, which leaves the digests of requests without it as they
// are.
type canonicalRequest struct {
	ID        int64      `json:"id"`
	ShopCode  string     `json:"shop_code"`
	Comment   *string    `json:"comment"`
	Materials []Material `json:"materials"`
}

// canonical returns the request's canonical text, which is stored, and the text's SHA-256: equal digests mean equal
// requests.
func (r Request) canonical() (text, digest []byte, err error) {
	form := canonicalRequest{ID: r.ID, ShopCode: r.ShopCode, Comment: r.Comment, Materials: r.Materials}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // it takes six bytes for one
	if err = encoder.Encode(form); err != nil {
		return nil, nil, fmt.Errorf("encode request: %w", err)
	}
	text = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	sum := sha256.Sum256(text)
	return text, sum[:], nil
}

// DecodeRequest returns the request of a stored body, without what is stored next to it.
func DecodeRequest(body []byte) (Request, error) { return unpacked[Request](body) }

// unpacked returns what a stored body was made of.
func unpacked[T any](body []byte) (value T, err error) {
	text, err := pack.Unpack(body)
	if err != nil {
		return value, err
	}
	return httpapi.DecodeOwn[T](text)
}
