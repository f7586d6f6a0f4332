import { generateText, streamText, wrapLanguageModel, tool, stepCountIs } from 'ai';
import { devToolsMiddleware } from '@ai-sdk/devtools';
import { createOpenAI } from '@ai-sdk/openai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { z } from 'zod';

const baseURL = `${process.env.DEMO}/v1`;
const openai = createOpenAI({ baseURL, apiKey: 'unused' });
const anthropic = createAnthropic({ baseURL, apiKey: 'unused' });
const wrap = model => wrapLanguageModel({ model, middleware: devToolsMiddleware() });
const prompt = 'Say hello.';
const city = z.object({ city: z.string() });
const weather = tool({ description: 'Weather of a city', inputSchema: city, execute: async ({ city }) => `18 degrees in ${city}` });

const asked = { model: wrap(openai.chat('gpt-demo')), prompt: 'What is the weather in Paris?', tools: { get_weather: weather }, stopWhen: stepCountIs(2) };
await streamText(asked).consumeStream();
await streamText({ model: wrap(anthropic('claude-haiku-4-5')), prompt }).consumeStream();
await generateText({ model: wrap(openai.responses('gpt-demo')), prompt });
const leaving = new AbortController();
const left = streamText({ model: wrap(anthropic('claude-haiku-4-5')), prompt, abortSignal: leaving.signal });
for await (const _ of left.textStream) leaving.abort();
await generateText({ model: wrap(createOpenAI({ baseURL: 'http://127.0.0.1:1/v1', apiKey: 'unused' }).chat('gpt-demo')), prompt, maxRetries: 0 }).catch(() => {});
