package materials

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/pack"
)

// canonicalRequest is version 1 of the form by which two requests are compared: the JSON of these members, in this
// order, an absent optional one as null, encoded by encoding/json. Stored digests hang on every byte of it, so it never
// changes: a member that comes later has omitzero, which leaves the digests of requests without it as they are.
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
	if text, err = json.Marshal(form); err != nil {
		return nil, nil, fmt.Errorf("encode request: %w", err)
	}
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
