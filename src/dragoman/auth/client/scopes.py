"""Which scopes to ask for."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.auth.client.challenges import Challenge
from dragoman.auth.client.stored_records import Authority

OFFLINE = "offline_access"


def chosen(challenge: Challenge | None, authority: Authority, own: str | None) -> str | None:
    """Return what to ask for: what the server demands, else what its metadata list, else what the author says."""
    if challenge is not None and challenge.scope:
        return challenge.scope
    return joined(authority.resource_scopes or ()) or joined((own or "").split())


def joined(scopes: Iterable[str]) -> str | None:
    """Return scopes as one text, each once, in order; None for none."""
    return " ".join(dict.fromkeys(scopes)) or None


def with_offline(scope: str | None, authority: Authority, *, may_refresh: bool) -> str | None:
    """Return a scope with `offline_access` where the authorization server lists it and it is of use, else without."""
    wanted = [one for one in (scope or "").split() if one != OFFLINE]
    lists = OFFLINE in (authority.scopes_supported or ())
    # Alone it would stand for all that is asked, where nothing stands for the default.
    if may_refresh and lists and (wanted or scope):
        wanted.append(OFFLINE)
    return joined(wanted)
