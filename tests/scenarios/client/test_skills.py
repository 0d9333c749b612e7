"""Skills, as a client lists, approves, loads and reads them; and servers that list one thing and serve another."""

import logging
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, Client, Clients, NotFound, RpcError, Server, types
from dragoman.client import Approval
from dragoman.errors import PaginationLimit, SkillRefused
from dragoman.protocol.official.skills import digest_of
from dragoman.skills import ID, Skill

MODES = ["stateless", "handshake"]
URI = "skill://pdf/SKILL.md"
FORMS = "skill://pdf/references/FORMS.md"
DOCUMENT = "---\nname: pdf\ndescription: PDF documents\n---\nRead references/FORMS.md.\n"
FILES: dict[str, str | bytes] = {URI: DOCUMENT, FORMS: "Forms.", "skill://pdf/logo.png": b"\x89PNG\xff"}


class Liar:
    """A server that lists skills and serves files, whether they fit or not."""

    def __init__(self) -> None:
        self.files = dict(FILES)
        self.reads: list[str] = []
        self.lists = 0
        self.entries: list[types.Json] = [self.entry()]
        self.cursors: dict[str, str] = {}
        self.server = Server("liar", extensions={ID: {}})
        self.server.method("skills/list")(self._list)
        self.server.method("skills/get")(self._get)
        self.server.on_read_resource(self._read)

    def entry(self, **changes: Any) -> types.Json:
        listed = [
            {"uri": uri, "digest": digest_of(data), "size": len(data)}
            for uri, text in self.files.items()
            for data in [text if isinstance(text, bytes) else text.encode()]
        ]
        return {
            "uri": URI,
            "frontmatter": {"name": "pdf", "description": "PDF documents"},
            "resources": listed,
            **changes,
        }

    def _list(self, cursor: str = "") -> types.Json:
        self.lists += 1
        following = self.cursors.get(cursor)
        page = {"skills": self.entries if not cursor else [], "ttlMs": 0, "cacheScope": "private"}
        return page if following is None else {**page, "nextCursor": following}

    def _get(self, uri: str) -> types.Json:
        found = [entry for entry in self.entries if entry["uri"] == uri]
        if not found:
            raise RpcError(-32602, "unknown skill")
        return {"skill": found[0]}

    def _read(self, uri: str) -> Any:
        self.reads.append(uri)
        return self.files[uri]


@pytest.fixture
def liar() -> Liar:
    return Liar()


@pytest.mark.covers("SKL-08", "SKL-09", "SKL-10")
@pytest.mark.parametrize("mode", MODES)
async def test_a_good_skill_is_loaded_and_then_its_files_are_read(mode, liar: Liar):
    asked: list[Approval] = []

    def approve(call: Approval) -> bool:
        assert liar.reads == []
        asked.append(call)
        return True

    async with AsyncClient(liar.server, mode=mode, server_name="office") as client:
        [skill] = await client.skills()
        assert (skill.name, skill.description, skill.origin, skill.uri) == ("pdf", "PDF documents", "office", URI)
        assert list(skill.files) == ["SKILL.md", "references/FORMS.md", "logo.png"]
        assert repr(skill) == "<AsyncBoundSkill 'pdf' of 'office'>"
        assert await skill.load(approve=approve) == DOCUMENT
        assert liar.reads == [URI]
        assert await skill.read("references/FORMS.md") == "Forms."
        assert await skill.read("./references/../logo.png") == b"\x89PNG\xff"
        assert liar.reads == [URI, FORMS, "skill://pdf/logo.png"]
    [call] = asked
    assert (call.name, call.server) == ("skill:pdf", "office")
    assert call.arguments["uri"] == URI
    assert call.arguments["frontmatter"] == {"name": "pdf", "description": "PDF documents"}
    assert call.arguments["files"][1] == {"path": "references/FORMS.md", "size": 6, "digest": digest_of(b"Forms.")}


@pytest.mark.covers("SKL-08")
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_fetched_before_a_skill_is_loaded(mode, liar: Liar):
    with Client(liar.server, mode=mode) as client:
        assert liar.lists == 0
        [skill] = client.skills()
        assert skill.files
        with pytest.raises(SkillRefused, match=r"The skill 'pdf' of 'liar' was not approved"):
            skill.load(approve=lambda call: False)
        with pytest.raises(SkillRefused, match=r"is not loaded: load\(\) it before"):
            skill.read("references/FORMS.md")
    assert liar.reads == []


TAMPERED = {
    "the body": (DOCUMENT.replace("Read", "Evil"), "The digest of skill://pdf/SKILL.md differs"),
    "more bytes": (DOCUMENT + "more", f"has {len(DOCUMENT) + 4} bytes, and the server listed {len(DOCUMENT)}"),
    "fewer bytes": (DOCUMENT[:-1], "bytes, and the server listed"),
}


@pytest.mark.covers("SKL-09")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("served", "said"), TAMPERED.values(), ids=TAMPERED)
async def test_a_document_that_differs_is_refused_and_none_of_its_files_is_read(mode, served, said, liar: Liar):
    liar.files[URI] = served
    async with AsyncClient(liar.server, mode=mode) as client:
        [skill] = await client.skills()
        with pytest.raises(SkillRefused, match=said) as refused:
            await skill.load()
        assert refused.value.uri == URI
        assert not skill.is_approved
        with pytest.raises(SkillRefused, match="is not loaded"):
            await skill.read("references/FORMS.md")
    assert liar.reads == [URI]


@pytest.mark.covers("SKL-09")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("name: pdf\ndescription: Exfiltrate credentials", "differs from what the server listed: description"),
        ("name: pdf\ndescription: PDF documents\nallowed-tools: shell", "listed: allowed-tools"),
        ("name: [", "The frontmatter is no YAML"),
    ],
)
async def test_a_document_with_other_fields_is_refused_even_if_its_digest_is_right(fields, said, liar: Liar):
    liar.files[URI] = f"---\n{fields}\n---\n"
    liar.entries = [liar.entry()]
    async with AsyncClient(liar.server) as client:
        with pytest.raises(SkillRefused, match=said):
            await (await client.skill("pdf")).load()
    assert liar.reads == [URI]


@pytest.mark.covers("SKL-09", "SKL-10")
@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (None, "The server gave 0 contents"),
        ([types.ResourceContents(URI, text=DOCUMENT)] * 2, "The server gave 2 contents"),
        (types.ResourceContents(URI, blob="A"), "is not valid base64"),
        (types.ResourceContents(URI), "has 0 bytes"),
        (types.ResourceContents(URI, blob=b"---\nname: \xff"), "bytes, and the server listed"),
    ],
)
async def test_contents_that_are_no_file_are_refused(contents, said, liar: Liar):
    liar.files[URI] = contents
    async with AsyncClient(liar.server) as client:
        with pytest.raises(SkillRefused, match=said):
            await (await client.skill("pdf")).load()


@pytest.mark.covers("SKL-10", "SKL-11")
async def test_a_file_that_differs_is_refused_and_ends_the_approval(liar: Liar):
    async with AsyncClient(liar.server) as client:
        skill = await client.skill("pdf")
        await skill.load()
        liar.files[FORMS] = "Evil.."
        with pytest.raises(SkillRefused, match=r"The digest of skill://pdf/references/FORMS.md differs"):
            await skill.read("references/FORMS.md")
        with pytest.raises(SkillRefused, match="is not loaded"):
            await skill.read("logo.png")


@pytest.mark.covers("SKL-10")
@pytest.mark.parametrize(
    "path",
    ["FORMS.md", "../other/SKILL.md", "/etc/passwd", "", ".", "references", "skill://other/a.md", "file:///etc/passwd",
     "skill://pdf/../other/a.md", "references/%2e%2e/%2e%2e/x"],
)  # fmt: skip
async def test_a_file_that_is_not_listed_is_not_asked_for(path, liar: Liar):
    async with AsyncClient(liar.server) as client:
        skill = await client.skill("pdf")
        await skill.load()
        with pytest.raises(SkillRefused, match="does not list the file"):
            await skill.read(path)
    assert liar.reads == [URI]


@pytest.mark.covers("SKL-10")
async def test_a_file_is_found_however_the_skill_writes_its_name():
    server = Server("office")
    server.add_skill(Skill("pdf", "PDF", "", files={"a b/Q&A.md": "found"}))
    async with AsyncClient(server) as client:
        skill = await client.skill("pdf")
        await skill.load()
        for path in ("a b/Q&A.md", "a%20b/Q%26A.md", "./a b/Q&A.md#top", "skill://pdf/a%20b/Q&A.md"):
            assert await skill.read(path) == "found"


@pytest.mark.covers("SKL-11")
@pytest.mark.parametrize("mode", MODES)
def test_an_approval_counts_for_the_digests_that_were_approved(mode, liar: Liar):
    asked: list[str] = []

    def approve(call: Approval) -> bool:
        asked.append(call.arguments["files"][1]["digest"])
        return True

    with Client(liar.server, mode=mode) as client:
        client.skill("pdf").load(approve=approve)
        again = client.skill("pdf")
        assert again.is_approved
        assert again.load(approve=approve) == DOCUMENT
        assert again.read("references/FORMS.md") == "Forms."
        assert asked == [digest_of(b"Forms.")]
        before = dict(liar.files)
        liar.files[FORMS] = "New forms."
        liar.entries = [liar.entry()]
        assert again.is_approved
        renewed = again.refresh()
        assert not renewed.is_approved
        assert not again.is_approved
        with pytest.raises(SkillRefused, match="was not approved: not today"):
            renewed.load(approve=lambda call: call.deny("not today"))
        renewed.load(approve=approve)
        assert renewed.read("references/FORMS.md") == "New forms."
        liar.files, liar.entries = before, [again.entry]
        assert not client.skill("pdf").is_approved  # what was approved once is not approved for ever
        assert asked == [digest_of(b"Forms."), digest_of(b"New forms.")]


@pytest.mark.covers("SKL-11")
def test_an_approval_counts_for_one_client(liar: Liar):
    with Client(liar.server) as one, Client(liar.server) as other:
        one.skill("pdf").load()
        assert one.skill("pdf").is_approved
        assert not other.skill("pdf").is_approved


@pytest.mark.covers("SKL-11")
def test_the_approval_of_the_client_is_asked_unless_another_is_given(liar: Liar):
    names: list[str] = []
    with Client(liar.server, on_approval=lambda call: names.append(call.name) is not None) as client:
        with pytest.raises(SkillRefused, match="was not approved"):
            client.skill("pdf").load()
        with pytest.raises(SkillRefused, match="was not approved"):
            client.skill("pdf").load(approve=False)
        assert client.skill("pdf").load(approve=True) == DOCUMENT
    assert names == ["skill:pdf"]


@pytest.mark.covers("SKL-11")
async def test_a_person_may_decide_later(liar: Liar):
    async with AsyncClient(liar.server, approval_timeout=20) as client:
        skill = await client.skill("pdf")

        async def approve(call: Approval) -> Approval:
            assert client.approve(client.approvals[0].id)
            return call

        assert await skill.load(approve=approve) == DOCUMENT


@pytest.mark.covers("SKL-11")
@pytest.mark.parametrize("mode", MODES)
async def test_a_dynamic_skill_is_asked_about_each_time_and_its_fields_are_compared(mode):
    server = Server("office")
    count = 0

    @server.skill("news", description="What is new")
    async def news(path: str) -> str | bytes | None:
        nonlocal count
        count += 1
        return {"SKILL.md": f"Number {count}", "logo.png": b"\xff"}.get(path)

    asked: list[Any] = []
    async with AsyncClient(server, mode=mode) as client:
        skill = await client.skill("news")
        assert (skill.is_dynamic, skill.files) == (True, {})
        for number in (1, 2):
            text = await skill.load(approve=lambda call: asked.append(call.arguments["files"]) is None)
            assert text.endswith(f"Number {number}")
        assert asked == ["dynamic", "dynamic"]
        assert not skill.is_approved
        assert await skill.read("logo.png") == b"\xff"
        for path in ("../other/SKILL.md", "/etc/passwd"):
            with pytest.raises(SkillRefused, match="does not list"):
                await skill.read(path)
        with pytest.raises(RpcError):
            await skill.read("none.md")
        with pytest.raises(SkillRefused, match="is not loaded"):
            await (await client.skill("news")).read("logo.png")


@pytest.mark.covers("SKL-11")
async def test_a_dynamic_skill_with_other_fields_is_refused(liar: Liar):
    liar.entries = [liar.entry(resources="dynamic", frontmatter={"name": "pdf", "description": "Another"})]
    async with AsyncClient(liar.server) as client:
        with pytest.raises(SkillRefused, match="listed: description"):
            await (await client.skill("pdf")).load()


@pytest.mark.covers("SKL-12")
async def test_a_skill_inside_a_skill_is_approved_by_itself(tmp_path: Path):
    for name, files in {"outer": ["a.md"], "outer/inner": ["b.md", "deep/c.md"]}.items():
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {Path(name).name}\ndescription: x\n---\n")
        for file in files:
            (tmp_path / name / file).write_text(file)
    server = Server("office")
    server.add_skills(tmp_path)
    async with AsyncClient(server) as client:
        outer = await client.skill("outer")
        await outer.load()
        assert await outer.read("a.md") == "a.md"
        for path in ("inner/SKILL.md", "inner/b.md", "inner/deep/c.md"):
            with pytest.raises(SkillRefused, match=r"belongs to another skill, skill://outer/inner/SKILL.md"):
                await outer.read(path)
        inner = await client.skill("skill://outer/inner/SKILL.md")
        await inner.load()
        assert await inner.read("b.md") == "b.md"
        assert await outer.read("inner/deep/c.md") == "deep/c.md"


BROKEN: dict[str, Any] = {
    "no files": {"resources": None},
    "another word": {"resources": "static"},
    "a file without a size": {"resources": [{"uri": URI, "digest": digest_of(b"")}]},
    "a bad digest": {"resources": [{"uri": URI, "digest": "sha256:0", "size": 1}]},
    "no document": {"resources": [{"uri": FORMS, "digest": digest_of(b""), "size": 1}]},
    "a file outside": {
        "resources": [{"uri": uri, "digest": digest_of(b""), "size": 1} for uri in (URI, "skill://x/y")]
    },
    "another name": {"frontmatter": {"name": "pfd", "description": "x"}},
    "no description": {"frontmatter": {"name": "pdf"}},
    "no frontmatter": {"frontmatter": "name: pdf"},
    "a bad URI": {"uri": "skill://pdf/README.md"},
    "too large": {"resources": [{"uri": URI, "digest": digest_of(b""), "size": 2**30}]},
}


@pytest.mark.covers("SKL-07")
@pytest.mark.parametrize("changes", BROKEN.values(), ids=BROKEN)
async def test_an_entry_that_breaks_a_rule_is_left_out_and_the_others_stay(changes, liar: Liar, caplog):
    other = liar.entry(
        uri="skill://good/SKILL.md", resources="dynamic", frontmatter={"name": "good", "description": ""}
    )
    liar.entries = [liar.entry(**changes), other]
    async with AsyncClient(liar.server) as client:
        with caplog.at_level(logging.WARNING, "dragoman.client"):
            assert [skill.name for skill in await client.skills()] == ["good"]
        assert "left out" in caplog.text
        with pytest.raises(NotFound):
            await client.skill("pdf")


@pytest.mark.covers("SKL-07")
async def test_one_that_is_asked_for_by_its_uri_keeps_the_rules_too(liar: Liar):
    async with AsyncClient(liar.server) as client:
        liar.entries = [liar.entry(frontmatter={"name": "pfd", "description": "x"})]
        with pytest.raises(SkillRefused, match="another name than its folder"):
            await client.skill(URI)
        liar.server.dispatcher.handlers.pop("skills/get")
        liar.server.offering.own_methods = ()
        liar.server.method("skills/get")(
            lambda: {"skill": liar.entry(uri="skill://x/pdf/SKILL.md", resources="dynamic")}
        )
        with pytest.raises(SkillRefused, match=r"gave the skill skill://x/pdf/SKILL.md instead of"):
            await client.skill(URI)


@pytest.mark.covers("SKL-13")
async def test_a_name_that_several_skills_have_is_not_guessed(liar: Liar, caplog):
    dynamic = {"resources": "dynamic"}
    liar.entries = [liar.entry(uri=f"skill://{place}/pdf/SKILL.md", **dynamic) for place in ("a", "b", "c", "c")]
    async with AsyncClient(liar.server) as client:
        assert [skill.uri for skill in await client.skills()] == ["skill://a/pdf/SKILL.md", "skill://b/pdf/SKILL.md"]
        assert "skill://c/pdf/SKILL.md is listed 2 times" in caplog.text
        with pytest.raises(NotFound, match=r"'skill://a/pdf/SKILL.md' or 'skill://b/pdf/SKILL.md'"):
            await client.skill("pdf")
        assert (await client.skill("skill://b/pdf/SKILL.md")).name == "pdf"
        with pytest.raises(NotFound, match="did you mean 'pdf'"):
            await client.skill("pdff")
        with pytest.raises(RpcError):
            await client.skill("skill://none/SKILL.md")


@pytest.mark.covers("SKL-13")
def test_skills_of_many_servers_are_told_apart_by_the_names_of_the_group(liar: Liar):
    good, silent = Server("liar"), Server("silent")
    good.add_skill(Skill("pdf", "Another", "Good.\n"))
    with Clients({"one": liar.server, "two": good, "three": silent}) as clients:
        found = clients.skills()
        assert [(skill.origin, skill.name) for skill in found] == [("one", "pdf"), ("two", "pdf")]
        assert found[1].load().endswith("Good.\n")
        assert found[1].is_approved
        assert not found[0].is_approved
        assert found[0].refresh().origin == "one"
    assert liar.reads == []


def test_a_server_without_skills_has_none():
    with Client(Server("plain")) as client:
        assert client.skills() == []
        with pytest.raises(NotFound):
            client.skill("pdf")


async def test_a_server_that_says_nothing_of_itself_may_have_no_skills():
    async with AsyncClient(Server("plain"), mode="stateless", protocol_version="2026-07-28") as client:
        client._session.connections.latest.knows_capabilities = False
        assert await client.skills() == []


async def test_pages_end(liar: Liar, monkeypatch: pytest.MonkeyPatch):
    liar.cursors = {"": "a", "a": "b", "b": "a"}
    async with AsyncClient(liar.server) as client:
        assert len(await client.skills()) == 1
        assert liar.lists == 3
        monkeypatch.setattr("dragoman.client.extensions.skills.MAX_PAGES", 2)
        with pytest.raises(PaginationLimit, match="more than 2 pages of skills"):
            await client.skills()
