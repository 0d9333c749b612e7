"""A server by hand, whose definitions have members of the wrong types."""

import json
import sys

DEEP: dict = {"type": "object"}
for _ in range(25):
    DEEP = {"type": "object", "properties": {"inside": DEEP}, "required": ["inside"]}
TOOLS = [
    {"name": "plain", "inputSchema": {"type": "object"}},
    {"name": 5, "description": {"a": 1}, "inputSchema": {"type": 7, "properties": [], "required": "abc"}},
    {
        "name": "odd",
        "title": ["x"],
        "annotations": "y",
        "_meta": 3,
        "inputSchema": {"properties": {"a": None, "b": True}},
    },
    {
        "name": "enums",
        "inputSchema": {"properties": {"a": {"enum": "xyz"}, "b": {"oneOf": [None, 3]}, "c": {"enum": []}}},
    },
    {"name": "deep", "inputSchema": DEEP},
    {"name": "words", "inputSchema": {"properties": {"a": {"type": "string", "pattern": 7, "description": 9}}}},
    {
        "name": "__proto__",
        "description": "x" * 100_000,
        "inputSchema": {"properties": {"__proto__": {"type": "string"}}},
    },
]
PROMPTS = [{"name": "p", "arguments": {"not": "a list"}}, {"name": "q", "arguments": [{"name": 4}, None]}]
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "serverInfo": {"name": "malformed", "version": "0"},
    },
    "tools/list": {"tools": TOOLS},
    "prompts/list": {"prompts": PROMPTS},
    "resources/list": {"resources": [{"uri": 3}, {"uri": "x://y", "size": "big", "mimeType": []}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": None}, {"uriTemplate": "x://{"}]},
    "tools/call": {
        "content": [None, {"type": "image", "data": 4}, {"type": "text"}, {"type": "resource", "resource": 1}]
    },
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in RESULTS:
        answer["result"] = RESULTS[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
