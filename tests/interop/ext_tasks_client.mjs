// @modelcontextprotocol/ext-tasks drives the task fixtures of a server: node ext_tasks_client.mjs URL (handshake|stateless)
// Writes as JSON, for each fixture, what kind of execution it was, the statuses that were seen, and how it ended.
import { Client, fromJsonSchema, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, toolDeclarationFromMcpTool } from "@modelcontextprotocol/ext-tasks/client";

const [url, era] = process.argv.slice(2);
const VERSION = "2026-07-28";
const capabilities = { elicitation: { form: {} } };
const clientInfo = { name: "ext-tasks", version: "0.2.2" };
const declared =
  era === "stateless"
    ? { ...capabilities, extensions: { "io.modelcontextprotocol/tasks": {} } }
    : { ...capabilities, tasks: { list: {}, cancel: {} } };
const anything = fromJsonSchema({ type: "object" });

async function connected() {
  const made = new Client(clientInfo, {
    capabilities: declared,
    versionNegotiation: { mode: era === "stateless" ? { pin: VERSION } : "legacy" },
  });
  await made.connect(new StreamableHTTPClientTransport(new URL(url)));
  return made;
}
const client = await connected();

// The package leaves the requests about tasks of 2026-07-28 to its host: this is the smallest one over HTTP.
let lastId = 0;
async function rawDispatch(request, { signal } = {}) {
  const id = `raw-${++lastId}`;
  const response = await fetch(url, {
    method: "POST",
    signal,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": VERSION,
      "mcp-method": request.method,
      "mcp-name": request.params.taskId ?? request.params.name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, ...request }),
  });
  const text = await response.text();
  const events = text.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
  const messages = (text.startsWith("{") ? [text] : events).map((one) => JSON.parse(one));
  const answer = messages.find((message) => "result" in message || "error" in message);
  return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
}

const { tools } = await client.listTools();
const declarations = new Map(tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
const asked = [];
const options = {
  endpointId: "dragoman",
  tools: { currentTool: (name) => declarations.get(name) },
  async onInputRequest(request, context) {
    asked.push([request.params.message, context.scope, context.delivery]);
    return { action: "accept", content: { name: "Alice", confirm: true } };
  },
  ...(era === "stateless"
    ? { rawDispatch, v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities: capabilities } }
    : {}),
};
const session = createTaskSessionFromClient(client, options);

const FIXTURES = {
  greet: { name: "ext-tasks" },
  slow_compute: { seconds: 0.3, label: "x" },
  failing_job: {},
  protocol_error_job: {},
  confirm_delete: { filename: "notes.txt" },
  multi_input: {},
  test_tool_with_task: {},
};
const saw = { capabilities: session.capabilities, fixtures: {} };
for (const [name, args] of Object.entries(FIXTURES)) {
  const execution = await session.callTool(name, args, { task: { preference: "prefer" } });
  const statuses = [];
  const onEvent = ({ task }) => {
    if (!task) return;
    statuses.push(task.status);
    // In 2025-11-25 a server may need an open tasks/result to ask. The package opens none while it polls.
    if (task.status === "input_required" && era === "handshake") {
      client.request({ method: "tasks/result", params: { taskId: task.taskId } }, anything).catch(() => {});
    }
  };
  const { outcome } = await execution.settle({ onEvent });
  saw.fixtures[name] = {
    kind: execution.kind,
    statuses: [...new Set(statuses)],
    status: outcome.status,
    isError: outcome.result?.isError ?? false,
    text: outcome.result?.content?.[0]?.text ?? outcome.error?.message,
  };
}
const endless = await session.callTool("slow_compute", { seconds: 60, label: "never" }, { task: { preference: "prefer" } });
const controller = session.task(endless.handle.taskId);
saw.before = (await controller.snapshot()).status;
await endless.cancel();
saw.cancelled = (await endless.settle()).outcome.status;
saw.after = (await controller.snapshot()).status;
const reference = await session.callTool("slow_compute", { seconds: 0.5, label: "again" }, { task: { preference: "prefer" } });
const another = await connected();
const recovering = createTaskSessionFromClient(another, options);
const resumed = await recovering.resumeTask(reference.serializeReference());
saw.resumed = (await resumed.settle()).outcome.result.content[0].text;
saw.listed = session.capabilities.inventory === "server-list" ? (await session.listTasks()).tasks.length : null;
saw.asked = asked;
await Promise.all([session.close(), recovering.close()]);
await Promise.all([client.close(), another.close()]);
console.log(JSON.stringify(saw));
