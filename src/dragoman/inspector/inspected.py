"""`InspectedServer`: one server of the inspector, with its client, its status and what it wrote to stderr.

    disconnected    there is no client
    connecting      the client starts
    connected       the client has a connection
    failed          the last start failed, or the connection was lost; `failure` says why
    login           the server requires credentials

A server that was lost is connected again by its next request, as with any client.
"""

from __future__ import annotations

import asyncio
import re
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman import types
from dragoman.auth.fetcher import FetchedExchange, exchange_observer
from dragoman.client.answer.approval import Approval
from dragoman.client.answer.callbacks import MAX_CONCURRENT
from dragoman.client.answer.elicitation import Elicitation, ElicitationRequest
from dragoman.client.answer.sampling import SamplingRequest
from dragoman.client.client import AsyncClient
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
from dragoman.client.hear.notifications import LogMessage
from dragoman.compose.masking import Masks
from dragoman.compose.session_file import Head, Kind, Sender
from dragoman.errors import AuthRequired, DragomanError, InspectorError, Rejected
from dragoman.inspector.events import Events, encode
from dragoman.inspector.failure import failure_of
from dragoman.inspector.login import login_facts, program_login, program_oauth, stored_tokens
from dragoman.inspector.questions import (
    AnswerRule,
    Questions,
    approval_answer,
    elicitation_answer,
    elicitation_params,
    sampling_answer,
    sampling_params,
)
from dragoman.inspector.recording import RecordedTransport, record_fetched, recorded_network, sent_rows
from dragoman.inspector.targets import ServerTarget
from dragoman.inspector.traffic.rows import Row, Traffic
from dragoman.protocol.jsonrpc import Limits
from dragoman.protocol.versions import find_version

if TYPE_CHECKING:
    from dragoman.auth.client.oauth import OAuth

Status = Literal["disconnected", "connecting", "connected", "failed", "login"]
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
STDERR_CHARACTERS = 16_000
CONNECT_SECONDS = 30.0
LOGIN_SECONDS = 600.0
_OF_THE_PROCESS = ("env", "inherit_env", "cwd")


def _masks(target: ServerTarget) -> Masks:
    """Return masks that also mask the headers and secrets that a person gave, which a server may repeat."""
    given = [target.options.get("headers"), target.target.get("headers") if isinstance(target.target, dict) else None]
    headers = {name: str(value) for found in given if isinstance(found, dict) for name, value in found.items()}
    secrets = [part for value in headers.values() for part in (value, value.rpartition(" ")[2])]  # `Bearer abc`
    token, login = target.options.get("auth"), re.search(r"//[^/@]*:([^/@]+)@", target.url or "")
    secrets += [token] if isinstance(token, str) else []
    return Masks(headers, [*secrets, login[1]] if login else secrets)


class TrafficRecords:
    """Takes the records of one server."""

    def __init__(self, server: str, target: ServerTarget, traffic: Traffic, events: Events) -> None:
        self._server, self._name = server, target.name
        self._traffic, self._events = traffic, events
        self.masks = _masks(target)

    def write(
        self, sender: Sender, kind: Kind, data: bytes = b"", head: Head = None, *, exchange: int | None = None
    ) -> Row:
        """Add a record, and tell the pages."""
        row = self._traffic.add(
            self._server, sender, kind, data, head, exchange=exchange, name=self._name, masks=self.masks
        )
        sent = sent_rows.get()
        if sent is not None and sender == "client" and row.what == "request":
            sent.append(row)
        self._events.push_traffic()
        return row


class InspectedServer:
    """One server of the inspector."""

    def __init__(self, id: str, target: ServerTarget, traffic: Traffic, events: Events, questions: Questions) -> None:
        self.id = id
        self.target = target
        # The name may be the command itself. Both are shown, and written to files.
        target.name, target.shown = (Masks().target(text) for text in (target.name, target.shown or target.name))
        self._events = events
        self._questions = questions
        self.records = TrafficRecords(id, target, traffic, events)
        self.requested_version: str | None = target.options.get("protocol_version")
        self.failure: DragomanError | None = target.problem
        self.approvals = False
        self.roots: list[types.Root] = []
        self.script: list[AnswerRule] = []
        self.stderr = ""
        self.login: dict[str, Any] | None = None
        self._client: AsyncClient | None = None
        self._connected_at: float | None = None
        self._is_connecting = False
        self._exchanges = count(1)
        self._turn = asyncio.Lock()

    # What the page shows.

    @property
    def status(self) -> Status:
        """The status; see the head of this file."""
        if self._is_connecting:
            return "connecting"
        if self._client is not None and self._client.alive:
            return "connected"
        if isinstance(self.failure, AuthRequired):
            return "login"
        return "disconnected" if self.failure is None else "failed"

    def facts(self) -> dict[str, Any]:
        """Return the server as the page gets it."""
        client = self._client if self.status == "connected" else None
        version = None if client is None else find_version(client.protocol_version)
        return {
            "id": self.id,
            "name": self.target.name,
            "carrier": "stdio" if self.target.url is None else "http",
            "target": self.target.shown,
            "source": self.target.source,
            "status": self.status,
            "failure": None if self.failure is None else failure_of(self.failure, self.records.masks),
            "requestedVersion": self.requested_version,
            "version": None if version is None else version.name,
            "era": None if version is None else "stateless" if version.stateless else "handshake",
            "serverInfo": None if client is None else msgspec.to_builtins(client.server_info),
            "capabilities": None if client is None else msgspec.to_builtins(client.capabilities),
            "instructions": None if client is None else client.instructions,
            "stderr": self.stderr,
            "connectedAt": self._connected_at,
            "approvals": self.approvals,
            "roots": msgspec.to_builtins(self.roots),
            "subscribed": [] if client is None else client.subscribed_resources,
            "script": self.script,
            "login": self.login,
        }

    def push_status(self) -> None:
        """Tell the pages how the server is."""
        self._events.push("status", server=self.facts())

    # Connecting.

    @property
    def client(self) -> AsyncClient:
        """The client.

        Raises:
            InspectorError: there is none.
        """
        if self._client is None or self._is_connecting:
            raise InspectorError(f"{self.target.name} is not connected; connect it first", 409)
        return self._client

    async def connect(self, version: str | UnsetType | None = UNSET, *, log_in: bool = False) -> None:
        """Connect, again if there is a connection; `log_in` lets a person log in meanwhile.

        Raises:
            DragomanError: there is no connection.
        """
        if version is not UNSET:
            self.requested_version = version
        async with self._turn:
            await self._stop()
            self._is_connecting, self.failure, self.stderr = True, None, ""
            self.push_status()
            observing = exchange_observer.set(self._fetched)
            try:
                if self.target.problem is not None:
                    raise self.target.problem
                self._client = await self.new_client(log_in=log_in)
                await self._client.start()
                self._connected_at = time.time()
            except DragomanError as error:
                self.failure = error
                await self._stop()
                raise
            except (TypeError, ValueError) as error:
                self.failure = InspectorError(str(error))
                raise self.failure from None
            except asyncio.CancelledError:  # the page is gone
                await self._stop()
                raise
            finally:
                exchange_observer.reset(observing)
                self._is_connecting = False
                self.push_status()

    async def disconnect(self) -> None:
        """End the connection, or the attempt to make one."""
        if self._client is not None:
            await self._client.stop()
        async with self._turn:
            self.failure = None
            await self._stop()
        self.push_status()

    async def _stop(self) -> None:
        client, self._client, self._connected_at = self._client, None, None
        if client is not None:
            await client.stop()

    async def new_client(self, *, log_in: bool = False) -> AsyncClient:
        """Return a client of the server that has not been started; its traffic is recorded."""
        target = self.target
        options: dict[str, Any] = {
            "connect_timeout": LOGIN_SECONDS if log_in else CONNECT_SECONDS,
            **target.options,
            **self._handlers(),
        }
        if self.requested_version is not None:
            options["protocol_version"] = self.requested_version
            options.pop("mode", None)
        else:
            options.pop("protocol_version", None)
        network = recorded_network(self.records, self._exchanges)
        if target.url is None:
            of_process = {name: options.pop(name) for name in _OF_THE_PROCESS if name in options}
            limits = Limits(message_bytes=MAX_MESSAGE_BYTES)
            endpoint = endpoint_of(target.target, EndpointOptions(Credentials(), limits=limits, **of_process))
            transport = RecordedTransport(endpoint, self.records, self._received_stderr, self.push_status)
            return AsyncClient(transport, network=network, **options)
        oauth = await self._authorization(log_in=log_in)
        if oauth is not None:
            options["auth"] = oauth
        return AsyncClient(target.target, network=network, **options)

    def _handlers(self) -> dict[str, Any]:
        """Return the options of the client by which the page takes part."""
        return {
            "server_name": self.target.name,
            "name": "dragoman-inspector",
            "max_message_bytes": MAX_MESSAGE_BYTES,
            "on_sampling": self._sample,
            "on_elicitation": Elicitation(self._elicit, max_concurrent=MAX_CONCURRENT),
            "on_approval": self._approve if self.approvals else None,
            "parallel_approvals": True,
            "roots": list(self.roots),
            "tasks": True,
            "apps": True,
            "on_log": self._log,
            "log_level": "info",
            "on_list_changed": partial(self._notice, "list_changed"),
            "on_resource_updated": partial(self._notice, "resource_updated"),
            "on_reconnect": self._reconnected,
        }

    async def _authorization(self, *, log_in: bool) -> OAuth | None:
        """Return the authorization by a login, if the options have none and there is a login, or one is to be made."""
        if self.target.is_authorized or self.target.url is None:
            return None
        oauth = self.oauth(log_in=log_in)
        tokens = await stored_tokens(oauth, self.target.url)
        return oauth if log_in or tokens is not None else None

    def oauth(self, *, log_in: bool = False) -> OAuth:
        """Return the authorization by a login; `log_in` sends the page to the authorization server."""
        if not log_in:
            return program_login(lambda _: "log in again", **self.target.login)

        def redirect(url: str) -> None:
            self._events.push("login", server=self.id, url=url)

        return program_oauth(**{**self.target.login, "redirect_handler": redirect})

    async def read_login(self) -> dict[str, Any]:
        """Return what is known of the login, and keep it for the page.

        Raises:
            InspectorError: the server is no URL.
        """
        self.login = login_facts(await stored_tokens(self.oauth(), self.require_url()))
        return self.login

    def require_url(self) -> str:
        """Return the URL of the server.

        Raises:
            InspectorError: the server is no URL.
        """
        if self.target.url is None:
            raise InspectorError(f"{self.target.name} is a process, and processes need no login", 409)
        return self.target.url

    def _fetched(self, exchange: FetchedExchange) -> None:
        record_fetched(self.records, next(self._exchanges), exchange)

    # What the server sends.

    def _received_stderr(self, lines: bytes) -> None:
        text = self.records.masks.lines(lines.decode("utf-8", "replace"))
        self.stderr = (self.stderr + text)[-STDERR_CHARACTERS:]
        self.records.write("server", "stderr", text.encode())
        self._events.push("stderr", server=self.id, text=text[-STDERR_CHARACTERS:])

    async def _notice(self, kind: str, detail: str) -> None:
        self._events.push("notice", server=self.id, kind=kind, detail=detail)

    async def _log(self, message: LogMessage) -> None:
        def shown() -> dict[str, Any]:
            data = Raw(self.records.masks.message(encode(message.data)))
            return {"level": message.level, "logger": message.logger, "data": data}

        self._events.push_log(self.id, shown)

    async def _reconnected(self) -> None:
        await self._notice("reconnected", self.target.name)
        self.push_status()

    async def _sample(self, request: SamplingRequest) -> Any:
        params, check = sampling_params(request), partial(sampling_answer, request)
        answer = await self._questions.ask(self.id, "sampling", params, check, self.script)
        if isinstance(answer, Rejected):
            raise answer
        return answer

    async def _elicit(self, request: ElicitationRequest) -> Any:
        kind: Literal["url", "elicitation"] = "url" if request.mode == "url" else "elicitation"
        params, check = elicitation_params(request), partial(elicitation_answer, request)
        return await self._questions.ask(self.id, kind, params, check, self.script)

    async def _approve(self, approval: Approval) -> bool:
        params = {"name": approval.name, "arguments": approval.arguments}
        check = partial(approval_answer, approval)
        return bool(await self._questions.ask(self.id, "approval", params, check, self.script))

    def change(
        self,
        *,
        approvals: bool | None = None,
        roots: list[types.Root] | None = None,
        script: list[AnswerRule] | None = None,
    ) -> None:
        """Change the settings; approvals count at once, and roots are sent to a connected server.

        Raises:
            InspectorError: a root is no `file://` URI of this machine.
        """
        if script is not None:
            self.script = script
        if approvals is not None:
            self.approvals = approvals
            if self._client is not None:
                self._client.on_approval = self._approve if approvals else None
        if roots is not None:
            self._change_roots(roots)
        self.push_status()

    def _change_roots(self, roots: list[types.Root]) -> None:
        try:
            if self._client is not None:
                wanted = {root.uri for root in roots}
                self._client.roots.add(*roots)
                self._client.roots.remove(*(one for one in self._client.roots.as_wire() if one.uri not in wanted))
        except ValueError as error:
            raise InspectorError(str(error)) from None
        self.roots = roots
