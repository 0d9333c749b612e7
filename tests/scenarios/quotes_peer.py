"""A server with the extension `com.example/quotes`, written by hand: a process over stdio or HTTP, of either era."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ID = "com.example/quotes"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
TOOL = {"name": "buy", "inputSchema": {"type": "object"}}
OFFERED = {"tools": {}, "extensions": {ID: {"currencies": ["EUR", "NOK"]}}}
PRICES = {"q-1": 3}


class Peer:
    """What the server says to each message; `declared` is what the client said in a handshake."""

    def __init__(self, era):
        self.is_stateless = era == "stateless"
        self.declared = {}

    def replies(self, message, headers):
        """Return the messages with which a message is answered, the answer last."""
        method, params = message.get("method"), message.get("params", {})
        if "id" not in message or method is None:
            return []
        handler = getattr(self, method.replace("/", "_"), None)
        is_other_era = method == ("initialize" if self.is_stateless else "server/discover")
        if handler is None or is_other_era:
            error = {"code": -32601, "message": f"no {method}"}
            return [{"jsonrpc": "2.0", "id": message["id"], "error": error}]
        *told, result = handler(params, message["id"], headers)
        notices = [{"jsonrpc": "2.0", "method": name, "params": said} for name, said in told]
        answer = {"resultType": "complete", **result} if self.is_stateless and result is not None else result
        return notices if answer is None else [*notices, {"jsonrpc": "2.0", "id": message["id"], "result": answer}]

    def server_discover(self, params, id, headers):
        yield {"supportedVersions": ["2026-07-28"], "capabilities": OFFERED}

    def initialize(self, params, id, headers):
        self.declared = params["capabilities"]
        info = {"name": "quotes", "version": "1"}
        yield {"protocolVersion": params["protocolVersion"], "capabilities": OFFERED, "serverInfo": info}

    def ping(self, params, id, headers):
        yield {}

    def tools_list(self, params, id, headers):
        yield {"tools": [{**TOOL, "price": 3, "priceUnit": "EUR"}, {**TOOL, "name": "look"}]}

    def tools_call(self, params, id, headers):
        declared = params["_meta"].get(CAPABILITIES, {}) if self.is_stateless else self.declared
        if params["name"] == "haggle":
            yield {"resultType": "haggling"}
        elif ID in declared.get("extensions", {}):
            token = params["_meta"]["progressToken"]
            if not self.is_stateless:
                yield "notifications/quotes/changed", {"quoteId": "q-1", "price": 4}
            currency = params.get("currency", "none")
            yield {"resultType": "quote", "quoteId": "q-1", "currency": currency, "token": token}
        else:
            yield {"content": [{"type": "text", "text": "no quote"}]}

    def quotes_get(self, params, id, headers):
        yield {"quoteId": params["quoteId"], "price": PRICES[params["quoteId"]], "mirrored": headers.get("Mcp-Name")}

    def quotes_accept(self, params, id, headers):
        yield "notifications/progress", {"progressToken": params["token"], "progress": 1, "message": "accepted"}
        text = f"bought for {PRICES[params['quoteId']]} {params['currency']}"
        yield {"content": [{"type": "text", "text": text}]}

    def subscriptions_listen(self, params, id, headers):
        meta = {"_meta": {SUBSCRIPTION: id}}
        yield "notifications/subscriptions/acknowledged", {"notifications": params["notifications"], **meta}
        for quote in params["notifications"].get("quoteIds", ()):
            yield "notifications/quotes/changed", {"quoteId": quote, "price": 4, **meta}
        yield None


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def serve_stdio(peer):
    for line in sys.stdin:
        for reply in peer.replies(json.loads(line), {}):
            say(json.dumps(reply))


def events(messages):
    return "".join(f"data: {json.dumps(message)}\n\n" for message in messages).encode()


def serve_http(peer):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            replies = peer.replies(
                json.loads(self.rfile.read(int(self.headers["Content-Length"]))), dict(self.headers.items())
            )
            if replies and "id" not in replies[-1]:
                self.hold(replies)
            elif not replies:
                self.reply(202, "application/json", b"")
            elif len(replies) == 1:
                self.reply(200, "application/json", json.dumps(replies[0]).encode())
            else:
                self.reply(200, "text/event-stream", events(replies))

        def do_GET(self):
            self.reply(405, "application/json", b"")

        def hold(self, replies):
            """Send messages, and keep the stream open until the client ends it."""
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(events(replies))
            self.rfile.read(1)

        def reply(self, status, kind, body):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    say(str(server.server_address[1]))
    server.serve_forever()


if __name__ == "__main__":
    {"stdio": serve_stdio, "http": serve_http}[sys.argv[1]](Peer(sys.argv[2]))
