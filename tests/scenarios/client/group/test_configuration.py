"""A group that is made from a configuration."""

import json
import sys

import pytest

from dragoman import (
    AsyncClients,
    Clients,
    ConfigError,
)
from scenarios.client_peer import DEADLINE, Web, discovered
from scenarios.group_servers import names, weather
from scenarios.scripted_server import STATELESS, served


@pytest.mark.covers("LMC-08")
async def test_a_transport_that_nobody_registered_is_an_error_that_quotes_no_url():
    secret = "hunter2"
    servers = {"one": {"type": "owl", "url": f"owl://{secret}"}, "two": {"command": "x", "protocol_version": "1999"}}
    async with AsyncClients(servers) as clients:
        error = clients.errors["one"]
        assert isinstance(error, ConfigError)
        assert (error.server, error.field) == ("one", "type")
        assert secret not in str(error)
        assert "1999" in str(clients.errors["two"])


CONFIGURATION = """
  {
  "mcpServers": {
    "notes": { // a process
      "command": "${NOTES_PYTHON}", "args": ["notes.py"], "cwd": ".",
      "env": {"WHO": "${NOBODY:-Jo}"}, "timeout": 30000, "disabledTools": ["crash"],
    },
    "weather": {"type": "streamable-http", "url": "URL", "headers": {"X-Trace": "1"}},
    "secret": {"url": "https://example.com", "headers": {"Authorization": "Bearer ${NOBODY}"}},
    "off": {"command": "run", "disabled": true},
  },
}
"""


@pytest.mark.covers("LCF-03", "LMC-01", "LFW-03")
async def test_a_configuration_file_is_all_that_is_needed(notes, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    with served(weather().asgi()) as url:
        (tmp_path / ".mcp.json").write_text(CONFIGURATION.replace("URL", url))
        async with AsyncClients.from_config(timeout=DEADLINE) as clients:
            assert clients.status == {"notes": "ready", "weather": "ready", "secret": "failed", "off": "disabled"}
            error = clients.errors["secret"]
            assert isinstance(error, ConfigError)
            assert (error.file, error.server, error.field) == (".mcp.json", "secret", "headers.Authorization")
            assert (await clients.call_tool("who")).text == f"Jo in {tmp_path.name}"
            assert names(await clients.tools()) == ["delete", "forecast", "notes__search", "weather__search", "who"]
            assert (await clients.call_tool("forecast", {"city": "Oslo"})).text == "rain in Oslo"


async def all_headers():
    return {"authorization": "Bearer all", "X-All": "all", "X-One": "all"}


@pytest.mark.parametrize(
    ("options", "entry", "sent"),
    [
        ({"auth": "all"}, {"auth": "${input:key}"}, {"Authorization": "Bearer one"}),
        ({"auth": "all"}, {"headers": {"Authorization": "Basic one"}}, {"Authorization": "Basic one"}),
        ({"auth": "all"}, {"headers": {"X-One": "one"}}, {"Authorization": "Bearer all", "X-One": "one"}),
        (
            {"headers": {"authorization": "all", "X-All": "all"}},
            {"headers": {"Authorization": "Basic one"}},
            {"Authorization": "Basic one", "X-All": "all"},
        ),
        (
            {"headers": all_headers},
            {"headers": {"Authorization": "Basic one", "x-one": "one"}},
            {"Authorization": "Basic one", "X-All": "all", "X-One": "one"},
        ),
        ({"headers": all_headers}, {}, {"Authorization": "Bearer all", "X-One": "all"}),
    ],
)
async def test_options_of_all_servers_give_way_to_those_of_one(options, entry, sent):
    async with Web(lambda message, request: discovered(message, STATELESS)).running() as one:
        document = {"servers": {"one": {"url": one.url, **entry}}}
        async with AsyncClients.from_config(document, inputs={"key": "one"}, **options) as clients:
            assert clients.status == {"one": "ready"}
    assert {name: one.headers[0].getall(name) for name in sent} == {name: [sent[name]] for name in sent}


async def test_variables_of_all_servers_give_way_to_those_of_one_and_these_to_what_is_added(notes):
    entry = {"command": sys.executable, "args": [str(notes)], "env": {"WHO": "one"}, "cwd": str(notes.parent)}
    here = notes.parent.name
    async with AsyncClients({"one": entry}, env={"WHO": "all"}, cwd="/") as clients:
        assert (await clients.call_tool("one__who")).text == f"one in {here}"
        await clients.add("two", entry, env={"WHO": "two"})
        assert (await clients.call_tool("two__who")).text == f"two in {here}"
        await clients.add("three", notes)
        assert (await clients.call_tool("three__who")).text == "all in "


def test_both_faces_read_the_same_file(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"servers": {"a": {"command": "x"}, "b": {"url": "https://example.com"}}}))
    assert list(Clients.from_config(path)) == list(AsyncClients.from_config(path)) == ["a", "b"]
