"""The skills of a server: from folders, objects and functions; what they list, and what is refused."""

import logging
import os
import time
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import BlockingContext, Context, DefinitionError, Server, types
from dragoman.protocol.official.skills import MAX_BYTES, MAX_FILES, digest_of
from dragoman.server.extensions import skill_files
from dragoman.server.extensions.skills import PAGE_SIZE
from dragoman.skills import ID, Skill

CLIENT = {"name": "c", "version": "1"}


def ask(server: Server, method: str, **params: Any) -> types.Json:
    meta = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    answered = server.handle(message)
    assert answered is not None
    return answered


def entries(server: Server) -> dict[str, types.Json]:
    return {entry["frontmatter"]["name"]: entry for entry in ask(server, "skills/list")["result"]["skills"]}


def read(server: Server, uri: str) -> types.Json:
    [contents] = ask(server, "resources/read", uri=uri)["result"]["contents"]
    return contents


def write(folder: Path, name: str, text: str = "Body.", *, files: dict[str, bytes] | None = None) -> Path:
    """Write a skill, and return its folder."""
    place = folder / name
    place.mkdir(parents=True)
    head = f"---\nname: {place.name}\ndescription: About {place.name}\nreviewed: 2026-07-28\n---\n"
    (place / "SKILL.md").write_text(head + text)
    for path, data in (files or {}).items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(data)
    return place


def touch(path: Path, data: bytes) -> None:
    """Write a file, with a modification time that differs from the one that it had."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_bytes(data)
    if path.stat().st_mtime_ns == before:
        os.utime(path, ns=(time.time_ns(), before + 1))


@pytest.mark.covers("SKL-02", "SKL-03")
def test_a_folder_of_skills_is_listed_with_every_file(tmp_path: Path):
    files = {"references/FORMS.md": b"forms\r\n", "scripts/fill.py": b"print()", "logo.png": b"\x89PNG\xff"}
    place = write(tmp_path, "pdf-processing", files=files)
    write(tmp_path, "acme/billing/refunds")
    server = Server()
    server.add_skills(tmp_path)
    found = entries(server)
    assert list(found) == ["refunds", "pdf-processing"]
    assert found["refunds"]["uri"] == "skill://acme/billing/refunds/SKILL.md"
    document = (place / "SKILL.md").read_bytes()
    assert found["pdf-processing"] == {
        "uri": "skill://pdf-processing/SKILL.md",
        "frontmatter": {
            "name": "pdf-processing",
            "description": "About pdf-processing",
            "reviewed": "2026-07-28",
        },
        "resources": [
            {"uri": f"skill://pdf-processing/{path}", "digest": digest_of(data), "size": len(data)}
            for path, data in sorted({"SKILL.md": document, **files}.items())
        ],
    }


@pytest.mark.covers("SKL-05")
def test_files_are_read_with_exactly_their_bytes(tmp_path: Path):
    files = {"a b.md": b"\xef\xbb\xbfone\r\ntwo\x00", "logo.png": b"\x89PNG\xff", "x.unknown": b"\xff", "y": b"text"}
    write(tmp_path, "pdf", files=files)
    server = Server()
    server.add_skills(tmp_path)
    for path, data in files.items():
        contents = read(server, f"skill://pdf/{path.replace(' ', '%20')}")
        assert (contents["text"].encode() if "text" in contents else b64decode(contents["blob"])) == data
    types_of = {path: read(server, f"skill://pdf/{path.replace(' ', '%20')}")["mimeType"] for path in files}
    assert types_of == {
        "a b.md": "text/markdown",
        "logo.png": "image/png",
        "x.unknown": "application/octet-stream",
        "y": "text/plain",
    }


def test_each_document_is_listed_as_a_resource(tmp_path: Path):
    place = write(tmp_path, "pdf", files={"a.md": b""})
    server = Server()
    server.add_skill(str(place), prefix="acme")
    [listed] = ask(server, "resources/list")["result"]["resources"]
    assert listed == {
        "uri": "skill://acme/pdf/SKILL.md",
        "name": "pdf",
        "description": "About pdf",
        "mimeType": "text/markdown",
        "size": (place / "SKILL.md").stat().st_size,
    }


@pytest.mark.covers("SKL-02")
def test_what_changed_is_hashed_anew_and_nothing_else_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = write(tmp_path, "pdf", files={"a.md": b"a", "b.md": b"b"})
    server = Server()
    server.add_skills(tmp_path)
    before = entries(server)["pdf"]
    hashed: list[bytes] = []
    monkeypatch.setattr(skill_files, "digest_of", lambda data: hashed.append(data) or digest_of(data))
    assert entries(server)["pdf"] == before
    assert hashed == []
    touch(place / "a.md", b"A")
    after = entries(server)["pdf"]
    assert hashed == [b"A"]
    assert [one["digest"] for one in after["resources"]][1] == digest_of(b"A")
    assert after["frontmatter"] == before["frontmatter"]
    assert ask(server, "skills/get", uri="skill://pdf/SKILL.md")["result"]["skill"] == after


@pytest.mark.covers("SKL-02")
def test_files_and_skills_come_and_go_while_a_server_runs(tmp_path: Path):
    place = write(tmp_path, "pdf", files={"a.md": b"a"})
    server = Server()
    server.add_skills(tmp_path)
    (place / "a.md").unlink()
    (place / "b.md").write_bytes(b"b")
    write(tmp_path, "new")
    found = entries(server)
    assert list(found) == ["new", "pdf"]
    assert [one["uri"] for one in found["pdf"]["resources"]] == ["skill://pdf/SKILL.md", "skill://pdf/b.md"]
    assert "error" in ask(server, "resources/read", uri="skill://pdf/a.md")
    assert read(server, "skill://pdf/b.md")["text"] == "b"
    listed = [one["name"] for one in ask(server, "resources/list")["result"]["resources"]]
    assert sorted(listed) == ["new", "pdf"]
    touch(place / "SKILL.md", b"---\nname: pdf\ndescription: Other\n---\n")
    assert entries(server)["pdf"]["frontmatter"]["description"] == "Other"
    told = {one["name"]: one["description"] for one in ask(server, "resources/list")["result"]["resources"]}
    assert told["pdf"] == "Other"


def test_an_author_may_replace_the_resources(tmp_path: Path):
    place = write(tmp_path, "pdf")
    write(tmp_path, "gone")
    server = Server()
    server.add_skills(tmp_path)
    server.resources = []
    touch(place / "SKILL.md", b"---\nname: pdf\ndescription: Other\n---\n")
    (tmp_path / "gone" / "SKILL.md").unlink()
    (tmp_path / "gone").rmdir()
    assert list(entries(server)) == ["pdf"]
    assert [one["description"] for one in ask(server, "resources/list")["result"]["resources"]] == ["Other"]


@pytest.mark.covers("SKL-02")
def test_a_file_that_another_process_has_listed_is_read(tmp_path: Path):
    place = write(tmp_path, "pdf")
    listing, reading = Server(), Server()
    for server in (listing, reading):
        server.add_skills(tmp_path)
        server.resource("skill://mine/a.md")(lambda: "mine")
        server.resource("skill://templates/{name}")(lambda name: name)
    (place / "new.md").write_bytes(b"new")
    write(tmp_path, "later")
    assert list(entries(listing)) == ["later", "pdf"]
    assert read(reading, "skill://pdf/new.md")["text"] == "new"
    assert "later" in read(reading, "skill://later/SKILL.md")["text"]
    assert ask(reading, "resources/read", uri="skill://none/SKILL.md")["error"]["code"] == -32602
    assert (read(reading, "skill://mine/a.md")["text"], read(reading, "skill://templates/b")["text"]) == ("mine", "b")


@pytest.mark.covers("SKL-04")
def test_a_skill_that_breaks_a_rule_later_is_left_out_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    place = write(tmp_path, "pdf")
    write(tmp_path, "other")
    server = Server()
    server.add_skills(tmp_path)
    touch(place / "SKILL.md", b"---\nname: pfd\ndescription: x\n---\n")
    with caplog.at_level(logging.WARNING, "dragoman.server"):
        assert list(entries(server)) == ["other"]
        assert list(entries(server)) == ["other"]
    assert [record.getMessage() for record in caplog.records] == [
        f"A skill cannot be served: {place}: The name of a skill is the name of its folder: 'pdf', not 'pfd'"
    ]
    assert ask(server, "skills/get", uri="skill://pdf/SKILL.md")["error"]["code"] == -32602
    assert ask(server, "resources/read", uri="skill://pdf/SKILL.md")["error"]["code"] == -32602
    touch(place / "SKILL.md", b"---\nname: pdf\ndescription: x\n---\n")
    assert list(entries(server)) == ["other", "pdf"]


def without_document(folder: Path) -> None:
    write(folder, "good")
    (folder / "bad").mkdir()


def named_alike(folder: Path) -> None:
    write(folder, "a/pdf")
    write(folder, "b/pdf")


def too_many(folder: Path) -> None:
    write(folder, "bad", files={f"{number}.md": b"" for number in range(MAX_FILES)})


def too_large(folder: Path) -> None:
    place = write(folder, "bad")
    with (place / "large.bin").open("wb") as file:
        file.truncate(MAX_BYTES)


def one_too_large(folder: Path) -> None:
    with (write(folder, "bad") / "large.bin").open("wb") as file:
        file.truncate(MAX_BYTES + 1)


def document(data: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        write(folder, "good")
        place = write(folder, "bad")
        (place / "SKILL.md").write_bytes(data)

    return make


def link_to(target: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder.parent / "secret.md").write_text("secret")
        place = write(folder, "bad", files={"sub/a.md": b"a"})
        (place / "link.md").symlink_to(target)

    return make


def linked(place: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        write(folder, "good")
        write(folder.parent, "elsewhere/bad")
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).symlink_to(folder.parent / "elsewhere" / "bad")

    return make


def pipe(folder: Path) -> None:
    os.mkfifo(write(folder, "bad") / "pipe")


def unnamed(folder: Path) -> None:
    place = write(folder, "bad")
    with open(os.fsencode(place) + b"/\xff.md", "wb"):  # noqa: PTH123
        pass


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (lambda folder: None, "has no skills: a skill is a folder with a SKILL.md"),
    "a folder without SKILL.md": (without_document, "/bad is not a skill: it has no SKILL.md"),
    "a skill itself": (lambda folder: (folder / "SKILL.md").write_text("x"), "register it with server.add_skill"),
    "two of one name": (named_alike, "Two skills are called 'pdf': skill://a/pdf/SKILL.md and skill://b/pdf/SKILL.md"),
    "too many files": (too_many, "/bad: A skill has at most 512 files, not 513"),
    "too large": (too_large, "/bad: The files of a skill have at most 16,777,216 bytes"),
    "a file that is too large": (one_too_large, "/bad: bad/large.bin has 16,777,217 bytes"),
    "no frontmatter": (document(b"# Bad"), "/bad: SKILL.md must begin with its frontmatter"),
    "bad YAML": (document(b"---\nname: [\n---\n"), "/bad: The frontmatter is no YAML in line"),
    "another name": (
        document(b"---\nname: good\ndescription: x\n---\n"),
        "/bad: The name of a skill is the name of its",
    ),
    "a bad name": (document(b"---\nname: Bad\ndescription: x\n---\n"), "/bad: The name of a skill has 1 to 64 small"),
    "no description": (document(b"---\nname: bad\n---\n"), "/bad: The description of a skill is a text"),
    "no UTF-8": (document(b"---\nname: bad\ndescription: \xff\n---\n"), "/bad: SKILL.md is not UTF-8"),
    "reserved": (
        document(b"---\nname: bad\ndescription: x\nmetadata: {io.modelcontextprotocol/a: b}\n---\n"),
        "/bad: The metadata key 'io.modelcontextprotocol/a' is reserved",
    ),
    "a link out": (link_to("../../secret.md"), "/bad: bad/link.md is a link that leads out of the skill"),
    "a link to a folder": (link_to("sub"), "/bad: bad/link.md is neither a file nor a folder"),
    "a link to a folder outside": (link_to("/etc"), "/bad: bad/link.md is a link that leads out of the skill"),
    "a skill that is a link": (linked("bad"), "/bad is a link to a folder: copy the folder instead"),
    "a skill that is a link, further below": (linked("acme/bad"), "/acme/bad is a link to a folder"),
    "a broken link": (link_to("nowhere.md"), "/bad: .*nowhere|/bad: .*link.md"),
    "a pipe": (pipe, "/bad: bad/pipe is neither a file nor a folder"),
    "a name that is no text": (unnamed, "/bad: the name of the file .* is not valid Unicode"),
}


@pytest.mark.covers("SKL-04", "SKL-05")
@pytest.mark.parametrize(("make", "said"), BROKEN.values(), ids=BROKEN)
def test_skills_that_break_a_rule_are_refused_and_none_is_registered(make, said, tmp_path: Path):
    folder = tmp_path / "skills"
    folder.mkdir()
    make(folder)
    server = Server()
    with pytest.raises(DefinitionError, match=said):
        server.add_skills(folder)
    assert (server.resources, server.capabilities.extensions) == ([], None)
    assert ask(server, "skills/list")["error"]["code"] == -32601


@pytest.mark.covers("SKL-05")
def test_a_link_inside_a_skill_is_served_as_the_file(tmp_path: Path):
    place = write(tmp_path, "pdf", files={"sub/a.md": b"a"})
    (place / "b.md").symlink_to("sub/a.md")
    server = Server()
    server.add_skills(tmp_path)
    assert read(server, "skill://pdf/b.md")["text"] == "a"


@pytest.mark.covers("SKL-02")
def test_a_file_that_changed_is_hashed_anew_although_its_modification_time_and_its_size_are_the_same(tmp_path: Path):
    path = write(tmp_path, "pdf", files={"a.md": b"old"}) / "a.md"
    server = Server()
    server.add_skills(tmp_path)
    before, known = entries(server)["pdf"], path.stat()
    while path.stat().st_ctime_ns == known.st_ctime_ns:  # the clock of the file system has ticks
        path.write_bytes(b"new")
        os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
    changed = path.stat()
    assert (changed.st_mtime_ns, changed.st_size, changed.st_ino) == (known.st_mtime_ns, known.st_size, known.st_ino)
    assert entries(server)["pdf"] != before


@pytest.mark.covers("SKL-05")
def test_a_skill_that_becomes_a_link_is_left_out_and_the_reason_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write(tmp_path / "skills", "good")
    place = write(tmp_path / "skills", "pdf")
    server = Server()
    server.add_skills(tmp_path / "skills")
    assert list(entries(server)) == ["good", "pdf"]
    place.rename(tmp_path / "pdf")
    place.symlink_to(tmp_path / "pdf")
    assert list(entries(server)) == ["good"]
    assert "skills/pdf is a link to a folder: copy the folder instead" in caplog.text


@pytest.mark.covers("SKL-05")
def test_a_file_that_became_a_link_out_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "secret.md").write_text("secret")
    place = write(tmp_path / "skills", "pdf", files={"a.md": b"a", "b.md": b"b"})
    server = Server()
    server.add_skills(tmp_path / "skills")
    (place / "a.md").unlink()
    (place / "a.md").symlink_to("../../secret.md")
    (place / "b.md").unlink()
    for uri in ("skill://pdf/a.md", "skill://pdf/b.md"):
        assert ask(server, "resources/read", uri=uri)["error"]["code"] == -32602
    assert "leads out of its skill" in caplog.text
    with (place / "b.md").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert ask(server, "resources/read", uri="skill://pdf/b.md")["error"]["code"] == -32602
    assert "has more than 16,777,216 bytes" in caplog.text


@pytest.mark.covers("SKL-05")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://pdf/../secret.md",
        "skill://pdf/%2e%2e/secret.md",
        "skill://pdf/.hidden",
        "skill://pdf",
        "skill://pdf/references",
        "skill://other/SKILL.md",
    ],
)
def test_nothing_else_is_read(uri, tmp_path: Path):
    (tmp_path / "secret.md").write_text("secret")
    write(tmp_path / "skills", "pdf", files={".hidden": b"x", "references/a.md": b"a", "__pycache__/a.pyc": b"x"})
    server = Server()
    server.add_skills(tmp_path / "skills")
    assert len(entries(server)["pdf"]["resources"]) == 2
    assert ask(server, "resources/read", uri=uri)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (lambda server, path: server.add_skills(path / "none"), "There is no folder .*none' with skills"),
        (lambda server, path: server.add_skill(path / "none"), "There is no folder .*none' with a skill"),
        (lambda server, path: server.add_skill(path), "is not a skill: it has no SKILL.md"),
        (lambda server, path: server.add_skill(5), "5 is not a skill: give the path of a folder, or a Skill"),
        (lambda server, path: server.add_skills(path, prefix="../a"), "A path in a skill is relative"),
        (lambda server, path: server.add_skill(Skill("a", "b", "c"), prefix="x"), "is given when it is made"),
        (lambda server, path: server.skill(lambda: "x"), "The skill '<lambda>' cannot be served: The name of"),
        (lambda server, path: server.skill("a")(lambda: "x"), "The skill 'a' cannot be served: The description"),
    ],
)
def test_what_is_no_skill_is_refused(add, said, tmp_path: Path):
    server = Server()
    with pytest.raises(DefinitionError, match=said):
        add(server, tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "A"}, "The skill 'A' cannot be served"),
        ({"description": ""}, "The description of a skill"),
        ({"prefix": "a//b"}, "A path in a skill is relative"),
        ({"files": {"../a.md": "x"}}, "A path in a skill is relative"),
        ({"files": {"a\\b.md": "x"}}, "A path in a skill is relative"),
        ({"files": {"a.md": 5}}, "is a text or bytes, not int"),
        ({"files": {"a.md": b"x" * (MAX_BYTES + 1)}}, "at most 16,777,216 bytes"),
        ({"fields": {"x": object()}}, "must be JSON"),
        ({"fields": {"metadata": {"a": 1}}}, "map names to texts"),
    ],
)
def test_a_skill_that_is_made_in_python_keeps_the_rules_too(options, said):
    with pytest.raises(DefinitionError, match=said):
        Skill(**{"name": "pdf", "description": "PDF", "text": "Body.", **options})


def test_a_skill_that_is_made_in_python_is_served_like_a_folder():
    skill = Skill("pdf", "PDF: all", "Body.", files={"a/b.md": "x", "c.bin": b"\xff"}, prefix="acme", fields={"v": [1]})
    server = Server()
    server.add_skill(skill)
    entry = entries(server)["pdf"]
    assert entry["frontmatter"] == {"name": "pdf", "description": "PDF: all", "v": [1]}
    assert [one["uri"] for one in entry["resources"]] == [
        "skill://acme/pdf/SKILL.md",
        "skill://acme/pdf/a/b.md",
        "skill://acme/pdf/c.bin",
    ]
    text = read(server, entry["uri"])["text"]
    assert text.endswith("---\nBody.")
    assert digest_of(text.encode()) == entry["resources"][0]["digest"]
    assert read(server, "skill://acme/pdf/c.bin")["blob"] == "/w=="
    assert repr(skill) == "<Skill 'skill://acme/pdf/SKILL.md'>"
    with pytest.raises(DefinitionError, match="Two skills are called 'pdf'"):
        server.add_skill(Skill("pdf", "Another", ""))
    assert list(entries(server)) == ["pdf"]


def test_a_skill_cannot_take_the_uri_of_a_resource():
    server = Server()
    server.resource("skill://pdf/SKILL.md")(lambda: "mine")
    with pytest.raises(DefinitionError, match="is registered already, and cannot be a skill too"):
        server.add_skill(Skill("pdf", "PDF", ""))
    assert read(server, "skill://pdf/SKILL.md")["text"] == "mine"


def test_the_resources_that_an_author_reads_himself_do_not_hide_skills():
    server = Server()
    server.on_read_resource(lambda uri: "mine")
    server.add_skill(Skill("pdf", "PDF", "Body."))
    assert read(server, "skill://pdf/SKILL.md")["text"].endswith("Body.")
    assert read(server, "a://b")["text"] == "mine"


@pytest.mark.covers("SKL-06")
def test_the_files_of_a_dynamic_skill_are_made_for_each_request():
    server = Server()
    calls: list[str] = []

    @server.skill
    async def refund_policy(path: str, ctx: Context) -> str | bytes | None:
        """How to refund a payment.

        More for readers of the code.
        """
        calls.append(f"{path} {ctx.method}")
        return {"SKILL.md": f"Version {len(calls)}.", "logo.png": b"\xff"}.get(path)

    @server.skill("plain", description="Plain.", prefix="acme", fields={"license": "MIT"})
    def anything(ctx: BlockingContext) -> str:
        return f"For {ctx.method}."

    found = entries(server)
    assert found["refund-policy"]["resources"] == "dynamic"
    assert found["refund-policy"]["frontmatter"]["description"].startswith("How to refund a payment.")
    assert found["plain"] == {
        "uri": "skill://acme/plain/SKILL.md",
        "frontmatter": {"name": "plain", "description": "Plain.", "license": "MIT"},
        "resources": "dynamic",
    }
    assert calls == []
    for number in (1, 2):
        text = read(server, "skill://refund-policy/SKILL.md")["text"]
        assert text.startswith('---\nname: "refund-policy"\n')
        assert text.endswith(f"---\nVersion {number}.")
    assert read(server, "skill://refund-policy/logo.png")["blob"] == "/w=="
    assert read(server, "skill://acme/plain/SKILL.md")["text"].endswith("For resources/read.")
    assert calls[0] == "SKILL.md resources/read"
    for uri in ("skill://refund-policy/none.md", "skill://acme/plain/none.md", "skill://refund-policy/../a"):
        assert ask(server, "resources/read", uri=uri)["error"]["code"] == -32602
    children = ask(server, "resources/directory/read", uri="skill://refund-policy")["result"]["resources"]
    assert [one["uri"] for one in children] == ["skill://refund-policy/SKILL.md"]


@pytest.mark.covers("SKL-06")
def test_a_dynamic_skill_that_gives_no_text_is_an_error_of_the_author():
    errors: list[BaseException] = []
    server = Server(configuration=Server().configuration)
    server.configuration.exception_reporter = lambda error, info: errors.append(error)
    server.skill("odd", description="Odd.")(lambda: 5)
    assert ask(server, "resources/read", uri="skill://odd/SKILL.md")["error"]["code"] == -32603
    assert "must return text, bytes or None, not 5" in str(errors[0])


@pytest.mark.covers("SKL-01")
def test_a_folder_is_listed_one_level_at_a_time(tmp_path: Path):
    place = write(tmp_path, "pdf", files={"references/deep/a.md": b"a", "references/b.md": b"bb"})
    (place / "empty").mkdir()
    write(tmp_path, "pdf/inner")
    server = Server()
    server.add_skills(tmp_path)

    def children(uri: str) -> list[tuple[str, str, Any]]:
        found = ask(server, "resources/directory/read", uri=uri)["result"]["resources"]
        return [
            (one["name"], one["mimeType"], one.get("size")) for one in found if one["uri"] == f"{uri}/{one['name']}"
        ]

    size = (place / "SKILL.md").stat().st_size
    assert children("skill://pdf") == [
        ("SKILL.md", "text/markdown", size),
        ("empty", "inode/directory", None),
        ("inner", "inode/directory", None),
        ("references", "inode/directory", None),
    ]
    assert children("skill://pdf/references") == [("b.md", "text/markdown", 2), ("deep", "inode/directory", None)]
    assert children("skill://pdf/empty") == []
    assert [name for name, *_ in children("skill://pdf/inner")] == ["SKILL.md"]
    for uri in ("skill://pdf/SKILL.md", "skill://pdf/", "skill://none", "skill://pdf/references/../.."):
        assert ask(server, "resources/directory/read", uri=uri)["error"]["code"] == -32602


def test_a_nested_skill_is_a_skill_and_its_files_are_files_of_the_outer_one(tmp_path: Path):
    write(tmp_path, "outer", files={"a.md": b""})
    write(tmp_path, "outer/inner", files={"b.md": b""})
    server = Server()
    server.add_skill(tmp_path / "outer")
    found = entries(server)
    uris = {
        name: [one["uri"].removeprefix("skill://outer/") for one in skill["resources"]] for name, skill in found.items()
    }
    assert uris == {
        "outer": ["SKILL.md", "a.md", "inner/SKILL.md", "inner/b.md"],
        "inner": ["inner/SKILL.md", "inner/b.md"],
    }


@pytest.mark.covers("SKL-01")
def test_a_long_list_has_pages_and_no_entry_is_on_two():
    server = Server()
    for number in range(PAGE_SIZE + 3):
        server.add_skill(Skill(f"skill-{number}", "x", ""))
    first = ask(server, "skills/list")["result"]
    second = ask(server, "skills/list", cursor=first["nextCursor"])["result"]
    names = [one["frontmatter"]["name"] for page in (first, second) for one in page["skills"]]
    assert names == [f"skill-{number}" for number in range(PAGE_SIZE + 3)]
    assert (len(first["skills"]), "nextCursor" in second, first["ttlMs"], first["cacheScope"]) == (
        20,
        False,
        0,
        "private",
    )
    for cursor in ("x", "99"):
        assert ask(server, "skills/list", cursor=cursor)["error"]["code"] == -32602


def test_skills_need_resources():
    server = Server(capabilities={"resources": False})
    server.add_skill(Skill("pdf", "PDF", ""))
    with pytest.raises(DefinitionError, match="Skills are read as resources"):
        server.check()


@pytest.mark.covers("SKL-01")
def test_a_server_declares_skills_once_it_has_one():
    server = Server()
    server.add_skill(Skill("pdf", "PDF", ""))
    assert server.capabilities.extensions == {ID: {"directoryRead": True}}
