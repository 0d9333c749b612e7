"""How a client gets into servers that want to know who it is (OAuth), and how a server finds out.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.auth.bearer import Bearer as Bearer
    from dragoman.auth.contract import Authorization as Authorization
    from dragoman.auth.contract import TokenStorage as TokenStorage
    from dragoman.auth.grants import ClientCredentials as ClientCredentials
    from dragoman.auth.grants import CrossAppAccess as CrossAppAccess
    from dragoman.auth.grants import TokenExchange as TokenExchange
    from dragoman.auth.grants import WorkloadIdentity as WorkloadIdentity
    from dragoman.auth.identity import BadToken as BadToken
    from dragoman.auth.identity import Identity as Identity
    from dragoman.auth.oauth import OAuth as OAuth
    from dragoman.auth.redirects import AuthorizationResponse as AuthorizationResponse
    from dragoman.auth.storage import FileStorage as FileStorage
    from dragoman.auth.storage import MemoryStorage as MemoryStorage
    from dragoman.auth.verifiers import Introspection as Introspection
    from dragoman.auth.verifiers import Jwt as Jwt
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "bearer": "Bearer",
            "contract": "Authorization TokenStorage",
            "grants": "ClientCredentials CrossAppAccess TokenExchange WorkloadIdentity",
            "identity": "BadToken Identity",
            "oauth": "OAuth",
            "redirects": "AuthorizationResponse",
            "storage": "FileStorage MemoryStorage",
            "verifiers": "Introspection Jwt",
        },
    )
