// Reads interactions by @google/genai: lines of [base URL, request] on stdin, a reading for each on stdout.
// Its package is found by NODE_PATH.

const { GoogleGenAI } = require("@google/genai");

// The events of an interaction, which is resumed after the last one whenever its connection breaks.
async function* events(client, request) {
  let stream = await client.interactions.create({ ...request, stream: true });
  let id, last;
  while (stream) {
    try {
      for await (const event of stream) {
        id ??= event.interaction?.id;
        last = event.event_id;
        yield event;
      }
      stream = undefined;
    } catch (error) {
      if (!last) throw error;
      stream = await client.interactions.get(id, { stream: true, last_event_id: last });
    }
  }
}

async function read(baseUrl, request) {
  const client = new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl } });
  const steps = new Map();
  const reading = { text: "", summaries: "", outputs: [], usage: null, status: null };
  const add = (index, of) => {
    const call = steps.get(index);
    if (of.type === "text") reading.text += of.text;
    else if (of.type === "thought_summary") reading.summaries += of.content.text;
    else if (of.type === "arguments_delta") call.text += of.arguments;
    else if (of.type.endsWith("_call")) call.given = of.arguments;
    else if (of.type.endsWith("_result")) reading.outputs.push(of.result);
  };
  for await (const event of events(client, request)) {
    if (event.event_type === "step.start") {
      const step = event.step;
      if (step.type.endsWith("_call")) {
        steps.set(event.index, { name: step.name ?? step.type.replace(/_call$/, ""), given: step.arguments, text: "" });
      }
      for (const part of step.content ?? []) reading.text += part.text;
      for (const part of step.summary ?? []) reading.summaries += part.text;
    } else if (event.event_type === "step.delta") {
      add(event.index, event.delta);
    } else if (event.event_type === "interaction.completed") {
      reading.status = event.interaction.status;
      reading.usage = event.interaction.usage;
    }
  }
  reading.calls = [...steps.values()].map((call) => [call.name, call.text ? JSON.parse(call.text) : call.given]);
  return reading;
}

async function main() {
  for (const line of require("node:fs").readFileSync(0, "utf8").trim().split("\n")) {
    console.log(JSON.stringify(await read(...JSON.parse(line))));
  }
}

main();
