"""A request becomes an answer in one place: nothing else calls a handler, seals a result or makes an error of one."""

import ast

import pytest

from budgets.source import SOURCE, nodes

SERVER = SOURCE / "server"
RUNNER = "dispatch/runner.py"
OPENING = "dispatch/opening.py"
POSTS = "http/post.py"
"""Refuses what HTTP alone refuses, and ends an exchange whose request goes on in a task of its own."""
FORWARDS = "http/session.py"
"""Sends on the answer of a client, which may be an error, to another process."""


def served():
    """Return everything that the files of the server consist of, with the file."""
    named = ((path.relative_to(SERVER).as_posix(), nodes(path)) for path in sorted(SERVER.rglob("*.py")))
    return [(file, node) for file, found in named for node in found]


def name_of(node):
    return getattr(node, "attr", getattr(node, "id", None))


def calls(name):
    """Return the files that call something by its last name."""
    return {file for file, node in served() if isinstance(node, ast.Call) and name_of(node.func) == name}


def calls_of_eras(name):
    """Return the files that name a function of `protocol.eras`."""
    return {
        file
        for file, node in served()
        if isinstance(node, ast.Attribute) and node.attr == name and name_of(node.value) == "eras"
    }


def imported(module):
    """Return what is imported from a module, and by which file."""
    return {
        (file, alias.name)
        for file, node in served()
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(module)
        for alias in node.names
    }


def test_only_the_runner_calls_a_handler():
    tables = {"handlers", "HANDLERS"}
    subscripts = [(file, node.func) for file, node in served() if isinstance(node, ast.Call)]
    called = {file for file, node in subscripts if isinstance(node, ast.Subscript) and name_of(node.value) in tables}
    assert called == {RUNNER}
    assert {name for _, name in imported("dispatch.handlers")} == {"HANDLERS"}


@pytest.mark.parametrize(("name", "files"), [("open", {OPENING}), ("refused_request", {OPENING})])
def test_a_message_of_a_client_is_opened_in_one_place(name, files):
    assert calls_of_eras(name) == files


def test_only_the_opening_makes_calls():
    assert calls("Call") == {OPENING}


@pytest.mark.parametrize("name", ["seal", "seal_value", "seal_error"])
def test_only_the_runner_seals(name):
    assert calls_of_eras(name) == {RUNNER}
    assert name not in {imported_name for _, imported_name in imported("protocol.eras")}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("explanation", {RUNNER}),
        ("settle", {RUNNER}),
        ("failure", {RUNNER}),
        ("rpc_error", {RUNNER, OPENING, POSTS}),
        ("withdraw_cancellation", {RUNNER}),
        ("uncancelled", {POSTS}),
        ("encode_result", {RUNNER, FORWARDS}),
        ("encode_error", {RUNNER, FORWARDS}),
    ],
)
def test_only_the_runner_makes_answers_and_errors(name, files):
    assert calls(name) == files


def test_nothing_else_makes_a_result_that_says_that_a_tool_failed():
    # An author may return a `ToolResult` that says so.
    said = {file for file, node in served() if isinstance(node, ast.keyword) and node.arg == "is_error"}
    assert said == {RUNNER, "define/tool_results.py"}


def test_only_the_runner_says_that_something_unexpected_failed():
    said = {"Internal error", "Internal error occurred"}
    assert {file for file, node in served() if isinstance(node, ast.Constant) and node.value in said} == {RUNNER}
