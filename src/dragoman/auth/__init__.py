"""The public names: OAuth for clients, bearer tokens for servers. Each is imported at its first use."""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.auth.client.authorization_response import AuthorizationResponse as AuthorizationResponse
    from dragoman.auth.client.contract import Authorization as Authorization
    from dragoman.auth.client.contract import TokenStorage as TokenStorage
    from dragoman.auth.client.grants import ClientCredentials as ClientCredentials
    from dragoman.auth.client.grants import CrossAppAccess as CrossAppAccess
    from dragoman.auth.client.grants import TokenExchange as TokenExchange
    from dragoman.auth.client.grants import WorkloadIdentity as WorkloadIdentity
    from dragoman.auth.client.oauth import OAuth as OAuth
    from dragoman.auth.client.storage import FileStorage as FileStorage
    from dragoman.auth.client.storage import MemoryStorage as MemoryStorage
    from dragoman.auth.server.bearer import Bearer as Bearer
    from dragoman.auth.server.identity import BadToken as BadToken
    from dragoman.auth.server.identity import Identity as Identity
    from dragoman.auth.server.verifiers import Introspection as Introspection
    from dragoman.auth.server.verifiers import Jwt as Jwt
else:
    __getattr__, __dir__ = lazy()
