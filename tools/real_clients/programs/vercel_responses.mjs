// Vercel's AI SDK over OpenAI's Responses API.

import { openai } from "@ai-sdk/openai";
import { run } from "./vercel_text.mjs";

await run(openai("gpt-5.5"));
