"""What the servers of a configuration must be, so that they can stand behind one server."""

import json

import pytest

from dragoman import ConfigError, DefinitionError, Server
from dragoman.forward.mount.mount import mounts_of
from dragoman.forward.proxy.proxy import ProxyServer


@pytest.mark.parametrize(
    ("entries", "server", "message"),
    [
        (
            {"good": {"command": "x"}, "mail": {"command": "y", "env": {"KEY": "${VARIABLE_OF_NOBODY}"}}},
            "mail",
            "not set",
        ),
        ({"mail": {"command": "y", "url": "https://example.com"}}, "mail", "a command and a URL"),
        ({"mail": {"type": "pigeon", "url": "https://example.com"}}, "mail", "no transport 'pigeon'"),
        ({"a b": {"command": "x"}, "a-b": {"command": "y"}}, "a-b", "'a-b' is that of the server 'a b' too"),
        ({"mail": 5}, "mail", "must be an object"),
        ({"mail": {"command": "x", "disabled": True}}, None, "no server that is enabled"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_name_and_that_of_the_server(tmp_path, entries, server, message):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    with pytest.raises(ConfigError, match=message) as refused:
        Server.proxy(path)
    assert (refused.value.file, refused.value.server) == (str(path), server)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_a_file_that_is_no_configuration_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"mcp\.json"):
        Server.proxy(path)
    with pytest.raises(ConfigError, match=r"absent\.yaml: the file cannot be read"):
        Server.proxy("absent.yaml")


def test_a_limit_below_the_number_of_servers_is_refused():
    servers = {name: {"command": "x"} for name in ("one", "two", "three")}
    with pytest.raises(DefinitionError, match="max_connections must be a whole number of at least 3, not 2"):
        Server.proxy({"mcpServers": servers}, max_connections=2)
    with pytest.raises(DefinitionError, match="max_connections_per_principal must be from 3 to max_connections, not 2"):
        Server.proxy({"mcpServers": servers}, max_connections_per_principal=2)


def test_each_server_is_a_mounted_proxy_with_its_own_name_and_prefix():
    servers = {"notes": {"command": "x"}, "My mail": {"url": "https://example.com/mcp"}, "off": {"disabled": True}}
    server = Server.proxy({"mcpServers": servers}, name="office")
    assert server.name == "office"
    assert [(mount.server.name, mount.renaming.prefix) for mount in mounts_of(server.dispatcher)] == [
        ("notes", "notes"),
        ("My mail", "My-mail"),
    ]
    assert all(isinstance(mount.server.owner, ProxyServer) for mount in mounts_of(server.dispatcher))


def test_an_entry_is_the_target_of_one_proxy():
    assert isinstance(Server.proxy({"command": "x"}), ProxyServer)
    assert isinstance(Server.proxy("notes-server --config notes.json"), ProxyServer)
