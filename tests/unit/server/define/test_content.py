"""Content that tools and prompts return, where the wire does not show it."""

import pytest

from dragoman import File, Image, types
from dragoman.server.define.content import content_blocks, holds_content, is_content

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
        TypeError, match="int is no content: return text, Image, Audio, File, a content block, or several"
    ):
        content_blocks([Image(b""), 5])
    with pytest.raises(ValueError, match="missing required field `text`"):
        content_blocks({"type": "text"})


def test_a_file_becomes_an_embedded_resource_that_does_not_tell_its_folder(tmp_path):
    path = tmp_path / "my report.pdf"
    path.write_bytes(b"%PDF\xff")
    [block] = content_blocks(File(path))
    assert block == types.EmbeddedResource(
        types.ResourceContents("file:///my%20report.pdf", "application/pdf", blob=b"%PDF\xff")
    )
    [same] = content_blocks(File(str(path), "image/x", uri="reports://1"))
    assert (same.resource.uri, same.resource.mime_type) == ("reports://1", "image/x")


def test_a_file_of_text_is_sent_as_text_if_it_is_text():
    [notes, odd, plain] = content_blocks([File(b"{}", name="notes.json"), File(b"\xff", "text/plain"), File(b"hello")])
    assert (notes.resource.text, notes.resource.mime_type) == ("{}", "application/json")
    assert (odd.resource.text, odd.resource.blob) == (None, "/w==")
    assert (plain.resource.uri, plain.resource.mime_type) == ("file:///file", "application/octet-stream")


def test_media_describe_themselves_without_their_data():
    assert repr(Image(b"12345")) == "<Image image/png: 5 bytes>"
    assert repr(File(b"12345", "application/pdf")) == "<File application/pdf: 5 bytes>"
    assert repr(File("a.pdf")) == "<File of any kind: 'a.pdf'>"
