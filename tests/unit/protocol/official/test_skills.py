"""The rules for entries, URIs and files of skills."""

import hashlib
from typing import Any

import pytest

from dragoman.errors import ValidationError
from dragoman.protocol.official.skills import (
    MAX_BYTES,
    MAX_FILES,
    ROW,
    check_document,
    check_entry,
    check_file,
    check_frontmatter,
    check_limits,
    check_name,
    digest_of,
    file_uri,
    folder_of,
    path_within,
    resolved_path,
    skill_uri,
)
from dragoman.types.skills import Skill, SkillResource

URI = "skill://acme/pdf/SKILL.md"
FORMS = "skill://acme/pdf/references/FORMS.md"
DIGEST = digest_of(b"x")
FIELDS = {"name": "pdf", "description": "PDF documents"}


def listed(uri: str = URI, size: int = 1, digest: str = DIGEST) -> SkillResource:
    return SkillResource(uri=uri, digest=digest, size=size)


def entry(**changes: Any) -> Skill:
    return Skill(**{"uri": URI, "frontmatter": dict(FIELDS), "resources": [listed(), listed(FORMS)], **changes})


def test_only_a_server_declares_skills():
    assert ROW.shared == ()
    assert {method.declared for method in ROW.joined_methods()} == {()}
    assert ROW.path == ("extensions", "io.modelcontextprotocol/skills")


@pytest.mark.parametrize("name", ["a", "7", "pdf-processing", "a" * 64, "a-b-c"])
def test_a_name_has_small_letters_digits_and_single_hyphens(name):
    check_name(name)


@pytest.mark.parametrize("name", ["", "-a", "a-", "a--b", "A", "a_b", "a" * 65, "ä", "a\n", None, 5])
def test_any_other_name_is_refused(name):
    with pytest.raises(ValidationError, match="1 to 64 small letters"):
        check_name(name)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"description": "d"}, "The name of a skill"),
        ({"name": "pfd", "description": "d"}, "is the name of its folder: 'pdf', not 'pfd'"),
        ({"name": "pdf"}, "a text of 1 to 1024 characters"),
        ({"name": "pdf", "description": ""}, "a text of 1 to 1024 characters"),
        ({"name": "pdf", "description": "d" * 1025}, "a text of 1 to 1024 characters"),
        ({"name": "pdf", "description": 5}, "a text of 1 to 1024 characters"),
        ({**FIELDS, "metadata": {"version": 1}}, "map names to texts; write numbers in quotes"),
        ({**FIELDS, "metadata": "v1"}, "map names to texts"),
        ({**FIELDS, "metadata": {"io.modelcontextprotocol/x": "1"}}, "is reserved for the protocol"),
    ],
)
def test_frontmatter_that_breaks_a_rule_is_refused(fields, said):
    with pytest.raises(ValidationError, match=said):
        check_frontmatter(fields, "pdf")
    for good in (FIELDS, {**FIELDS, "metadata": {"version": "1"}, "anything": [1]}):
        check_frontmatter(good, "pdf")


def test_a_skill_has_limits():
    check_limits([1] * MAX_FILES)
    check_limits([MAX_BYTES])
    with pytest.raises(ValidationError, match="at most 512 files, not 513"):
        check_limits([1] * (MAX_FILES + 1))
    with pytest.raises(ValidationError, match="at most 16,777,216 bytes, not 16,777,217"):
        check_limits([MAX_BYTES, 1])


@pytest.mark.parametrize(
    ("segments", "uri"),
    [
        (["pdf", "SKILL.md"], "skill://pdf/SKILL.md"),
        (["acme", "pdf", "Q&A [1].md"], "skill://acme/pdf/Q&A%20%5B1%5D.md"),
        (["ac me", "ü.md"], "skill://ac%20me/%C3%BC.md"),
        (["pdf", "50%.md"], "skill://pdf/50%25.md"),
    ],
)
def test_a_path_becomes_a_uri_and_a_path_again(segments, uri):
    assert skill_uri(segments) == uri
    folder = skill_uri(segments[:1])
    assert path_within(folder, uri) == "/".join(segments[1:])
    assert file_uri(folder, segments[1:]) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "skill://acme/pdf",
        "skill://acme/pdf/",
        "skill://acme/pdfs/a.md",
        "skill://acme/pdf/../a.md",
        "skill://acme/pdf/%2e%2e/a.md",
        "skill://acme/pdf/a%2Fb.md",
        "skill://acme/pdf/a%5Cb.md",
        "skill://acme/pdf/a%00.md",
        "skill://acme/pdf//a.md",
        "skill://acme/pdf/./a.md",
        "skill://acme/pdf/a.md?x",
        "skill://acme/pdf/a.md#x",
        "https://acme/pdf/a.md",
    ],
)
def test_a_uri_that_leaves_the_folder_has_no_path_in_it(uri):
    assert path_within("skill://acme/pdf", uri) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("references/FORMS.md", "references/FORMS.md"),
        ("./references/../SKILL.md", "SKILL.md"),
        ("a/b/../../c", "c"),
        ("..", None),
        ("a/../../b", None),
        ("/etc/passwd", None),
        ("a//b", None),
        ("a/", None),
        ("", None),
        (".", None),
    ],
)
def test_a_reference_is_resolved_inside_the_folder(path, expected):
    assert resolved_path(path) == expected


@pytest.mark.covers("SKL-07")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"uri": "skill://acme/pdf"}, "ends with a folder and /SKILL.md"),
        ({"uri": "skill://SKILL.md"}, "ends with a folder and /SKILL.md"),
        ({"uri": "/pdf/SKILL.md"}, "ends with a folder and /SKILL.md"),
        ({"frontmatter": {"name": "pfd", "description": ""}}, "has another name than its folder: 'pfd'"),
        ({"frontmatter": {"name": "Pdf", "description": ""}}, "1 to 64 small letters"),
        ({"frontmatter": {"name": "pdf"}}, "has no description"),
        ({"resources": []}, "must be inside its folder, each once, with SKILL.md"),
        ({"resources": [listed(FORMS)]}, "each once, with SKILL.md"),
        ({"resources": [listed(), listed()]}, "each once"),
        ({"resources": [listed(), listed("skill://acme/pdf/%53KILL.md")]}, "each once"),
        ({"resources": [listed(), listed("skill://other/a.md")]}, "inside its folder"),
        ({"resources": [listed(), listed("skill://acme/pdf/../a.md")]}, "inside its folder"),
        ({"resources": [listed(digest="sha256:00")]}, "digest or the size of .* is malformed"),
        ({"resources": [listed(digest=DIGEST.upper())]}, "malformed"),
        ({"resources": [listed(size=-1)]}, "malformed"),
        ({"resources": [listed(size=MAX_BYTES + 1)]}, "at most 16,777,216 bytes"),
        ({"resources": [listed(), *(listed(f"{FORMS}.{n}") for n in range(MAX_FILES))]}, "at most 512 files"),
    ],
    ids=str,
)
def test_an_entry_that_breaks_a_rule_is_refused(changes, said):
    with pytest.raises(ValidationError, match=said):
        check_entry(entry(**changes))


@pytest.mark.parametrize(
    "changes",
    [{}, {"resources": "dynamic"}, {"uri": "https://example.com/pdf/SKILL.md", "resources": "dynamic"}],
    ids=str,
)
def test_an_entry_that_keeps_the_rules_is_accepted(changes):
    check_entry(entry(**changes))
    assert folder_of(URI) == "skill://acme/pdf"


def test_a_digest_is_the_hash_of_the_bytes():
    assert digest_of(b"x") == f"sha256:{hashlib.sha256(b'x').hexdigest()}"


def test_a_file_is_compared_with_what_was_listed():
    check_file(listed(), b"x")
    with pytest.raises(ValidationError, match="has 2 bytes, and the server listed 1"):
        check_file(listed(), b"xx")
    with pytest.raises(ValidationError, match=r"The digest of .* differs"):
        check_file(listed(), b"y")


def document(fields: str) -> bytes:
    return f"---\n{fields}\n---\nbody".encode()


def test_a_document_whose_fields_are_those_of_the_entry_is_its_text():
    text = "name: pdf\ndescription: PDF documents\nversion: 1\ntags: [a, {b: 1.0}]"
    fields = {**FIELDS, "version": 1.0, "tags": ["a", {"b": 1}]}
    assert check_document(entry(frontmatter=fields), document(text)) == document(text).decode()


@pytest.mark.parametrize(
    ("fields", "listed_fields", "said"),
    [
        ("name: pdf\ndescription: other", FIELDS, "differs from what the server listed: description"),
        ("name: pdf", FIELDS, "listed: description"),
        ("name: pdf\ndescription: PDF documents\nallowed-tools: shell", FIELDS, "listed: allowed-tools"),
        ("name: pdf\ndescription: PDF documents\nx: null", FIELDS, "listed: a field that is null"),
        ("name: pdf\nx: true", {"name": "pdf", "x": 1}, "listed: x"),
        ("name: pdf\nx: 0", {"name": "pdf", "x": False}, "listed: x"),
        ("name: pdf\nx: [1, 2]", {"name": "pdf", "x": [1]}, "listed: x"),
        ("name: pdf\nx: [1]", {"name": "pdf", "x": {"0": 1}}, "listed: x"),
        ("name: pdf\nx: {a: 1}", {"name": "pdf", "x": {"a": 2}}, "listed: x"),
        ("name: [", FIELDS, "is no YAML"),
    ],
)
def test_a_document_whose_fields_differ_is_refused(fields, listed_fields, said):
    with pytest.raises(ValidationError, match=said):
        check_document(entry(frontmatter=listed_fields), document(fields))


def test_a_document_that_is_no_text_is_refused():
    with pytest.raises(ValidationError, match="is not UTF-8"):
        check_document(entry(), b"---\nname: \xff\n---\n")
