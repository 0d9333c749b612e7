"""What a client can be pointed at, and what comes of it."""

import asyncio
import sys
from pathlib import Path

import pytest

from dragoman import Server
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
from dragoman.client.connect.http import HttpLink
from dragoman.client.connect.link import DuplexLink, OneMethodLink
from dragoman.transports.memory import MemoryTransport
from dragoman.transports.process.process import ProcessTransport
from dragoman.transports.web.legacy_sse import LegacySse

URL = "https://example.com/mcp"


def endpoint(target, **options):
    return endpoint_of(target, EndpointOptions(Credentials(), **options))


def process(target, **options):
    transport = endpoint(target, **options).link().transport
    assert isinstance(transport, ProcessTransport)
    return transport


@pytest.mark.covers("LTR-06")
def test_a_url_is_streamable_http_with_the_older_transport_to_fall_back_on():
    found = endpoint(URL)
    assert isinstance(found.link(), HttpLink)
    assert isinstance(found.fallback().transport, LegacySse)
    assert found.negotiates
    assert not found.is_handshake


@pytest.mark.covers("LTR-06")
@pytest.mark.parametrize("name", ["http", "streamable", "streamable_http", "streamable-http", "streamableHttp"])
@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_a_url_whose_transport_is_named_has_no_fallback(name, key):
    for found in (endpoint(URL, transport=name), endpoint({key: URL, "type": name})):
        assert isinstance(found.link(), HttpLink)
        assert found.fallback is None


@pytest.mark.covers("LTR-06")
def test_the_older_transport_is_had_by_name():
    for found in (endpoint(URL, transport="sse"), endpoint({"url": URL, "type": "sse"})):
        assert isinstance(found.link().transport, LegacySse)
        assert found.is_handshake


@pytest.mark.covers("LTR-06")
def test_what_is_known_of_an_address_is_known_of_all_its_queries():
    assert endpoint(f"{URL}?a=1").key == endpoint(f"{URL}?b=2").key
    assert endpoint(URL).key != endpoint("https://example.com/other").key
    assert endpoint(URL).key != endpoint(URL, transport="sse").key


@pytest.mark.covers("LTR-06")
def test_commands_are_strings_lists_and_scripts(tmp_path):
    script = tmp_path / "server.py"
    script.touch()
    assert process("npx -y files /srv")._command == ["npx", "-y", "files", "/srv"]
    assert process(["npx", "a b"])._command == ["npx", "a b"]
    assert process(("npx", tmp_path))._command == ["npx", str(tmp_path)]
    command = [sys.executable, "-P", "-m", "dragoman", "run"]
    assert process(script)._command == process(str(script))._command == [*command, "--script", str(script)]
    assert process(script).name == f"{Path(sys.executable).name} {script}"
    assert process(f"{script}:server")._command == [*command, f"{script}:server"]
    (tmp_path / "server.mjs").touch()
    assert process(tmp_path / "server.mjs")._command == ["node", str(tmp_path / "server.mjs")]
    assert process(tmp_path / "binary")._command == [str(tmp_path / "binary")]
    assert process(f"python -c '{'x' * 5000}' some.py")._command[-1] == "some.py"


@pytest.mark.covers("LTR-06")
def test_an_entry_is_a_command_with_arguments_and_the_client_comes_before_it(tmp_path):
    entry = {"command": "npx", "args": ["-y", 7], "env": {"A": "1", "B": "1"}, "cwd": "/", "inherit_env": False}
    found = process(entry, env={"B": "2"})
    assert found._command == ["npx", "-y", "7"]
    assert found._env == {"A": "1", "B": "2"}
    assert (found._cwd, found._inherit_env) == ("/", False)
    assert process(entry, cwd=tmp_path)._cwd == str(tmp_path)
    assert process({"command": "npx", "type": "stdio"})._env is None


@pytest.mark.covers("LTR-06")
def test_headers_of_an_entry_lie_below_those_of_the_client():
    async def sent():
        options = EndpointOptions(Credentials({"Authorization": "mine"}))
        endpoint_of({"url": URL, "headers": {"Authorization": "theirs", "X-Team": "a"}}, options)
        return await options.credentials.own_headers()

    assert asyncio.run(sent()) == {"Authorization": "mine", "X-Team": "a"}


@pytest.mark.covers("LTR-06")
def test_servers_and_transports_are_taken_as_they_are():
    server = Server("x")
    assert isinstance(endpoint(server).link().transport, MemoryTransport)
    transport = MemoryTransport(server.connect)
    found = endpoint(transport)
    assert found.link().transport is found.link().transport is transport
    assert isinstance(found.link(), DuplexLink)
    assert endpoint("whatever", transport=transport).link().transport is transport

    class OneMethod:
        def send_request(self, request):
            return {}

    found = endpoint(OneMethod())
    assert isinstance(found.link(), OneMethodLink)
    assert not found.negotiates
