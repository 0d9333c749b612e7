"""`dragoman doctor` as a real process."""

import json
import sys
import textwrap

import pytest

from scenarios.command_line import TRAVEL, dragoman, serving, written

SICK = """
    import json, sys

    def tool(name, schema, description="Does something."):
        return {"name": name, "description": description, "inputSchema": {"type": "object"} | schema}

    TOOLS = [
        tool("no.such/name", {}),
        tool("silent", {}, ""),
        tool("long", {}, "x" * 2000),
        tool("either", {"anyOf": [{"properties": {"a": {"type": "string"}}}]}),
        tool("list", {"properties": {"names": {"type": "array"}}}),
        tool("accent", {"properties": {"caf\u00e9": {"type": "string"}}}),
        tool("broken", {"properties": {"a": {"type": "strong"}}}),
        {"name": 3},
    ]
    INFO = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "sick", "version": "1"}}
    for line in sys.stdin:
        message = json.loads(line)
        answers = {
            "initialize": INFO | {"capabilities": {"tools": {}, "prompts": {}, "resources": {}}},
            "tools/list": {"tools": TOOLS},
            "ping": {},
        }
        if "id" in message:
            answer = answers.get(message["method"])
            error = {"code": -32603 if message["method"] == "prompts/list" else -32601, "message": "what?"}
            answer = {"error": error} if answer is None else {"result": answer}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer), flush=True)
"""


def steps(found):
    return {finding["step"]: finding for finding in found.json["findings"]}


@pytest.mark.covers("CMD-09")
def test_a_healthy_server_is_told_so_step_by_step(tmp_path):
    examined = dragoman("doctor", TRAVEL, home=tmp_path)
    assert (examined.code, examined.err) == (0, "")
    lines = examined.out.splitlines()
    assert lines[0] == str(TRAVEL)
    assert lines[-1] == "All is well."
    assert [line.partition(":")[0] for line in lines[1:-1]] == [
        f"✓ {step}"
        for step in (
            *("target", "connection", "server", "protocol", "latency", "capabilities"),
            *("tools", "prompts", "resources", "resource templates", "schemas"),
        )
    ]
    assert "✓ protocol: 2026-07-28, the stateless era" in lines


@pytest.mark.covers("CMD-09")
def test_a_tool_is_called_when_it_is_named(tmp_path):
    given = ("doctor", TRAVEL, "--json", "--call", "forecast", "--json-args")
    called = steps(dragoman(*given, '{"city": "Oslo"}', home=tmp_path))
    assert called["call forecast"]["ok"]
    assert "it answered with text" in called["call forecast"]["detail"]
    failed = dragoman(*given, '{"city": "Rome"}', "--call", "forcast", home=tmp_path)
    known = steps(failed)
    assert (failed.code, known["call forecast"]["ok"], known["call forcast"]["ok"]) == (1, False, False)
    assert "There is no forecast for Rome" in known["call forecast"]["detail"]
    assert "did you mean 'forecast'?" in known["call forcast"]["detail"]


@pytest.mark.covers("CMD-09")
def test_a_server_over_http_is_examined_in_the_era_that_is_asked_for(tmp_path):
    with serving(TRAVEL, home=tmp_path) as url:
        examined = dragoman("doctor", url, "--json", "--mode", "handshake", home=tmp_path)
    assert (examined.code, examined.json["ok"]) == (0, True)
    assert steps(examined)["protocol"]["detail"] == "2025-11-25, the handshake era"


@pytest.mark.covers("CMD-11")
def test_tools_that_the_apis_of_models_refuse_are_found_with_a_remedy(tmp_path):
    path = written(tmp_path, SICK, "sick.py")
    examined = dragoman("doctor", path, "--json", home=tmp_path)
    assert examined.code == 1
    known = steps(examined)
    for name, sign in (
        ("no.such/name", "refuse the name"),
        ("silent", "has no description"),
        ("long", "more than 1024 characters"),
        ("either", "has anyOf at its top"),
        ("list", "does not say of what"),
        ("accent", "refuses the argument names 'café'"),
        ("broken", "its input schema is no JSON Schema"),
    ):
        assert sign in known[f"tool {name}"]["detail"]
        assert known[f"tool {name}"]["remedy"]
    assert "the server refused (-32603): what?" in known["prompts"]["detail"]
    assert "declares them, and does not list them" in known["resources"]["detail"]
    assert not known["resources"]["ok"]
    assert "resource templates" not in known
    assert "was left out" in known["warning"]["detail"]
    assert not any(finding.get("remark") for finding in known.values())
    shown = dragoman("doctor", path, home=tmp_path)
    assert (shown.code, "All is well" in shown.out) == (1, False)
    assert "✗ tool silent: it has no description\n    → say in a sentence" in shown.out


@pytest.mark.covers("CMD-11")
def test_tools_of_a_server_of_somebody_else_are_remarked_on_and_are_no_failure(tmp_path):
    path = tmp_path / "sick.py"
    path.write_text(textwrap.dedent(SICK).replace('"prompts": {}, "resources": {}', ""))
    command = ["--", sys.executable, path]
    examined = dragoman("doctor", "--json", *command, home=tmp_path)
    assert (examined.code, examined.json["ok"]) == (0, True)
    known = steps(examined)
    for step in ("tool long", "tool silent", "warning"):
        assert (known[step]["ok"], known[step]["remark"]) == (True, True)
    shown = dragoman("doctor", *command, home=tmp_path)
    assert shown.code == 0
    assert "! tool long: its description has more than 1024 characters" in shown.out
    assert shown.out.endswith("The server works. Lines with ! are hints for its author.\n")


@pytest.mark.covers("CMD-09")
@pytest.mark.parametrize(
    ("target", "sign"),
    [
        (["http://127.0.0.1:9/mcp"], "see whether the server runs"),
        (["--", "false"], "run its command by itself"),
        (["--timeout", "1", "--", "sleep", "60"], "give it more time with --timeout"),
        (["--", "echo", "hello"], ""),
    ],
)
def test_a_server_that_cannot_be_reached_is_told_with_a_remedy(tmp_path, target, sign):
    examined = dragoman("doctor", *target, home=tmp_path)
    assert (examined.code, examined.err) == (1, "")
    assert "✗ connection: " in examined.out
    assert sign in examined.out


@pytest.mark.covers("CMD-08")
def test_without_a_target_every_server_of_the_configuration_is_examined(tmp_path):
    entries = {
        "good": {"command": sys.executable, "args": [str(TRAVEL)]},
        "unset": {"command": "python", "env": {"KEY": "${NO_SUCH_VARIABLE_HERE}"}},
        "off": {"command": "false", "disabled": True},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    examined = dragoman("doctor", "--json", "--trust", home=tmp_path, cwd=tmp_path)
    assert examined.code == 1
    found = [(one.get("server"), one["step"], one["ok"]) for one in examined.json["findings"]]
    assert (None, "configuration", True) in found
    assert ("unset", "variables", False) in found
    assert ("good", "variables", True) in found
    assert ("good", "schemas", True) in found
    assert not [one for one in found if one[0] == "off"]


@pytest.mark.covers("CMD-08")
def test_a_configuration_that_cannot_be_read_is_a_finding(tmp_path):
    (tmp_path / "mcp.json").write_text('{"mcpServers": ')
    examined = dragoman("doctor", home=tmp_path, cwd=tmp_path)
    assert (examined.code, examined.err) == (1, "")
    assert "✗ configuration: mcp.json: the file is not valid JSON" in examined.out
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    assert "names no server" in dragoman("doctor", home=tmp_path, cwd=tmp_path).out
