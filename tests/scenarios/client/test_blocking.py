"""The blocking client in real programs: scripts, forks, worker processes, Ctrl-C."""

import signal
import time

import pytest

from scenarios.client_programs import DEADLINE, http_server, run, start


@pytest.fixture(scope="module")
def url():
    with http_server() as url:
        yield url


EVERYWHERE = pytest.mark.parametrize("over", ["memory", "stdio", "http"])
REMOTE = pytest.mark.parametrize("over", ["stdio", "http"])


@EVERYWHERE
def test_a_script_needs_three_lines(over, url):
    program = """
    with Client(target) as client:
        print(client.call_tool("add", {"a": 1, "b": 2}).text)
    """
    assert run(program, over, url) == ["3"]


@pytest.mark.covers("LML-07")
@EVERYWHERE
def test_a_client_that_was_started_before_a_fork_works_in_the_child_and_still_in_the_parent(over, url):
    program = """
    client = Client(target, on_progress=print).start()
    tool = client.tool("add")
    note = client.call_tool("process").text
    child = os.fork()
    if not child:
        assert client.status == "new" and not client.alive and client.server_info is None
        assert [tool(a=n, b=1).structured for n in range(5)] == [1, 2, 3, 4, 5]
        mine = client.call_tool("process").text
        assert (mine == note) == (sys.argv[3] == "http"), (mine, note)
        client.stop()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert [tool(a=n, b=1).structured for n in range(5)] == [1, 2, 3, 4, 5]
    assert client.status == "ready" and client.server_info.name == "calling"
    if sys.argv[3] != "memory":
        assert client.call_tool("process").text == note
    client.stop()
    print("done")
    """
    assert run(program, over, url) == ["done"]


@pytest.mark.covers("LML-07")
@EVERYWHERE
@pytest.mark.parametrize("uses", ["use", "leave", "drop", "stop"])
def test_a_child_that_exits_in_good_order_leaves_its_parents_connection_alone(over, uses, url):
    program = """
    import gc
    client = Client(target).start()
    before = client.call_tool("process").text
    if not os.fork():
        if WHAT == "use":
            client.call_tool("add", {"a": 1, "b": 2})
        elif WHAT == "drop":
            del client
            gc.collect()
        elif WHAT == "stop":
            client.stop()
        gc.collect()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    for n in range(5):
        assert client.call_tool("add", {"a": n, "b": 2}).structured == n + 2
    assert client.call_tool("process").text == before
    client.stop()
    print("done")
    """
    assert run(f"WHAT = {uses!r}\n" + _dedented(program), over, url) == ["done"]


def _dedented(program):
    return "\n".join(line[4:] for line in program.splitlines())


@REMOTE
def test_workers_that_were_forked_from_a_connected_parent_call_at_once(over, url):
    program = """
    from concurrent.futures import ThreadPoolExecutor
    client = Client(target).start()
    def work():
        with ThreadPoolExecutor(4) as threads:
            sums = threads.map(lambda n: client.call_tool("add", {"a": n, "b": 1}).structured, range(20))
            return list(sums) == list(range(1, 21))
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            os._exit(0 if work() else 1)
        children.append(child)
    assert work()
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert work()
    client.stop()
    print("done")
    """
    assert run(program, over, url) == ["done"]


FORKED = """
client = Client(target).start()

def work(number):
    return client.call_tool("add", {"a": number, "b": 1}).structured

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(work, range(10)))
    print(work(10))
    client.stop()
"""


@EVERYWHERE
def test_a_pool_of_forked_processes_shares_a_client(over, url):
    assert run(FORKED, over, url) == [str(list(range(1, 11))), "11"]


@REMOTE
def test_a_pool_of_spawned_processes_makes_its_own_clients(over, url, tmp_path):
    module = tmp_path / "spawned.py"
    module.write_text(
        "import logging, multiprocessing, sys\n"
        "logging.getLogger('asyncio').setLevel(logging.ERROR)\n"
        "from dragoman import Client\n"
        f"target = {url!r} if {over!r} == 'http' else [sys.executable, sys.argv[-1]]\n"
        "client = Client(target)\n"
        "def work(number):\n"
        "    return client.call_tool('add', {'a': number, 'b': 1}).structured\n"
        "def main():\n"
        "    client.start()\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        print(pool.map(work, range(6)))\n"
        "    print(work(6))\n"
        "    client.stop()\n"
    )
    program = f"""
    sys.path.insert(0, {str(tmp_path)!r})
    sys.argv.append(sys.argv[1])
    import spawned
    spawned.main()
    """
    assert run(program, over, url) == [str(list(range(1, 7))), "7"]


@EVERYWHERE
def test_ctrl_c_ends_a_call_and_the_client_goes_on(over, url):
    program = """
    def tell(*_):
        print("waiting", flush=True)
    with Client(target) as client:
        try:
            client.call_tool("wait", {"name": "x"}, on_progress=tell)
        except KeyboardInterrupt:
            print(client.call_tool("add", {"a": 1, "b": 2}).text, flush=True)
            if sys.argv[3] == "stdio":
                print(client.call_tool("given_up").structured)
    """
    with start(program, over, url) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=DEADLINE)
    assert output.splitlines() == ["3", "['x']"] if over == "stdio" else ["3"]
    assert errors == ""


@pytest.mark.parametrize("face", ["blocking", "async"])
@EVERYWHERE
def test_a_program_that_forgets_its_clients_ends_at_once_and_without_a_word(face, over, url):
    program = """
    def blocking():
        for _ in range(3):
            kept.append(Client(target))
            print(kept[-1].call_tool("add", {"a": 1, "b": 2}).text)
            kept[-1].tools()
    async def main():
        for _ in range(3):
            kept.append(AsyncClient(target))
            print((await kept[-1].call_tool("add", {"a": 1, "b": 2})).text)
            await kept[-1].tools()
    kept = []
    if FACE == "async":
        asyncio.run(main())
    else:
        blocking()
    """
    began = time.monotonic()
    assert run(f"FACE = {face!r}\n" + _dedented(program), over, url) == ["3", "3", "3"]
    assert time.monotonic() - began < DEADLINE / 2


@EVERYWHERE
def test_a_program_that_drops_its_clients_ends_without_a_word(over, url):
    program = """
    import gc
    def use():
        Client(target).call_tool("add", {"a": 1, "b": 2})
    use()
    gc.collect()
    async def main():
        await AsyncClient(target).call_tool("add", {"a": 1, "b": 2})
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()
    asyncio.run(main())
    print("done")
    """
    assert run(program, over, url) == ["done"]


@REMOTE
def test_a_program_may_end_while_calls_of_other_threads_wait(over, url):
    program = """
    client = Client(target).start()
    begun = threading.Event()
    def work():
        client.start_call("wait", {"name": "x"}, on_progress=lambda *_: begun.set())
    threading.Thread(target=work).start()
    assert begun.wait(30)
    print("done")
    """
    assert run(program, over, url) == ["done"]


@EVERYWHERE
def test_an_asynchronous_client_that_was_left_open_serves_the_next_loop(over, url):
    program = """
    client = AsyncClient(target)
    for _ in range(3):
        print(asyncio.run(client.call_tool("add", {"a": 1, "b": 2})).text, client.status)
    """
    assert run(program, over, url) == ["3 new"] * 3
