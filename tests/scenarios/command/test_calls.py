"""`dragoman list`, `call`, `read`, `prompt` and `complete` as real processes, over stdio and HTTP."""

import json

import pytest

from scenarios.command_line import TRAVEL, dragoman, serving, written

DIGITS = "9" * 8000
KINDS = """
    from typing import Any
    from dragoman import Context, Image, RpcError, Server

    server = Server("kinds")

    @server.tool
    def show(days: int = 0, share: float = 0.0, fast: bool = False, tags: list[str] | None = None,
             box: dict[str, Any] | None = None, note: str = "", either: int | str | None = None) -> dict[str, Any]:
        return {"days": days, "share": share, "fast": fast, "tags": tags, "box": box, "note": note, "either": either}

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.log("error", "the kettle \\x1b[31mboils\\x07")
        return "told \\x1b[2J"

    @server.tool
    def refuse() -> str:
        raise RpcError(-31999, "Out of tea\\nand of coffee", {"left": 0})

    @server.tool
    def crash() -> str:
        raise KeyError("the cup")

    @server.tool
    def picture() -> Image:
        return Image(b"\\x89PNG\\r\\n", mime_type="image/png")

    @server.tool
    async def forever() -> str:
        import asyncio
        await asyncio.Event().wait()

    @server.resource("data://bytes", mime_type="application/octet-stream")
    def data() -> bytes:
        return b"\\x00\\x01"

    if __name__ == "__main__":
        server.run()
"""


@pytest.fixture
def kinds(tmp_path):
    return written(tmp_path, KINDS, "kinds.py")


@pytest.fixture(scope="module", params=["stdio", "http"])
def travel(request, tmp_path_factory):
    """What the travel agency is reached by."""
    if request.param == "stdio":
        yield TRAVEL
        return
    with serving(TRAVEL, home=tmp_path_factory.mktemp("home")) as url:
        yield url


@pytest.mark.covers("CMD-01", "CMD-20")
def test_a_list_shows_tools_with_their_arguments_prompts_resources_and_templates(travel, tmp_path):
    listed = dragoman("list", travel, home=tmp_path)
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines() == [
        "Tools",
        "  forecast(city: string) [reads only]  Weather for a city.",
        "      - city: Where.",
        "  search(city: string)  Looks for hotels, and says how far it is.",
        "  book(city: string)  Books a trip, after asking the traveller.",
        "  postcard(city: string)  Writes a postcard, with the words of the traveller's own model.",
        "Prompts",
        "  packing(city)  Asks what to pack.",
        "Resources",
        "  cities://all (application/json)  Every city that we know.",
        "Resource templates",
        "  guide://{city}  What to see in a city.",
    ]


@pytest.mark.covers("CMD-01")
@pytest.mark.parametrize(
    ("option", "kept"), [("--tools", {"tools"}), ("--prompts", {"prompts"}), ("--resources", {"resources"})]
)
def test_a_list_of_one_kind_leaves_the_others_out(option, kept, tmp_path):
    found = dragoman("list", TRAVEL, option, "--json", home=tmp_path).json
    assert found.keys() & {"tools", "prompts", "resources"} == kept
    assert ("resourceTemplates" in found) == ("resources" in kept)
    assert found["server"]["name"] == "travel"


@pytest.mark.covers("CMD-02", "CMD-20")
def test_a_tool_is_called_and_its_structured_content_shown(travel, tmp_path):
    called = dragoman("call", travel, "forecast", "city=Oslo", home=tmp_path)
    assert (called.code, json.loads(called.out), called.err) == (0, {"city": "Oslo", "celsius": 4.0}, "")


DOUBLED = """
    from dragoman import Server, ToolResult, types

    server = Server("doubled")

    @server.tool
    def one() -> list[str]:
        return ToolResult([types.TextContent(text="tea")], structured=["tea"])

    @server.tool
    def parts() -> list[dict[str, int]]:
        texts = ['{\\n  "a": 1\\n}', '{ "a": 2 }']
        return ToolResult([types.TextContent(text=text) for text in texts], structured=[{"a": 1}, {"a": 2}])

    @server.tool
    def told() -> dict[str, int]:
        return ToolResult([types.TextContent(text="It is 4 degrees.")], structured={"celsius": 4})

    server.run()
"""


@pytest.mark.covers("CMD-02")
def test_a_result_in_two_forms_is_shown_once(tmp_path):
    path = written(tmp_path, DOUBLED, "doubled.py")
    for name, expected in (("one", ["tea"]), ("parts", [{"a": 1}, {"a": 2}])):
        called = dragoman("call", path, name, home=tmp_path)
        assert (json.loads(called.out), called.err) == (expected, "")
    told = dragoman("call", path, "told", home=tmp_path)
    assert told.out == "It is 4 degrees.\n"
    assert "--json shows it" in told.err


@pytest.mark.covers("CMD-15")
def test_json_is_the_result_as_it_is_on_the_wire_and_nothing_else(travel, tmp_path):
    called = dragoman("--json", "call", travel, "search", "city=Oslo", home=tmp_path)
    assert called.code == 0
    assert called.json["structuredContent"] == ["Hotel Oslo", "Oslo Palace"]
    assert called.json["isError"] is False
    failed = dragoman("call", travel, "forecast", "city=Rome", "--json", home=tmp_path)
    assert (failed.code, failed.json["isError"]) == (1, True)
    assert "There is no forecast for Rome" in failed.json["content"][0]["text"]


@pytest.mark.covers("CMD-05")
def test_progress_comes_as_lines_on_stderr_where_there_is_no_terminal(travel, tmp_path):
    called = dragoman("call", travel, "search", "city=Oslo", home=tmp_path)
    assert json.loads(called.out) == ["Hotel Oslo", "Oslo Palace"]
    assert called.err.splitlines() == [f"progress: {done}/5 asked hotel {done} of 5" for done in range(1, 6)]


@pytest.mark.covers("CMD-06")
def test_a_question_is_declined_where_there_is_no_terminal(travel, tmp_path):
    called = dragoman("call", travel, "book", "city=Oslo", home=tmp_path)
    assert (called.code, called.out) == (0, "Nothing was booked.\n")
    assert f"{travel} asks (declined" in called.err
    assert "\n  | How shall it be in Oslo?\n" in called.err


@pytest.mark.covers("CMD-03")
def test_values_are_typed_by_the_schema_of_the_tool(kinds, tmp_path):
    given = ["days=-3", "share=2.5", "fast=yes", "tags=a", "tags=b", 'box={"a": [1]}', "note=007", "either=12"]
    called = dragoman("call", kinds, "show", *given, home=tmp_path)
    assert json.loads(called.out) == {
        "days": -3,
        "share": 2.5,
        "fast": True,
        "tags": ["a", "b"],
        "box": {"a": [1]},
        "note": "007",
        "either": 12,
    }


@pytest.mark.covers("CMD-03")
def test_arguments_also_come_as_json_from_options_files_and_stdin(kinds, tmp_path):
    (tmp_path / "given.json").write_text('{"days": 1, "note": "from a file"}')

    def shown(*arguments, **options):
        return json.loads(dragoman("call", kinds, "show", *arguments, home=tmp_path, cwd=tmp_path, **options).out)

    assert shown("--json-args", '{"days": 4}')["days"] == 4
    assert shown("@given.json", "days=2") | {"x": 0} == shown("--json-args", '{"note": "from a file"}', "days=2") | {
        "x": 0
    }
    assert shown("-", input='{"note": "from stdin"}')["note"] == "from stdin"
    assert shown("either:=null", 'note:="7"', "tags:=[]")["tags"] == []


@pytest.mark.covers("CMD-03", "CMD-16")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["days=many"], "days must be an integer, not 'many'"),
        (["box=x"], "box must be a JSON object or null, not 'x'"),
        (["days:=x"], "days is not valid JSON"),
        (["--json-args", "[1]"], "--json-args must hold a JSON object."),
        (["@nowhere.json"], "The file 'nowhere.json' cannot be read"),
        (["=3"], "'=3' has no key"),
        (["@~nosuchuser/x"], "The file '~nosuchuser/x' cannot be read: there is no user of that name"),
        (["@digits.json"], "@digits.json is not valid JSON"),
        ([f"days:={DIGITS}"], "days is not valid JSON"),
        ([f"days={DIGITS}"], "days must be an integer"),
        ([f"share={DIGITS}"], "share must be a number"),
        (["share=1e999"], "share must be a number"),
        (["days=1", "more"], "'more' is not an argument; write KEY=VALUE"),
    ],
)
def test_arguments_that_make_no_sense_are_a_wrong_usage(kinds, tmp_path, arguments, complaint):
    (tmp_path / "digits.json").write_text(f'{{"days": {DIGITS}}}')
    called = dragoman("call", kinds, "show", *arguments, home=tmp_path, cwd=tmp_path)
    assert (called.code, called.out, called.err.count("\n")) == (2, "", 1)
    assert complaint in called.err


@pytest.mark.covers("CMD-04")
def test_what_is_no_text_is_saved_under_a_free_name(kinds, tmp_path):
    for number in (1, 2):
        called = dragoman("call", kinds, "picture", "--save-to", "shots", home=tmp_path, cwd=tmp_path)
        assert called.out == f"shots/picture-{number}.png (image/png, 6 bytes)\n"
        assert (tmp_path / "shots" / f"picture-{number}.png").read_bytes() == b"\x89PNG\r\n"
    read = dragoman("read", kinds, "data://bytes", home=tmp_path, cwd=tmp_path)
    assert (read.out, (tmp_path / "bytes-1.bin").read_bytes()) == (
        "bytes-1.bin (application/octet-stream, 2 bytes)\n",
        b"\x00\x01",
    )
    assert "blob" in dragoman("read", kinds, "data://bytes", "--json", home=tmp_path, cwd=tmp_path).json["contents"][0]
    assert not (tmp_path / "bytes-2.bin").exists()


@pytest.mark.covers("CMD-05", "CMD-17")
def test_logs_of_the_server_go_to_stderr_without_control_characters(kinds, tmp_path):
    called = dragoman("call", kinds, "tell", home=tmp_path)
    assert called.out == "told \\x1b[2J\n"
    assert called.err == f"[{kinds}] error: the kettle \\x1b[31mboils\\x07\n"
    assert dragoman("call", kinds, "tell", "--raw", home=tmp_path).out == "told \x1b[2J\n"


@pytest.mark.covers("CMD-07")
def test_resources_and_prompts_are_shown_and_arguments_completed(travel, tmp_path):
    def told(*arguments):
        finished = dragoman(*arguments, home=tmp_path)
        assert (finished.code, finished.err) == (0, "")
        return finished.out

    assert told("read", travel, "guide://Oslo") == "Oslo: see the harbour.\n"
    assert json.loads(told("--json", "read", travel, "guide://Oslo"))["contents"][0]["uri"] == "guide://Oslo"
    assert told("prompt", travel, "packing", "city=Oslo") == "user: What should I pack for Oslo?\n"
    assert json.loads(told("prompt", travel, "packing", "city=Oslo", "--json"))["messages"][0]["role"] == "user"
    assert told("complete", travel, "prompt", "packing", "city", "os") == "Oslo\nOsaka\n"
    assert json.loads(told("complete", travel, "prompt", "packing", "city", "os", "--json"))["values"] == [
        "Oslo",
        "Osaka",
    ]


@pytest.mark.covers("CMD-16")
def test_a_tool_that_crashed_says_where_to_look(kinds, tmp_path):
    finished = dragoman("call", kinds, "crash", home=tmp_path)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        "dragoman: the tool failed: Internal error occurred; the server's log says why: --verbose shows it\n"
    )
    assert "KeyError: 'the cup'" in dragoman("--verbose", "call", kinds, "crash", home=tmp_path).err


@pytest.mark.covers("CMD-16", "CMD-17")
@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["call", TRAVEL, "forecast", "city=Rome"], 1, "the tool failed: There is no forecast for Rome; try Oslo"),
        (["call"], 2, "Missing argument"),
        (["call", TRAVEL], 2, "A name is missing after "),
        (["walk"], 2, "No such command 'walk'. See: dragoman --help"),
        (["list", "--timeout", "0", TRAVEL], 2, "'0' is not a number of seconds above 0."),
        (["list", "--header", "nothing", TRAVEL], 2, "'nothing' must be written as 'NAME: VALUE'"),
        (["list", "nowhere.py"], 2, "There is no file 'nowhere.py'."),
        (["list", "nobody"], 2, "'nobody' is no URL, no script and no known server"),
        (["list", "--protocol-version", "1999-01-01", TRAVEL], 2, "--protocol-version '1999-01-01' is not"),
        (["auth"], 2, "A command is missing. See: dragoman auth --help"),
        (["auth", "status", "nowhere"], 2, "'nowhere' is no address that can be used."),
        (["complete", TRAVEL, "tool", "a", "b", "c"], 2, "Write: [TARGET] prompt NAME ARG VALUE"),
        (["list", TRAVEL, "--", "python"], 2, "either the target"),
        (["list", "--"], 2, "The command after -- is missing"),
        (["list", "http://127.0.0.1:9/mcp"], 3, "There is no connection to http://127.0.0.1:9/mcp"),
        (["list", "--", "false"], 3, "The server 'false' ended with exit code 1."),
        (["list", "--", "no-such-program-here"], 3, "no-such-program-here"),
        (["read", TRAVEL, "nope://x"], 4, "the server refused (-32602): Resource not found: nope://x"),
        (["call", TRAVEL, "forcast"], 4, "The server has no tool 'forcast'; did you mean 'forecast'?"),
        (["list", "--timeout", "1", "--", "sleep", "60"], 5, "--timeout"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(tmp_path, arguments, code, line):
    finished = dragoman(*arguments, home=tmp_path, cwd=tmp_path)
    assert (finished.code, finished.out) == (code, "")
    assert finished.err.startswith("dragoman: ")
    assert finished.err.count("\n") == 1
    assert line in finished.err


@pytest.mark.covers("CMD-15", "CMD-16")
def test_an_error_with_json_is_also_json(kinds, tmp_path):
    finished = dragoman("call", kinds, "refuse", "--json", home=tmp_path)
    assert finished.code == 4
    assert finished.json["error"] == {
        "kind": "RpcError",
        "message": "Out of tea and of coffee",
        "exitCode": 4,
        "code": -31999,
        "data": {"left": 0},
    }
    assert finished.err == "dragoman: the server refused (-31999): Out of tea and of coffee\n"
    assert dragoman("--json", "walk", home=tmp_path).json["error"]["exitCode"] == 2


@pytest.mark.covers("CMD-16")
def test_a_call_without_a_sign_of_life_ends_in_time(kinds, tmp_path):
    finished = dragoman("call", kinds, "forever", "--timeout", "3", home=tmp_path)
    assert (finished.code, finished.out, finished.err.count("\n")) == (5, "", 1)


@pytest.mark.covers("CMD-17")
def test_a_traceback_is_shown_on_request_alone(kinds, tmp_path):
    assert "Traceback" not in dragoman("call", kinds, "refuse", home=tmp_path).err
    assert "Traceback" in dragoman("call", kinds, "refuse", "--verbose", home=tmp_path).err


@pytest.mark.covers("CMD-14")
@pytest.mark.parametrize(
    ("options", "version"),
    [
        ([], "2026-07-28"),
        (["--mode", "handshake"], "2025-11-25"),
        (["--mode", "stateless"], "2026-07-28"),
        (["--protocol-version", "2025-03-26"], "2025-03-26"),
    ],
)
def test_the_era_and_the_version_can_be_chosen(travel, tmp_path, options, version):
    assert dragoman("list", travel, "--json", *options, home=tmp_path).json["protocolVersion"] == version


@pytest.mark.covers("CMD-13")
def test_the_version_is_told(tmp_path):
    import dragoman as package

    assert dragoman("version", home=tmp_path).out.startswith(f"dragoman {package.__version__}\n")
    assert dragoman("--version", home=tmp_path).out.startswith(f"dragoman {package.__version__}\n")
    told = dragoman("version", "--json", home=tmp_path).json
    assert (told["dragoman"], told["protocol"][0]) == (package.__version__, "2026-07-28")


@pytest.mark.covers("CMD-17")
def test_help_is_shown_for_every_verb(tmp_path):
    overview = dragoman(home=tmp_path)
    assert (overview.code, overview.err) == (0, "")
    for verb in ("run", "list", "call", "read", "prompt", "complete", "chat", "doctor", "init", "auth", "version"):
        assert f"\n  {verb} " in overview.out
        shown = dragoman(verb, "--help", home=tmp_path)
        assert (shown.code, shown.err) == (0, "")
        assert f"dragoman {verb}" in shown.out
