#!/usr/bin/env bash
# Changes a price while clients ask, and shows what each of them pays. No request
# fails, none pays the old price once its client has paid the new one, and a
# stream that began before the change ends with the price that it began with.
#
#   ./reprice.sh WASMETER BILLING.wasm
#
# WASMETER is the program (make build), BILLING.wasm the plugin (README.md). It
# needs bash and curl, takes some seconds, and leaves nothing behind.
set -euo pipefail

program=$(realpath "${1:?"name the program: ./reprice.sh WASMETER BILLING.wasm"}")
module=$(realpath "${2:?"name the plugin: ./reprice.sh WASMETER BILLING.wasm"}")
old=10000000 new=20000000 # micro-dollars for a million tokens of the answer
clients=4 each=10         # clients that ask at once, and their requests on either side of the change

dir=$(mktemp -d)
cp "$(dirname "$0")/wasmeter.yaml" "$dir/wasmeter.yaml"
cp "$module" "$dir/billing.wasm"
cd "$dir"
cp wasmeter.yaml before.yaml
touch banner

"$program" serve sim --config wasmeter.yaml --host 127.0.0.1 --port 0 --sim-step-base 2ms >banner 2>log &
server=$!
end() {
	touch stop
	kill "$server" 2>/dev/null || true
	wait
	rm -rf "$dir"
}
trap end EXIT

fail() {
	echo "reprice: $*" >&2
	cat log >&2
	exit 1
}

# until_it WHAT COMMAND… waits for a command to succeed, for half a minute.
until_it() {
	local what=$1 tries=300
	shift
	until "$@"; do
		kill -0 "$server" 2>/dev/null || fail "the server has ended"
		((tries-- > 0)) || fail "not within 30 s: $what"
		sleep 0.1
	done
}

until_it "the server listens" grep -qs '^ *url ' banner
url=$(sed -n 's/^ *url *//p' banner)

# ask sends a chat of 8 tokens, and gives the status and the answer.
ask() {
	curl --silent --show-error --max-time 30 --write-out ' %{http_code}\n' "$url/v1/chat/completions" -H 'Content-Type: application/json' \
		-d '{"model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}'
}

cost='s/.*"cost_micro_usd":\([0-9]*\).* 200$/\1/'

# client asks again and again, and writes down what it pays, or all that it got.
client() {
	until [ -e stop ]; do
		ask | sed "$cost"
	done >"paid.$1" 2>&1
}

# paid TIMES PRICE tells whether each client has paid the price so often.
paid() {
	local i
	for ((i = 0; i < clients; i++)); do
		[ "$(grep -cx "$2" "paid.$i" 2>/dev/null)" -ge "$1" ] || return 1
	done
}

echo "== output: $old"
ask | tee first
before=$(sed "$cost" first)

workers=()
for ((i = 0; i < clients; i++)); do
	client "$i" &
	workers+=($!)
done
until_it "each client has paid the old price $each times" paid "$each" "$before"

curl --silent --show-error --no-buffer --max-time 60 "$url/v1/chat/completions" -H 'Content-Type: application/json' \
	-d '{"model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1000, "ignore_eos": true, "stream": true}' >stream &
stream=$!
until_it "the stream begins" grep -qs content stream

echo "== output: $new, in wasmeter.yaml, and SIGHUP, while $clients clients ask and a stream runs"
sed "s/output: $old/output: $new/" before.yaml >wasmeter.yaml
kill -HUP "$server"
after=
changed() { ask >second && after=$(sed "$cost" second) && [ "$after" != "$before" ]; }
until_it "the price changes" changed
cat second
until_it "each client has paid the new price $each times" paid "$each" "$after"

touch stop
wait "${workers[@]}" "$stream"
echo "== the stream, which began at the old price: 23 tokens at 2.5 and 1000 at 10 micro-dollars"
grep -o '"billing":{[^}]*}' stream

echo "== all requests"
failed=$(cat paid.* | grep -cvx -e "$before" -e "$after" || true)
back=0
for ((i = 0; i < clients; i++)); do # the old price below the new one
	back=$((back + $(sed "1,/^$after\$/d" "paid.$i" | grep -cx "$before" || true)))
done
echo "$(cat paid.* | grep -cx "$before") paid $before, $(cat paid.* | grep -cx "$after") paid $after, $failed failed, $back paid the old price after the new one"
[ "$failed" = 0 ] || fail "$(cat paid.* | grep -vx -e "$before" -e "$after" | head -3)"
[ "$back" = 0 ] || fail "a client has paid the old price after the new one"

echo "== what the ledger's requests would have cost: all at the old price, and all at the new one"
"$program" plugin replay billing.wasm usage.jsonl --plugin-config wasmeter.yaml --diff-config before.yaml --top 1
