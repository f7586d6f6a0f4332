// Vercel's AI SDK over one of its providers.

import { isStepCount, jsonSchema, streamText, tool } from "ai";
import { getWeather, main, PARAMETERS, PROMPT, SLOW_PROMPT } from "./weather.mjs";

const tools = { get_weather: tool({ inputSchema: jsonSchema(PARAMETERS), execute: getWeather }) };

export async function run(model) {
  async function loop(tokens) {
    const result = streamText({ model, prompt: PROMPT, tools, stopWhen: isStepCount(5) });
    const answer = await result.text;
    const usage = await result.totalUsage;
    tokens.add(usage.inputTokens, usage.outputTokens);
    return answer;
  }

  const slow = () => streamText({ model, prompt: SLOW_PROMPT }).textStream;

  await main(loop, slow);
}
