"""`dragoman chat MODEL [TARGET ...]`: a conversation with a model that may use the tools of servers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.command import connecting, listen_to_logs, refuse
from dragoman.cli.exits import in_one_line
from dragoman.cli.settings import CommandSettings
from dragoman.cli.targets import Aim, aim_at, client_options, configuration, make_client, of_entry, with_remedy
from dragoman.cli.terminal import Terminal
from dragoman.errors import AuthRequired, DragomanError
from dragoman.runtime.terminal import is_terminal, printable_json, printable_line

if TYPE_CHECKING:
    from dragoman.chat import Chat, Chunk
    from dragoman.client.answer.approval import Approval
    from dragoman.client.blocking import Client

LONGEST_MENTION = 300


@click.command("chat", short_help="Talk to a model that uses the tools of servers.")
@click.argument("model")
@click.argument("targets", nargs=-1, metavar="[TARGET ...]")
@click.option("--instructions", metavar="TEXT", help="What the model is told about its task.")
@click.option("--base-url", metavar="URL", help="Where the model is, if not at its provider's usual address.")
@click.option("--api-key", envvar="DRAGOMAN_API_KEY", metavar="KEY", help="Or the provider's own variable.")
@click.option("--yes", is_flag=True, help="Let the model call every tool without asking.")
@click.option(
    "--trusted", multiple=True, metavar="TARGET", help="Believe what this server says about its tools; may be repeated."
)
@connecting
@click.pass_obj
def command(settings: CommandSettings, /, model: str, targets: tuple[str, ...], **options: Any) -> None:
    """Talk to a model, as in openai:gpt-4.1, that may use the tools of servers.

    /tools shows the tools, /quit ends. Without a terminal, one question is read from stdin and answered.
    """
    terminal = Terminal(settings)
    listen_to_logs(terminal)
    question = None
    if not terminal.can_ask:
        question = sys.stdin.read().strip()
        if not question:
            raise refuse("There is no question: write one to stdin, or start this in a terminal.")
    with ExitStack() as stack:
        aims = asyncio.run(_aims(terminal, targets))
        _mark_trusted(aims, options["trusted"])
        clients = [_open(terminal, aim, stack) for aim in aims]
        chat = stack.enter_context(_chat(terminal, model, options)).with_tools(*clients)
        if question is None:
            _converse(terminal, chat, clients)
        else:
            _answer_once(terminal, chat, question)


async def _aims(terminal: Terminal, words: Sequence[str]) -> list[Aim]:
    settings = terminal.settings
    plain = Terminal(dataclasses.replace(settings, command=None))
    aims = [await aim_at(plain, word) for word in words]
    if settings.command is not None:
        aims.append(await aim_at(terminal, None))
    if aims or (settings.config is None and not _is_configured()):
        return aims
    file, entries = configuration(settings)
    return [await of_entry(terminal, entry, file) for entry in entries if not entry.disabled]


def _mark_trusted(aims: Sequence[Aim], names: Sequence[str]) -> None:
    """Mark the servers that the user trusts.

    Raises:
        UsageError: one of the names is that of no server here.
    """
    for name in names:
        meant = [aim for aim in aims if aim.label == name]
        if not meant:
            there = ", ".join(aim.label for aim in aims) or "none"
            raise refuse(f"--trusted {name!r} names no server that is used here; there are: {there}.")
        for aim in meant:
            aim.options["trusted"] = True


def _is_configured() -> bool:
    from dragoman.client.group.config import find

    return find() is not None


def _open(terminal: Terminal, aim: Aim, stack: ExitStack) -> Client:
    from dragoman.cli.questions import Questions
    from dragoman.client.blocking import Client

    options = asyncio.run(client_options(terminal.settings, aim))
    options["on_elicitation"] = Questions(terminal, lambda: None)
    client: Client = make_client(Client, aim, options)
    stack.callback(client.stop)
    try:
        client.start()
    except AuthRequired as error:
        raise with_remedy(error, aim) from error
    return client


def _chat(terminal: Terminal, model: str, options: dict[str, Any]) -> Chat:
    from dragoman.chat import Chat, Policy

    try:
        chat = Chat(
            model,
            base_url=options["base_url"],
            api_key=options["api_key"],
            policy=Policy() if options["yes"] else Policy(ask=[may_destroy]),
            on_approval=TerminalApproval(terminal).decide,
        )
    except ValueError as error:
        raise refuse(f"{error}.") from error
    return chat.with_instructions(options["instructions"]) if options["instructions"] else chat


def may_destroy(tool: Any, arguments: dict[str, Any]) -> bool:  # noqa: ARG001
    """Tell whether a tool may destroy something: it may, unless a server that is trusted says otherwise."""
    hints = tool.annotations
    return not (tool.is_trusted and (hints.read_only_hint or hints.destructive_hint is False))


class TerminalApproval:
    """Asks about tool calls, one after the other, and shows all that would be sent."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def decide(self, approval: Approval) -> bool:
        """Ask whether a call may be made."""
        if not self._terminal.can_ask:
            approval.deny("nobody is there to approve of it")
            return False
        name = printable_line(approval.tool.name if approval.tool is not None else approval.name)
        server = printable_line(approval.server or "the server")
        async with self._terminal.questions() as asking:
            asking.say(f"The model wants to call {name} of {server} with:", "bold")
            if not await asking.shows(_document(approval.arguments)):
                approval.deny("its arguments were not read to their end")
                return False
            return await asking.agrees(f"Call {name}?")


def _document(arguments: dict[str, Any]) -> str:
    """Return arguments as JSON in lines, in which every text is unmistakable."""
    return printable_json(json.dumps(arguments, indent=2, ensure_ascii=False))


def _mention(text: str) -> str:
    """Return the beginning of a text in one line."""
    plain = " ".join(text[: 2 * LONGEST_MENTION].split())
    is_whole = len(text) <= 2 * LONGEST_MENTION and len(plain) <= LONGEST_MENTION
    return plain if is_whole else f"{plain[:LONGEST_MENTION]}… ({len(text):,} characters)"


def _converse(terminal: Terminal, chat: Chat, clients: Sequence[Client]) -> None:
    with suppress(ImportError):
        import readline  # noqa: F401
    terminal.tell("/tools shows the tools, /quit ends.", "dim")
    while (line := _question(terminal)) is not None and line != "/quit":
        if line == "/tools":
            _show_tools(terminal, clients)
        elif line.startswith("/"):
            terminal.tell(f"There is no {line}; there are /tools and /quit.")
        elif line:
            _answer(terminal, chat, line)


def _question(terminal: Terminal) -> str | None:
    """Return what the user types at the prompt; servers may ask their questions after that, or before."""
    prompt = "> "
    with terminal.keyboard:
        if not is_terminal(sys.stdout):
            sys.stderr.write(prompt)
            sys.stderr.flush()
            prompt = ""
        try:
            return input(prompt).strip()
        except EOFError:
            return None


def _show_tools(terminal: Terminal, clients: Sequence[Client]) -> None:
    from dragoman.cli.verbs.list import tool_arguments

    for client in clients:
        for tool in client.tools():
            about = " ".join((tool.description or "").split())
            line = f"  {tool.name}({', '.join(tool_arguments(tool.definition))})  {about}".rstrip()
            terminal.tell(printable_line(line))


def _answer(terminal: Terminal, chat: Chat, question: str) -> None:
    try:
        for chunk in chat.stream(question):
            _show(terminal, chunk)
            if chunk.text:
                terminal.write_piece(chunk.text)
    except KeyboardInterrupt:
        terminal.tell("\n(interrupted)", "dim")
    except DragomanError as error:
        terminal.tell(f"dragoman: {in_one_line(error)}")
    sys.stdout.write("\n")
    sys.stdout.flush()


def _show(terminal: Terminal, chunk: Chunk) -> None:
    for call in chunk.tool_calls:
        terminal.tell(f"  {_mention(f'{call.name} {call.arguments}')}", "dim")
    for result in chunk.tool_results:
        terminal.tell(f"  {'✗' if result.is_error else '='} {_mention(result.text)}", "dim")


def _answer_once(terminal: Terminal, chat: Chat, question: str) -> None:
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    for chunk in chat.stream(question):
        _show(terminal, chunk)
        text = [] if chunk.tool_results else [*text, chunk.text]
        for result in chunk.tool_results:
            made = {"name": result.call.name, "arguments": result.call.arguments}
            calls.append(made | {"text": result.text, "isError": result.is_error})
    if terminal.settings.json:
        usage = {"inputTokens": chat.usage.input_tokens, "outputTokens": chat.usage.output_tokens}
        terminal.write_json({"text": "".join(text), "toolCalls": calls, "usage": usage})
    else:
        terminal.write("".join(text))
