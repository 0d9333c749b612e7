"""What an entry of a configuration file says about logging in: `oauth`, or `auth` where it is no token.

The hosts spell its keys differently: `clientId`, `client_id` and `CLIENT_ID` are one. Each entry gets an authorization
of its own, because an authorization belongs to one server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.errors import AuthError

Json = dict[str, Any]
Expand = Callable[[Any], Any]

_KEYS = {
    "clientid": "client_id",
    "clientsecret": "client_secret",
    "scope": "scope",
    "scopes": "scope",
    "redirecturi": "redirect_uri",
    "callbackport": "callback_port",
    "issuer": "issuer",
    "clientidmetadatadocumenturl": "client_id_metadata_document_url",
    "clientname": "client_name",
    "granttype": "grant_type",
    "enabled": "enabled",
}
NAMES = ("client_id", "client_secret", "scope", "redirect_uri", "callback_port", "issuer", "grant_type", "enabled")
_PROGRAM = "client_credentials"


def login_of(said: Any, expand: Expand, unknown: Callable[[str], None]) -> Json | None:
    """Return the arguments of the authorization that an entry asks for; None if it asks for none.

    `unknown` is told of each key that is not known.

    Raises:
        ValueError: a value is not what it must be.
    """
    if isinstance(said, Mapping):
        found: Json = {}
        for key, value in said.items():
            name = _KEYS.get(str(key).lower().replace("_", "").replace("-", ""))
            if name is None:
                unknown(str(key))
            elif value is not None:
                found[name] = expand(value)
        return _arguments(found) if is_on(found.pop("enabled", True)) else None
    return {} if said == "oauth" or is_on(said) else None


def _arguments(found: Json) -> Json:
    for name, value in found.items():
        is_list = name == "scope" and isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not is_list and not isinstance(value, str) and name != "callback_port":
            raise ValueError(f"{name} must be a text")
    port = found.pop("callback_port", None)
    if port is not None:
        if not str(port).isdecimal():
            raise ValueError("callback_port must be a number")
        found.setdefault("redirect_uri", f"http://localhost:{port}/callback")
    name = found.pop("client_name", None)
    if name is not None:
        found["client_metadata"] = {"client_name": name}
    return found


def authorization(login: Mapping[str, Any]) -> Any:
    """Return the authorization that these arguments are for.

    Raises:
        ValueError: they make no sense.
    """
    from dragoman.auth import ClientCredentials, OAuth

    arguments = dict(login)
    is_program = is_for_program(arguments)
    arguments.pop("grant_type", None)
    try:
        return ClientCredentials(**arguments) if is_program else OAuth(**arguments)
    except TypeError:
        raise ValueError("with the grant type client_credentials it takes client_id, client_secret and scope") from None
    except AuthError as error:
        raise ValueError(str(error)) from None


def is_for_program(login: Mapping[str, Any]) -> bool:
    """Tell whether a program logs in by credentials of its own, so that no person is asked."""
    return str(login.get("grant_type", "")).strip().lstrip(":") == _PROGRAM


def is_on(value: Any) -> bool:
    """Tell whether a value of a configuration file means yes."""
    return value.strip().lower() in ("true", "yes", "on", "1") if isinstance(value, str) else bool(value)
