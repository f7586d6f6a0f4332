// openai for Node over the Responses API.

import OpenAI from "openai";
import { getWeather, main, PARAMETERS, PROMPT, SLOW_PROMPT } from "./weather.mjs";

const client = new OpenAI();
const tools = [{ type: "function", name: "get_weather", parameters: PARAMETERS, strict: true }];

async function loop(tokens) {
  const history = [{ role: "user", content: PROMPT }];
  for (;;) {
    const response = await client.responses.stream({ model: "gpt-5.5", input: history, tools }).finalResponse();
    tokens.add(response.usage.input_tokens, response.usage.output_tokens);
    const calls = response.output.filter((item) => item.type === "function_call");
    if (!calls.length) return response.output_text;
    history.push(...response.output);
    for (const call of calls) {
      const output = getWeather(JSON.parse(call.arguments));
      history.push({ type: "function_call_output", call_id: call.call_id, output });
    }
  }
}

async function* slow() {
  const stream = await client.responses.create({ model: "gpt-5.5", input: SLOW_PROMPT, stream: true });
  for await (const event of stream) {
    if (event.type === "response.output_text.delta") yield event.delta;
  }
}

await main(loop, slow);
