"""The examination of servers that work, refuse, and crash."""

import sys

from aiohttp import web

from dragoman import AsyncClient, Server, types
from dragoman.inspector.doctor.examination import examine
from dragoman.inspector.doctor.findings import Findings
from scenarios.inspector_page import serving


async def examined(target, url=None):
    findings = Findings(lambda finding: None)
    client = AsyncClient(target, connect_timeout=20)
    try:
        await examine(client, url, findings)
    finally:
        await client.stop()
    return {finding.step: finding for finding in findings.all}


async def test_a_server_that_offers_nothing_fails_there():
    found = await examined(Server("empty", capabilities=types.ServerCapabilities()))
    assert (found["connection"].ok, found["capabilities"].ok) == (True, False)


async def test_a_process_that_crashes_is_found_with_its_last_words():
    found = await examined([sys.executable, "-c", "raise SystemExit('no licence')"])
    assert (list(found), "no licence" in found["connection"].detail) == (["connection"], True)
    assert "--verbose" in found["connection"].remedy


async def test_an_address_that_is_no_server_of_mcp_is_found():
    async def handle(request):
        return web.Response(text="<title>Welcome</title>", content_type="text/html")

    async with serving(handle) as url:
        found = await examined(url, url)
    assert (found["HTTP"].ok, found["connection"].ok) == (True, False)
    assert found["connection"].remedy
