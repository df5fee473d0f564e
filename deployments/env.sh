#!/bin/sh
# Writes .env.example with fresh keys and passwords into deployments/.env, or the file that is given, for its owner's eyes only:
#   sh deployments/env.sh [FILE]
# The keys come from the image; SUPPLYHUB_API names another way to run the api, such as bin/api.
set -euC # -C: no existing file is written over
umask 077
file=${1:-$(dirname "$0")/.env}
if [ -e "$file" ]; then
	echo "$file is there already: the keys in it may be in use, without SECRETS_KEY stored secrets cannot be read" >&2
	exit 1
fi
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
done <"$(dirname "$0")/.env.example" >"$file"
