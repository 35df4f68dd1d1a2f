// Asks a question in a chat, at once and streamed; prints both answers, their usage and their metrics.
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: process.env.OPENAI_BASE_URL || "http://127.0.0.1:8000/v1",
  apiKey: process.env.OPENAI_API_KEY || "none",
});
const model = process.env.MODEL || (await client.models.list()).data[0].id;
const question = {
  model,
  messages: [{ role: "user", content: "What is the chemical symbol of water?" }],
  max_tokens: 32,
  temperature: 0,
};

function printAccount({ usage, metrics }) {
  console.log(`\n${usage.prompt_tokens} prompt tokens, ${usage.completion_tokens} completion tokens`);
  for (const [name, value] of Object.entries(metrics)) {
    console.log(name.padEnd(24) + value);
  }
}

const response = await client.chat.completions.create(question);
console.log(response.choices[0].message.content);
printAccount(response);
console.log();

const stream = await client.chat.completions.create({
  ...question,
  stream: true,
  stream_options: { include_usage: true }, // the last chunk then carries usage, and metrics beside it
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? "");
  if (chunk.usage) {
    console.log();
    printAccount(chunk);
  }
}
