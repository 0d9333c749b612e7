"""The verbs of servers: list, add, remove, connect, disconnect, examine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import UNSET, Raw, UnsetType

import dragoman
from dragoman.errors import DragomanError, InspectorError
from dragoman.inspector.doctor.examination import examine
from dragoman.inspector.doctor.findings import Finding, Findings
from dragoman.inspector.events import encode
from dragoman.inspector.failure import failure_of
from dragoman.inspector.inspected import InspectedServer
from dragoman.inspector.targets import targets_of
from dragoman.inspector.verbs.contract import FailedVerb, PageVerbs
from dragoman.inspector.verbs.explore import DIALECTS
from dragoman.protocol.versions import VERSIONS, find_version


class ServerVerbs(PageVerbs):
    """The verbs of servers."""

    async def list_(self) -> dict[str, Any]:
        """Return all servers and opened session files."""
        return {
            "servers": [server.facts() for server in self._inspector.servers.values()],
            "sessions": [session.facts() for session in self._inspector.sessions.values()],
            "versions": sorted(version.name for version in VERSIONS),
            "dialects": [*DIALECTS],
            "program": {"version": dragoman.__version__, "folder": str(Path.cwd())},
        }

    async def add(
        self,
        target: str | dict[str, Any],
        name: str | None = None,
        headers: dict[str, str] | None = None,
        token: str | None = None,
        env: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Add the servers of a target."""
        added = self._inspector.add(targets_of(target, name, headers=headers, token=token, env=env))
        return {"servers": [server.facts() for server in added]}

    async def remove(self, server: str) -> dict[str, Any]:
        """Forget a server."""
        await self._inspector.remove(server)
        return {}

    async def connect(self, server: str, version: str | UnsetType | None = UNSET) -> dict[str, Any] | FailedVerb:
        """Connect a server, with a version or with the one that is negotiated."""
        found = self._inspector.server(server)
        if isinstance(version, str) and find_version(version) is None:
            raise InspectorError(f"There is no protocol version {version!r}")
        try:
            await found.connect(version)
        except DragomanError as error:
            return FailedVerb(error, failure_of(error, found.records.masks))
        return {"server": found.facts()}

    async def disconnect(self, server: str) -> dict[str, Any]:
        """Disconnect a server."""
        found = self._inspector.server(server)
        await found.disconnect()
        return {"server": found.facts()}

    async def examine(self, server: str) -> dict[str, Any]:
        """Try each step to a server and return what was found."""
        found = self._inspector.server(server)

        def push(finding: Finding) -> None:
            self._inspector.events.push("finding", server=server, finding=_masked(found, finding))

        findings = Findings(push)
        findings.begin(found.target.name, is_own=found.target.url is None)
        if found.target.problem is not None:
            findings.failed("configuration", str(found.target.problem), "mend the file")
        else:
            client = await found.new_client()
            try:
                await examine(client, found.target.url, findings)
            finally:
                await client.stop()
        return {"ok": findings.all_passed, "findings": _masked(found, findings.all)}


def _masked(server: InspectedServer, found: object) -> Raw:
    return Raw(server.records.masks.message(encode(found)))
