// An app of the AI SDK: it asks the model at the URL of its argument, and streams the answer to the screen.
// It writes its port to stdout, and ends when stdin does. Its packages are found by NODE_PATH.

const { createServer } = require("node:http");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { convertToModelMessages, streamText } = require("ai");

const model = createOpenAICompatible({ name: "m", baseURL: process.argv[2] })("m");

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { messages } = JSON.parse(Buffer.concat(chunks).toString());
  streamText({ model, messages: await convertToModelMessages(messages) }).pipeUIMessageStreamToResponse(response);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
