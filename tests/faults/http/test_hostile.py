"""Hostile clients of `server.run("http")`: what they make the process hold, and what they are told."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvicorn

from dragoman import Server
from dragoman.transports.http.exchange import Pace
from dragoman.transports.http.http1 import MAX_DROPPED_BYTES, Http1Connection
from dragoman.transports.http.http1_parser import MAX_HEAD_BYTES
from scenarios.http.test_uvicorn import running, stateless
from scenarios.http_crew import RUN, SERVER, crew
from scenarios.http_peer import BRISK, DEADLINE, SECRET, serve

MEBIBYTE = 1024 * 1024
HEAD = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UPLOADS = 400
WITHOUT_COLLECTOR = "\n    import gc\n    gc.disable()\n"


def held(pid: int) -> float:
    """Return the memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def answered(client: socket.socket) -> bytes:
    """Return all that comes until the other end writes no more."""
    said = b""
    while part := client.recv(65_536):
        said += part
    return said


@pytest.mark.covers("SHT-51")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
async def test_a_body_in_tiny_chunks_takes_no_more_memory_than_its_bytes():
    def attack(port: int, pid: int) -> tuple[float, bytes]:
        before = held(pid)
        with connect(port) as client:
            client.sendall(HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(31):
                client.sendall(b"2\r\n  \r\n" * 65_536)
            client.sendall(b"2\r\n  \r\n" * 65_535)
            time.sleep(0.2)
            grown = held(pid) - before
            client.sendall(b"0\r\n\r\n")
            return grown, client.recv(1000)

    async with crew(1, source=SERVER + RUN) as processes:
        await processes.ready()
        grown, said = await asyncio.to_thread(attack, processes.port, processes.child.pid)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert grown < 16


@pytest.mark.covers("SHT-51")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
async def test_uploads_that_are_broken_off_leave_nothing_though_no_garbage_is_collected():
    def attack(port: int, pid: int) -> float:
        started = HEAD.encode() + b"Content-Length: 1000000\r\n\r\n" + b" " * 180_000
        with connect(port) as client:
            client.sendall(started)
        before = held(pid)
        for _ in range(UPLOADS):
            with connect(port) as client:
                client.sendall(started)
        time.sleep(0.2)
        return held(pid) - before

    async with crew(1, source=SERVER + WITHOUT_COLLECTOR + RUN) as processes:
        await processes.ready()
        grown = await asyncio.to_thread(attack, processes.port, processes.child.pid)
    assert grown < 10


def guarded(auth: Callable[..., str | None] | None = None, pace: Pace = BRISK) -> object:
    return serve(Server("guarded", secret=SECRET), auth=auth, pace=pace)


def plain(size: int, *headers: str) -> bytes:
    return (HEAD + "".join(f"{line}\r\n" for line in headers) + f"Content-Length: {size}\r\n\r\n").encode()


LARGE = 16 * MEBIBYTE
CHUNKED = HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.covers("SHT-52")
@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(plain(LARGE), 413, id="too large"),
        pytest.param(plain(LARGE, "Connection: close"), 413, id="too large, and the last"),
        pytest.param(plain(LARGE, "Origin: http://evil.example"), 403, id="a page of elsewhere"),
        pytest.param(plain(LARGE).replace(b"localhost", b"evil.example"), 421, id="another host"),
        pytest.param(plain(LARGE).replace(b"json", b"jpeg"), 415, id="another type"),
        pytest.param(plain(LARGE, "X: " + "x" * 70_000), 431, id="many headers"),
        pytest.param(HEAD.encode() + b"X: " + b"x" * MAX_HEAD_BYTES, 431, id="a head without an end"),
        pytest.param(b"no request\r\n\r\n", 400, id="no request"),
        pytest.param(plain(LARGE).replace(b"Host: localhost\r\n", b""), 400, id="no host"),
        pytest.param(CHUNKED + b"zz\r\n", 400, id="no chunk"),
        pytest.param(CHUNKED + b"1;" + b"x" * 2 * MAX_HEAD_BYTES, 400, id="an endless size"),
    ],
)
async def test_a_refusal_reaches_a_client_that_is_still_sending(head, status):
    def upload(port: int) -> bytes:
        with connect(port) as client:
            client.sendall(head)
            for _ in range(16):
                client.sendall(b"x" * MEBIBYTE)
            client.shutdown(socket.SHUT_WR)
            return answered(client)

    async with running(guarded(), http=Http1Connection) as port:
        said = await asyncio.to_thread(upload, port)
    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert said.count(b"\r\n\r\n") == 1


@pytest.mark.covers("SHT-52")
@pytest.mark.parametrize("bound", ["bytes", "time"])
@pytest.mark.parametrize(
    "head", [b"no request\r\n\r\n", plain(2**40, "Origin: http://evil.example")], ids=["400", "403"]
)
async def test_a_client_that_never_stops_sending_is_read_for_so_long_and_no_longer(bound, head):
    def upload(port: int) -> int:
        sent = 0
        with connect(port) as client:
            client.sendall(head)
            assert client.recv(100).startswith(b"HTTP/1.1 40")
            with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
                while sent < 2 * MAX_DROPPED_BYTES:
                    client.sendall(b"x" * (MEBIBYTE if bound == "bytes" else 1))
                    sent += MEBIBYTE if bound == "bytes" else 1
                    if bound == "time":
                        time.sleep(0.01)
        return sent

    pace = BRISK if bound == "bytes" else Pace(tick=0.01, read=0.3, send=0.3)
    async with running(guarded(pace=pace), http=Http1Connection) as port:
        sent = await asyncio.wait_for(asyncio.to_thread(upload, port), DEADLINE)
    assert sent < 2 * MAX_DROPPED_BYTES


@pytest.mark.covers("SHT-35")
@pytest.mark.parametrize("http", [Http1Connection, "httptools", "h11"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("large", [True, False], ids=["one large answer", "many small answers"])
def test_a_client_that_never_reads_is_given_up_and_run_closes_its_connection(large, http, loop, caplog):
    size = 8 * MEBIBYTE if large else 10_000
    server = Server("generous", secret=SECRET)
    calls = 0

    @server.tool
    async def give() -> str:
        nonlocal calls
        calls += 1
        return "x" * size

    body, headers = stateless("tools/call", {"name": "give", "arguments": {}})
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def attack() -> None:
        app = serve(server, pace=Pace(tick=0.01, send=0.3, read=0.3))
        uvicorn_server = uvicorn.Server(uvicorn.Config(app, http=http, log_config=None, access_log=False))
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
            serving = asyncio.create_task(uvicorn_server._serve([listening]))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, listening.getsockname())
            sending = asyncio.create_task(loop.sock_sendall(client, request * (1 if large else 1000)))
            # ASGI cannot close a connection, so other servers keep it. But no exchange of ours is left.
            connections = uvicorn_server.server_state.connections if http is Http1Connection else set()
            async with asyncio.timeout(DEADLINE):
                served = 0
                while calls > served or not calls or connections or app.served._open:
                    served = calls
                    await asyncio.sleep(0.5)
            sending.cancel()
            await asyncio.wait([sending])
            client.close()
            uvicorn_server.should_exit = True
            await asyncio.wait_for(serving, DEADLINE)

    if loop == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(attack())
    else:
        asyncio.run(attack())
    assert not [record for record in caplog.records if record.name.startswith("dragoman")]
    if http is Http1Connection:
        assert not caplog.records
