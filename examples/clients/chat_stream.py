"""Ask a question in a chat and print the answer as it is made, then its usage and its metrics."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
)
model = os.environ.get("MODEL") or client.models.list().data[0].id

stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "What is the chemical symbol of water?"}],
    max_tokens=32,
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},  # the last chunk then carries usage, and metrics beside it
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
    if chunk.usage:
        print(f"\n\n{chunk.usage.prompt_tokens} prompt tokens, {chunk.usage.completion_tokens} completion tokens")
        for name, value in chunk.model_extra["metrics"].items():
            print(f"{name:24}{value}")
