// @anthropic-ai/sdk over the Messages API.

import Anthropic from "@anthropic-ai/sdk";
import { getWeather, main, PARAMETERS, PROMPT, SLOW_PROMPT } from "./weather.mjs";

const client = new Anthropic();
const base = { model: "claude-sonnet-4-6", max_tokens: 1024 };
const tools = [{ name: "get_weather", input_schema: PARAMETERS }];

async function loop(tokens) {
  const messages = [{ role: "user", content: PROMPT }];
  for (;;) {
    const { content, usage } = await client.messages.stream({ ...base, messages, tools }).finalMessage();
    const cached = (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
    tokens.add(usage.input_tokens + cached, usage.output_tokens);
    const calls = content.filter((block) => block.type === "tool_use");
    if (!calls.length) return content.map((block) => block.text ?? "").join("");
    const results = calls.map((call) => ({
      type: "tool_result",
      tool_use_id: call.id,
      content: getWeather(call.input),
    }));
    messages.push({ role: "assistant", content }, { role: "user", content: results });
  }
}

async function* slow() {
  const messages = [{ role: "user", content: SLOW_PROMPT }];
  for await (const event of client.messages.stream({ ...base, messages })) {
    if (event.delta?.type === "text_delta") yield event.delta.text;
  }
}

await main(loop, slow);
