// The page of the smallest host of apps: it calls a tool of a server, shows the tool's app in a sandboxed frame, and lets
// the app and the server talk by the AppBridge. `show.mjs` bundles it, and drives it in Chromium.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, getToolUiResourceUri, PostMessageTransport, RESOURCE_MIME_TYPE } from '@modelcontextprotocol/ext-apps/app-bridge';

const UI = 'io.modelcontextprotocol/ui';

window.showApp = async (url, name, args) => {
    const client = new Client(
        { name: 'host', version: '1' },
        { capabilities: { extensions: { [UI]: { mimeTypes: [RESOURCE_MIME_TYPE] } } } }
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const { tools } = await client.listTools();
    const tool = tools.find((one) => one.name === name);
    const uri = getToolUiResourceUri(tool);
    const { contents } = await client.readResource({ uri });

    const frame = document.createElement('iframe');
    frame.sandbox = 'allow-scripts';
    document.body.append(frame);
    const bridge = new AppBridge(client, { name: 'host', version: '1' }, { serverTools: {}, openLinks: {} });
    const initialized = new Promise((resolve) => (bridge.oninitialized = resolve));
    bridge.onsizechange = ({ width, height }) => (window.size = { width, height });
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    frame.srcdoc = contents[0].text;
    await initialized;
    await bridge.sendToolInput({ arguments: args });
    const result = await client.callTool({ name, arguments: args });
    await bridge.sendToolResult(result);
    return {
        uri,
        mimeType: contents[0].mimeType,
        meta: contents[0]._meta,
        text: result.content[0].text,
        app: bridge.getAppVersion(),
        declared: client.getServerCapabilities().extensions[UI],
    };
};
