"""The blocking face: threads, loops, interruptions, handlers that call the client, calls that are started."""

import asyncio
import concurrent.futures
import gc
import queue
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman import Client, ConnectError, DragomanError, RpcError, Timeout, ToolError, TransportError
from dragoman.runtime.portal import portal
from scenarios.calling_server import given_up, server
from scenarios.scripted_server import DEADLINE, HOLD, ScriptedServer, page, served

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


def until(condition, what):
    """Wait for something that another thread does."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        threading.Event().wait(0.005)


@ERAS
def test_a_script_calls_and_leaves(era):
    with Client(server, mode=era) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).structured == 3
        assert client.ping()
    assert client.status == "stopped"
    with pytest.raises(ConnectError, match=r"start\(\) it again"):
        client.call_tool("add")


def test_what_goes_wrong_is_raised_where_the_call_was_made():
    with Client(server) as client:
        with pytest.raises(ToolError):
            client.call_tool("add", {"a": "x"})
        with pytest.raises(RpcError):
            client.call_tool("no such tool")
        with pytest.raises(Timeout):
            client.call_tool("wait", {"name": "late"}, total_timeout=0.2)
        assert client.call_tool("add", {"a": 1, "b": 2}).structured == 3


@pytest.mark.parametrize("over", ["memory", "http"])
@ERAS
def test_fifty_threads_make_twenty_calls_each(over, era):
    def work(number):
        return [client.call_tool("add", {"a": number, "b": turn}).structured for turn in range(20)]

    def check(target):
        nonlocal client
        with Client(target, mode=era) as client, ThreadPoolExecutor(50) as threads:
            found = list(threads.map(work, range(50), timeout=6 * DEADLINE))
        assert found == [[number + turn for turn in range(20)] for number in range(50)]

    client = None
    if over == "memory":
        check(server)
    else:
        with served(server.asgi()) as url:
            check(url)


def test_threads_that_start_a_client_together_start_it_once():
    scripted = ScriptedServer({"tools/list": page("tools", "t")})
    client = Client(scripted)
    with ThreadPoolExecutor(20) as threads:
        found = list(threads.map(lambda _: client.tools()[0].name, range(20), timeout=DEADLINE))
    client.stop()
    assert found == ["t"] * 20
    assert scripted.opened == 1


def test_a_blocking_call_works_where_a_loop_runs_as_in_a_notebook():
    async def cell():
        with Client(server) as client:
            return client.call_tool("add", {"a": 1, "b": 2}).structured

    assert asyncio.run(asyncio.wait_for(cell(), DEADLINE)) == 3


def test_a_blocking_call_in_the_loop_that_would_serve_it_is_refused():
    async def nested():
        client.call_tool("add", {"a": 1, "b": 2})

    with Client(server) as client:
        with pytest.raises(DragomanError, match="would wait for itself; await its asynchronous twin there"):
            portal().run(nested())
        assert client.ping()


def test_an_asynchronous_handler_that_blocks_is_told_so_and_the_call_goes_on(caplog):
    async def blocks(progress, total, message):
        client.call_tool("add", {"a": 1, "b": 2})

    with Client(server) as client:
        assert client.call_tool("count", {"to": 1}, on_progress=blocks).text == "counted"
    assert "would wait for itself" in caplog.text


@ERAS
def test_a_plain_handler_of_progress_may_call_the_client(era):
    sums = []
    with Client(server, mode=era) as client:

        def nested(progress, total, message):
            sums.append(client.call_tool("add", {"a": progress, "b": 1}).structured)

        client.call_tool("count", {"to": 3}, on_progress=nested)
    assert sums == [2, 3, 4]


@ERAS
def test_a_plain_handler_of_elicitations_may_call_the_client(era):
    def answer(request):
        return {"answer": str(client.call_tool("add", {"a": 20, "b": 22}).structured)}

    with Client(server, mode=era, on_elicitation=answer) as client:
        assert client.call_tool("ask", {"question": "What is the answer?"}).text == "{'answer': '42'}"


def test_a_handler_of_approvals_may_call_the_client():
    def approve(call):
        return call.name == "add" or client.call_tool("add", {"a": 1, "b": 2}).structured == 3

    with Client(server, on_approval=approve) as client:
        assert client.call_tool("count", {"to": 1}).text == "counted"


@ERAS
def test_an_interrupted_call_is_given_up_and_the_client_stays_usable(era):
    main = threading.main_thread().ident
    with Client(server, mode=era) as client:
        for turn in range(5):

            def interrupt(*_):
                signal.pthread_kill(main, signal.SIGINT)

            with pytest.raises(KeyboardInterrupt):
                client.call_tool("wait", {"name": f"interrupted {era} {turn}"}, on_progress=interrupt)
            until(lambda: f"interrupted {era} {turn}" in given_up, "cancelling")  # noqa: B023
            assert client.call_tool("add", {"a": 1, "b": 2}).structured == 3


@pytest.mark.covers("LCAPS-03")
def test_an_idle_client_answers_the_pings_of_its_server():
    scripted = ScriptedServer()
    with Client(scripted):
        scripted.say("ping", id="are you there?")
        until(lambda: [said for said in scripted.received if said.get("id") == "are you there?"], "an answer")
        assert scripted.received[-1]["result"] == {}


@pytest.mark.covers("BEY-11")
@pytest.mark.parametrize("over", ["memory", "http"])
@ERAS
def test_a_started_call_is_cancelled_and_the_server_is_told(over, era):
    def check(target):
        name = f"started {over} {era}"
        begun = threading.Event()
        with Client(target, mode=era) as client:
            call = client.start_call("wait", {"name": name}, on_progress=lambda *_: begun.set())
            assert begun.wait(DEADLINE)
            assert not call.done
            with pytest.raises(TimeoutError):
                call.result(timeout=0.01)
            assert call.cancel()
            assert not call.cancel()
            with pytest.raises(concurrent.futures.CancelledError):
                call.result(DEADLINE)
            until(lambda: name in given_up, "cancelling")
            assert client.start_call("add", {"a": 1, "b": 2}).result(DEADLINE).structured == 3

    if over == "memory":
        check(server)
    else:
        with served(server.asgi()) as url:
            check(url)


def test_a_started_call_that_fails_raises_when_its_result_is_wanted():
    with Client(server) as client:
        call = client.start_call("add", {"a": "x"})
        with pytest.raises(ToolError):
            call.result(DEADLINE)
        assert call.done
        assert not call.cancel()


def test_a_client_that_nobody_refers_to_is_ended():
    scripted = ScriptedServer({"tools/list": page("tools", "t")})
    closed = queue.Queue()

    async def close():
        closed.put(True)

    scripted.close = close
    client = Client(scripted)
    client.tools()
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None
    gc.collect()
    assert closed.get(timeout=DEADLINE)


def test_calls_that_wait_when_the_client_is_stopped_by_another_thread_fail():
    scripted = ScriptedServer({"tools/call": HOLD})
    client = Client(scripted).start()
    call = client.start_call("t")
    until(lambda: scripted.sent("tools/call"), "the call")
    threading.Thread(target=client.stop, daemon=True).start()
    with pytest.raises(TransportError, match="closed while a request waited"):
        call.result(DEADLINE)
    client.stop()


def test_options_that_were_set_later_are_seen():
    client = Client(server)
    client.on_log = print
    assert client.on_log is print
    client.stop()


def test_stopping_what_was_never_started_is_harmless():
    client = Client(server)
    client.stop()
    client.stop()
    assert client.status == "stopped"
    client.start()
    assert client.ping()
    assert client.restart() is client
    client.stop()
