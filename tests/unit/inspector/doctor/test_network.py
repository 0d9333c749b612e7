"""The steps to a server over HTTP, each with a real cause of failure."""

import asyncio

import pytest
from aiohttp import web

from dragoman.inspector.doctor.findings import Findings
from dragoman.inspector.doctor.network import examine_network
from ports import free_port
from scenarios.inspector_page import serving


async def steps(url):
    """Return whether the server answers, and the findings by step."""
    findings = Findings(lambda finding: None)
    answers = await examine_network(url, findings)
    return answers, {finding.step: finding for finding in findings.all}


def answering(status, **options):
    async def handle(request):
        return web.Response(status=status, **options)

    return handle


@pytest.mark.parametrize("status", [200, 401, 405, 406])
async def test_a_server_that_answers_passes_every_step(status):
    async with serving(answering(status)) as url:
        answers, found = await steps(url)
    assert answers
    assert [finding.ok for finding in found.values()] == [True] * 4
    assert list(found) == ["DNS", "TCP", "TLS", "HTTP"]
    assert f"status {status}" in found["HTTP"].detail


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [(404, {}, "path"), (500, {}, "path"), (302, {"Location": "https://example.com/x"}, "use that address")],
)
async def test_a_status_that_no_server_of_mcp_has_names_a_remedy(status, headers, words):
    async with serving(answering(status, headers=headers)) as url:
        answers, found = await steps(url)
    assert (answers, found["HTTP"].ok, words in found["HTTP"].remedy) == (False, False, True)


async def test_a_name_without_an_address_is_found():
    answers, found = await steps("http://nobody.invalid/mcp")
    assert (answers, list(found), found["DNS"].ok) == (False, ["DNS"], False)


async def test_a_port_that_is_closed_is_found():
    answers, found = await steps(f"http://127.0.0.1:{free_port()}/mcp")
    assert (answers, list(found), found["TCP"].ok) == (False, ["DNS", "TCP"], False)


async def test_a_server_without_tls_is_found():
    async with serving(answering(200)) as url:
        answers, found = await steps(url.replace("http://", "https://"))
    assert (answers, found["TLS"].ok, "http://" in found["TLS"].remedy) == (False, False, True)


async def test_a_server_that_speaks_no_http_is_found():
    async def hang_up(reader, writer):
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answers, found = await steps(f"http://127.0.0.1:{port}/mcp")
    assert (answers, found["HTTP"].ok) == (False, False)


async def test_a_proxy_makes_the_connection(monkeypatch):
    async with serving(answering(405)) as url:
        monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/mcp"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        answers, found = await steps("http://somewhere.example/mcp")
    assert (answers, list(found)) == (True, ["proxy", "HTTP"])
