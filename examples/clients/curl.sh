#!/bin/sh
# Asks each endpoint with curl.
set -eu
url=${OPENAI_BASE_URL:-http://127.0.0.1:8000/v1}
model=${MODEL:-$(curl -fsS "$url/models" | sed 's/.*"data":\[{"id":"\([^"]*\)".*/\1/')}

post() { # path, body
	printf '\nPOST %s %s\n' "$1" "$2"
	curl -fsSN "$1" -H 'Content-Type: application/json' -d "$2"
	echo
}

post "$url/chat/completions" '{
    "model": "'"$model"'",
    "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    "max_tokens": 64}'

post "$url/chat/completions" '{
    "model": "'"$model"'",
    "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    "max_tokens": 8, "stream": true, "stream_options": {"include_usage": true}}'

post "$url/completions" '{
    "model": "'"$model"'", "prompt": "The capital of France is", "max_tokens": 16}'

post "$url/responses" '{
    "model": "'"$model"'", "input": "Why is the sky blue?", "max_output_tokens": 64}'

post "${url%/v1}/tokenize" '{
    "model": "'"$model"'", "prompt": "The capital of France is"}'
