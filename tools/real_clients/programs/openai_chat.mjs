// openai for Node over Chat Completions.

import OpenAI from "openai";
import { getWeather, main, PARAMETERS, PROMPT, SLOW_PROMPT } from "./weather.mjs";

const client = new OpenAI();
const tools = [{ type: "function", function: { name: "get_weather", parameters: PARAMETERS, strict: true } }];

async function loop(tokens) {
  const messages = [{ role: "user", content: PROMPT }];
  for (;;) {
    const completion = await client.chat.completions
      .stream({ model: "gpt-5.5", messages, tools, stream_options: { include_usage: true } })
      .finalChatCompletion();
    tokens.add(completion.usage.prompt_tokens, completion.usage.completion_tokens);
    const { message } = completion.choices[0];
    if (!message.tool_calls?.length) return message.content;
    messages.push(message);
    for (const call of message.tool_calls) {
      const content = getWeather(JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

async function* slow() {
  const messages = [{ role: "user", content: SLOW_PROMPT }];
  const stream = await client.chat.completions.create({ model: "gpt-5.5", messages, stream: true });
  for await (const chunk of stream) yield chunk.choices[0]?.delta.content ?? "";
}

await main(loop, slow);
