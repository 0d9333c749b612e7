"""`dragoman list --skills`, `dragoman skill show|load` and `dragoman skill --path` as real processes."""

import json
from pathlib import Path

import pytest

from dragoman import Client, Server
from scenarios.command_line import dragoman, written

OFFICE = """
    from dragoman import Server
    from dragoman.skills import Skill

    server = Server("office")
    server.add_skill(Skill("pdf", "Fills \\x1b[31mPDF documents", "Read FORMS.md.",
                           files={"FORMS.md": "Forms.", "logo.png": b"\\x89PNG\\xff"}, fields={"license": "MIT"}))
    server.skill("news", description="What is new.")(lambda: "Nothing.")

    if __name__ == "__main__":
        server.run()
"""
LIAR = """
    from dragoman import Server
    from dragoman.skills import ID

    server = Server("liar", extensions={ID: {}})
    entry = {"uri": "skill://pdf/SKILL.md", "frontmatter": {"name": "pdf", "description": "PDF"}, "resources": [
        {"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 4}]}
    server.method("skills/list")(lambda: {"skills": [entry], "ttlMs": 0, "cacheScope": "private"})
    server.on_read_resource(lambda uri: "Evil")

    if __name__ == "__main__":
        server.run()
"""


@pytest.fixture
def office(tmp_path):
    return written(tmp_path, OFFICE, "office.py")


@pytest.mark.covers("SKL-15")
def test_skills_are_listed(office):
    listed = dragoman("list", "--skills", office)
    assert (listed.code, listed.out) == (0, "Skills\n  pdf  Fills \\x1b[31mPDF documents\n  news  What is new.\n")
    everything = dragoman("list", office)
    assert "Resources" in everything.out
    assert "Skills" in everything.out
    found = json.loads(dragoman("list", "--skills", "--json", office).out)
    assert [skill["frontmatter"]["name"] for skill in found["skills"]] == ["pdf", "news"]


@pytest.mark.covers("SKL-15")
def test_a_skill_is_shown_with_its_fields_and_files(office):
    shown = dragoman("skill", "show", office, "pdf")
    lines = shown.out.splitlines()
    assert shown.code == 0
    assert lines[1:4] == ["  skill://pdf/SKILL.md", "  description: Fills \\x1b[31mPDF documents", "  license: MIT"]
    assert [line.split()[0] for line in lines[4:]] == ["FORMS.md", "SKILL.md", "logo.png"]
    assert "cannot be verified" in dragoman("skill", "show", office, "news").out
    entry = json.loads(dragoman("skill", "show", "--json", office, "skill://pdf/SKILL.md").out)
    assert entry["uri"] == "skill://pdf/SKILL.md"


@pytest.mark.covers("SKL-15")
def test_a_skill_is_loaded_and_its_files_are_written(office, tmp_path):
    loaded = dragoman("skill", "load", office, "pdf")
    assert (loaded.code, loaded.out.splitlines()[-1]) == (0, "Read FORMS.md.")
    assert dragoman("skill", "load", office, "pdf", "--file", "FORMS.md").out == "Forms.\n"
    saved = dragoman(
        "skill", "load", office, "pdf", "--file", "logo.png", "--save-to", tmp_path / "saved", cwd=tmp_path
    )
    assert saved.code == 0
    [file] = (tmp_path / "saved").iterdir()
    assert file.read_bytes() == b"\x89PNG\xff"
    found = json.loads(dragoman("skill", "load", "--json", office, "pdf", "--file", "FORMS.md").out)
    assert (found["contents"]["text"], found["skill"]["uri"]) == ("Forms.", "skill://pdf/SKILL.md")


@pytest.mark.covers("SKL-15")
def test_what_differs_or_is_not_there_fails(office, tmp_path):
    refused = dragoman("skill", "load", written(tmp_path, LIAR, "liar.py"), "pdf")
    assert (refused.code, refused.out) == (1, "")
    assert "The digest of skill://pdf/SKILL.md differs from what the server listed" in refused.err
    assert dragoman("skill", "load", office, "pdf", "--file", "none.md").code == 1
    assert dragoman("skill", "show", office, "none").code == 4
    assert dragoman("skill", "show", office, "pdf", "more").code == 2


def test_skill_of_the_package_can_be_served():
    path = dragoman("skill", "--path").out.strip()
    server = Server("teacher")
    server.add_skill(path)
    with Client(server) as client:
        text = client.skill("write-mcp-server").load(approve=True)
    assert text == (Path(path) / "SKILL.md").read_text(encoding="utf-8")


def test_folder_of_the_skill_of_the_package_can_be_served():
    server = Server("teacher")
    server.add_skills(Path(dragoman("skill", "--path").out.strip()).parent)
    with Client(server) as client:
        assert [skill.name for skill in client.skills()] == ["write-mcp-server"]
