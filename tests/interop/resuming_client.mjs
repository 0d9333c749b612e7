// The TypeScript client calls a tool whose stream breaks: `node resuming_client.mjs URL MILLISECONDS`.
//
// The options of reconnection are those of the client. It writes one line of JSON: the outcome of the call, which the
// client waits MILLISECONDS for, and what the client told `onerror`.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [URL_OF_SERVER, MILLISECONDS] = process.argv.slice(2);
const complaints = [];
const client = new Client({ name: 'resuming', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
client.onerror = (error) => complaints.push(error.message);
await client.connect(new StreamableHTTPClientTransport(new URL(URL_OF_SERVER)));
const outcome = await client.callTool({ name: 'slow', arguments: {} }, { timeout: Number(MILLISECONDS) }).then(
    (result) => result.content[0].text,
    (error) => error.message
);
process.stdout.write(JSON.stringify({ outcome, complaints }));
process.exit(0);
