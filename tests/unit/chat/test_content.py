"""What servers give and users attach, as a model is told it."""

from base64 import b64encode
from pathlib import Path

import msgspec
import pytest

from dragoman import types
from dragoman.chat.content import attachment, cut, parts_of, prompt_messages, resource_message, result_parts
from dragoman.chat.messages import Media, Message, Text
from dragoman.client.results import CallResult

PIXEL = b64encode(b"not much of an image").decode()
IMAGE = types.ImageContent(data=PIXEL, mime_type="image/png")


def text_of(parts):
    return "".join(part.text for part in parts if isinstance(part, Text))


@pytest.mark.covers("LMT-06")
def test_each_kind_of_block_is_text_or_media():
    sound = types.AudioContent(data=PIXEL, mime_type="audio/wav")
    blob = types.EmbeddedResource(resource=types.ResourceContents(uri="a:///b", blob=PIXEL))
    named = types.EmbeddedResource(resource=types.ResourceContents(uri="a:///c", blob=PIXEL, mime_type="image/gif"))
    link = types.ResourceLink(uri="a:///d", name="d", description="The fourth")
    bare = types.ResourceLink(uri="a:///e", name="e")
    assert parts_of([IMAGE]) == [Media(PIXEL, "image/png")]
    assert parts_of([sound]) == [Media(PIXEL, "audio/wav")]
    assert parts_of([blob]) == [Media(PIXEL, "application/octet-stream", "a:///b")]
    assert parts_of([named]) == [Media(PIXEL, "image/gif", "a:///c")]
    assert parts_of([link]) == [Text("[d](a:///d): The fourth")]
    assert parts_of([bare]) == [Text("[e](a:///e)")]
    assert parts_of([types.UnknownContent({"type": "hologram", "depth": 3})]) == [Text('{"type":"hologram","depth":3}')]


@pytest.mark.covers("LMT-05")
def test_texts_that_follow_each_other_are_lines_of_one():
    blocks = [types.TextContent("one"), types.TextContent("two"), IMAGE, types.TextContent("three")]
    assert parts_of(blocks) == [Text("one\ntwo"), Media(PIXEL, "image/png"), Text("three")]


@pytest.mark.covers("LMT-05")
@pytest.mark.parametrize(
    ("texts", "text"),
    [
        (("one", "two"), "one\ntwo"),
        (("one\n", "two"), "one\ntwo"),
        (("one", "\ntwo"), "one\ntwo"),
        (("", "two"), "two"),
    ],
)
def test_texts_around_an_image_are_on_separate_lines(texts, text):
    before, after = map(types.TextContent, texts)
    assert Message("tool", parts_of([before, IMAGE, after])).text == text


@pytest.mark.covers("LMT-07")
@pytest.mark.parametrize("is_list", [True, False])
def test_structured_content_that_repeats_an_image_is_left_out(is_list):
    block = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    result = CallResult([IMAGE], {"content": [block] if is_list else block}, has_structured=True)
    assert result_parts(result) == [Media(PIXEL, "image/png")]


def told(texts, structured):
    result = CallResult([types.TextContent(text) for text in texts], structured, has_structured=True)
    return text_of(result_parts(result, None))


@pytest.mark.covers("LMT-07")
def test_what_is_structured_is_told_where_there_is_no_content():
    assert told([], {"a": [1]}) == '{"a":[1]}'
    assert told([], None) == "null"
    assert told([], []) == "[]"
    assert result_parts(CallResult([])) == [Text("(no content)")]


@pytest.mark.covers("LMT-07")
@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (["3 rows"], {"rows": [1, 2, 3]}),
        (["true"], {"a": 1}),
        (["line 1"], {"content": "line 2"}),
        (["line 1"], {"content": "line 1", "size": 6}),
        (["line 1"], {"text": "line 1"}),
        (["one", "two"], {"content": [{"type": "text", "text": "one"}]}),
        (["one", "two"], ["one", "two", "three"]),
        (["[" * 100_000], {"a": 1}),
        (["\ud800"], {"a": 1}),
    ],
)
def test_what_is_structured_follows_texts_that_lack_it(texts, structured):
    *said, json = told(texts, structured).split("\n")
    assert said == texts
    assert msgspec.json.decode(json) == structured


@pytest.mark.covers("LMT-07")
def test_what_is_structured_follows_media():
    parts = result_parts(CallResult([IMAGE], {"width": 3}, has_structured=True))
    assert parts == [Media(PIXEL, "image/png"), Text('{"width":3}')]


@pytest.mark.covers("LMT-07")
@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{\n  "a": 1.0\n}'], {"a": 1}),
        (["A summary", '{"a":1}'], {"a": 1}),
        (["cold"], {"result": "cold"}),
        (["cold"], "cold"),
        (['{"result":5}'], 5),
        (["5"], {"result": 5}),
        (["5"], "5"),
        (["one", "2"], ["one", "2"]),
        (["one", "2"], {"result": ["one", 2]}),
        (["one", "two"], {"result": ["one", "two"]}),
        (["said"], None),
        (["said"], {}),
        (["true"], {"result": True}),
        (["line 1\nline 2\n"], {"content": "line 1\nline 2\n"}),
        (["one", "two"], {"content": ["one", "two"]}),
        (["one"], {"content": [{"type": "text", "text": "one"}]}),
        (["one"], {"content": {"type": "text", "text": "one"}}),
    ],
)
def test_what_texts_say_already_is_not_told_twice(texts, structured):
    assert told(texts, structured) == "\n".join(texts)


@pytest.mark.covers("CHAT-05")
def test_a_text_over_the_budget_keeps_its_beginning_and_its_end():
    parts = result_parts(CallResult([types.TextContent("a" * 500 + "z" * 500)]), 100)
    assert parts == [Text(f"{'a' * 50}\n[... 900 of 1000 characters were left out ...]\n{'z' * 50}")]


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_a_tiny_budget_is_kept_too(most):
    said = cut("abcdefgh", most)
    assert said.count("\n") == 2
    head, note, tail = said.split("\n")
    assert (head, tail) == ("abcdefgh"[: most - most // 2], "abcdefgh"[8 - most // 2 :])
    assert str(8 - most) in note


def test_a_text_within_the_budget_is_left_alone():
    assert cut("abc", 3) == "abc"
    long = CallResult([types.TextContent("x" * 100_000)])
    assert text_of(result_parts(long, None)) == "x" * 100_000
    assert len(text_of(result_parts(long))) < 51_000


@pytest.mark.covers("CHAT-05")
def test_the_budget_is_one_for_all_texts_and_spares_the_short_ones_and_media():
    contents = [types.TextContent("short"), IMAGE, types.TextContent("x" * 1000), IMAGE, types.TextContent("y" * 1000)]
    parts = result_parts(CallResult(contents), 205)
    assert parts[0] == Text("short")
    assert parts[1] == parts[3] == Media(PIXEL, "image/png")
    assert text_of(parts[2:3]).count("x") == 100
    assert text_of(parts[4:]).count("y") == 100


@pytest.mark.covers("LMR-03")
def test_a_resource_is_shown_with_its_title_and_all_that_it_holds():
    contents = [
        types.ResourceContents(uri="a:///1", text="first"),
        types.ResourceContents(uri="a:///1", blob=PIXEL, mime_type="image/png"),
        types.ResourceContents(uri="a:///1", text="last"),
    ]
    message = resource_message("notes: My notes", contents)
    assert message.role == "user"
    assert message.text == "notes: My notes\n\nfirst\n\nlast"
    assert message.content[2] == Media(PIXEL, "image/png", "a:///1")


@pytest.mark.covers("LMP-03")
def test_a_prompt_keeps_its_roles_and_its_media():
    result = types.GetPromptResult(
        messages=[types.PromptMessage("user", IMAGE), types.PromptMessage("assistant", types.TextContent("Nice."))]
    )
    first, second = prompt_messages(result)
    assert (first.role, first.content) == ("user", [Media(PIXEL, "image/png")])
    assert (second.role, second.text) == ("assistant", "Nice.")


@pytest.mark.covers("CHAT-06")
def test_a_file_is_attached_as_what_it_is(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("héllo", encoding="utf-8")
    (tmp_path / "photo.png").write_bytes(b"pixels")
    (tmp_path / "thing").write_bytes(b"\x00")
    assert attachment(str(tmp_path / "notes.txt")) == Text("notes.txt:\n\nhéllo")
    assert attachment(tmp_path / "photo.png") == Media(b64encode(b"pixels").decode(), "image/png", "photo.png")
    assert attachment(tmp_path / "thing") == Media("AA==", "application/octet-stream", "thing")


def test_bytes_blocks_contents_and_parts_are_attached():
    assert attachment((b"\x00", "image/gif")) == Media("AA==", "image/gif")
    assert attachment((b"{}", "application/json")) == Text("{}")
    assert attachment(IMAGE) == Media(PIXEL, "image/png")
    assert attachment(types.ResourceContents(uri="a:///b", text="words")) == Text("words")
    assert attachment(Text("as it is")) == Text("as it is")
    assert attachment(types.UnknownContent({"type": "x"})) == Text('{"type":"x"}')


@pytest.mark.parametrize("given", [b"bare", 3, ("text", "text/plain"), None, [IMAGE]])
def test_what_cannot_be_attached_is_refused_with_what_can(given):
    with pytest.raises(TypeError, match="give a path, \\(bytes, mime type\\), or content"):
        attachment(given)
