"""What the README says of dragoman beside `mcp` and `fastmcp`, shown by running each; `docs/comparison.md` explains it.

Servers are asked by a client, and clients use a server, that belong to none of the libraries (`comparison/`). `TABLE`
is what the pages show: a cell that is not so fails here, and so does a page that shows another cell.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import dragoman
from dragoman import auth
from interop.comparison import running
from interop.comparison.running import HANDSHAKE, INITIALIZED, META, NEWEST, Message, Reply, Served

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("dragoman", "mcp", "fastmcp")
COUNT = 12
GOES_ON, STAYS_LOST = "goes on", "every further call fails"

TABLE: dict[str, dict[str, str]] = {
    "12 sessions of earlier clients, requests to two processes in turn: served": {
        "dragoman": "12 of 12",
        "mcp": "0 of 12",
        "fastmcp": "0 of 12",
    },
    "12 calls of 2026-07-28, to two processes in turn: served": {
        "dragoman": "12 of 12",
        "mcp": "12 of 12",
        "fastmcp": "12 of 12",
    },
    "protocol versions that one server object serves": {
        "dragoman": "5 of 5",
        "mcp": "5 of 5",
        "fastmcp": "5 of 5",
    },
    "mounted in Starlette, with nothing done about its lifespan": {
        "dragoman": "served",
        "mcp": "status 500",
        "fastmcp": "status 500",
    },
    "a foreign `Host` at a server on 127.0.0.1, by default": {
        "dragoman": "status 421",
        "mcp": "status 421",
        "fastmcp": "served",
    },
    "`await ctx.elicit(...)` in a tool reaches clients": {
        "dragoman": "of both eras",
        "mcp": "before 2026-07-28",
        "fastmcp": "before 2026-07-28",
    },
    "the server forgot the session: a client": {
        "dragoman": GOES_ON,
        "mcp": STAYS_LOST,
        "fastmcp": STAYS_LOST,
    },
    "the server's process was killed: a client that reads": {
        "dragoman": GOES_ON,
        "mcp": STAYS_LOST,
        "fastmcp": STAYS_LOST,
    },
    "one of three tools is malformed: listed": {
        "dragoman": "the other two",
        "mcp": "none",
        "fastmcp": "none",
    },
    "progress while a call runs longer than its time-out": {
        "dragoman": "extends it",
        "mcp": "the call fails",
        "fastmcp": "the call fails",
    },
    "a client closed in another task than it was opened in": {
        "dragoman": "closes",
        "mcp": "`RuntimeError`",
        "fastmcp": "closes",
    },
    "`with Client(...)`, without `async`": {
        "dragoman": "yes",
        "mcp": "no",
        "fastmcp": "no",
    },
}

# What others have: how the pages name it, and where it is.
POSSESSIONS: dict[str, tuple[str, ...]] = {
    "servers made of an OpenAPI description or a FastAPI application": (
        "fastmcp:FastMCP.from_openapi",
        "fastmcp:FastMCP.from_fastapi",
    ),
    "transforms of tools and a search over them": (
        "fastmcp.server.transforms.tool_transform:ToolTransform",
        "fastmcp.server.transforms.search:BM25SearchTransform",
    ),
    "middleware for caches and retries": (
        "fastmcp.server.middleware.caching:ResponseCachingMiddleware",
        "fastmcp.server.middleware.error_handling:RetryMiddleware",
    ),
    "logins by way of GitHub, Google, Azure and others": (
        "fastmcp.server.auth:OAuthProxy",
        "fastmcp.server.auth.providers.github:GitHubProvider",
        "fastmcp.server.auth.providers.google:GoogleProvider",
        "fastmcp.server.auth.providers.azure:AzureProvider",
    ),
    "an authorization server": ("mcp.server.auth.provider:OAuthAuthorizationServerProvider",),
    "HTTP with server-sent events as 2024-11-05 had it": ("mcp.server.mcpserver:MCPServer.sse_app",),
}


class Subjects(NamedTuple):
    """What runs for all rows."""

    servers: dict[str, Served]
    clients: dict[str, Future[dict[str, list[str]]]]

    def came_of(self, library: str, behaviour: str) -> list[str]:
        """Return what came of every attempt of a client."""
        return self.clients[library].result()[behaviour]


@pytest.fixture(scope="module")
def subjects() -> Iterator[Subjects]:
    """Run servers and clients once; most of it is waiting, so they run side by side."""
    with ThreadPoolExecutor(len(LIBRARIES)) as threads, running.served(*LIBRARIES) as servers:
        yield Subjects(servers, {library: threads.submit(running.behaviours, library) for library in LIBRARIES})


def tally(served: list[bool]) -> str:
    return f"{sum(served)} of {len(served)}"


def status(reply: Reply) -> str:
    return "served" if reply.status == 200 and "result" in reply.message else f"status {reply.status}"


def is_session_served(pair: tuple[int, int], number: int) -> bool:
    """Send the requests of a session to two processes in turn."""
    first, second = pair if number % 2 else reversed(pair)
    begun = post_initialize(first)
    assert "result" in begun.message, begun
    headers = {"mcp_protocol_version": NEWEST} | ({"mcp_session_id": begun.session} if begun.session else {})
    running.post(second, INITIALIZED, **headers)
    texts = [running.post(port, running.call("pid"), **headers).text for port in (first, second, first, second)]
    assert texts[0] is not None, "the process that a session began in serves it"
    return None not in texts and len(set(texts)) == 2


def post_initialize(port: int, version: str = NEWEST, **headers: str) -> Reply:
    return running.post(port, running.initialize(version), **headers)


def sessions_over_processes(subjects: Subjects, library: str) -> str:
    pair = subjects.servers[library].pair
    return tally([is_session_served(pair, number) for number in range(COUNT)])


def calls_over_processes(subjects: Subjects, library: str) -> str:
    pair = subjects.servers[library].pair
    return tally([running.call_stateless(pair[number % 2], "pid").text is not None for number in range(COUNT)])


def versions(subjects: Subjects, library: str) -> str:
    port = subjects.servers[library].pair[0]
    agreed = [
        post_initialize(port, version).message.get("result", {}).get("protocolVersion") == version
        for version in HANDSHAKE
    ]
    return tally([*agreed, running.call_stateless(port, "pid").text is not None])


def mounted(subjects: Subjects, library: str) -> str:
    return status(post_initialize(subjects.servers[library].mounted))


def foreign_host(subjects: Subjects, library: str) -> str:
    return status(post_initialize(subjects.servers[library].pair[0], host="rebound.example.com"))


def answered_before(library: str, tool: str) -> str:
    """Let a tool ask a client of the handshake era."""
    with running.conversation(library) as server:
        server.ask(running.initialize())
        server.say(INITIALIZED)
        asked = server.ask(running.call(tool))
        if asked.get("method") == "elicitation/create":
            answer = {"action": "accept", "content": {"number": 2}}
            asked = server.ask({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
        return told(asked)


def answered_since(library: str, tool: str) -> str:
    """Let a tool ask a client of the stateless era."""
    with running.conversation(library) as server:
        result = server.ask(running.call(tool, _meta=META)).get("result", {})
        if not result.get("inputRequests"):
            return "not asked"
        answers = {key: {"action": "accept", "content": {"number": 2}} for key in result["inputRequests"]}
        again = {"inputResponses": answers, "requestState": result.get("requestState")}
        return told(server.ask(running.call(tool, _meta=META, **again)))


def told(response: Message) -> str:
    return str(response.get("result", {}).get("content", [{}])[0].get("text"))


def asking(subjects: Subjects, library: str, tool: str = "book") -> str:
    heard = {"the answer: accept": True, "not asked": False}
    eras = (heard[answered_before(library, tool)], heard[answered_since(library, tool)])
    return {(True, True): "of both eras", (True, False): "before 2026-07-28"}[eras]


def recovery(attempts: list[str], reason: str) -> str:
    """Say whether all attempts went well, or all failed for the reason that is compared."""
    failed = [reason in attempt for attempt in attempts if attempt.startswith("failed: ")]
    assert all(failed), attempts
    return {0: GOES_ON, len(attempts): STAYS_LOST}[len(failed)]


def forgotten_session(subjects: Subjects, library: str) -> str:
    return recovery(subjects.came_of(library, "read_after_the_session_is_forgotten"), "Session terminated")


def killed_process(subjects: Subjects, library: str) -> str:
    return recovery(subjects.came_of(library, "read_after_the_process_is_killed"), "Connection closed")


def malformed_tool(subjects: Subjects, library: str) -> str:
    [came] = subjects.came_of(library, "list_with_a_malformed_tool")
    if came == "first count":
        return "the other two"
    assert "1 validation error for ListToolsResult" in came, came
    return "none"


def progress(subjects: Subjects, library: str) -> str:
    [came] = subjects.came_of(library, "call_with_progress")
    if came == "counted":
        return "extends it"
    assert "timed out" in came, came
    return "the call fails"


def closing_elsewhere(subjects: Subjects, library: str) -> str:
    [came] = subjects.came_of(library, "close_in_another_task")
    if came == "closed":
        return "closes"
    assert "RuntimeError: Attempted to exit cancel scope in a different task" in came, came
    return "`RuntimeError`"


def blocking(subjects: Subjects, library: str) -> str:
    [came] = subjects.came_of(library, "use_without_awaiting")
    if came.isdigit():
        return "yes"
    assert "does not support the context manager protocol" in came, came
    return "no"


SHOWN: dict[str, Callable[[Subjects, str], str]] = dict(
    zip(
        TABLE,
        (
            sessions_over_processes,
            calls_over_processes,
            versions,
            mounted,
            foreign_host,
            asking,
            forgotten_session,
            killed_process,
            malformed_tool,
            progress,
            closing_elsewhere,
            blocking,
        ),
        strict=True,
    )
)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("row", TABLE)
def test_a_cell_says_what_its_library_does(subjects: Subjects, row: str, library: str) -> None:
    assert SHOWN[row](subjects, library) == TABLE[row][library]


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_sessions_every_library_serves_earlier_clients_by_two_processes(
    subjects: Subjects, library: str
) -> None:
    pair = subjects.servers[library].pair_without_sessions
    assert post_initialize(pair[0]).session is None
    assert tally([is_session_served(pair, number) for number in range(COUNT)]) == "12 of 12"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_new_block_connects_anew_to_a_server_that_forgot(subjects: Subjects, library: str) -> None:
    [came] = subjects.came_of(library, "read_in_a_new_block")
    assert came.isdigit(), came


def test_hosts_are_checked_by_fastmcp_when_it_is_told_to(subjects: Subjects) -> None:
    port = subjects.servers["fastmcp"].guarded
    assert status(post_initialize(port)) == "served"
    assert status(post_initialize(port, host="rebound.example.com")) == "status 421"


def test_a_question_that_is_a_parameter_reaches_clients_of_both_eras_in_mcp(subjects: Subjects) -> None:
    assert asking(subjects, "mcp", "book_by_parameter") == "of both eras"


def test_what_others_have_is_there() -> None:
    names = [name for places in POSSESSIONS.values() for name in places]
    assert running.run("mcp", "possessions.py", *names) == ""


def test_what_others_have_is_not_here() -> None:
    wanted = {re.split(r"[:.(]", name.rstrip(")"))[-1] for places in POSSESSIONS.values() for name in places}
    assert not wanted & {*dragoman.__all__, *auth.__all__, *dir(dragoman.Server), *dir(dragoman.Context)}  # type: ignore[attr-defined]


def installed(library: str) -> str:
    """Return the version of the distribution that is compared."""
    program = f"from importlib.metadata import version; print(version({library!r}))"
    command = [running.python_of(library), "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=running.DEADLINE, check=True).stdout.strip()


def table() -> str:
    """Return the table as the pages show it."""
    peers = " | ".join(f"`{library}` {installed(library)}" for library in LIBRARIES[1:])
    rows = [f"| {row} | {' | '.join(cells[library] for library in LIBRARIES)} |" for row, cells in TABLE.items()]
    return "\n".join([f"| | `dragoman` | {peers} |", "|---|---|---|---|", *rows, ""])


@pytest.mark.parametrize("page", ["README.md", "docs/comparison.md"])
def test_a_page_shows_this_table_and_names_what_others_have(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert table() in text, f"{page} should have this table:\n{table()}"
    words = " ".join(text.split())
    assert [name for name in POSSESSIONS if name not in words] == []
