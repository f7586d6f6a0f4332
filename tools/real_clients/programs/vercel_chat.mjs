// Vercel's AI SDK over OpenAI's Chat Completions.

import { openai } from "@ai-sdk/openai";
import { run } from "./vercel_text.mjs";

await run(openai.chat("gpt-5.5"));
