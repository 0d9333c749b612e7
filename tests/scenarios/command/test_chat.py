"""`dragoman chat` as a real process, with a provider of models on loopback."""

import json
import sys

import pytest

from chat.provider import Fail, Provider, Say
from scenarios.command_line import TRAVEL, AtTerminal, chatted, chatting, dragoman, options, told, written

SHED = """
    from dragoman import Server

    server = Server("shed")

    @server.tool(annotations={"destructiveHint": True})
    def burn(what: str) -> str:
        return f"{what} is gone"

    @server.tool(annotations={"readOnlyHint": True})
    def look() -> str:
        return "a spade"

    server.run()
"""
LOOK, BURN = ("1", "look", "{}"), ("2", "burn", '{"what": "the spade"}')


@pytest.fixture
def shed(tmp_path):
    return written(tmp_path, SHED, "shed.py")


@pytest.mark.covers("CMD-23")
def test_one_question_is_read_from_stdin_and_answered_with_the_tools(tmp_path, shed):
    script = [Say("Let me look.", [LOOK]), Say("There is a spade.")]
    answered, provider = chatted(script, shed, "--trusted", shed, input="What is there?\n", home=tmp_path)
    assert (answered.code, answered.out) == (0, "There is a spade.\n")
    assert answered.err.splitlines() == ["  look {}", "  = a spade"]
    assert told(provider.asked[1]) == ["a spade"]


def test_chat_uses_a_file_written_for_http(tmp_path):
    shed = written(tmp_path, SHED.replace("server.run()", 'server.run("http")'), "shed.py")
    with Provider(Say("Let me look.", [LOOK]), Say("There is a spade.")) as provider:
        answered = dragoman(
            "chat", "openai:test", shed, "--trusted", shed, *options(provider), input="What is there?\n", home=tmp_path
        )
    assert (answered.code, answered.out) == (0, "There is a spade.\n")


@pytest.mark.covers("CMD-23", "CMD-15")
def test_json_has_the_answer_and_the_calls(tmp_path, shed):
    script = [Say(calls=[LOOK]), Say("A spade.")]
    answered, provider = chatted(
        script, "--json", "--instructions", "Be brief.", "--trusted", shed, shed, input="What is there?", home=tmp_path
    )
    assert answered.json == {
        "text": "A spade.",
        "toolCalls": [{"name": "look", "arguments": {}, "text": "a spade", "isError": False}],
        "usage": {"inputTokens": 14, "outputTokens": 6},
    }
    assert provider.asked[0].body["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.covers("CMD-24")
@pytest.mark.parametrize(("more", "result"), [([], "cancelled"), (["--yes"], "the spade is gone")])
def test_without_a_terminal_what_may_destroy_is_called_only_if_that_was_said(tmp_path, shed, more, result):
    with Provider(Say(calls=[BURN]), Say("Done.")) as provider:
        given = ["chat", "openai:test", shed, *more, *options(provider)]
        assert dragoman(*given, input="Burn it.", home=tmp_path).code == 0
    assert result in told(provider.asked[1])[0]


@pytest.mark.covers("CMD-24")
def test_a_conversation_asks_before_it_destroys_and_knows_its_commands(tmp_path, shed):
    script = [Say(calls=[BURN]), Say("As you like."), Say(calls=[BURN]), Say("It is ashes.")]
    with chatting(script, shed, home=tmp_path) as (at, provider):
        at.answer("> ", "/tools\n")
        at.until("burn(what: string)")
        at.answer("> ", "/dance\n")
        at.until("There is no /dance")
        at.answer("> ", "Burn it.\n")
        at.until('"what": "the spade"')
        at.answer("Call burn? [y/N] ", "n\n")
        at.until("As you like.")
        at.answer("> ", "Do burn it.\n")
        at.answer("? [y/N] ", "y\n")
        at.until("= the spade is gone")
        at.until("It is ashes.")
        at.quit()
    assert "cancelled" in told(provider.asked[1])[0]
    assert told(provider.asked[3])[-1] == "the spade is gone"


@pytest.mark.covers("CMD-24")
def test_approvals_are_asked_in_the_order_of_the_calls(tmp_path, shed):
    names = ("a.tmp", "b.tmp", "thesis.doc")
    calls = [(str(number), "burn", json.dumps({"what": name})) for number, name in enumerate(names)]
    with chatting([Say(calls=calls), Say("Done.")], shed, home=tmp_path) as (at, provider):
        at.answer("> ", "Clean up.\n")
        for name, answer in zip(names, "yyn", strict=True):
            at.until(f'"what": "{name}"')
            at.answer("Call burn? [y/N] ", f"{answer}\n")
        at.until("Done.")
        at.quit()
    results = told(provider.asked[1])
    assert results[:2] == ["a.tmp is gone", "b.tmp is gone"]
    assert "cancelled" in results[2]


STUDIO = """
    from base64 import b64encode
    from dragoman import Context, Server, types

    server = Server("studio")

    @server.tool
    def draw() -> list:
        picture = types.ImageContent(data=b64encode(b"x" * 12_000).decode(), mime_type="image/png")
        return ["Here:", picture, "Done."]

    @server.tool
    def icon() -> types.ImageContent:
        return types.ImageContent(data=b64encode(b"x" * 31).decode(), mime_type="image/gif")

    @server.tool
    async def caption(ctx: Context) -> str:
        answer = await ctx.sample("Describe \\x1b[2J the spade", max_tokens=1500, system_prompt="Be witty.")
        return f"caption: {answer.text}"

    server.run()
"""


def test_media_in_results_are_named(tmp_path):
    studio = written(tmp_path, STUDIO, "studio.py")
    calls = [("1", "draw", "{}"), ("2", "icon", "{}")]
    script = [Say(calls=calls), Say("Nice.")]
    answered, _ = chatted(script, studio, "--yes", "--json", input="Draw.", home=tmp_path)
    assert "= Here: [image/png, 12 kB] Done." in answered.err
    assert "= [image/gif, 31 bytes]" in answered.err
    texts = [call["text"] for call in answered.json["toolCalls"]]
    assert texts == ["Here:\n[image/png, 12 kB]\nDone.", "[image/gif, 31 bytes]"]


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
@pytest.mark.parametrize(("answer", "result"), [("y", "= caption: Sharp."), ("n", "Sampling request was rejected")])
def test_model_answers_sampling_requests_after_asking_the_user(tmp_path, mode, answer, result):
    studio = written(tmp_path, STUDIO, "studio.py")
    script = [Say(calls=[("1", "caption", "{}")]), *([Say("Sharp.")] if answer == "y" else []), Say("It is done.")]
    with chatting(script, studio, "--yes", "--mode", mode, home=tmp_path) as (at, provider):
        at.answer("> ", "Caption it.\n")
        at.until("asks the model, for at most 1,500 tokens:")
        at.until("  | Be witty.")
        at.until("  | Describe \\x1b[2J the spade")
        at.answer("Let the model answer? [y/N] ", f"{answer}\n")
        at.until(result)
        at.until("It is done.")
        at.quit()
    sampled = [asked for asked in provider.asked if asked.body["messages"][0]["content"] == "Be witty."]
    assert len(sampled) == (answer == "y")


def test_sampling_requests_are_rejected_without_a_terminal(tmp_path):
    studio = written(tmp_path, STUDIO, "studio.py")
    script = [Say(calls=[("1", "caption", "{}")]), Say("Well.")]
    answered, provider = chatted(script, studio, "--yes", input="Caption it.", home=tmp_path)
    assert answered.out == "Well.\n"
    assert "rejected, because there is no terminal to allow it at" in answered.err
    assert "Sampling request was rejected" in told(provider.asked[1])[0]


@pytest.mark.covers("CMD-23")
def test_a_model_that_fails_ends_the_answer_and_not_the_conversation(tmp_path):
    with chatting([Fail(400, "too silly"), Say("Better.")], home=tmp_path, cwd=tmp_path) as (at, _):
        at.answer("> ", "Tell me a joke.\n")
        at.until("answered 400: too silly")
        at.answer("> ", "Tell me the time.\n")
        at.until("Better.")
        at.answer("> ", "\x04")
        assert at.end()[0] == 0


@pytest.mark.covers("CMD-23", "CMD-16")
def test_an_interrupt_at_the_prompt_ends_the_conversation(tmp_path):
    with Provider() as provider:
        given = ["chat", "openai:test", TRAVEL, *options(provider)]
        with AtTerminal(*given, home=tmp_path, cwd=tmp_path) as at:
            at.until("> ")
            at.interrupt_until_it_ends()
            assert at.end()[0] == 130
    assert "Traceback" not in at.screen


@pytest.mark.covers("CMD-23", "CMD-16")
def test_an_interrupt_in_the_middle_of_an_answer_ends_the_answer_alone(tmp_path):
    script = [Say("Once upon a time", never_ends=True), Say("The end.")]
    with chatting(script, home=tmp_path, cwd=tmp_path) as (at, _):
        at.answer("> ", "Tell me a story.\n")
        at.until("Once upon a time")
        at.interrupt()
        at.until("(interrupted)")
        at.answer("> ", "Is that all?\n")
        at.until("The end.")
        at.quit()


@pytest.mark.covers("CMD-23")
def test_the_servers_of_the_configuration_are_used_where_no_target_is_given(tmp_path, shed):
    servers = {"shed": {"command": sys.executable, "args": [str(shed)]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with Provider(Say("Hello.")) as provider:
        given = ["chat", "openai:test", "--trust", *options(provider)]
        assert dragoman(*given, input="Hi", home=tmp_path, cwd=tmp_path).out == "Hello.\n"
    assert [tool["function"]["name"] for tool in provider.asked[0].body["tools"]] == ["burn", "look"]


@pytest.mark.covers("CMD-16", "CMD-23")
@pytest.mark.parametrize(
    ("arguments", "code", "sign"),
    [
        (["chat", "gpt-4.1"], 2, "does not name a provider"),
        (["chat", "openai:test", "--base-url", "http://127.0.0.1:9/v1", "--api-key", "k"], 3, "cannot be asked"),
        (["chat", "openai:test"], 3, "needs a key"),
    ],
)
def test_a_model_that_cannot_be_asked_is_told_in_one_line(tmp_path, arguments, code, sign):
    finished = dragoman(*arguments, input="Hi", home=tmp_path, cwd=tmp_path, OPENAI_API_KEY="")
    assert (finished.code, finished.out, finished.err.count("\n")) == (code, "", 1)
    assert sign in finished.err


@pytest.mark.covers("CMD-23")
def test_an_empty_question_is_a_wrong_usage(tmp_path):
    assert dragoman("chat", "openai:test", input=" \n", home=tmp_path, cwd=tmp_path).code == 2
