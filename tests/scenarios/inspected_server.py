"""A server over stdio for the tests of the inspector, written without dragoman, so that it starts quickly.

It speaks any version of the handshake era, or with the argument `stateless` 2026-07-28. Its tools misbehave by their
names.
"""

import json
import os
import sys

IS_STATELESS = "stateless" in sys.argv
NAMES = (
    "echo",
    "fail",
    "big",
    "flood",
    "die",
    "ask",
    "visit",
    "sample",
    "roots",
    "progress",
    "never",
    "log",
    "hostile",
)
HOSTILE = "\x1b[2J\u202e<script>alert(1)</script>\x00"
FORM = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
    "logging": {},
}


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(id, **result):
    send(id=id, result={"resultType": "complete", **result} if IS_STATELESS else result)


def text(id, said, **more):
    answer(id, content=[{"type": "text", "text": said}], **more)


def asked(method, **params):
    """Ask the client, and return its answer."""
    send(id="question", method=method, params=params)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "question":
            return message.get("result", message.get("error"))
    return None


def call(id, name, arguments, params):  # noqa: C901
    token = params.get("_meta", {}).get("progressToken")
    match name:
        case "echo":
            text(id, json.dumps(arguments), structuredContent=arguments)
        case "fail":
            text(id, "it failed", isError=True)
        case "big":
            text(id, "x" * arguments.get("bytes", 20_000_000))
        case "flood":
            for number in range(arguments["messages"]):
                send(method="notifications/message", params={"level": "info", "data": f"line {number}"})
            text(id, "flooded")
        case "die":
            sys.stderr.write("password=hunter2 the disk is full\n")
            sys.stderr.flush()
            os._exit(3)
        case "ask" if IS_STATELESS and "inputResponses" not in params:
            form = {"mode": "form", "message": "Which city?", "requestedSchema": FORM}
            asks = {"city": {"method": "elicitation/create", "params": form}}
            send(id=id, result={"resultType": "input_required", "inputRequests": asks, "requestState": "round-1"})
        case "ask" if IS_STATELESS:
            text(id, json.dumps(params["inputResponses"]["city"]))
        case "ask":
            text(id, json.dumps(asked("elicitation/create", message="Which city?", requestedSchema=FORM)))
        case "visit":
            url = {"mode": "url", "url": "https://example.com/pay", "elicitationId": "e1"}
            text(id, json.dumps(asked("elicitation/create", message="Please pay", **url)))
        case "sample":
            said = [{"role": "user", "content": {"type": "text", "text": "What is six times seven?"}}]
            text(id, json.dumps(asked("sampling/createMessage", messages=said, maxTokens=10)))
        case "roots":
            text(id, json.dumps(asked("roots/list")))
        case "progress":
            for number in (1, 2):
                send(method="notifications/progress", params={"progressToken": token, "progress": number, "total": 2})
            text(id, "done")
        case "log":
            send(method="notifications/message", params={"level": "warning", "logger": "disk", "data": {"free": 0}})
            send(method="notifications/tools/list_changed")
            send(method="notifications/resources/updated", params={"uri": "file:///a"})
            text(id, "logged")
        case "hostile":
            text(id, HOSTILE)


def serve(id, method, params):  # noqa: C901
    match method:
        case "initialize":
            info = {"name": "inspected", "version": "1"}
            answer(
                id,
                protocolVersion=params["protocolVersion"],
                capabilities=CAPABILITIES,
                serverInfo=info,
                instructions="Be kind.",
            )
        case "server/discover" if IS_STATELESS:
            answer(id, supportedVersions=["2026-07-28"], capabilities=CAPABILITIES)
        case "tools/list":
            page = int(params.get("cursor", "0"))
            names = NAMES[page : page + 8]
            more = {"nextCursor": str(page + 8)} if page + 8 < len(NAMES) else {}
            answer(id, tools=[{"name": name, "inputSchema": {"type": "object"}} for name in names], **more)
        case "resources/list":
            answer(id, resources=[{"uri": "file:///a", "name": "a"}])
        case "resources/templates/list":
            answer(id, resourceTemplates=[{"uriTemplate": "file:///{name}", "name": "any"}])
        case "resources/read":
            answer(id, contents=[{"uri": params["uri"], "text": "read"}])
        case "prompts/list":
            answer(id, prompts=[{"name": "greet", "arguments": [{"name": "name"}]}])
        case "prompts/get":
            answer(id, messages=[{"role": "user", "content": {"type": "text", "text": str(params["arguments"])}}])
        case "completion/complete":
            answer(id, completion={"values": [params["argument"]["value"] + "slo"], "total": 1, "hasMore": False})
        case "tools/call":
            call(id, params["name"], params.get("arguments", {}), params)
        case "ping" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel":
            answer(id)
        case "subscriptions/listen":
            pass
        case _:
            send(id=id, error={"code": -32601, "message": f"there is no {method}", "data": {"method": method}})


sys.stderr.write("started\n")
sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        serve(message["id"], message["method"], message.get("params", {}))
