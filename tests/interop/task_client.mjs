// The experimental tasks of the TypeScript SDK 1.x: node task_client.mjs URL | COMMAND ARGUMENT...
// Writes as JSON what it saw of each tool: the types and statuses of the stream, and how it ended.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [target, ...rest] = process.argv.slice(2);
const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { elicitation: { form: {} }, sampling: {}, tasks: { list: {}, cancel: {} } } },
);
const related = [];
const relate = (request) => related.push(request.params._meta["io.modelcontextprotocol/related-task"].taskId);
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  relate(request);
  return { action: "accept", content: { value: true } };
});
client.setRequestHandler(CreateMessageRequestSchema, async (request) => {
  relate(request);
  return { role: "assistant", model: "m", content: { type: "text", text: "it" } };
});
const notified = {};
client.setNotificationHandler(TaskStatusNotificationSchema, async ({ params }) => {
  (notified[params.taskId] ??= []).push(params.status);
});
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: rest });
await client.connect(transport);
await client.listTools();
const tasks = client.experimental.tasks;
const saw = { declared: client.getServerCapabilities().tasks };
for (const [name, args] of Object.entries({ slow: { label: "x" }, confirm: {}, failing: {}, forever: {} })) {
  const told = [];
  const progress = [];
  let id;
  let end;
  const options = { task: {}, onprogress: (one) => progress.push(one.progress) };
  for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options)) {
    if (message.task) {
      id = message.task.taskId;
      told.push(message.task.status);
      if (name === "forever" && message.type === "taskCreated") await tasks.cancelTask(id);
    } else {
      end = message.result ? message.result.content[0].text : message.error.message;
    }
  }
  // The last notifications may come after the result, because they come on a stream of their own.
  for (let turn = 0; turn < 200 && name === "confirm" && !notified[id]?.includes("completed"); turn++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  saw[name] = { id, statuses: [...new Set(told)], end, progress, notified: notified[id] };
}
const failed = await tasks.getTaskResult(saw.failing.id, CallToolResultSchema);
saw.failed = [failed.isError, failed.content[0].text];
saw.listed = (await tasks.listTasks()).tasks.map((task) => task.status);
saw.related = [...new Set(related)];
await client.close();
console.log(JSON.stringify(saw));
