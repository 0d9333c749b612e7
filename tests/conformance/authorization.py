"""How the examined client gets into the servers of the `auth/` scenarios.

The authorization server of the suite consents at once: whoever opens the address of the login is redirected to where
it ends, and nobody has to follow.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from dragoman.auth import (
    Authorization,
    ClientCredentials,
    CrossAppAccess,
    MemoryStorage,
    OAuth,
    TokenExchange,
    WorkloadIdentity,
)

REDIRECT_URI = "http://localhost:3000/callback"
CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"


class ConsentingPerson:
    """Opens the address of a login, and reports where that led."""

    def __init__(self) -> None:
        self._location = ""

    async def open(self, url: str) -> None:
        """Open the address, without going where it leads."""
        async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as response:
            self._location = response.headers["Location"]

    async def report(self) -> tuple[str | None, str | None, str | None]:
        """Return what the login ended with: the code, the state and the issuer."""
        fields = parse_qs(urlsplit(self._location).query)
        code, state, iss = (fields.get(name, [None])[0] for name in ("code", "state", "iss"))
        return code, state, iss


def oauth_for(scenario: str, context: dict[str, Any]) -> Authorization:
    """Return what a scenario authorizes its requests with."""
    own = MemoryStorage()
    match scenario:
        case "auth/client-credentials-basic":
            return ClientCredentials(context["client_id"], context["client_secret"], storage=own)
        case "auth/client-credentials-jwt":
            return ClientCredentials(
                context["client_id"],
                token_endpoint_auth_method="private_key_jwt",
                private_key=context["private_key_pem"],
                signing_algorithm=context.get("signing_algorithm", "ES256"),
                storage=own,
            )
        case "auth/enterprise-managed-authorization":
            exchange = TokenExchange(
                context["idp_token_endpoint"], context["idp_id_token"], client_id=context["idp_client_id"]
            )
            return CrossAppAccess(
                context["client_id"], context["client_secret"], assertion_provider=exchange, storage=own
            )
        case "auth/wif-jwt-bearer":
            return WorkloadIdentity(context["valid_jwt"], storage=own)
    person = ConsentingPerson()
    return OAuth(
        redirect_uri=REDIRECT_URI,
        redirect_handler=person.open,
        callback_handler=person.report,
        client_id_metadata_document_url=CLIENT_METADATA_URL,
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        storage=own,
    )
