package main

import (
	"cmp"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
)

// tourText is the walk from a key to a delivered and verified webhook. A test runs its lines as they are printed.
const tourText = `
supplyhub is ready at URL. Its demo supplier keeps its key over restarts. In another terminal:

  # 1. exchange the supplier's API key for tokens
  TOKEN=$(curl -s -X POST URL/api/external-auth/token -H 'x-api-key: KEY' | sed 's/.*"AccessToken":"\([^"]*\)".*/\1/')

  # 2. send a material request (an id may be used once; sending the same again is safe)
  curl -s -w '\n' -X POST URL/api/material-requests -H "Authorization: Bearer $TOKEN" \
    -H 'Content-Type: application/json' \
    -d '{"id": FIRST, "shop_code": "SP-001", "materials": [ITEM]}'

  # 3. read its delivery estimates, as soon as they are there
  curl -s -w '\n' "URL/api/material-requests/FIRST?wait=30s" -H "Authorization: Bearer $TOKEN"

  # 4. choose the first of them
  ESTIMATE=$(curl -s URL/api/material-requests/FIRST -H "Authorization: Bearer $TOKEN" | \
    sed 's/.*"estimates":\[{"estimate_id":"\([^"]*\)".*/\1/')
  curl -s -w '\n' -X PATCH URL/api/material-requests/FIRST/selected-estimate -H "Authorization: Bearer $TOKEN" \
    -H 'Content-Type: application/json' -d "{\"estimate_id\": \"$ESTIMATE\"}"

  # 5. see what was delivered where, as the operator
  PROGRAM delivery list

  # 6. run a receiver of the supplier's own, in a third terminal
  WEBHOOK_SECRET=WHSEC PROGRAM listen --addr RECEIVER

  # 7. lead the supplier's webhooks to it, and send another request: the receiver prints the call and verifies it
  WEBHOOK_ALLOW_PRIVATE=true PROGRAM supplier update SUPPLIER --webhook-url http://RECEIVER
  curl -s -w '\n' -X POST URL/api/material-requests -H "Authorization: Bearer $TOKEN" \
    -H 'Content-Type: application/json' \
    -d '{"id": SECOND, "shop_code": "SP-001", "materials": [ITEM]}'
`

const tourItem = `{"material_id": 10, "material": "Shelf", "sku": "SHELF-90", "width": 90, "height": 30, ` +
	`"depth": 25, "quantity": 4}`

const scoresText = `
  # 8. the scoreboard, with sample matches of today and tomorrow
  curl -s -w '\n' -X POST URL/pulse/scoreboard -H 'svc-pulse-key: demo'
`

const privateText = `
Receivers at private addresses are allowed, as if WEBHOOK_ALLOW_PRIVATE=true were set: this is a demo.
`

const endText = `
The whole API is described at URL/docs. Stop with Ctrl-C.

`

// demoReceiver is where the tour's receiver listens.
const demoReceiver = "127.0.0.1:7001"

func printTour(w io.Writer, cfg *config.Config, d demo, address string, scores bool) error {
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
	first := time.Now().Unix() // another one at each start
	_, err := io.WriteString(w, strings.NewReplacer(
		"PROGRAM", program, "URL", address, "KEY", d.key, "WHSEC", d.secret, "SUPPLIER", d.supplier,
		"RECEIVER", demoReceiver, "ITEM", tourItem,
		"FIRST", strconv.FormatInt(first, 10), "SECOND", strconv.FormatInt(first+1, 10),
	).Replace(text+endText))
	return err
}
