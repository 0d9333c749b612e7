// A server on the TypeScript SDK 1.x, over stdio: `typescript.mjs PACKAGE`.
const [sdk] = process.argv.slice(2);
// The releases differ in what their packages export, so the files are named.
const from = (file) => import(new URL(`../node_modules/${sdk}/dist/esm/${file}.js`, import.meta.url));
const { Server } = await from("server/index");
const { StdioServerTransport } = await from("server/stdio");
const { CallToolRequestSchema, ListToolsRequestSchema } = await from("types");

const server = new Server({ name: "typescript", version: "1" }, { capabilities: { tools: {} } });
const number = { type: "number" };
server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: [{ name: "add", inputSchema: { type: "object", properties: { a: number, b: number } } }],
}));
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => ({
  content: [{ type: "text", text: String(params.arguments.a + params.arguments.b) }],
}));
await server.connect(new StdioServerTransport());
