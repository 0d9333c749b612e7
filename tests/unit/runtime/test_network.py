"""Network options, and what the environment says of proxies and credentials."""

import pytest

from dragoman.runtime.network import Network, netrc_authorization, proxy_for


@pytest.mark.covers("CHT-21")
def test_proxies_of_the_environment_are_for_other_machines(monkeypatch):
    for name in ("http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "internal.example, plain:8080")
    assert proxy_for("http://example.com/mcp", Network()) == "http://proxy:3128"
    assert proxy_for("http://plain/", Network()) == "http://proxy:3128"
    for url in ("https://example.com/", "http://a.internal.example/", "http://plain:8080/"):
        assert proxy_for(url, Network()) is None
    for url in ("http://127.0.0.1:8000/", "http://localhost/", "http://[::1]/", "http://a.localhost/"):
        assert proxy_for(url, Network()) is None
    monkeypatch.setenv("all_proxy", "http://all:1")
    assert proxy_for("https://example.com/", Network()) == "http://all:1"
    assert proxy_for("https://example.com/", Network(trust_env=False)) is None
    assert proxy_for("http://localhost/", Network(proxy="http://own:1")) == "http://own:1"


@pytest.mark.covers("CHT-21")
def test_credentials_of_netrc_are_those_of_the_host(monkeypatch, tmp_path, caplog):
    file = tmp_path / "netrc"
    monkeypatch.setenv("NETRC", str(file))
    assert netrc_authorization("example.com") is None
    file.write_text("machine example.com login me password secret\n")
    file.chmod(0o600)
    assert netrc_authorization("example.com") == "Basic bWU6c2VjcmV0"
    assert netrc_authorization("example.org") is None
    file.write_text("machine\n")
    assert netrc_authorization("example.com") is None
    assert "cannot be read" in caplog.text
