"""Ask a question through the Responses API, at once and streamed; print both answers, their usage and their metrics."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
)
model = os.environ.get("MODEL") or client.models.list().data[0].id
question = {"model": model, "input": "What is the chemical symbol of water?", "max_output_tokens": 32, "temperature": 0}


def print_account(response):
    print(f"\n{response.usage.input_tokens} prompt tokens, {response.usage.output_tokens} completion tokens")
    for name, value in response.model_extra["metrics"].items():
        print(f"{name:24}{value}")


response = client.responses.create(**question)
print(response.output_text)
print_account(response)
print()

for event in client.responses.create(**question, stream=True):
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)
    elif event.type in ("response.completed", "response.incomplete"):  # incomplete: max_output_tokens were reached
        print()
        print_account(event.response)
