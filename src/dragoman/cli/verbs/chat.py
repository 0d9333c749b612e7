"""`dragoman chat MODEL [TARGET ...]`: a conversation with a model that may use the tools of servers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dragoman import types
from dragoman.cli.command import connecting, quoted, show_logs, usage_error
from dragoman.cli.display import media_label
from dragoman.cli.exit_codes import one_line
from dragoman.cli.targets import (
    client_options,
    make_client,
    read_configuration,
    resolve_target,
    resolve_word,
    target_of_entry,
    with_remedy,
)
from dragoman.cli.terminal import Terminal
from dragoman.errors import AuthRequired, Cancelled, DragomanError
from dragoman.inspector.targets import ServerTarget
from dragoman.runtime.terminal import is_terminal, printable_json, printable_line

if TYPE_CHECKING:
    from dragoman.chat import Chat, ChatToolResult, Chunk
    from dragoman.client.answer.approval import Approval
    from dragoman.client.answer.sampling import Sampling, SamplingRequest
    from dragoman.client.blocking import Client

MAX_EXCERPT = 300


@click.command("chat", short_help="Talk to a model that uses the tools of servers.")
@click.argument("model")
@click.argument("targets", nargs=-1, metavar="[TARGET ...]")
@click.option("--instructions", metavar="TEXT", help="The instructions for the model.")
@click.option("--base-url", metavar="URL", help="The address of the model, if not its provider's usual one.")
@click.option("--api-key", envvar="DRAGOMAN_API_KEY", metavar="KEY", help="The provider's own variable works too.")
@click.option("--yes", is_flag=True, help="Let the model call every tool without asking you.")
@click.option("--trusted", multiple=True, metavar="TARGET", help="Believe the annotations of this server's tools.")
@connecting
def command(terminal: Terminal, /, model: str, targets: tuple[str, ...], **options: Any) -> None:
    """Talk to a model, for example openai:gpt-4.1, that can use the tools of servers.

    /tools shows the tools, /quit ends. Without a terminal, the command reads one question from stdin.
    """
    show_logs(terminal)
    question = None
    if not terminal.can_ask:
        question = sys.stdin.read().strip()
        if not question:
            raise usage_error("There is no question: write one to stdin, or start this in a terminal.")
    with ExitStack() as stack:
        servers = asyncio.run(_servers(terminal, targets))
        _mark_trusted(servers, options["trusted"])
        chat = stack.enter_context(_chat(terminal, model, options))
        sampling = chat.sampler(guard=partial(allow_sampling, terminal), tools=True)
        clients = [_open(terminal, server, stack, sampling) for server in servers]
        chat.with_tools(*clients)
        if question is None:
            _chat_at_terminal(terminal, chat, clients)
        else:
            _answer_once(terminal, chat, question)


async def _servers(terminal: Terminal, words: Sequence[str]) -> list[ServerTarget]:
    from dragoman.client.group.config import find

    settings = terminal.settings
    servers = [await resolve_word(terminal, word) for word in words]
    if settings.command is not None:
        servers.append(await resolve_target(terminal, None))
    if servers or (settings.config is None and find() is None):
        return servers
    file, entries = read_configuration(settings)
    return [await target_of_entry(terminal, entry, file) for entry in entries if not entry.disabled]


def _mark_trusted(targets: Sequence[ServerTarget], names: Sequence[str]) -> None:
    """Mark the servers that the user trusts.

    Raises:
        UsageError: a name belongs to no server of this chat.
    """
    for name in names:
        meant = [resolved for resolved in targets if resolved.name == name]
        if not meant:
            there = ", ".join(resolved.name for resolved in targets) or "none"
            raise usage_error(f"--trusted {name!r} is not a server of this chat; there are: {there}.")
        for resolved in meant:
            resolved.options["trusted"] = True


def _open(terminal: Terminal, resolved: ServerTarget, stack: ExitStack, sampling: Sampling) -> Client:
    from dragoman.cli.elicitation import TerminalElicitation
    from dragoman.client.blocking import Client

    options = asyncio.run(client_options(terminal.settings, resolved))
    options |= {"on_elicitation": TerminalElicitation(terminal), "on_sampling": sampling, "tasks": True}
    client: Client = make_client(Client, resolved, options)
    stack.callback(client.stop)
    try:
        client.start()
    except AuthRequired as error:
        raise with_remedy(error, resolved) from error
    return client


def _chat(terminal: Terminal, model: str, options: dict[str, Any]) -> Chat:
    from dragoman.chat import Chat, Policy

    try:
        chat = Chat(
            model,
            base_url=options["base_url"],
            api_key=options["api_key"],
            policy=Policy() if options["yes"] else Policy(ask=[may_destroy]),
            on_approval=partial(approve_call, terminal),
        )
    except ValueError as error:
        raise usage_error(f"{error}.") from error
    return chat.with_instructions(options["instructions"]) if options["instructions"] else chat


def may_destroy(tool: Any, arguments: dict[str, Any]) -> bool:  # noqa: ARG001
    """Tell whether a tool may be destructive: True, unless annotations of a trusted server deny it."""
    hints = tool.annotations
    return not (tool.is_trusted and (hints.read_only_hint or hints.destructive_hint is False))


async def approve_call(terminal: Terminal, approval: Approval) -> bool:
    """Ask the user whether the chat may make a call, and show all its arguments."""
    if not terminal.can_ask:
        approval.deny("there is no terminal to approve it at")
        return False
    name = printable_line(approval.tool.name if approval.tool is not None else approval.name)
    server = printable_line(approval.server or "the server")
    with suppress(Cancelled):
        async with terminal.dialog() as dialog:
            dialog.write(f"The model wants to call {name} of {server} with:", "bold")
            if not await dialog.show_pages(_document(approval.arguments)):
                approval.deny("its arguments were not read to their end")
                return False
            return await dialog.confirm(f"Call {name}?")
    return False


async def allow_sampling(terminal: Terminal, request: SamplingRequest) -> bool:
    """Ask the user whether the model may answer a request of a server, and show everything that it would read.

    Without a terminal every request is rejected.
    """
    server = printable_line(request.server or "The server")
    if not terminal.can_ask:
        terminal.report(f"{server} asks the model (rejected, because there is no terminal to allow it at)")
        return False
    with suppress(Cancelled):
        async with terminal.dialog() as dialog:
            dialog.write(f"{server} asks the model, for at most {request.max_tokens:,} tokens:", "bold")
            shown = "\n".join([quoted(request.text), *_media_labels(request)])
            return await dialog.show_pages(shown) and await dialog.confirm("Let the model answer?")
    return False


def _media_labels(request: SamplingRequest) -> list[str]:
    """Return a label for each image or sound in a request."""
    contents = [message.content for message in request.messages]
    blocks = [block for content in contents for block in (content if isinstance(content, list) else [content])]
    return [
        f"  {media_label(block.data, block.mime_type)}"
        for block in blocks
        if isinstance(block, types.ImageContent | types.AudioContent)
    ]


def _document(arguments: dict[str, Any]) -> str:
    """Return arguments as indented JSON, with every unprintable character escaped."""
    return printable_json(json.dumps(arguments, indent=2, ensure_ascii=False))


def _excerpt(text: str) -> str:
    """Return the beginning of a text as one line."""
    plain = " ".join(text[: 2 * MAX_EXCERPT].split())
    is_whole = len(text) <= 2 * MAX_EXCERPT and len(plain) <= MAX_EXCERPT
    return plain if is_whole else f"{plain[:MAX_EXCERPT]}… ({len(text):,} characters)"


def _chat_at_terminal(terminal: Terminal, chat: Chat, clients: Sequence[Client]) -> None:
    with suppress(ImportError):
        import readline  # noqa: F401
    terminal.report("/tools shows the tools, /quit ends.", "dim")
    while (line := _read_prompt(terminal)) is not None and line != "/quit":
        if line == "/tools":
            _show_tools(terminal, clients)
        elif line.startswith("/"):
            terminal.report(f"There is no {line}; there are /tools and /quit.")
        elif line:
            _answer(terminal, chat, line)


def _read_prompt(terminal: Terminal) -> str | None:
    """Return the line that the user types at the prompt; None at the end of the input."""
    prompt = "> "
    with terminal.keyboard_lock:
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
            terminal.report(printable_line(line))


def _answer(terminal: Terminal, chat: Chat, question: str) -> None:
    try:
        for chunk in chat.stream(question):
            _show(terminal, chunk)
            if chunk.text:
                terminal.write_piece(chunk.text)
    except KeyboardInterrupt:
        terminal.report("\n(interrupted)", "dim")
    except DragomanError as error:
        terminal.report(f"dragoman: {one_line(error)}")
    sys.stdout.write("\n")
    sys.stdout.flush()


def _show(terminal: Terminal, chunk: Chunk) -> None:
    for call in chunk.tool_calls:
        terminal.report(f"  {_excerpt(f'{call.name} {call.arguments}')}", "dim")
    for reported in chunk.tool_progress:
        if reported.message:
            terminal.report(f"  … {_excerpt(f'{reported.call.name}: {reported.message}')}", "dim")
    for result in chunk.tool_results:
        terminal.report(f"  {'✗' if result.is_error else '='} {_excerpt(_described(result))}", "dim")


def _described(result: ChatToolResult) -> str:
    """Return the text of a result, with a label in the place of each image, sound or file."""
    from dragoman.chat.messages import Text

    parts = result.message.content
    return "\n".join(part.text if isinstance(part, Text) else media_label(part.data, part.mime_type) for part in parts)


def _answer_once(terminal: Terminal, chat: Chat, question: str) -> None:
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    for chunk in chat.stream(question):
        _show(terminal, chunk)
        text = [] if chunk.tool_results else [*text, chunk.text]
        for result in chunk.tool_results:
            made = {"name": result.call.name, "arguments": result.call.arguments}
            calls.append(made | {"text": _described(result), "isError": result.is_error})
    if terminal.settings.json:
        usage = {"inputTokens": chat.usage.input_tokens, "outputTokens": chat.usage.output_tokens}
        terminal.write_json({"text": "".join(text), "toolCalls": calls, "usage": usage})
    else:
        terminal.write("".join(text))
