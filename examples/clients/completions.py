"""Let the model go on with a text; print what it adds, its usage and its metrics."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
)
model = os.environ.get("MODEL") or client.models.list().data[0].id

response = client.completions.create(
    model=model,
    prompt="The capital of France is",
    max_tokens=16,
    temperature=0,
)
print(response.choices[0].text)
print(f"\n{response.usage.prompt_tokens} prompt tokens, {response.usage.completion_tokens} completion tokens")
for name, value in response.model_extra["metrics"].items():
    print(f"{name:24}{value}")
