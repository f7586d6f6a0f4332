// Asks an agent by @a2a-js/sdk: lines of [url, {version, binding}, text] on stdin; on stdout for each the events that the
// client yields, and the task that the agent has put together. `wait` is followed a second time, and canceled.
// Its package is found by NODE_PATH.

const { StreamResponse, Task } = require("@a2a-js/sdk");
const { asking, clientOf } = require("./a2a_client.cjs");

async function read(url, spoken, text) {
  const client = await clientOf(url, spoken);
  const stream = client.sendMessageStream(asking(text));
  const events = [];
  const take = async (from) => {
    for await (const event of from) events.push(event);
  };
  let raised;
  try {
    if (text === "wait") {
      const id = (await stream.next()).value.payload.value.id;
      const again = client.resubscribeTask({ tenant: "", id });
      events.push((await again.next()).value);
      await client.cancelTask({ tenant: "", id });
      await take(again);
    }
    await take(stream);
  } catch (error) {
    raised = error.name;
  }
  const id = events[0]?.payload?.$case === "task" ? events[0].payload.value.id : undefined;
  const task = id && Task.toJSON(await client.getTask({ tenant: "", id }));
  return { events: events.map(StreamResponse.toJSON), task, raised };
}

async function main() {
  for (const line of require("node:fs").readFileSync(0, "utf8").trim().split("\n")) {
    console.log(JSON.stringify(await read(...JSON.parse(line))));
  }
  process.exit(0);
}

process.on("unhandledRejection", () => {});
main();
