"""`dragoman tap (URL | -- COMMAND | FILE.mcpsession)`: record the messages between a host and a server."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.command import host_and_port, reporting, stop_event, usage_error
from dragoman.cli.terminal import Terminal
from dragoman.protocol.urls import is_http_url, is_loopback
from dragoman.runtime.user_files import private_folder, state_folder

if TYPE_CHECKING:
    from dragoman.compose.session_file import Record, SessionWriter
    from dragoman.compose.tap.faults import Faults

SUFFIX = ".mcpsession"
MAX_SHOWN = 160


@click.command("tap", short_help="Record what a host and a server say to each other.")
@click.argument("target", required=False)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="The session file; else one in the state folder.")
@click.option("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="Where the tap of a URL listens.")
@click.option("--login", is_flag=True, help="Log in to the URL, for hosts that cannot log in through a tap.")
@click.option("--live", is_flag=True, help="Show the messages on stderr as they pass.")
@click.option("--follow", is_flag=True, help="Show a session file, and wait for further messages.")
@click.option("--cassette", type=click.Path(path_type=Path), help="Write a session file as a cassette for tests.")
@click.option("--mask", multiple=True, metavar="NAME", help="Mask this header or member too.")
@click.option("--delay", type=float, default=0.0, metavar="SECONDS", help="Fault: delay each message.")
@click.option("--cut", is_flag=True, help="Fault: end the connection in the middle of a message of the server.")
@click.option("--duplicate", is_flag=True, help="Fault: send a message of the server twice.")
@click.option("--garbage", is_flag=True, help="Fault: send garbage before a message of the server.")
@click.option("--status", type=click.IntRange(100, 599), metavar="CODE", help="Fault: answer with this HTTP status.")
@click.option("--at", type=click.IntRange(1), metavar="N", help="Apply the fault to the N-th message or request only.")
@reporting
def command(
    terminal: Terminal,
    /,
    target: str | None,
    output: Path | None,
    listen: str,
    login: bool,  # noqa: FBT001
    live: bool,  # noqa: FBT001
    follow: bool,  # noqa: FBT001
    cassette: Path | None,
    mask: tuple[str, ...],
    **faults: object,
) -> int:
    """Record the messages between a host and a server in a session file, and pass them on unchanged.

    In the configuration of the host, replace COMMAND by `dragoman tap -- COMMAND`, or replace URL by the address that
    `dragoman tap URL` prints. `dragoman tap FILE.mcpsession` shows a session file.
    """
    from dragoman.compose.masking import Masks
    from dragoman.compose.session_file import SessionWriter
    from dragoman.compose.tap.faults import Faults

    child = terminal.settings.command
    if target is not None and target.endswith(SUFFIX) and child is None:
        _read(terminal, Path(target), mask, cassette, follow=follow)
        return 0
    if (target is None) == (child is None) or (target is not None and not is_http_url(target)):
        raise usage_error("Give a URL, a command after --, or a session file whose name ends with .mcpsession.")
    if child is not None and login:
        raise usage_error("--login needs a URL: a command has no login.")
    if child is not None and faults["status"] is not None:
        raise usage_error("--status needs a URL: a command answers without statuses.")
    name = target or " ".join(child or ())
    path = output or _new_path(name)
    injected = Faults(**faults)  # type: ignore[arg-type]

    def show(record: Record) -> None:
        terminal.report(_line(record), "dim")

    with SessionWriter(path, target=name, masks=Masks(mask), on_record=show if live else None) as writer:
        terminal.report(f"dragoman: recording to {path}", "dim")
        if child is None:
            assert target is not None
            asyncio.run(_tap_url(terminal, target, listen, writer, injected, login=login))
            return 0
        from dragoman.compose.tap.process_tap import ProcessTap

        return ProcessTap(child, writer, injected).run()


async def _tap_url(
    terminal: Terminal, target: str, listen: str, writer: SessionWriter, faults: Faults, *, login: bool
) -> None:
    from dragoman.compose.tap.http_tap import HttpTap
    from dragoman.inspector.login import program_oauth

    host, port = host_and_port("--listen", listen)
    if login and not is_loopback(host):
        raise usage_error("--login needs a loopback address after --listen: whoever reaches the tap uses your login.")
    stop = stop_event()
    oauth = program_oauth() if login else None
    async with HttpTap(target, writer, faults, host=host, port=port, authorization=oauth) as tap:
        terminal.write(tap.url)
        sys.stdout.flush()
        await stop.wait()


def _new_path(name: str) -> Path:
    """Return the path of a new session file in the state folder."""
    word = re.sub(r"[^A-Za-z0-9]+", "-", re.sub(r"^https?://|[?#].*", "", name)).strip("-")[:40] or "session"
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
    return private_folder(state_folder() / "sessions") / f"{stamp}-{word}{SUFFIX}"


def _read(terminal: Terminal, path: Path, mask: tuple[str, ...], cassette: Path | None, *, follow: bool) -> None:
    """Show a session file, or write it as a cassette."""
    from dragoman.compose.masking import Masks
    from dragoman.compose.session_file import SessionFile

    if cassette is not None:
        from dragoman.testing.cassettes.cassette import session_messages, write_cassette

        write_cassette(cassette, session_messages(path), Masks(mask))
        return
    session = SessionFile(path)
    for record in session.follow() if follow else session.records():
        if terminal.settings.json:
            terminal.write_json(record.as_json())
        else:
            terminal.write(_line(record))


def _line(record: Record) -> str:
    """Return a record as one line."""
    when = time.strftime("%H:%M:%S", time.localtime(record.time)) + f".{int(record.time % 1 * 1000):03d}"
    arrow = {"client": "->", "server": "<-", "tap": "--"}[record.sender]
    return f"{when} {arrow} {record.summary()[:MAX_SHOWN]}"
