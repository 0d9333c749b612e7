// A client on @ai-sdk/mcp: `vercel.mjs stdio COMMAND...` or `vercel.mjs http URL`.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";

const [kind, ...target] = process.argv.slice(2);
const transport =
  kind === "stdio"
    ? new Experimental_StdioMCPTransport({ command: target[0], args: target.slice(1) })
    : { type: "http", url: target[0] };
const client = await createMCPClient({ transport });
const tools = await client.tools();
const sum = await tools.add.execute({ a: 2, b: 3 }, { messages: [], toolCallId: "1" });
const giving = new AbortController();
const call = tools.wait.execute({}, { messages: [], toolCallId: "2", abortSignal: giving.signal });
const ended = call.then(() => false, () => true);
await new Promise((resolve) => setTimeout(resolve, 500));
giving.abort();
const gives_up = await ended;
await client.close();
console.log(JSON.stringify({ tools: Object.keys(tools).sort(), sum: sum.content[0].text, gives_up }));
