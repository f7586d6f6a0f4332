// The client of @a2a-js/sdk for an agent at an address, in one version and binding, and what it asks.

const { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = require("@a2a-js/sdk/client");

async function clientOf(url, { version, binding }) {
  const options = { legacyCompat: { enabled: true } };
  const transports = [new JsonRpcTransportFactory(options), new RestTransportFactory(options)];
  const supportedInterfaces = [{ url, protocolBinding: binding, protocolVersion: version, tenant: "" }];
  const factory = new ClientFactory({ transports, preferredTransports: [binding] });
  return factory.createFromAgentCard({ supportedInterfaces, capabilities: { streaming: true } });
}

function asking(value) {
  const parts = [{ content: { $case: "text", value }, filename: "", mediaType: "" }];
  const ids = { messageId: crypto.randomUUID(), contextId: "", taskId: "", referenceTaskIds: [] };
  return { tenant: "", message: { ...ids, role: 1, parts, extensions: [] } };
}

module.exports = { asking, clientOf };
