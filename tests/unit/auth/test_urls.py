"""Which addresses may be trusted with credentials."""

import pytest

from dragoman.auth.urls import (
    authorization_server_metadata_urls,
    canonical_url,
    covers,
    is_private,
    protected_resource_metadata_urls,
    require_client_metadata_url,
    require_reachable,
    require_redirect_uri,
    require_secure,
    resource_indicator,
)
from dragoman.errors import InsecureRedirectUri, InsecureUrl, InvalidClientMetadataUrl


@pytest.mark.covers("SEC-07")
@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "localhost",
        "localhost.",
        "a.localhost",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "10.258",
        "::1",
        "::",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fe80::1%eth0",
        "①②⑦.⓪.⓪.①",
        "\uff11\uff12\uff17.0.0.1",
        "127。0。0。1",
        "127\uff0e0\uff0e0\uff611",
        "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
        "127\u200b.0.0.1",
        "\uff11\uff16\uff19.254.\uff11\uff16\uff19.254",
        "192.0.0.170",
        "198.18.0.1",
        "198.19.255.255",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "64:ff9b:1::a00:1",
        "::ffff:0:10.0.0.1",
        "ff02::1",
        "a" * 64 + ".ü",
    ],
)
def test_private_addresses_are_known_however_they_are_spelled(host):
    assert is_private(host)


@pytest.mark.covers("SEC-07")
@pytest.mark.parametrize(
    "host",
    [
        *("example.com", "10.example.com", "münchen.example", "256.1.1.1.1", "08"),
        *("8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "198.17.255.255", "198.20.0.1", "223.255.255.255"),
        *("2606:4700::1", "64:ff9b::808:808"),
    ],
)
def test_public_addresses_and_names_are_not_private(host):
    assert not is_private(host)


@pytest.mark.covers("SEC-07")
def test_a_public_server_sends_nobody_into_a_private_network():
    with pytest.raises(InsecureUrl, match="private network"):
        require_reachable("https://169.254.169.254/token", "The token endpoint", "https://mcp.example.com/mcp")
    assert require_reachable("https://10.0.0.2/token", "The token endpoint", "https://10.0.0.1/mcp")
    assert require_reachable("http://localhost:1/token", "The token endpoint", "http://localhost:2/mcp")
    assert require_reachable(
        "https://10.0.0.2/token", "The token endpoint", "https://mcp.internal/mcp", in_private_network=True
    )


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    "url", ["https://example.com/mcp", "http://localhost/mcp", "http://127.0.0.1:8/", "http://[::1]/"]
)
def test_credentials_go_over_https_or_stay_on_this_machine(url):
    assert require_secure(url, "It") == url


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/mcp",
        "http://10.0.0.1/mcp",
        "ftp://localhost/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//x",
        "",
        "https://",
        "https://exa mple.com/",
        "https://example.com:port/",
        "https://[::1/",
        "https://evil.example\\@login.example.com/",
        "https://127%2e0.0.1/",
        "https://%31%32%37.0.0.1/",
    ],
)
def test_credentials_go_nowhere_else(url):
    with pytest.raises(InsecureUrl):
        require_secure(url, "It")


@pytest.mark.covers("SEC-05")
def test_a_refusal_quotes_no_secret_of_an_address():
    with pytest.raises(InsecureUrl) as raised:
        require_secure("http://ada:secret@example.com/mcp?token=secret", "The server")
    assert "secret" not in str(raised.value)


@pytest.mark.covers("SEC-04", "LOA-06")
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://Example.COM:443/MCP", "https://example.com/MCP"),
        ("http://localhost:80", "http://localhost/"),
        ("https://example.com/a/%2e%2E/b/./c", "https://example.com/b/c"),
        ("https://example.com/../../a/..", "https://example.com/"),
        ("https://u:p@example.com/mcp#top", "https://example.com/mcp"),
        ("https://example.com/mcp?b=2&a=1&b=3", "https://example.com/mcp?a=1&b=3"),
        ("https://example.com/mcp?a[]=2&a[]=1", "https://example.com/mcp?a%5B%5D=2&a%5B%5D=1"),
        ("https://[::1]:8443/mcp", "https://[::1]:8443/mcp"),
    ],
)
def test_an_address_has_one_spelling(url, expected):
    assert canonical_url(url) == expected


@pytest.mark.covers("OAU-17")
@pytest.mark.parametrize("uri", ["http://example.com/callback", "myapp://callback", "http://127.attacker.com/"])
def test_a_redirect_uri_is_https_or_on_this_machine(uri):
    with pytest.raises(InsecureRedirectUri):
        require_redirect_uri(uri)
    assert require_redirect_uri("http://127.0.0.1:3000/callback")
    assert require_redirect_uri("https://app.example.com/callback")


@pytest.mark.covers("OAU-14")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/client.json",
        "https://example.com",
        "https://example.com/",
        "https://example.com/client.json#x",
        "https://example.com/client.json?x=1",
        "https://ada@example.com/client.json",
        "https://example.com/a/../client.json",
        "https://example.com/a/%2e%2e/client.json",
        "https://example.com/a/%2E/client.json",
        "client.json",
    ],
)
def test_a_metadata_document_has_a_plain_https_url_with_a_path(url):
    with pytest.raises(InvalidClientMetadataUrl):
        require_client_metadata_url(url)
    assert require_client_metadata_url("https://example.com/client.json")


@pytest.mark.covers("OAU-24")
@pytest.mark.parametrize(
    ("resource", "server"),
    [
        ("https://example.com", "https://example.com/mcp"),
        ("https://example.com/", "https://example.com/mcp"),
        ("https://EXAMPLE.com:443/mcp", "https://example.com/mcp"),
        ("https://example.com/mcp", "https://example.com/mcp/"),
        ("https://example.com/mcp", "https://example.com/mcp/tenant"),
        ("https://example.com/mcp?a=1&b=2", "https://example.com/mcp?b=2&a=1"),
        ("https://example.com/mcp", "https://example.com/mcp?a=1"),
    ],
)
def test_a_resource_covers_the_servers_below_it(resource, server):
    assert covers(resource, server)


@pytest.mark.covers("OAU-24")
@pytest.mark.parametrize(
    ("resource", "server"),
    [
        ("https://evil.example.com/mcp", "https://example.com/mcp"),
        ("http://example.com/mcp", "https://example.com/mcp"),
        ("https://example.com:8443/mcp", "https://example.com/mcp"),
        ("https://example.com/mc", "https://example.com/mcp"),
        ("https://example.com/mcp/a", "https://example.com/mcp"),
        ("https://example.com/mcp?a=1", "https://example.com/mcp"),
        ("https://example.com/a/../mcp", "https://example.com/other"),
        ("https://example.com/mcp#a", "https://example.com/mcp"),
        ("mcp", "https://example.com/mcp"),
    ],
)
def test_a_resource_does_not_cover_anything_else(resource, server):
    assert not covers(resource, server)


@pytest.mark.covers("OAU-24")
def test_the_resource_of_a_server_without_metadata_is_its_address_without_a_bare_slash():
    assert resource_indicator("HTTPS://Example.com:443/") == "https://example.com"
    assert resource_indicator("https://example.com/mcp?tenant=a#x") == "https://example.com/mcp?tenant=a"


@pytest.mark.covers("OAU-04")
def test_the_metadata_of_a_server_are_looked_for_by_path_and_then_at_the_root():
    assert protected_resource_metadata_urls("https://example.com/a/mcp") == [
        "https://example.com/.well-known/oauth-protected-resource/a/mcp",
        "https://example.com/.well-known/oauth-protected-resource",
    ]


@pytest.mark.covers("OAU-06")
def test_the_metadata_of_an_authorization_server_are_looked_for_in_the_order_of_the_specification():
    assert authorization_server_metadata_urls("https://auth.example.com") == [
        "https://auth.example.com/.well-known/oauth-authorization-server",
        "https://auth.example.com/.well-known/openid-configuration",
    ]
    assert authorization_server_metadata_urls("https://auth.example.com/tenant1/") == [
        "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
        "https://auth.example.com/.well-known/openid-configuration/tenant1",
        "https://auth.example.com/tenant1/.well-known/openid-configuration",
    ]
