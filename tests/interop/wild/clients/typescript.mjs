// A client on the TypeScript SDK 1.x: `typescript.mjs PACKAGE stdio COMMAND...` or `typescript.mjs PACKAGE http URL`.
const [sdk, kind, ...target] = process.argv.slice(2);
// The releases differ in what their packages export, so the files are named.
const from = (file) => import(new URL(`../node_modules/${sdk}/dist/esm/client/${file}.js`, import.meta.url));
const { Client } = await from("index");

async function connected() {
  let transport;
  if (kind === "stdio") {
    const { StdioClientTransport } = await from("stdio");
    transport = new StdioClientTransport({ command: target[0], args: target.slice(1) });
  } else {
    const { StreamableHTTPClientTransport } = await from("streamableHttp");
    transport = new StreamableHTTPClientTransport(new URL(target[0]));
  }
  const client = new Client({ name: "wild", version: "1" }, { capabilities: {} });
  await client.connect(transport);
  return client;
}

const client = await connected();
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const sum = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
const read = await client.readResource({ uri: "note://hello" });
const prompt = await client.getPrompt({ name: "greet", arguments: { name: "Ann" } });
await client.close();

const leaver = await connected();
const giving = new AbortController();
const call = leaver.callTool({ name: "wait", arguments: {} }, undefined, { signal: giving.signal });
const ended = call.then(() => false, () => true);
await new Promise((resolve) => setTimeout(resolve, 500));
giving.abort("enough");
const gives_up = await ended;
await leaver.close();
console.log(
  JSON.stringify({
    tools: tools.sort(),
    sum: sum.content[0].text,
    resource: read.contents[0].text,
    prompt: prompt.messages[0].content.text,
    gives_up,
  }),
);
