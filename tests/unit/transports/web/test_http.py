import asyncio
import gzip
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest

from dragoman.errors import ConnectError, HttpError, TransportError
from dragoman.runtime.network import Network
from dragoman.transports.web import http
from dragoman.transports.web.http import HttpClient
from ports import free_port
from scenarios.http_peer import scenario
from scenarios.http_posts import ANSWER, HEADERS, Receiver, always, post
from scenarios.raw_http import END, answering, chunk, event, reply, stream


@pytest.mark.covers("CHT-05")
@scenario
async def test_a_json_body_is_one_message():
    async with answering(always(reply(200, ANSWER, "Application/JSON; charset=utf-8"))) as server:
        answer, messages = await post(server)
    assert answer.status == 200
    assert [json.loads(message) for message in messages] == [ANSWER]


@scenario
async def test_a_long_body_that_is_read_in_many_pieces_is_one_message():
    long = {**ANSWER, "result": {"text": "x" * 1_000_000}}
    async with answering(always(reply(200, long))) as server:
        _, messages = await post(server)
    assert [json.loads(message) for message in messages] == [long]


def test_a_socket_reads_no_more_than_it_has_memory_for_at_hand():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = (socket.AF_INET, socket.SOCK_STREAM, 0, "", listener.getsockname())
        with http.new_socket(address) as client:
            client.connect(listener.getsockname())
            sender, _ = listener.accept()
            with sender, ThreadPoolExecutor(1) as threads:
                sending = threads.submit(sender.sendall, bytes(500_000))
                received = 0
                while received < 500_000:
                    piece = client.recv(262_144)
                    assert 0 < len(piece) <= http.READ_BYTES
                    received += len(piece)
                sending.result(30)


@pytest.mark.covers("CHT-06")
@pytest.mark.parametrize("status", [202, 204])
@scenario
async def test_accepted_brings_no_message(status):
    async with answering(always(reply(status, kind=None))) as server:
        answer, messages = await post(server)
    assert (answer.status, messages) == (status, [])


@pytest.mark.covers("CHT-05")
@scenario
async def test_a_refusal_is_returned_whole_however_it_is_cut():
    body = json.dumps({"error": "x" * 10_000}).encode()

    async def script(request, writer):
        head = f"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        for piece in (head.encode(), body[:1], body[1:5000], body[5000:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async with answering(script) as server:
        answer, _ = await post(server)
    assert answer.body == body


@pytest.mark.covers("CHT-05")
@scenario
async def test_of_a_refusal_that_is_no_json_the_beginning_is_kept():
    async with answering(always(reply(502, b"<html>" * 10_000, "text/html"))) as server:
        answer, _ = await post(server)
    assert answer.status == 502
    assert len(answer.body) == http.QUOTED_BYTES


@pytest.mark.covers("CHT-05")
@scenario
async def test_the_status_of_a_refusal_counts_though_its_body_breaks_off_or_never_ends(monkeypatch):
    monkeypatch.setattr(http, "REFUSAL_SECONDS", 0.05)

    async def script(request, writer):
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        if request.connection == 1:
            writer.close()
        else:
            await asyncio.Event().wait()

    async with answering(script) as server:
        assert (await post(server))[0].status == 503
        assert (await post(server))[0].status == 503


@pytest.mark.covers("CHT-05")
@scenario
async def test_a_web_page_is_no_message_and_the_address_is_doubted():
    async with answering(always(reply(200, b"<html>Hello", "text/html"))) as server:
        with pytest.raises(HttpError, match=r"answered with text/html.*is the address right") as caught:
            await post(server)
    assert (caught.value.status, caught.value.body) == (200, b"<html>Hello")


@pytest.mark.covers("CHT-05")
@pytest.mark.parametrize("kind", ["application/json", "text/plain", None])
@scenario
async def test_an_empty_body_is_no_message(kind):
    async with answering(always(reply(200, b"", kind))) as server:
        assert (await post(server))[1] == []


@pytest.mark.covers("CHT-15")
@scenario
async def test_what_is_not_answered_may_get_any_body():
    async with answering(always(reply(200, b"fine", "text/plain"))) as server:
        client = HttpClient(server.url)
        await client.open()
        answer = await client.post(b"{}", HEADERS, pytest.fail, answered=lambda: True)
        await client.close()
    assert answer.status == 200


@pytest.mark.covers("CHT-09")
@pytest.mark.parametrize(
    "said",
    [
        reply(200, b"1" * 5000),
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        + chunk(b"1" * 5000)
        + END,
        reply(200, gzip.compress(b"1" * 100_000), content_encoding="gzip"),
        stream(event("1" * 5000)),
    ],
    ids=["length", "chunks", "compressed", "event"],
)
@scenario
async def test_a_message_over_the_limit_is_an_error_that_names_it(said):
    async with answering(always(said)) as server:
        with pytest.raises(TransportError, match="more than 4096 bytes; raise max_message_bytes"):
            await post(server, limit=4096)


@pytest.mark.covers("CHT-09")
@scenario
async def test_an_event_of_a_mebibyte_arrives():
    long = {"id": 1, "result": "x" * 2**20}
    async with answering(always(stream(event(long)))) as server:
        assert json.loads((await post(server))[1][0]) == long


@scenario
async def test_a_body_of_more_than_a_mebibyte_is_sent():
    async with answering(always(reply(200, ANSWER))) as server:
        client = HttpClient(server.url)
        received = Receiver()
        await client.open()
        await client.post(b"x" * (2**20 + 1), HEADERS, received, answered=received.answered)
        await client.close()
        assert len(server.requests[0].body) == 2**20 + 1
    assert received.answered()


# Redirects.


@pytest.mark.covers("CHT-16")
@pytest.mark.parametrize("status", [307, 308])
@scenario
async def test_a_redirect_of_the_same_origin_is_followed_with_body_and_headers(status):
    async def script(request, writer):
        return reply(status, location="/mcp/") if request.path == "/mcp" else reply(200, ANSWER)

    async with answering(script) as server:
        assert len((await post(server))[1]) == 1
        first, second = server.requests
    assert second.path == "/mcp/"
    assert (second.verb, second.body) == ("POST", first.body)
    assert second.headers["content-type"] == "application/json"


@pytest.mark.covers("CHT-16")
@pytest.mark.parametrize(
    ("status", "location", "named"),
    [
        (301, "/other", "/other"),
        (302, "/login?token=secret", "/login,"),
        (303, "/other", "/other"),
        (307, "http://localhost:1/mcp", "http://localhost:1/mcp"),
        (308, "https://127.0.0.1/mcp", "https://127.0.0.1/mcp"),
        (307, "http://user:secret@example.com/", "http://example.com/"),
        (307, "ftp://example.com/", "ftp://example.com/"),
        (307, "http://[", "http://\\["),
        (307, "", "nowhere"),
    ],
)
@scenario
async def test_another_redirect_is_refused_and_the_address_named(status, location, named):
    async with answering(always(reply(status, location=location))) as server:
        with pytest.raises(HttpError, match=f"redirects to .*{named}.*; use that address") as caught:
            await post(server)
        assert len(server.requests) == 1
    assert caught.value.status == status
    assert "secret" not in str(caught.value)


@pytest.mark.covers("CHT-16")
@scenario
async def test_redirects_in_circles_end():
    async with answering(always(reply(307, location="/mcp"))) as server:
        with pytest.raises(HttpError, match="redirects in circles"):
            await post(server)
        assert len(server.requests) == http.MAX_REDIRECTS + 1


# Where there is no connection.


@pytest.mark.covers("CHT-17")
@scenario
async def test_where_nobody_listens_there_is_no_connection():
    port = free_port()
    client = HttpClient(f"http://user:secret@127.0.0.1:{port}/mcp?key=secret")
    await client.open()
    with pytest.raises(ConnectError, match=rf"127.0.0.1:{port}/mcp: .*is the server running") as caught:
        await client.post(b"{}", HEADERS, pytest.fail, answered=lambda: False)
    await client.close()
    assert "secret" not in str(caught.value)


@pytest.mark.covers("CHT-17")
@scenario
async def test_an_unknown_host_makes_the_address_doubtful():
    client = HttpClient("http://nowhere.invalid/mcp")
    await client.open()
    with pytest.raises(ConnectError, match=r"nowhere\.invalid.*is the address right"):
        await client.post(b"{}", HEADERS, pytest.fail, answered=lambda: False)
    await client.close()


@pytest.mark.covers("CHT-17")
@pytest.mark.parametrize("url", ["http://[::1/mcp", "http://host:port/mcp"])
@scenario
async def test_what_is_no_address_is_said_so(url):
    with pytest.raises(ConnectError, match="is not a valid URL"):
        await HttpClient(url).open()


@pytest.mark.covers("CHT-17")
@scenario
async def test_a_server_without_tls_is_no_https_server():
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(reply(400))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = HttpClient(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
    await client.open()
    with pytest.raises(ConnectError, match="write http:// instead of https://"):
        await client.delete({})
    await client.close()
    server.close()


@pytest.mark.covers("CHT-17")
@scenario
async def test_a_server_that_does_not_finish_connecting_is_not_waited_for_for_long():
    ended = asyncio.Event()

    async def serve(reader, writer):
        await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    client = HttpClient(url, Network(connect_timeout=0.05))
    await client.open()
    with pytest.raises(ConnectError, match="is the server running"):
        await client.delete({})
    await client.close()
    server.close()
    await ended.wait()


@pytest.mark.covers("CHT-17")
@scenario
async def test_a_closed_client_or_session_has_no_connection():
    client = HttpClient("http://127.0.0.1:1/mcp")
    with pytest.raises(ConnectError, match="is closed"):
        await client.delete({})
    session = aiohttp.ClientSession()
    await session.close()
    client = HttpClient("http://127.0.0.1:1/mcp", Network(session=session))
    await client.open()
    with pytest.raises(ConnectError, match="is closed"):
        await client.delete({})


# Connections that break.


@pytest.mark.covers("CHT-18")
@scenario
async def test_a_json_response_that_is_cut_anywhere_is_an_error():
    whole = reply(200, ANSWER)
    cut = 0

    async def script(request, writer):
        writer.write(whole[:cut])
        writer.close()

    async with answering(script) as server:
        for cut in range(0, len(whole), 3):  # noqa: B007
            with pytest.raises(TransportError):
                await post(server)


@pytest.mark.covers("CHT-18", "CHT-11")
@scenario
async def test_a_stream_without_ids_that_is_cut_before_its_answer_is_an_error():
    progress = event({"method": "notifications/progress"})
    whole = stream(progress, event(ANSWER))
    cut = 0

    async def script(request, writer):
        writer.write(whole[:cut])
        writer.close()

    arrives = whole.index(b"\n\n", whole.index(b'"result"')) + 2
    async with answering(script) as server:
        for cut in [*range(0, arrives, 7), arrives - 1]:  # noqa: B007
            with pytest.raises(TransportError):
                await post(server, resumes=True)
        for cut in (arrives, arrives + 2, len(whole) - 1):  # noqa: B007
            assert len((await post(server))[1]) == 2
        assert not server.sent("GET")


@pytest.mark.covers("CHT-18")
@scenario
async def test_chunks_that_are_none_break_the_connection():
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    async with answering(always(head + b"zz\r\n{}\r\n")) as server:
        with pytest.raises(TransportError, match="broke"):
            await post(server)


# Identity, sessions and the environment.


@scenario
async def test_user_and_password_of_the_address_become_a_header_unless_there_is_one():
    async with answering(always(reply(200, ANSWER))) as server:
        server.url = server.url.replace("//", "//us%40er:pass@")
        await post(server)
        client = HttpClient(server.url)
        await client.open()
        await client.post(b"{}", {"authorization": "Bearer x"}, lambda _: None, answered=lambda: False)
        await client.close()
    assert [one.all_headers["authorization"] for one in server.requests] == [["Basic dXNAZXI6cGFzcw=="], ["Bearer x"]]


@pytest.mark.covers("CHT-20")
@scenario
async def test_cookies_are_not_sent_back():
    async with answering(always(reply(200, ANSWER, set_cookie="a=b; Path=/"))) as server:
        client = HttpClient(server.url)
        await client.open()
        for _ in range(2):
            received = Receiver()
            await client.post(b"{}", HEADERS, received, answered=received.answered)
        await client.close()
    assert server.connections == 1
    assert not [one for one in server.requests if "cookie" in one.headers]


@pytest.mark.covers("CHT-01")
@scenario
async def test_a_session_of_the_author_is_used_and_left_open():
    async with (
        answering(always(reply(404))) as server,
        aiohttp.ClientSession(headers={"X-Mine": "yes"}, raise_for_status=True) as session,
    ):
        answer, _ = await post(server, network=Network(session=session))
        assert not session.closed
    assert answer.status == 404
    assert server.requests[0].headers["x-mine"] == "yes"


@pytest.mark.covers("CHT-21")
@pytest.mark.parametrize("trusts", [True, False])
@scenario
async def test_the_environment_is_asked_only_where_it_is_trusted(trusts, monkeypatch, tmp_path):
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login me password secret\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    async with answering(always(reply(200, ANSWER))) as server:
        await post(server, network=Network(trust_env=trusts))
    assert ("authorization" in server.requests[0].headers) == trusts


@pytest.mark.covers("CHT-21")
@pytest.mark.parametrize(
    ("proxy", "problem"), [("socks5://host:1", "not an HTTP proxy"), ("http://[", "not a valid URL")]
)
@scenario
async def test_a_proxy_that_is_none_is_said_so(proxy, problem):
    with pytest.raises(ConnectError, match=problem):
        await HttpClient("http://example.com/", Network(proxy=proxy)).open()
