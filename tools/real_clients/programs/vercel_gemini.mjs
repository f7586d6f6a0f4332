// Vercel's AI SDK over the Gemini API, whose provider reads no variable for its address; the model gives calls no ids.

import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { run } from "./vercel_text.mjs";

const baseURL = `${process.env.GOOGLE_GEMINI_BASE_URL}/v1beta`;
const google = createGoogleGenerativeAI({ baseURL, apiKey: process.env.GEMINI_API_KEY });

await run(google("gemini-2.5-flash"));
