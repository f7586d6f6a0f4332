// Vercel's AI SDK over Anthropic's Messages API.

import { anthropic } from "@ai-sdk/anthropic";
import { run } from "./vercel_text.mjs";

await run(anthropic("claude-sonnet-4-6"));
