"""Which addresses may be trusted with credentials, and when two of them are the same."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlunsplit

from dragoman.errors import AuthError, InsecureRedirectUri, InsecureUrl, InvalidClientMetadataUrl
from dragoman.protocol.urls import authority_of, host_of, is_loopback, origin_of, redacted, split

_PRIVATE = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",
        "::ffff:0:0:0/96",
        "64:ff9b:1::/48",
        "100::/64",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
_TRANSLATED = ip_network("64:ff9b::/96")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_LAST_PARTS = {1: 0xFFFFFFFF, 2: 0xFFFFFF, 3: 0xFFFF, 4: 0xFF}


def is_private(host: str) -> bool:
    """Tell whether a host is, as it is spelled, inside somebody's own network; names are not resolved.

    Digits and dots of other scripts count as those that they stand for; what stands for no name at all is inside.
    """
    try:
        name = (host if host.isascii() else host.encode("idna").decode("ascii")).lower().rstrip(".")
    except UnicodeError:
        return True
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    if address is None:
        return False
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _TRANSLATED:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and is_private(str(inner)):
            return True
    return any(address in network for network in _PRIVATE if network.version == address.version)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return _lenient_ipv4(host)


def _lenient_ipv4(host: str) -> IPv4Address | None:
    """Read what inet_aton reads: one to four numbers, decimal, octal or hexadecimal."""
    parts = host.split(".")
    if len(parts) not in _LAST_PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    *first, last = numbers
    if any(number > 0xFF for number in first) or last > _LAST_PARTS[len(parts)]:
        return None
    value = last
    for place, number in enumerate(first):
        value += number << (8 * (3 - place))
    return IPv4Address(value)


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and text != "0" else int(text)


def require_secure(url: str, what: str) -> str:
    """Return the URL if it is https, or http on this machine.

    Raises:
        InsecureUrl: it is neither.
    """
    host, scheme = host_of(url), split(url).scheme
    if scheme == "https" or (scheme == "http" and is_loopback(host)):
        return url
    raise InsecureUrl(
        f"{what} is {redacted(url)}, which is not safe for credentials; it must be https, or on this machine"
    )


def require_reachable(url: str, what: str, server: str, *, is_inside: bool = False) -> str:
    """Return the URL if it is secure, and not inside a network that the MCP server itself is not in.

    `is_inside` says that the server was reached inside a private network, whatever its name.

    Raises:
        InsecureUrl: the server sends the client to where it has no business.
    """
    require_secure(url, what)
    if is_private(host_of(url)) and not (is_inside or is_private(host_of(server))):
        raise InsecureUrl(
            f"{what} is {redacted(url)}, inside a private network, where {redacted(server)} may not send anybody;"
            " if you trust this authorization server, give it as issuer="
        )
    return url


def require_redirect_uri(uri: str) -> str:
    """Return a redirect URI if it is https or on this machine.

    Raises:
        InsecureRedirectUri: it is neither.
    """
    try:
        return require_secure(uri, "The redirect URI")
    except InsecureUrl as error:
        raise InsecureRedirectUri(str(error)) from None


def require_client_metadata_url(url: str) -> str:
    """Return a URL if it may be a client id: https, with a path, without user, query, fragment and dot segments.

    Raises:
        InvalidClientMetadataUrl: it may not.
    """
    wrong = None
    try:
        parts = split(url)
    except InsecureUrl:
        raise InvalidClientMetadataUrl("The URL of the client's metadata is no URL") from None
    if parts.scheme != "https":
        wrong = "it must be https"
    elif parts.path in ("", "/"):
        wrong = "it must have a path"
    elif "#" in url or "?" in url or "@" in parts.netloc:
        wrong = "it must have no user, query or fragment"
    elif any(segment in (".", "..") for segment in unquote(parts.path).split("/")):
        wrong = "it must have no dot segments"
    if wrong:
        raise InvalidClientMetadataUrl(f"{redacted(url)} cannot be the URL of the client's metadata: {wrong}")
    return url


def canonical(url: str) -> str:
    """Return the one spelling of an address: what two spellings of the same server have in common.

    Scheme and host in lower case, no default port, user or fragment, dot segments removed, the query in order; of a
    parameter that is given twice the last counts, unless its name ends with `[]`.
    """
    parts = split(url)
    return urlunsplit((parts.scheme, authority_of(parts), _path(parts.path), _query(parts.query), ""))


def _path(path: str) -> str:
    path = re.sub("%2e", ".", path, flags=re.IGNORECASE)
    kept: list[str] = []
    segments = path.split("/")
    for place, segment in enumerate(segments):
        if segment == "..":
            if len(kept) > 1:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
        if segment in (".", "..") and place == len(segments) - 1:
            kept.append("")
    return "/".join(kept) or "/"


def _query(query: str) -> str:
    if not query:
        return ""
    last: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.endswith("[]"):
            last.setdefault(name, []).append(value)
        else:
            last[name] = [value]
    return urlencode([(name, value) for name in sorted(last) for value in last[name]], quote_via=quote)


def resource_of(server: str) -> str:
    """Return the resource indicator of a server whose metadata does not say one (RFC 8707)."""
    parts = split(server)
    path = _path(parts.path)
    return urlunsplit((parts.scheme, authority_of(parts), "" if path == "/" else path, parts.query, ""))


def covers(resource: str, server: str) -> bool:
    """Tell whether a protected resource is the server, or holds it: same origin, a prefix of its path, its query."""
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


def protected_resource_urls(server: str) -> list[str]:
    """Return where the metadata of a protected resource may be (RFC 9728): for its path, then for its origin."""
    return [_inserted(server, "oauth-protected-resource"), f"{origin_of(server)}/.well-known/oauth-protected-resource"]


def authorization_server_urls(issuer: str) -> list[str]:
    """Return where the metadata of an authorization server may be (RFC 8414, OpenID Connect Discovery)."""
    found = [_inserted(issuer, "oauth-authorization-server"), _inserted(issuer, "openid-configuration")]
    path = split(issuer).path.rstrip("/")
    return [*found, f"{origin_of(issuer)}{path}/.well-known/openid-configuration"] if path else found


def _inserted(url: str, name: str) -> str:
    parts = split(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin_of(url)}/.well-known/{name}{parts.path.rstrip('/')}{query}"
