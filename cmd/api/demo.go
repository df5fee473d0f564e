package main

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const demoName = "demo"

const demoText = `
supplyhub is ready at URL. A demo supplier was made; in another terminal:

  # 1. exchange its API key for tokens
  TOKEN=$(curl -s -X POST URL/api/external-auth/token -H 'x-api-key: KEY' | sed 's/.*"AccessToken":"\([^"]*\)".*/\1/')

  # 2. send a material request (an id may be used once; sending the same again is safe)
  curl -s -X POST URL/api/material-requests -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{"id": ID, "shop_code": "SP-001", "materials": [{"material_id": 10, "material": "Shelf", "sku": "SHELF-90", "width": 90, "height": 30, "depth": 25, "quantity": 4}]}'

  # 3. read its delivery estimates, as soon as they are there
  curl -s "URL/api/material-requests/ID?wait=30s" -H "Authorization: Bearer $TOKEN"

The whole API is described at URL/docs. Stop with Ctrl-C.

`

// printDemo makes the demo supplier, or gives the one of an earlier run a fresh key, and prints the next steps.
func printDemo(ctx context.Context, w io.Writer, a *app.App, address string) error {
	key, err := demoKey(ctx, a.Suppliers)
	if err != nil {
		return err
	}
	id := strconv.FormatInt(time.Now().Unix(), 10) // another one at each start
	text := strings.NewReplacer("URL", address, "KEY", key, "ID", id).Replace(demoText)
	_, err = io.WriteString(w, text)
	return err
}

func demoKey(ctx context.Context, suppliers *supplierauth.Service) (string, error) {
	list, err := suppliers.ListSuppliers(ctx)
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(list, func(s supplierauth.Supplier) bool { return s.Name == demoName && s.Active }); i >= 0 {
		return suppliers.RotateAPIKey(ctx, list[i].ID, 0)
	}
	created, err := suppliers.CreateSupplier(ctx, supplierauth.NewSupplier{
		Name: demoName, AccessTTL: supplierauth.DefaultAccessTTL, RefreshTTL: supplierauth.DefaultRefreshTTL, Scopes: supplierauth.DefaultScopes(),
	})
	return created.APIKey, err
}
