"""What a peer must see of each feature of `featured_server.py`: the same for all, or by era, or by peer and era."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

PEERS = ("python", "typescript")
ERAS = ("handshake", "stateless")
TRANSPORTS = ("stdio", "http", "http with 3 workers")


class By(Struct):
    """What is seen differs by the peer or by the era: the keys of `seen` are names of either."""

    seen: dict[str, Any]


def expected(feature: str, peer: str, era: str) -> Any:
    """Return what a peer must see in an era."""
    value = EXPECTED[feature]
    while isinstance(value, By):
        value = value.seen[peer if peer in value.seen else era]
    return value


def text_result(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


def text_failure(text: str) -> dict[str, Any]:
    return text_result(text, isError=True)


def refusal(code: int, message: str, **data: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **({"data": data} if data else {})}}


def by_era(handshake: Any, stateless: Any) -> By:
    return By({"handshake": handshake, "stateless": stateless})


def by_peer(python: Any, typescript: Any) -> By:
    return By({"python": python, "typescript": typescript})


def wrapped(value: Any, text: str) -> dict[str, Any]:
    """Return a structured value that is no object: it travels in one."""
    return text_result(text, structuredContent={"result": value})


def resource_not_found(uri: str, reason: str = "") -> By:
    # The TypeScript client itself turns the code of the handshake era into that of the stateless era.
    seen = [refusal(code, f"Resource not found: {uri}{reason}", uri=uri) for code in (-32002, -32602)]
    return by_peer(python=by_era(*seen), typescript=seen[1])


def user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


def contents(uri: str, mime_type: str, **held: Any) -> dict[str, Any]:
    return {"contents": [{"uri": uri, "mimeType": mime_type, **held}]}


ICON = {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
SERVER_INFO = {
    "name": "interop",
    "version": "1.2.3",
    "title": "Interoperability",
    "description": "Everything at once.",
    "websiteUrl": "https://example.com",
    "icons": [ICON],
}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True},
    "completions": {},
    "logging": {},
}
DISCOVERED = {
    "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
    "capabilities": CAPABILITIES,
    "instructions": "Use every tool.",
    "ttlMs": 60_000,
    "cacheScope": "public",
    "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO},
}
IMAGE = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}

NUMBER = {"type": "integer"}
TEXT = {"type": "string"}
DATE = {"type": "string", "format": "date"}
MAYBE_NUMBER = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
CODE = {"type": "string", "pattern": "^[A-Z]{3}$"}


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def tool(name: str, description: str, input_schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": input_schema or schema(), **more}


def output_schema(value: dict[str, Any]) -> dict[str, Any]:
    return schema("result", result=value) | {"x-dragoman-wrapped": True, "x-fastmcp-wrap-result": True}


ADD = tool(
    "add",
    "Adds two numbers.",
    schema(
        "a",
        a=NUMBER | {"description": "The first."},
        b=NUMBER | {"default": 40, "description": "The second."},
    ),
)
ADD_ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False, "destructiveHint": False}


def tools(era: str) -> list[dict[str, Any]]:
    return [
        ADD
        | {
            "title": "Add",
            "annotations": ADD_ANNOTATIONS,
            "icons": [ICON],
            "outputSchema": output_schema(NUMBER),
            "_meta": {"example.com/kind": "sum"},
        },
        tool("shout", "Says it louder, in a worker thread.", schema("text", text=TEXT)),
        tool("whisper", "Says it more quietly, in place.", schema("text", text=TEXT)),
        tool(
            "forecast",
            "Returns an object.",
            schema("city", city=TEXT),
            outputSchema={
                "description": "What the weather will be.",
                **schema(
                    *("city", "high", "on", "warnings"),
                    city=TEXT,
                    high={"type": "number"},
                    on=DATE,
                    warnings={"type": "array", "items": TEXT},
                ),
            },
        ),
        tool("cities", "Returns a list.", outputSchema=output_schema({"type": "array", "items": TEXT})),
        tool(
            "perhaps",
            "Returns a number or null.",
            schema(number=MAYBE_NUMBER | {"default": None}),
            outputSchema=output_schema(MAYBE_NUMBER),
        ),
        tool("picture", "Returns an image."),
        tool("sound", "Returns sound."),
        tool("attachment", "Returns a resource within the content."),
        tool("link", "Returns a link to a resource."),
        tool("everything", "Returns several kinds of content at once."),
        tool("nothing", "Returns nothing."),
        tool("full_result", "Says each part of the result by itself."),
        tool("marked_failure", "Marks its own result as a failure."),
        tool("refuse", "Raises what the model should read."),
        tool("crash", "Raises what nobody should read."),
        tool("reject", "Raises a JSON-RPC error of its own."),
        tool(
            "describe",
            "Takes typed arguments and says which types arrived.",
            schema(
                *("when", "colour", "point", "size"),
                when=DATE,
                colour={"type": "string", "enum": ["red", "blue"]},
                point={"$ref": "#/$defs/Point"},
                size={"type": "integer", "minimum": 1, "maximum": 9},
                kind={"type": "string", "enum": ["big", "small"], "default": "big"},
                label={"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            )
            | {"$defs": {"Point": {"description": "A place.", **schema("x", x=NUMBER, y=NUMBER | {"default": 0})}}},
        ),
        tool(
            "verbatim",
            "Has schemas that the author wrote.",
            schema("code", code=CODE) | {"additionalProperties": False},
            outputSchema=schema("code", code=TEXT),
        ),
        tool("who_asks", "Says what the request says of itself.", outputSchema={"type": "object"}),
        tool("who_asks_blocking", "Says who asks, from a worker thread."),
        tool("noisy", "Prints to stdout."),
        tool("repeat", "Returns as much text as wanted.", schema("text", "times", text=TEXT, times=NUMBER)),
        tool("multiply", "Multiplies two numbers.", schema("a", "b", a=NUMBER, b=NUMBER)),
        tool("hold", "Lasts until it is cancelled.", schema("key", key=TEXT)),
        tool("held", "Waits until the call with a key runs.", schema("key", key=TEXT)),
        tool("released", "Waits until the call with a key was cancelled.", schema("key", key=TEXT)),
    ]


TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def who_asks(name: str, protocol: str) -> dict[str, Any]:
    return text_result(
        f'{{"name":"{name}","version":"7","protocol":"{protocol}","trace":{{"traceparent":"{TRACE["traceparent"]}"}},'
        '"custom":{"deep":[1,2.5,null]},"cancelled":false}',
        structuredContent={
            "name": name,
            "version": "7",
            "protocol": protocol,
            "trace": TRACE,
            "custom": {"deep": [1, 2.5, None]},
            "cancelled": False,
        },
    )


def who_asks_by_era(name: str) -> By:
    return by_era(who_asks(name, "2025-11-25"), who_asks(name, "2026-07-28"))


CONFIRMATION = schema("sure", sure={"type": "boolean"}, seats=NUMBER | {"default": 1})
ASKED_OSLO = ["Really Oslo?", CONFIRMATION]
ASKED_BERGEN = ["Really Bergen?", CONFIRMATION]
# Each peer sorts what it was asked in its own way.
SEVERAL_ASKED = [ASKED_BERGEN, ASKED_OSLO, ["Summarise: it", 1024, None]]
SEVERAL_SAID = "Confirmation(sure=True, seats=2) short 1 decline"


EXPECTED: dict[str, Any] = {
    "structured_object": text_result(
        '{"city":"Oslo","high":21.5,"on":"2026-07-28","warnings":["sun"]}',
        structuredContent={"city": "Oslo", "high": 21.5, "on": "2026-07-28", "warnings": ["sun"]},
    ),
    "structured_list": wrapped(["Oslo", "Bergen"], '["Oslo","Bergen"]'),
    "structured_number": wrapped(42, "42"),
    "structured_null": wrapped(None, "null"),
    "sync_tool_in_thread": text_result("HÉ 🌍\u2028\n"),
    "sync_tool_inline": text_result("quiet"),
    "tool_class": text_result("42"),
    "image": {"content": [IMAGE]},
    "audio": {"content": [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}]},
    "embedded_resource": {
        "content": [
            {"type": "resource", "resource": {"uri": "memo://1", "mimeType": "text/plain", "text": "remember"}},
        ]
    },
    "resource_link": {
        "content": [
            {"type": "resource_link", "name": "readme", "uri": "docs://readme", "mimeType": "text/markdown"},
        ]
    },
    "mixed_content": {
        "content": [
            {"type": "text", "text": "look", "annotations": {"audience": ["user"], "priority": 0.5}},
            IMAGE,
            {
                "type": "resource",
                "resource": {"uri": "memo://2", "mimeType": "application/octet-stream", "blob": "AAE="},
            },
        ]
    },
    "empty_content": {"content": []},
    "full_tool_result": text_result("3 files", structuredContent={"count": 3}, _meta={"example.com/took": 12}),
    "marked_failure": text_failure("no such file"),
    "tool_error": text_failure("The file is locked; close it first"),
    "crashed_tool": text_failure("Internal error occurred"),
    "rpc_error_from_tool": refusal(-31999, "Not today", retryAfter=60),
    "typed_arguments": text_result(
        "datetime.date(2026, 7, 28) <Colour.RED: 'red'> Point(x=1, y=0) 7 'small' 'é'",
    ),
    "coerced_arguments": text_result(
        "datetime.date(2026, 7, 28) <Colour.RED: 'red'> Point(x=1, y=0) 7 'big' None",
    ),
    "wrong_arguments": text_failure(
        "Invalid arguments: when: Invalid RFC3339 encoded date; point.x: Expected `int`, got `str`;"
        " size: Expected `int` <= 9"
    ),
    "authored_schema": text_result('{"code":"ABC"}', structuredContent={"code": "ABC"}),
    "authored_schema_refuses": text_failure('Invalid arguments: code: "abc" does not match "^[A-Z]{3}$"'),
    "context": by_peer(python=who_asks_by_era("python-peer"), typescript=who_asks_by_era("typescript-peer")),
    "blocking_context": by_peer(python=text_result("python-peer"), typescript=text_result("typescript-peer")),
    "printing_tool": text_result("said"),
    "unknown_tool": refusal(-32602, "Unknown tool: no_such_tool"),
    "prompt_text": {
        "description": "Asks for a review.",
        "messages": [user_message("Review in a terse tone: x = 1")],
    },
    "prompt_default": {
        "description": "Asks for a review.",
        "messages": [user_message("Review in a kind tone: x = 1")],
    },
    "prompt_messages": {
        "description": "Speaks in both roles.",
        "messages": [
            user_message("Hello Ada"),
            {"role": "assistant", "content": {"type": "text", "text": "Hello!"}},
            {"role": "user", "content": IMAGE},
            {
                "role": "user",
                "content": {
                    "type": "resource",
                    "resource": {"uri": "memo://3", "mimeType": "text/plain", "text": "a memo"},
                },
            },
        ],
    },
    "prompt_class": {"description": "Greets.", "messages": [user_message("Greet Ada")]},
    "prompt_without_argument": refusal(-32602, "Missing required arguments: code"),
    "unknown_prompt": refusal(-32602, "Unknown prompt: no_such_prompt"),
    "resource_json": contents(
        "config://app", "application/json", _meta={"example.com/kind": "config"}, text='{"debug":true}'
    ),
    "resource_text": contents("docs://readme", "text/markdown", text="# Read me"),
    "resource_blob": contents("images://logo", "image/png", blob="iVBORw=="),
    "resource_parts": {
        "contents": [
            {"uri": "parts://1", "mimeType": "text/plain", "text": "one"},
            {"uri": "parts://2", "mimeType": "application/octet-stream", "blob": "Ag=="},
        ]
    },
    "resource_class": contents("notes://all", "text/plain", text="notes"),
    "crashed_resource": refusal(-32603, "Internal error"),
    "templated_resource": contents("users://1007/profile", "application/json", text='{"id":1007}'),
    "templated_path": contents("book://chapter/one", "text/plain", text="page chapter/one"),
    "template_of_other_type": resource_not_found(
        "users://me/profile", " (Invalid arguments: user_id: Expected `int`, got `str`)"
    ),
    "unsafe_path": resource_not_found("book://../secret"),
    "unknown_resource": resource_not_found("nowhere://1"),
    "complete_prompt": {"completion": {"values": ["kind", "keen"], "hasMore": False}},
    "complete_with_context": {"completion": {"values": ["terse x"], "hasMore": False}},
    "complete_template": {
        "completion": {"values": [str(number) for number in range(1240, 1250)], "hasMore": False},
    },
    "complete_beyond_the_limit": {
        "completion": {"values": [str(number) for number in range(1000, 1100)], "total": 250, "hasMore": True},
    },
    "complete_catch_all": {"completion": {"values": ["ResourceTemplateReference path=ch"], "hasMore": False}},
    "complete_unknown_prompt": refusal(-32602, "Unknown prompt: no_such_prompt"),
    "handshake": {
        "protocolVersion": "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": "Use every tool.",
    },
    # The TypeScript client keeps the kind of a result to itself.
    "discover": by_peer(python=DISCOVERED | {"resultType": "complete"}, typescript=DISCOVERED),
    "list_tools": by_era(tools("handshake"), tools("stateless")),
    "list_prompts": [
        {
            "name": "review",
            "title": "Review",
            "description": "Asks for a review.",
            "icons": [ICON],
            "arguments": [
                {"name": "code", "description": "What to review.", "required": True},
                {"name": "tone", "description": "How to say it."},
            ],
            "_meta": {"example.com/kind": "review"},
        },
        {
            "name": "dialogue",
            "description": "Speaks in both roles.",
            "arguments": [{"name": "name", "required": True}],
        },
        {"name": "greet", "description": "Greets.", "arguments": [{"name": "name", "required": True}]},
    ],
    "list_resources": [
        {
            "name": "config",
            "title": "Configuration",
            "uri": "config://app",
            "description": "The configuration.",
            "mimeType": "application/json",
            "annotations": {"audience": ["assistant"], "priority": 1.0},
            "size": 16,
            "icons": [ICON],
            "_meta": {"example.com/kind": "config"},
        },
        {"name": "readme", "uri": "docs://readme", "description": "The readme.", "mimeType": "text/markdown"},
        {"name": "logo", "uri": "images://logo", "description": "The logo.", "mimeType": "image/png"},
        {"name": "parts", "uri": "parts://all", "description": "Several contents at once."},
        {"name": "notes", "uri": "notes://all", "description": "Notes of a class."},
        {"name": "locked", "uri": "locked://door", "description": "Cannot be read."},
    ],
    "list_resource_templates": [
        {
            "name": "profile",
            "title": "Profile",
            "uriTemplate": "users://{user_id}/profile",
            "description": "The profile of a user.",
            "mimeType": "application/json",
        },
        {"name": "pages", "uriTemplate": "book://{+path}", "description": "Pages of a book."},
    ],
    "pagination": [
        {"names": ["config", "readme"], "nextCursor": "2"},
        {"names": ["logo", "parts"], "nextCursor": "4"},
        {"names": ["notes", "locked"], "nextCursor": None},
    ],
    "foreign_cursor": refusal(-32602, "Invalid cursor: 'elsewhere'"),
    "cache_hints": {
        method: [60_000, "public"]
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
    },
    "identity_in_results": {"serverInfo": SERVER_INFO, "resultType": "complete"},
    "custom_method": {"sum": 42},
    "custom_method_refuses": refusal(-32602, "Refused: tired", reason="tired"),
    "unknown_method": refusal(-32601, "Method not found: acme/no_such_method", method="acme/no_such_method"),
    "ping": {},
    "log_level": {},
    "cancellation": ["first runs", "first was cancelled", True],
    "time_out": by_peer(
        python=[-32001, "second was cancelled"],
        typescript=["REQUEST_TIMEOUT", "second was cancelled"],
    ),
    "concurrent_calls": [str(number) for number in range(100)],
    "large_message": [2_000_000, True],
    "routed_resources": [["any://1", "any://2"], contents("any://9", "text/plain", text="read any://9")],
    "negotiation": ["2026-07-28", "interop", "Use every tool."],
    "older_versions": [
        [
            "2025-06-18",
            text_result("42", structuredContent={"result": 42}),
            ADD
            | {
                "title": "Add",
                "annotations": ADD_ANNOTATIONS,
                "outputSchema": output_schema(NUMBER),
                "_meta": {"example.com/kind": "sum"},
            },
        ],
        ["2025-03-26", text_result("42"), ADD | {"annotations": ADD_ANNOTATIONS}],
        ["2024-11-05", text_result("42"), ADD],
    ],
    "progress": [[number, 3, f"step {number}"] for number in (1, 2, 3)],
    "blocking_progress": [[number, 3, None] for number in (1, 2, 3)],
    "log_messages": [["info", "first", "interop"], ["warning", {"second": [2]}, None]],
    "elicitation_accepted": [[ASKED_OSLO], "accept Confirmation(sure=True, seats=2)"],
    "elicitation_declined": [[ASKED_BERGEN], "decline None"],
    "blocking_elicitation": [[ASKED_OSLO], "accept Confirmation(sure=True, seats=2)"],
    "sampling": [[["Summarise: all", 50, "Be brief"]], "peer-model: short"],
    "roots": [["roots"], "home at file:///home/ada"],
    "several_questions": by_peer(
        python=[[*SEVERAL_ASKED, "roots"], SEVERAL_SAID],
        typescript=[["roots", *SEVERAL_ASKED], SEVERAL_SAID],
    ),
    "explicit_question": [[ASKED_OSLO], "{'asked': 1} accept"],
    "prompt_that_asks": "Write to Confirmation(sure=True, seats=2)",
    "resource_that_asks": "decline",
    "list_changed": ["grown"],
    "resource_updated": "asking://resource",
    "cancelled_question": "third was cancelled",
    "several_workers": True,
}
