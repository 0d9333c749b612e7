"""The blocking group."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman import (
    AsyncClients,
    Client,
    Clients,
    ServerCrashed,
)
from dragoman.client.group.blocking import GroupTool
from dragoman.client.group.group import AsyncGroupTool
from dragoman.runtime.portal import portal
from scenarios.client_peer import DEADLINE
from scenarios.group_servers import DEAD, HANGING, weather


@pytest.mark.covers("LMG-02")
def test_the_blocking_face_does_all_of_it(notes, tmp_path):
    clients = Clients({"notes": notes, "weather": weather(), "dead": DEAD})
    clients.add("hanging", HANGING, connect_timeout=1)
    with clients:
        status = clients.status
        assert status.pop("hanging") == "connecting"
        assert status == {"notes": "ready", "weather": "ready", "dead": "failed"}
        assert isinstance(clients["notes"], Client)
        assert "MY_KEY" in str(clients.errors["dead"])
        tools = {tool.qualified_name: tool for tool in clients.tools(exclude="crash")}
        assert sorted(tools) == ["delete", "forecast", "notes__search", "weather__search", "who"]
        assert isinstance(tools["notes__search"], GroupTool)
        assert (tools["notes__search"].name, tools["notes__search"].server) == ("search", "notes")
        assert tools["notes__search"](text="tea").text == "notes about tea"
        assert tools["weather__search"].call({"text": "tea"}).text == "weather of tea"
        assert clients.call_tool("forecast", {"city": "Oslo"}).text == "rain in Oslo"
        assert clients.call_tool(tools["weather__search"], {"text": "x"}).text == "weather of x"
        assert clients.tool("notes__who")().text.startswith("nobody")
        assert sorted(prompt.name for prompt in clients.prompts()) == ["packing", "summary"]
        assert clients.resources()[0].content() == "tea"
        assert clients.resource_templates()[0].fetch(id=3) == "note 3"
        added = clients.add("more", notes, env={"WHO": "Jo"})
        assert added is clients["more"]
        assert clients.call_tool("more__who").text.startswith("Jo")
        assert clients.restart("more") is clients
        clients.remove("more")
        assert added.status == "stopped"
        with pytest.raises(ServerCrashed):
            clients.restart("dead")
    assert set(clients.status.values()) == {"stopped"}
    with pytest.raises(ServerCrashed, match="required"):
        Clients({"dead": DEAD}, required=["dead"]).start()


@pytest.mark.covers("LMG-05")
def test_threads_that_use_a_new_group_together_find_every_tool(notes):
    clients = Clients({"notes": notes, "weather": weather()})
    barrier = threading.Barrier(4)

    def use(number: int) -> object:
        barrier.wait(DEADLINE)
        if number % 2:
            return len(clients.tools())
        return clients.call_tool("notes__search", {"text": "tea"}).text

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, range(4), timeout=DEADLINE)) == ["notes about tea", 6] * 2
    clients.stop()


FORKED = """
import os, sys
from dragoman import Clients

clients = Clients({"notes": sys.argv[1]}).start()
search = clients.tool("search")
child = os.fork()
if child == 0:
    assert search(text="tea").text == "notes about tea"
    assert clients.call_tool("search", {"text": "x"}).text == "notes about x"
    assert [tool.name for tool in clients.tools("who")] == ["who"]
    clients.stop()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert search(text="tea").text == "notes about tea"
print(clients.status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_blocking_group_works_on_both_sides_of_a_fork_and_needs_no_end(notes):
    finished = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, str(notes)],
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "{'notes': 'ready'}\n", "")


def test_the_asynchronous_twins_serve_what_runs_on_the_loop_of_blocking_clients(notes):
    async def use(group: AsyncClients, tool: AsyncGroupTool) -> list[str]:
        found = await group.tool("notes__who")
        return [found.server, tool.qualified_name, (await tool(text="tea")).text]

    with Clients({"notes": notes}) as clients:
        search = clients.tool("search")
        used = portal().run(use(clients.asynchronous, search.asynchronous))
        assert used == ["notes", "search", "notes about tea"]
