"""Rules for URLs that credentials are sent to: security, private networks, canonical spelling, metadata locations.

These rules look only at the text of a host; `fetcher` checks the IP addresses that they resolve to.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlunsplit

from dragoman.errors import AuthError, InsecureRedirectUri, InsecureUrl, InvalidClientMetadataUrl
from dragoman.protocol.urls import authority_of, host_of, is_localhost, is_loopback, origin_of, redacted, split

_PRIVATE_IPV4 = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.168.0.0/16"
    " 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4"
)
_PRIVATE_IPV6 = "::/96 ::ffff:0:0:0/96 64:ff9b:1::/48 100::/64 fc00::/7 fe80::/10 fec0::/10 ff00::/8"
_PRIVATE_NETWORKS = {
    version: [ip_network(network) for network in networks.split()]
    for version, networks in ((4, _PRIVATE_IPV4), (6, _PRIVATE_IPV6))
}
_NAT64 = ip_network("64:ff9b::/96")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_MAX_LAST_NUMBER = {1: 0xFFFFFFFF, 2: 0xFFFFFF, 3: 0xFFFF, 4: 0xFF}
"""The largest last number of an IPv4 address that is written with one to four numbers."""


def is_private(host: str) -> bool:
    """Tell whether a host is localhost or an IP address of a private network; names are not resolved.

    Digits and dots of other scripts are normalized first. A host that cannot be normalized counts as private.
    """
    try:
        name = (host if host.isascii() else host.encode("idna").decode("ascii")).lower().rstrip(".")
    except UnicodeError:
        return True
    if is_localhost(name):
        return True
    address = _ip_address(name)
    if address is None:
        return False
    if isinstance(address, IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if embedded is None and address in _NAT64:
            embedded = IPv4Address(int(address) & 0xFFFFFFFF)
        if embedded is not None and is_private(str(embedded)):
            return True
    return any(address in network for network in _PRIVATE_NETWORKS[address.version])


def _ip_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address of a host, also as inet_aton reads it: one to four decimal, octal or hex numbers."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    parts = host.split(".")
    if len(parts) not in _MAX_LAST_NUMBER or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        *first, last = map(_number, parts)
    except ValueError:
        return None
    if any(number > 0xFF for number in first) or last > _MAX_LAST_NUMBER[len(parts)]:
        return None
    return IPv4Address(last + sum(number << (24 - 8 * place) for place, number in enumerate(first)))


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


def require_secure(url: str, what: str) -> str:
    """Return the URL if it is https, or http on this machine.

    Raises:
        InsecureUrl: the URL is neither.
    """
    host, scheme = host_of(url), split(url).scheme
    if scheme == "https" or (scheme == "http" and is_loopback(host)):
        return url
    raise InsecureUrl(
        f"{what} is {redacted(url)}, which is not safe for credentials; it must be https, or on this machine"
    )


def require_reachable(url: str, what: str, server: str, *, in_private_network: bool = False) -> str:
    """Return a URL that an MCP server names, if it is secure and, unless the server is private, not private.

    `in_private_network` says that the server was reached in a private network, even if its host does not show that.

    Raises:
        InsecureUrl: the URL is not secure, or a public server names a URL of a private network.
    """
    require_secure(url, what)
    if is_private(host_of(url)) and not (in_private_network or is_private(host_of(server))):
        raise InsecureUrl(
            f"{what} is {redacted(url)}, inside a private network, where {redacted(server)} may not send anybody;"
            " if you trust this authorization server, give it as issuer="
        )
    return url


def require_redirect_uri(uri: str) -> str:
    """Return a redirect URI if it is https or on this machine.

    Raises:
        InsecureRedirectUri: the URI is neither.
    """
    try:
        return require_secure(uri, "The redirect URI")
    except InsecureUrl as error:
        raise InsecureRedirectUri(str(error)) from None


def require_client_metadata_url(url: str) -> str:
    """Return a URL if it may be a client id: https, with a path, without user, query, fragment and dot segments.

    Raises:
        InvalidClientMetadataUrl: the URL may not be a client id.
    """
    try:
        parts = split(url)
    except InsecureUrl:
        raise InvalidClientMetadataUrl("The URL of the client's metadata is not a URL") from None
    if parts.scheme != "https":
        problem = "it must be https"
    elif parts.path in ("", "/"):
        problem = "it must have a path"
    elif "#" in url or "?" in url or "@" in parts.netloc:
        problem = "it must have no user, query or fragment"
    elif {".", ".."} & set(unquote(parts.path).split("/")):
        problem = "it must have no dot segments"
    else:
        return url
    raise InvalidClientMetadataUrl(f"{redacted(url)} cannot be the URL of the client's metadata: {problem}")


def canonical_url(url: str) -> str:
    """Return the canonical spelling of a server's URL, which is equal for all spellings of the same server.

    Scheme and host are in lower case; default port, user, fragment and dot segments are removed; the query is sorted.
    If a query parameter is given twice, the last value counts, unless the name ends with `[]`.
    """
    parts = split(url)
    return urlunsplit((parts.scheme, authority_of(parts), _path(parts.path), _query(parts.query), ""))


def _path(path: str) -> str:
    """Return a path without dot segments (RFC 3986, section 5.2.4)."""
    segments = re.sub("%2e", ".", path, flags=re.IGNORECASE).split("/")
    result: list[str] = []
    for segment in segments:
        if segment == "..":
            result[1:] = result[1:-1]
        elif segment != ".":
            result.append(segment)
    if segments[-1] in (".", ".."):
        result.append("")
    return "/".join(result) or "/"


def _query(query: str) -> str:
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values[name] = [*values.get(name, ()), value] if name.endswith("[]") else [value]
    return urlencode([(name, value) for name in sorted(values) for value in values[name]], quote_via=quote)


def resource_indicator(server: str) -> str:
    """Return the resource indicator (RFC 8707) of a server whose metadata names none."""
    parts = split(server)
    path = _path(parts.path)
    return urlunsplit((parts.scheme, authority_of(parts), "" if path == "/" else path, parts.query, ""))


def covers(resource: str, server: str) -> bool:
    """Tell whether a protected resource includes a server: same origin, a prefix of its path, and its query if any."""
    try:
        wider, narrower = split(resource), split(server)
    except AuthError:
        return False
    if origin_of(resource) != origin_of(server) or wider.fragment:
        return False
    if wider.query and _query(wider.query) != _query(narrower.query):
        return False
    prefix, path = _path(wider.path).rstrip("/"), _path(narrower.path)
    return path.rstrip("/") == prefix or path.startswith(prefix + "/")


def protected_resource_metadata_urls(server: str) -> list[str]:
    """Return the possible URLs of a protected resource's metadata (RFC 9728): for its path, then for its origin."""
    name = "oauth-protected-resource"
    return [_well_known(server, name), f"{origin_of(server)}/.well-known/{name}"]


def authorization_server_metadata_urls(issuer: str) -> list[str]:
    """Return the possible URLs of the metadata of an authorization server (RFC 8414, OpenID Connect Discovery)."""
    found = [_well_known(issuer, "oauth-authorization-server"), _well_known(issuer, "openid-configuration")]
    path = split(issuer).path.rstrip("/")
    return [*found, f"{origin_of(issuer)}{path}/.well-known/openid-configuration"] if path else found


def _well_known(url: str, name: str) -> str:
    parts = split(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin_of(url)}/.well-known/{name}{parts.path.rstrip('/')}{query}"
