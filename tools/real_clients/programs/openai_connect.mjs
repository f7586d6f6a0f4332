// openai for Node over the Responses API, on one WebSocket: each turn has only what is new.

import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { getWeather, main, PARAMETERS, PROMPT, SLOW_PROMPT } from "./weather.mjs";

const client = new OpenAI();
const tools = [{ type: "function", name: "get_weather", parameters: PARAMETERS, strict: true }];

async function* events(connection) {
  for await (const event of connection.stream()) {
    if (event.type === "error") throw event.error;
    if (event.type === "message") yield event.message;
  }
}

async function loop(tokens) {
  const connection = new ResponsesWS(client);
  const create = (fields) => connection.send({ type: "response.create", model: "gpt-5.5", tools, ...fields });
  create({ input: [{ role: "user", content: PROMPT }] });
  for await (const { type, response } of events(connection)) {
    if (type !== "response.completed") continue;
    tokens.add(response.usage.input_tokens, response.usage.output_tokens);
    const calls = response.output.filter((item) => item.type === "function_call");
    if (!calls.length) {
      connection.close();
      const message = response.output.find((item) => item.type === "message");
      return message.content.map((part) => part.text).join("");
    }
    const input = calls.map(({ call_id, arguments: given }) => {
      return { type: "function_call_output", call_id, output: getWeather(JSON.parse(given)) };
    });
    create({ input, previous_response_id: response.id });
  }
}

async function* slow() {
  const connection = new ResponsesWS(client);
  connection.send({ type: "response.create", model: "gpt-5.5", input: SLOW_PROMPT });
  for await (const event of events(connection)) {
    if (event.type === "response.output_text.delta") yield event.delta;
    if (event.type === "response.completed") connection.close();
  }
}

await main(loop, slow);
