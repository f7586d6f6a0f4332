// @google/genai for Node.

import { GoogleGenAI } from "@google/genai";
import { getWeather, main, PARAMETERS, PROMPT, SLOW_PROMPT } from "./weather.mjs";

const client = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY });
const model = "gemini-3-flash-preview";
const tools = [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: PARAMETERS }] }];

async function loop(tokens) {
  const contents = [{ role: "user", parts: [{ text: PROMPT }] }];
  for (;;) {
    const parts = [];
    let usage = {};
    for await (const chunk of await client.models.generateContentStream({ model, contents, config: { tools } })) {
      parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
      usage = chunk.usageMetadata ?? usage;
    }
    tokens.add(usage.promptTokenCount, (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0));
    const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
    if (!calls.length) return parts.map((part) => (part.thought ? "" : (part.text ?? ""))).join("");
    const results = calls.map(({ id, name, args }) => ({
      functionResponse: { id, name, response: { output: getWeather(args) } },
    }));
    contents.push({ role: "model", parts }, { role: "user", parts: results });
  }
}

async function* slow() {
  const stream = await client.models.generateContentStream({ model, contents: SLOW_PROMPT });
  for await (const chunk of stream) yield chunk.text ?? "";
}

await main(loop, slow);
