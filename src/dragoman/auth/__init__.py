"""How a client gets into servers that want to know who it is (OAuth), and how a server finds out.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.auth.bearer import Bearer
    from dragoman.auth.contract import Authorization, TokenStorage
    from dragoman.auth.grants import ClientCredentials, CrossAppAccess, TokenExchange, WorkloadIdentity
    from dragoman.auth.identity import BadToken, Identity
    from dragoman.auth.oauth import OAuth
    from dragoman.auth.redirects import AuthorizationResponse
    from dragoman.auth.storage import FileStorage, MemoryStorage
    from dragoman.auth.verifiers import Introspection, Jwt

__all__ = [
    "Authorization",
    "AuthorizationResponse",
    "BadToken",
    "Bearer",
    "ClientCredentials",
    "CrossAppAccess",
    "FileStorage",
    "Identity",
    "Introspection",
    "Jwt",
    "MemoryStorage",
    "OAuth",
    "TokenExchange",
    "TokenStorage",
    "WorkloadIdentity",
]

if not TYPE_CHECKING:
    _HOMES = {
        "Authorization": "contract",
        "AuthorizationResponse": "redirects",
        "BadToken": "identity",
        "Bearer": "bearer",
        "ClientCredentials": "grants",
        "CrossAppAccess": "grants",
        "FileStorage": "storage",
        "Identity": "identity",
        "Introspection": "verifiers",
        "Jwt": "verifiers",
        "MemoryStorage": "storage",
        "OAuth": "oauth",
        "TokenExchange": "grants",
        "TokenStorage": "contract",
        "WorkloadIdentity": "grants",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
