"""Draws where the processor time of a carrier goes: `python bench/flame.py [CARRIER ...]`.

A server or a client of ours runs under load for some seconds, and py-spy (`pip install py-spy`) looks at its stacks
from outside. They are drawn to `docs/assets/flames/CARRIER.svg`: a bar is a function, as wide as the share of the time
in which it was on a stack, above the function that called it. Functions with less than half a percent are left out, and
so are those at the bottom that only call the next one. The time of a function in C is that of the function that calls
it. A handler of signals in the program itself was rejected: it runs in the main thread alone, and sees of other threads
only where they let go of the interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path

import client
import stdio
from processes import DEADLINE, HERE
from streamable_http import PYTHON_STATELESS, WORKLOADS, Load, Server

FOLDER = HERE.parent / "docs" / "assets" / "flames"
RATE = 500
SECONDS = 10
LOADED_SECONDS = SECONDS + 2.0
"""How long the load lasts, so that it is there when the sampler has begun, and when it ends."""
CALLS = 20_000
WAITING = ("EpollSelector.select", "_Threads.wait_for_turn", "Portal.run", "_worker", "Thread.run")
"""The functions in which a thread only waits."""
WIDTH, ROW, TOP, LETTER = 1000, 17, 44, 6.1
LEAST = 0.005
"""The share below which a function is not drawn."""
COLOURS = {"dragoman": "#7dd3c8", "bench": "#93c5fd", "python": "#d1d5db"}
OTHERS = "#fcd34d"
LEGEND = {"dragoman": "dragoman", "python": "Python and its library", "bench": "the tool, the client's loop"}


@dataclass
class Bar:
    """A function on a stack: how often it was seen, and what it called."""

    name: str = ""
    count: int = 0
    called: dict[str, Bar] = field(default_factory=dict)


def tree(stacks: list[str]) -> Bar:
    """Return what stacks come to, without the bottom that they share."""
    root = Bar("all threads")
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        names = stack.split(";")
        if names[-1].startswith(WAITING):
            continue
        bar = root
        bar.count += int(count)
        for name in names:
            bar = bar.called.setdefault(name, Bar(name))
            bar.count += int(count)
    while len(root.called) == 1 and next(iter(root.called.values())).count >= root.count * (1 - LEAST):
        (root,) = root.called.values()
    return root


def shown(bar: Bar, total: int) -> list[Bar]:
    """Return what a function called, without what took next to no time."""
    return [one for one in sorted(bar.called.values(), key=lambda one: one.name) if one.count >= total * LEAST]


def depth(bar: Bar, total: int) -> int:
    """Return how many bars stand upon each other."""
    return 1 + max((depth(one, total) for one in shown(bar, total)), default=0)


def kind_of(file: str) -> str:
    """Return whose a file is."""
    package = file.partition("/")[0]
    if (HERE / f"{file}.py").exists():
        return "bench"
    return "python" if package in sys.stdlib_module_names or not package else package


def bars(bar: Bar, x: float, level: int, total: int, bottom: float) -> Iterator[str]:
    """Draw a function, and above it what it called."""
    width, y = WIDTH * bar.count / total, bottom - (level + 1) * ROW
    function, _, place = bar.name.partition(" (")
    function, file = function.replace("<locals>.", ""), place.rpartition(".py:")[0]
    colour = COLOURS.get(kind_of(file), OTHERS)
    room = int((width - 6) / LETTER)
    said = next((text for text in (f"{function}  {file}", function) if len(text) <= room), function[:room])
    label = f'<text x="{x + 3:.1f}" y="{y + 12:.1f}">{escape(said)}</text>' if room > 2 else ""
    yield (
        f"<g><title>{escape(file)}: {escape(function)}, {bar.count / total:.1%}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width - 0.6, 0.4):.1f}" height="{ROW - 1}" fill="{colour}"/>'
        f"{label}</g>\n"
    )
    for one in shown(bar, total):
        yield from bars(one, x, level + 1, total, bottom)
        x += WIDTH * one.count / total


def draw(stacks: list[str], title: str) -> str:
    """Return the picture."""
    root = tree(stacks)
    bottom = float(TOP + depth(root, root.count) * ROW)
    kinds = [*((COLOURS[kind], said) for kind, said in LEGEND.items()), (OTHERS, "other packages")]
    legend = "".join(
        f'<rect x="{6 + 200 * place}" y="26" width="10" height="10" fill="{colour}"/>'
        f'<text x="{21 + 200 * place}" y="35" fill="#6b7280">{said}</text>'
        for place, (colour, said) in enumerate(kinds)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 4:.0f}" role="img" '
        f'aria-label="{escape(title)}" font-family="monospace" font-size="10" fill="#111827">\n'
        f'<text x="6" y="16" font-size="13" fill="#6b7280">{escape(title)} ({root.count:,} samples)</text>{legend}\n'
        f"{''.join(bars(root, 0.0, 0, root.count, bottom))}</svg>\n"
    )


@contextmanager
def sampled(process: int, stacks: list[str]) -> Iterator[None]:
    """Sample a process meanwhile, and add its stacks to a list."""
    with tempfile.TemporaryDirectory(prefix="flame") as folder:
        file = Path(folder) / "stacks"
        options = ("--rate", str(RATE), "--duration", str(SECONDS), "--function", "--format", "raw", "--output", file)
        child = subprocess.Popen([sampler(), "record", "--pid", str(process), *options], stdout=subprocess.DEVNULL)
        yield
        if child.wait(DEADLINE) != 0:
            raise SystemExit("py-spy cannot look into the program; it needs the right to trace processes")
        stacks += file.read_text(encoding="utf-8").splitlines()


def sampler() -> str:
    """Return the path of py-spy."""
    found = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise SystemExit("py-spy is not installed; run: .venv/bin/pip install py-spy")
    return found


def of_stdio(stacks: list[str]) -> None:
    """Sample a server over stdio that gets calls in one go."""
    requests = b"".join(stdio.calls("add", CALLS))
    with stdio.Server("dragoman") as server, sampled(server.child.pid, stacks):
        ends = time.monotonic() + LOADED_SECONDS
        while time.monotonic() < ends:
            server.ask_all(requests, CALLS)


def of_http(name: str, stacks: list[str]) -> None:
    """Sample a server over HTTP with stateless calls over 16 connections."""
    with Server(name) as server, Load() as load:
        requests = server.requests(PYTHON_STATELESS["dragoman"], WORKLOADS["http_stateless"])
        with sampled(server.child.pid, stacks):
            load.go(port=server.port, seconds=LOADED_SECONDS, requests=requests)


def of_client(name: str, at_once: int, stacks: list[str]) -> None:
    """Sample a client of ours that calls a server over HTTP."""
    with client.http_server() as (url, _), client.Side(name, "stateless", "http", url) as side:
        side.rate(0.1, at_once)
        with sampled(side.process, stacks):
            side.rate(LOADED_SECONDS, at_once)


CARRIERS: dict[str, tuple[str, Callable[[list[str]], None]]] = {
    "stdio": ("a server over stdio, calls in one go", of_stdio),
    "http": ("a server over HTTP by run, 16 connections", partial(of_http, "dragoman")),
    "mounted": ("a server mounted in FastAPI on uvicorn, 16 connections", partial(of_http, "dragoman-fastapi")),
    "client": ("the asynchronous client over HTTP, 64 calls at once", partial(of_client, "dragoman", 64)),
    "blocking": ("the blocking client over HTTP, one call at a time", partial(of_client, "blocking", 1)),
}


def main() -> None:
    """Draw the carriers that are asked for, or all."""
    wanted = sys.argv[1:] or list(CARRIERS)
    if unknown := set(wanted) - set(CARRIERS):
        raise SystemExit(f"There is no carrier {', '.join(unknown)}; there are {', '.join(CARRIERS)}")
    for carrier in wanted:
        title, sample = CARRIERS[carrier]
        stacks: list[str] = []
        sample(stacks)
        picture = draw(stacks, title)
        file = FOLDER / f"{carrier}.svg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(picture, encoding="utf-8")
        print(f"{file.relative_to(HERE.parent)}: {len(picture):,} bytes")


if __name__ == "__main__":
    main()
