#!/bin/sh
# The whole story on the embedded stack in about ten seconds: sample matches, a supplier whose receiver fails for a while, what the
# operator sees, the recovery. Everything is kept in a directory of its own, which is deleted at the end.
# Usage: [DEMO_PORT=18080] demo.sh BIN_API [--stay]; it takes four ports from there on. With --stay the service goes on until Ctrl-C.
set -eu
api=$1
stay=${2:-}
dir=$(mktemp -d)
port=${DEMO_PORT:-18080}
pids=
end() {
  trap - EXIT INT TERM
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  for pid in $pids; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM

url=http://127.0.0.1:$port
receiver=127.0.0.1:$((port + 2))
scores=127.0.0.1:$((port + 3))
export DATA_DIR="$dir/data" HTTP_ADDR="127.0.0.1:$port" ADMIN_ADDR="127.0.0.1:$((port + 1))" LOG_LEVEL=warn DRAIN_DELAY=0s
export WEBHOOK_ALLOW_PRIVATE=true WEBHOOK_RETRY_SCHEDULE=1s,1s,1s,1s,1s,1s,2s,2s,5s,5s,5s,5s,5s,5s,5s,5s
export PULSE_API_KEY=demo SPORTMONKS_API_TOKEN=sample FALLBACK_API_KEY=sample
export SPORTMONKS_BASE_URL="http://$scores/sportmonks" BALLDONTLIE_BASE_URL="http://$scores/balldontlie"

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }
field() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p' | head -n 1; }
until_ok() { # until_ok WHAT COMMAND...
  what=$1
  shift
  n=0
  until "$@" >/dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 150 ] || { echo "this did not happen within 15 s: $what (DEMO_PORT=$((port + 10)) takes other ports)" >&2; tail -n 5 "$dir"/*.log >&2; exit 1; }
    sleep 0.1
  done
}

say "1. Sample matches, and the service itself, with JetStream and the worker inside"
"$api" scoreboard sample --addr "$scores" >"$dir/scores.log" 2>&1 &
pids="$pids $!"
"$api" serve >"$dir/serve.log" 2>&1 &
pids="$pids $!"
until_ok "the service is ready" "$api" healthcheck
echo "ready at $url"

say "2. A supplier, whose receiver answers 500"
made=$("$api" supplier create --name "Demo supplier" --webhook-url "http://$receiver" -o json)
supplier=$(echo "$made" | field id)
key=$(echo "$made" | field api_key)
secret=$(echo "$made" | field webhook_secret)
"$api" listen --addr "$receiver" --secret "$secret" --answer 500 >"$dir/failing.log" 2>&1 &
failing=$!
pids="$pids $failing"
token=$(curl -sf -X POST "$url/api/external-auth/token" -H "x-api-key: $key" | sed 's/.*"AccessToken":"\([^"]*\)".*/\1/')
for id in 1 2 3; do
  curl -sf -X POST "$url/api/material-requests" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{"id": '$id', "shop_code": "SP-001",
    "materials": [{"material_id": 10, "material": "Shelf", "sku": "SHELF-90", "width": 90, "height": 30, "depth": 25, "quantity": 4}]}'
  echo
done

say "3. The own endpoint has the estimates all the same"
curl -sf "$url/api/material-requests/1?wait=30s" -H "Authorization: Bearer $token" | cut -c1-300
echo
is_failing() { "$api" doctor | grep -q 'failing'; }
until_ok "the receiver is failing" is_failing
counted() { "$api" top | grep -q 'Failing receivers  *1$'; }
until_ok "the figures, at most ten seconds old, say so" counted

say "4. What the operator sees"
"$api" doctor || true
"$api" top
"$api" delivery list --supplier "$supplier"

say "5. The supplier repairs its receiver: its waiting webhooks arrive, signed"
kill "$failing"
wait "$failing" 2>/dev/null || true
"$api" listen --addr "$receiver" --secret "$secret" >"$dir/receiver.log" 2>&1 &
pids="$pids $!"
arrived() { [ "$(grep -c 'signature   holds' "$dir/receiver.log")" -ge 3 ]; }
until_ok "all three webhooks arrive" arrived
sed -n 1,6p "$dir/receiver.log"
"$api" delivery list --supplier "$supplier"

say "6. Today's and tomorrow's matches"
curl -sf -X POST "$url/pulse/scoreboard" -H 'svc-pulse-key: demo' | cut -c1-300
echo
"$api" verify

say "Look around"
echo "documentation   $url/docs"
echo "portal          $("$api" supplier portal-link "$supplier" -o json | field url)"
echo "console         http://$ADMIN_ADDR/console"
[ "$stay" = --stay ] || exit 0
echo "Ctrl-C ends it."
wait
