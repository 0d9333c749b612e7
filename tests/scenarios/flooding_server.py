"""A hostile server over HTTP, run as a process of its own: it floods the streams of its client with requests.

Arguments: which stream it floods (get, post or sse), and how it takes the answers (prompt, stall or unfinished).
It prints its port, and sends at most MOST messages on each stream; fewer where the answers to calls come behind them.
"""

import asyncio
import json
import sys

AT_ONCE = 200
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
UNFINISHED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 10\r\n\r\n"
FLOODED, TAKES = sys.argv[1:]
MOST = 400 if FLOODED == "sse" else 20_000
sessions: list[asyncio.StreamWriter] = []


def event(message: object, kind: str = "message") -> bytes:
    data = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def answered(message: dict, **headers: str) -> bytes:
    body = json.dumps(response(message)).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode()
        + body
    )


def response(message: dict) -> dict:
    result = {"content": [{"type": "text", "text": "done"}]}
    if message["method"] == "initialize":
        version = "2024-11-05" if FLOODED == "sse" else "2025-11-25"
        result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "f", "version": "1"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


async def flood(writer: asyncio.StreamWriter) -> None:
    for first in range(0, MOST, AT_ONCE):
        requests = [{"id": first + number, "method": "ping"} for number in range(AT_ONCE)]
        writer.write(b"".join(map(event, requests)))
        await writer.drain()


async def get(writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM)
    if FLOODED == "sse":
        sessions.append(writer)
        writer.write(event("/post", "endpoint"))
    if FLOODED == "get":
        await flood(writer)
    await asyncio.Event().wait()


async def post(message: dict, writer: asyncio.StreamWriter) -> None:
    method = message.get("method")
    if method is None:
        if TAKES == "stall":
            await asyncio.Event().wait()
        writer.write(ACCEPTED if TAKES == "prompt" else UNFINISHED)
    elif "id" not in message:
        writer.write(ACCEPTED)
        if FLOODED == "sse":
            await flood(sessions[-1])
    elif FLOODED == "sse":
        writer.write(ACCEPTED)
        sessions[-1].write(event(response(message)))
    elif FLOODED == "post" and method == "tools/call" and message["params"]["name"] == "flood":
        writer.write(STREAM)
        await flood(writer)
        writer.write(event(response(message)))
        await writer.drain()
        writer.close()
    else:
        writer.write(answered(message, **{"Mcp-Session-Id": "one"}))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lengths = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
            body = await reader.readexactly(int(lengths[0].partition(":")[2])) if lengths else b""
            if head.startswith("GET"):
                await get(writer)
            elif head.startswith("POST"):
                await post(json.loads(body), writer)
            else:
                writer.write(ACCEPTED)
            await writer.drain()
    except (OSError, EOFError, asyncio.CancelledError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=8 * 1024 * 1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
