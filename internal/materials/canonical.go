package materials

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// canonicalRequest is version 1 of the form by which two requests are compared: the JSON of these members, in this
// order, an absent optional one as null, encoded by encoding/json. Stored digests hang on every byte of it, so it never
// changes: a member that comes later has omitzero, which leaves the digests of requests without it as they are.
type canonicalRequest struct {
	ID        int64               `json:"id"`
	ShopCode  string              `json:"shop_code"`
	Comment   *string             `json:"comment"`
	Materials []canonicalMaterial `json:"materials"`
}

type canonicalMaterial struct {
	MaterialID        int64    `json:"material_id"`
	Material          string   `json:"material"`
	MaterialVariantID *int64   `json:"material_variant_id"`
	MaterialVariant   *string  `json:"material_variant"`
	SKU               string   `json:"sku"`
	Width             float64  `json:"width"`
	Height            float64  `json:"height"`
	Depth             *float64 `json:"depth"`
	Quantity          int64    `json:"quantity"`
}

// canonical returns the request's canonical text, which is stored, and the text's SHA-256: equal digests mean equal
// requests.
func (r Request) canonical() (text, digest []byte, err error) {
	form := canonicalRequest{ID: r.ID, ShopCode: r.ShopCode, Comment: r.Comment,
		Materials: make([]canonicalMaterial, len(r.Materials))}
	for i, m := range r.Materials {
		form.Materials[i] = canonicalMaterial(m)
	}
	if text, err = json.Marshal(form); err != nil {
		return nil, nil, fmt.Errorf("encode request: %w", err)
	}
	return text, digestOf(text), nil
}

func digestOf(canonical []byte) []byte {
	sum := sha256.Sum256(canonical)
	return sum[:]
}

// DecodeRequest returns the request of a stored canonical text, packed or as it is, without what is stored beside it.
func DecodeRequest(body string, packed []byte) (Request, error) {
	if packed == nil {
		return httpapi.DecodeOwn[Request]([]byte(body))
	}
	text, err := pack.Unpack(packed)
	if err != nil {
		return Request{}, err
	}
	return httpapi.DecodeOwn[Request](text)
}

// unpackEvent returns the event of a stored body, packed or as it was sent.
func unpackEvent(stored []byte) (event webhook.Event, err error) {
	body, err := pack.Unpack(stored)
	if err != nil {
		return event, err
	}
	return httpapi.DecodeOwn[webhook.Event](body)
}
