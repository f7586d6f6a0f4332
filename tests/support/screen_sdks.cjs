// Reads streams by the SDKs for JavaScript: lines of [format, url, request] on stdin, a reading for each on stdout.
// Its packages are found by NODE_PATH.

const { HttpAgent } = require("@ag-ui/client");
const { DefaultChatTransport, readUIMessageStream } = require("ai");
const { asking, clientOf } = require("./a2a_client.cjs");

console.warn = () => {};

const json = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const texts = (parts, type) => parts.filter((part) => part.type === type).map((part) => part.text).join("");

async function uiMessages(url, request) {
  const transport = new DefaultChatTransport({ api: url });
  const asked = { chatId: request.id, messages: request.messages ?? [], trigger: request.trigger };
  const stream = await transport.sendMessages({ ...asked, abortSignal: undefined });
  let message = { parts: [] };
  for await (message of readUIMessageStream({ stream, terminateOnError: true }));
  const tools = message.parts.filter((part) => part.toolCallId !== undefined);
  const answered = tools.filter((part) => part.state.startsWith("output-"));
  return {
    text: texts(message.parts, "text"),
    reasoning: texts(message.parts, "reasoning"),
    calls: tools.map((part) => [part.toolName ?? part.type.replace("tool-", ""), part.input]),
    results: answered.map((part) => [part.toolCallId, json(part.output ?? part.errorText)]),
  };
}

async function agUi(url, request) {
  const agent = new HttpAgent({ url, threadId: request.threadId, initialMessages: request.messages });
  let failed;
  const onRunFailed = ({ error }) => { failed = error; };
  const { newMessages } = await agent.runAgent({ runId: request.runId, tools: request.tools }, { onRunFailed });
  if (failed) throw failed;
  const said = (role) => newMessages.filter((message) => message.role === role);
  const calls = said("assistant").flatMap((message) => message.toolCalls ?? []);
  return {
    text: said("assistant").map((message) => message.content ?? "").join(""),
    reasoning: said("reasoning").map((message) => message.content ?? "").join(""),
    calls: calls.map((call) => [call.function.name, JSON.parse(call.function.arguments || "{}")]),
    results: said("tool").map((message) => [message.toolCallId, json(message.content)]),
  };
}

// The kinds of the events that a client reads, `-` for one of none, and the name of the error that ends them.
async function a2a(url, spoken) {
  const client = await clientOf(url, spoken);
  const kinds = [];
  try {
    for await (const event of client.sendMessageStream(asking("Hi"))) kinds.push(event.payload?.$case ?? "-");
  } catch (error) {
    kinds.push(error.name);
  }
  return { gives: kinds.join(" ") };
}

const READERS = { "a2a": a2a, "ag-ui": agUi, "ui-messages": uiMessages };

async function main() {
  console.error = () => {};
  const lines = require("node:fs").readFileSync(0, "utf8").trim().split("\n");
  for (const line of lines) {
    const [format, url, request] = JSON.parse(line);
    try {
      const reading = await READERS[format](url, request);
      console.log(JSON.stringify({ reading }));
    } catch (error) {
      console.log(JSON.stringify({ raised: error.name, said: String(error.message) }));
    }
  }
  process.exit(0);
}

process.on("unhandledRejection", () => {});
main();
