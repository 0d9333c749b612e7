"""Content that tools and prompts return, where the wire does not show it."""

import pytest

from dragoman import Audio, File, Image, ToolResult, types
from dragoman.server.define import content
from dragoman.server.define.content import content_blocks, holds_content, is_content, read_files

TEXT = {"type": "text", "text": "hello"}


@pytest.mark.parametrize(
    ("value", "alone", "anyway"),
    [
        ("text", True, False),
        (None, True, False),
        (Image(b""), True, True),
        (TEXT, True, False),
        ({"type": "text"}, False, False),
        ({"type": "sale", "text": "x"}, False, False),
        (["text", TEXT], True, False),
        (["text", Image(b"")], True, True),
        ([Image(b""), 5], True, True),
        (["text", 5], False, False),
        (["text", None], False, False),
        ([["text"]], False, False),
        ([], False, False),
        (5, False, False),
        (b"bytes", False, False),
    ],
    ids=str,
)
def test_content_is_told_from_data(value, alone, anyway):
    assert (is_content(value), holds_content(value)) == (alone, anyway)


def test_what_is_no_content_is_refused_with_the_remedy():
    with pytest.raises(
        TypeError, match="int cannot be content: return text, Image, Audio, File, a content block, or several"
    ):
        content_blocks([Image(b""), 5])
    with pytest.raises(ValueError, match="missing required field `text`"):
        content_blocks({"type": "text"})


def test_a_file_becomes_an_embedded_resource_that_does_not_tell_its_folder(tmp_path):
    path = tmp_path / "my report.pdf"
    path.write_bytes(b"%PDF\xff")
    block = File(path).block()
    assert block == types.EmbeddedResource(
        types.ResourceContents("file:///my%20report.pdf", "application/pdf", blob=b"%PDF\xff")
    )
    same = File(str(path), "image/x", uri="reports://1").block()
    assert (same.resource.uri, same.resource.mime_type) == ("reports://1", "image/x")


def test_a_file_of_text_is_sent_as_text_if_it_is_text():
    [notes, odd, plain] = content_blocks([File(b"{}", name="notes.json"), File(b"\xff", "text/plain"), File(b"hello")])
    assert (notes.resource.text, notes.resource.mime_type) == ("{}", "application/json")
    assert (odd.resource.text, odd.resource.blob) == (None, "/w==")
    assert (plain.resource.uri, plain.resource.mime_type) == ("file:///file", "application/octet-stream")


def test_media_describe_themselves_without_their_data():
    assert repr(Image(b"12345")) == "<Image image/png: 5 bytes>"
    assert repr(Audio(path="a/b.mp3")) == "<Audio of any kind: 'a/b.mp3'>"
    assert repr(File(b"12345", "application/pdf")) == "<File application/pdf: 5 bytes>"
    assert repr(File("a.pdf")) == "<File of any kind: 'a.pdf'>"


def test_media_are_read_from_files_whose_names_tell_the_type(tmp_path):
    for name in ("chart.png", "photo.JPEG", "hello.mp3", "drawing"):
        (tmp_path / name).write_bytes(b"data")
    assert Image(path=tmp_path / "chart.png").block() == Image(b"data").block()
    assert Image(path=str(tmp_path / "photo.JPEG")).block().mime_type == "image/jpeg"
    assert Audio(path=tmp_path / "hello.mp3").block().mime_type == "audio/mpeg"
    assert Image(path=tmp_path / "drawing", mime_type="image/webp").block().mime_type == "image/webp"
    with pytest.raises(ValueError, match="tells no known type of image; give mime_type="):
        Image(path=tmp_path / "drawing").block()
    with pytest.raises(ValueError, match="tells no known type of image"):
        Image(path=tmp_path / "hello.mp3").block()


@pytest.mark.parametrize("given", [{}, {"data": b"", "path": "a.png"}])
def test_media_have_either_data_or_a_path(given):
    with pytest.raises(TypeError, match=r"Image takes either data or path="):
        Image(**given)


def test_a_path_is_not_taken_for_the_data_of_an_image():
    with pytest.raises(TypeError, match=r"must be bytes; give the path of a file as Image\(path="):
        Image("chart.png")  # type: ignore[arg-type]


def test_a_file_that_is_absent_endless_or_too_large_is_not_sent(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        File(tmp_path / "nowhere.txt").block()
    with pytest.raises(ValueError, match="'/dev/zero' is not a regular file"):
        File("/dev/zero").block()
    monkeypatch.setattr(content, "MAX_FILE_BYTES", 4)
    (tmp_path / "four.txt").write_text("1234", "utf-8")
    (tmp_path / "five.txt").write_text("12345", "utf-8")
    assert File(tmp_path / "four.txt").block().resource.text == "1234"
    with pytest.raises(ValueError, match=r"five\.txt' has more than 4 bytes: return a ResourceLink"):
        File(tmp_path / "five.txt").block()


async def test_files_are_read_wherever_a_value_holds_content(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("hello", "utf-8")
    read = File(b"hello", name="a.txt")
    message = types.PromptMessage("user", types.TextContent("hi"))
    for value, expected in [
        (File(path), read),
        ([File(path), "text"], [read, "text"]),
        (ToolResult([File(path)], structured=1), ToolResult([read], structured=1)),
        ({"role": "user", "content": File(path)}, {"role": "user", "content": read}),
        ({"messages": [{"content": [File(path)]}], "other": 1}, {"messages": [{"content": [read]}], "other": 1}),
        (types.GetPromptResult([message]), types.GetPromptResult([message])),
        (5, 5),
    ]:
        assert await read_files(value) == expected
