"""The verbs of logins: status, begin, refresh, end, and the content of a token."""

from __future__ import annotations

from typing import Any, Literal

from dragoman.errors import InspectorError
from dragoman.inspector.inspected import InspectedServer
from dragoman.inspector.login import decoded_token, forget_login, stored_tokens
from dragoman.inspector.verbs.contract import PageVerbs


class LoginVerbs(PageVerbs):
    """The verbs of logins."""

    async def status(self, server: str) -> dict[str, Any]:
        """Return whether there is a login."""
        return await self._status(self._inspector.server(server))

    async def _status(self, server: InspectedServer) -> dict[str, Any]:
        login = await server.read_login()
        server.push_status()
        return {"login": login}

    async def begin(self, server: str) -> dict[str, Any]:
        """Connect, and let a person log in at the URL that is pushed."""
        found = self._inspector.server(server)
        await found.read_login()
        await found.connect(log_in=True)
        return await self._status(found)

    async def refresh(self, server: str) -> dict[str, Any]:
        """Renew the tokens now."""
        found = self._inspector.server(server)
        url = found.require_url()
        await found.oauth().renew(url)
        return await self._status(found)

    async def end(self, server: str) -> dict[str, Any]:
        """Forget the login, and disconnect."""
        found = self._inspector.server(server)
        url = found.require_url()
        await forget_login(found.oauth().bind(url))
        await found.disconnect()
        return await self._status(found)

    async def decode(self, server: str, token: Literal["access", "refresh"]) -> dict[str, Any]:
        """Return the content of a token, without its signature."""
        found = self._inspector.server(server)
        url = found.require_url()
        tokens = await stored_tokens(found.oauth(), url)
        text = None if tokens is None else tokens.access_token if token == "access" else tokens.refresh_token  # noqa: S105
        if text is None:
            raise InspectorError(f"There is no {token} token; log in first", 409)
        return decoded_token(text)
