"""How a client gets into servers that want to know who it is (OAuth), and how a server finds out.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

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
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".bearer": "Bearer",
            ".contract": "Authorization TokenStorage",
            ".grants": "ClientCredentials CrossAppAccess TokenExchange WorkloadIdentity",
            ".identity": "BadToken Identity",
            ".oauth": "OAuth",
            ".redirects": "AuthorizationResponse",
            ".storage": "FileStorage MemoryStorage",
            ".verifiers": "Introspection Jwt",
        },
    )
