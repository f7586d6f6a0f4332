// @openai/codex-sdk, which starts the Codex that it brings along.

import { Codex } from "@openai/codex-sdk";
import { main, SLOW_PROMPT } from "./weather.mjs";

const PROMPT = "Use the shell to count the bottles."; // it cannot be given a function of the name get_weather
const codex = new Codex({ baseUrl: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY });
const thread = codex.startThread({ model: "gpt-5.5", sandboxMode: "read-only", skipGitRepoCheck: true });

async function loop(tokens) {
  const { finalResponse, usage } = await thread.run(PROMPT);
  tokens.add(usage?.input_tokens, usage?.output_tokens);
  return finalResponse;
}

async function* slow() {
  const { events } = await thread.runStreamed(SLOW_PROMPT);
  for await (const event of events) {
    if (event.type === "item.completed" && event.item.type === "agent_message") yield event.item.text;
  }
}

await main(loop, slow);
