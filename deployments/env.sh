#!/bin/sh
# Prints .env.example with fresh keys and passwords: sh deployments/env.sh > deployments/.env
# The keys come from the image; SUPPLYHUB_API names another way to run the api, such as bin/api.
set -eu
api=${SUPPLYHUB_API:-docker run --rm supplyhub:${VERSION:-latest}}

password() {
	printf 'p' # NATS would read digits at the start as a number
	od -An -N20 -tx1 /dev/urandom | tr -d ' \n'
}

# $api is a command with its arguments.
jwt=$($api keys generate) webhooks=$($api secrets generate) secrets=$($api keys generate --secrets)
while IFS= read -r line; do
	case $line in
		JWT_SIGNING_KEYS=) printf '%s%s\n' "$line" "$jwt" ;;
		WEBHOOK_SIGNING_SECRETS=) printf '%s%s\n' "$line" "$webhooks" ;;
		SECRETS_KEY=) printf '%s%s\n' "$line" "$secrets" ;;
		POSTGRES_*PASSWORD= | NATS_*PASSWORD=) printf '%s%s\n' "$line" "$(password)" ;;
		VERSION=) printf '%s%s\n' "$line" "${VERSION:-}" ;;
		*) printf '%s\n' "$line" ;;
	esac
done <"$(dirname "$0")/.env.example"
