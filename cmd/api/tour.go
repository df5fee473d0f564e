package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
)

// tourText is the walk from a key to a delivered and verified webhook. People paste it whole into bash and zsh, and a
// test does: no comment, and in the lines between the commands no quote or other character that a shell acts on.
const tourText = `
supplyhub is ready at URL. The demo supplier keeps its key over restarts. In another terminal:

1. Exchange the API key for a token
  TOKEN=$(curl -s -X POST URL/api/external-auth/token -H 'x-api-key: KEY' | sed 's/.*"AccessToken":"\([^"]*\)".*/\1/')

2. Send a material request, sending the same one again is safe
  curl -s -w '\n' -X POST URL/api/material-requests -H "Authorization: Bearer $TOKEN" \
    -H 'Content-Type: application/json' \
    -d '{"id": FIRST, "shop_code": "SP-001", "materials": [ITEM]}'

3. Wait for its delivery estimates
  curl -s -w '\n' "URL/api/material-requests/FIRST?wait=30s" -H "Authorization: Bearer $TOKEN"

4. Choose the first of them
  ESTIMATE=$(curl -s URL/api/material-requests/FIRST -H "Authorization: Bearer $TOKEN" | \
    sed 's/.*"estimates":\[{"estimate_id":"\([^"]*\)".*/\1/')
  curl -s -w '\n' -X PATCH URL/api/material-requests/FIRST/selected-estimate -H "Authorization: Bearer $TOKEN" \
    -H 'Content-Type: application/json' -d "{\"estimate_id\": \"$ESTIMATE\"}"

5. See what was delivered where, as the operator
  PROGRAM delivery list

6. In a third terminal, receive webhooks as the supplier
  WEBHOOK_SECRET=WHSEC PROGRAM listen --addr RECEIVER

7. Point the webhooks at it and send another request, the receiver prints the call and checks its signature
  WEBHOOK_ALLOW_PRIVATE=true PROGRAM supplier update SUPPLIER --webhook-url http://RECEIVER
  curl -s -w '\n' -X POST URL/api/material-requests -H "Authorization: Bearer $TOKEN" \
    -H 'Content-Type: application/json' \
    -d '{"id": SECOND, "shop_code": "SP-001", "materials": [ITEM]}'
`

const tourItem = `{"material_id": 10, "material": "Shelf", "sku": "SHELF-90", "width": 90, "height": 30, ` +
	`"depth": 25, "quantity": 4}`

const scoresText = `
8. The scoreboard, with sample matches of today and tomorrow
  curl -s -w '\n' -X POST URL/pulse/scoreboard -H 'svc-pulse-key: demo'
`

const privateText = `
Receivers at private addresses are allowed, as if WEBHOOK_ALLOW_PRIVATE=true were set: this is a demo.
`

const linksText = `
Look around:
  documentation   URL/docs
  portal          PORTAL (works once, within 5 minutes)
  console         CONSOLE
  operator token  OPERATOR

"make demo" shows a failing receiver and its recovery in seconds. Stop with Ctrl-C.

`

// demoReceiver is where the tour's receiver listens.
const demoReceiver = "127.0.0.1:7001"

func printTour(ctx context.Context, w io.Writer, cfg *config.Config, a *app.App, d demo, scores bool) error {
	text := tourText
	if scores {
		text += scoresText
	}
	if cfg.DatabaseURL == "" {
		text += privateText
	}
	program := cmp.Or(os.Args[0], "api")
	if cfg.DatabaseURL == "" && cfg.DataDir != "./data" {
		program = "DATA_DIR='" + cfg.DataDir + "' " + program
	}
	link, err := a.PortalLink(ctx, d.supplier)
	if err != nil {
		return fmt.Errorf("make portal link: %w", err)
	}
	console := a.Console()
	first := time.Now().Unix() // another one at each start
	_, err = io.WriteString(w, strings.NewReplacer(
		"PROGRAM", program, "URL", d.url, "KEY", d.key, "WHSEC", d.secret, "SUPPLIER", d.supplier,
		"RECEIVER", demoReceiver, "ITEM", tourItem, "PORTAL", link.URL, "CONSOLE", console.Address,
		"OPERATOR", cmp.Or(console.Token, "none is set: the console only shows"),
		"FIRST", strconv.FormatInt(first, 10), "SECOND", strconv.FormatInt(first+1, 10),
	).Replace(text+linksText))
	return err
}
