"""Commands whose servers do not answer the probe, remembered from one process to the next.

Such a server costs five seconds and a second start, each time that a program uses it first. So it is remembered for a
day, in the user's state folder, that the command wants a handshake. Servers that answer the probe are not remembered
here: they cost nothing, and may learn another version at any time.
"""

from __future__ import annotations

from collections.abc import Hashable

from dragoman.protocol.versions import Version, find_version
from dragoman.runtime.user_files import state_folder
from dragoman.stores.local.state import LocalState

REMEMBERED_SECONDS = 24 * 3600.0
_FOLDER = ("clients", "handshakes")


async def recalled(key: Hashable) -> Version | None:
    """Return the version that a silent server was offered before, if that is remembered."""
    kept = _kept()
    # Nothing is made only to be looked at.
    found = None if kept is None or not kept.folder.is_dir() else await kept.get(repr(key))
    return None if found is None else find_version(found.decode())


async def remember(key: Hashable, offered: Version) -> None:
    """Remember that a server does not answer the probe, and takes a handshake with this version."""
    kept = _kept()
    if kept is not None:
        await kept.set(repr(key), offered.name.encode(), ttl=REMEMBERED_SECONDS)


async def forget(key: Hashable) -> None:
    """Forget a server, which has contradicted."""
    if await recalled(key) is not None and (kept := _kept()) is not None:
        await kept.set(repr(key), b"", ttl=0)


def _kept() -> LocalState | None:
    try:
        return LocalState(state_folder().joinpath(*_FOLDER))
    except RuntimeError:  # there is no home
        return None
