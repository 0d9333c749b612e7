"""A server of ours with everything that a page can stumble over: unions, hostile texts, floods, questions, a crash."""

import asyncio
import base64
import os
import sys
import zlib

from dragoman import Context, Server, types

server = Server("workshop", version="1.0", instructions="Call `sort` first.\n<b>Not bold.</b>")

EMAIL = {
    "type": "object",
    "properties": {"kind": {"const": "email"}, "address": {"type": "string", "format": "email"}},
    "required": ["kind", "address"],
}
SMS = {
    "type": "object",
    "properties": {"kind": {"const": "sms"}, "phone": {"type": "string"}},
    "required": ["kind", "phone"],
}
FORM = {
    "type": "object",
    "$defs": {
        "Date": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "Place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "inside": {"$ref": "#/$defs/Place"}},
            "required": ["city"],
        },
    },
    "properties": {
        "name": {"type": "string", "description": "Who."},
        "count": {"type": "integer", "default": 3},
        "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        "begin": {"$ref": "#/$defs/Date", "description": "The first day."},
        "end": {"$ref": "#/$defs/Date", "description": "The last day."},
        "size": {"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "urgent": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"$ref": "#/$defs/Place"},
        "contact": {"oneOf": [EMAIL, SMS]},
        "both": {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"required": ["a"]}]},
    },
    "required": ["name"],
}
HOSTILE = (
    "<script>window.harmed = true</script><img src=x onerror='window.harmed = true'>\x1b[31mred\x1b[0m \u202egnirts"
)


@server.tool(input_schema=FORM)
def shape(**arguments: object) -> dict[str, object]:
    """Returns its arguments, made by a form of every kind."""
    return arguments


@server.tool(input_schema={"type": "object", "oneOf": [EMAIL, SMS]})
def union(**arguments: object) -> dict[str, object]:
    """Returns its arguments, which are a union at the root."""
    return arguments


@server.tool(description=f"Says something hostile. {HOSTILE}")
def hostile(length: int = 1_000_000) -> str:
    return HOSTILE + "x" * length


@server.tool
def table() -> dict[str, list[dict[str, str | int]]]:
    """Returns a list of objects."""
    return {
        "cities": [{"city": "Oslo", "people": 717}, {"city": "Bergen", "people": 291}, {"city": "Tromsø", "people": 78}]
    }


@server.tool
def report() -> str:
    """Returns Markdown."""
    return "# Report\n\nAll is **well**, see [the page](https://example.com) <b>now</b>.\n\n- one\n- two"


@server.tool
def picture() -> types.ImageContent:
    """Returns an image."""
    return types.ImageContent(data=base64.b64encode(png(24, 24)).decode(), mime_type="image/png")


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    lines = b"".join(b"\0" + bytes([15, 102, 112] * width) for _ in range(height))
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


@server.tool
def large(megabytes: int = 20) -> str:
    """Returns a large text."""
    return "0123456789" * (megabytes * 100_000)


@server.tool
async def work(ctx: Context, steps: int = 1_000) -> str:
    """Works for long, and tells how far it is."""
    for step in range(steps):
        await ctx.report_progress(step, total=steps, message=f"step {step}")
        await asyncio.sleep(0.05)
    return "done"


@server.tool
async def flood(ctx: Context, messages: int = 10_000) -> str:
    """Sends many messages."""
    for number in range(messages):
        await ctx.report_progress(number, total=messages)
        if number % 500 == 0:
            await asyncio.sleep(0)
    return "flooded"


@server.tool
async def ask_size(ctx: Context) -> str:
    """Asks for a size by a form."""
    schema = {
        "type": "object",
        "properties": {
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
            "insured": {"type": "boolean", "default": True},
        },
        "required": ["size"],
    }
    answer = await ctx.elicit("Which size?", schema)
    return f"{answer.action}: {answer.content}"


@server.tool
async def ask_model(ctx: Context) -> str:
    """Asks a model."""
    answer = await ctx.sample("Say hello.", max_tokens=20)
    return f"The model says: {answer.content.text}"


@server.tool
async def ask_visit(ctx: Context) -> str:
    """Asks to visit an address."""
    answer = await ctx.elicit_url("Please log in there.", "https://pay.example.com/connect")
    return str(answer.action)


@server.tool
def crash() -> str:
    """Ends the server."""
    sys.stderr.write("the disk is on fire\n")
    sys.stderr.flush()
    os._exit(3)


@server.prompt
def review(language: str, tone: str = "kind") -> str:
    """Reviews code."""
    return f"Review this {language} code, and be {tone}."


@review.complete("language")
def languages(value: str) -> list[str]:
    return [one for one in ["python", "perl", "ruby"] if one.startswith(value)]


@server.resource("notes://all", mime_type="text/markdown")
def notes() -> str:
    """All notes."""
    return "# Notes\n\n- milk"


@server.resource("users://{user_id}/profile")
def profile(user_id: str) -> dict[str, str]:
    """A user."""
    return {"id": user_id}


if __name__ == "__main__":
    server.run()
