"""Skills with the TypeScript SDK: its client verifies ours, our client verifies its, and both read the same YAML."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client
from dragoman.errors import SkillRefused
from dragoman.protocol.official.frontmatter import read_frontmatter
from interop.processes import HERE, client_command

SCRIPT = HERE / "typescript_skills.mjs"
DEADLINE = 60.0
DOCUMENT = """\
---
name: pdf-processing
description: "Extract: fill, and assemble"
reviewed: 2026-07-28
draft: no
rounds: 0o17
share: 1.50
tags: [a, 'b', 3, null]
metadata:
  version: "1.0"
long: >-
  one
  two
---
Read [the forms](references/FORMS.md).
"""
FILES = {
    "pdf-processing/SKILL.md": DOCUMENT.encode(),
    "pdf-processing/references/FORMS.md": "Formulare über alles\r\n".encode(),
    "pdf-processing/assets/logo one.png": b"\x89PNG\xff\x00",
    "acme/refunds/SKILL.md": b"---\nname: refunds\ndescription: How to refund\n---\nAsk first.\n",
}
SERVER = """
import sys
from dragoman import Server
server = Server("office")
server.add_skills(sys.argv[1])
server.skill("news", description="What is new")(lambda: "Nothing.")
server.run()
"""
BLOCKS = [
    "version: 1",
    "date: 2026-07-28",
    "flags: [yes, no, on, off, true, False, ~]",
    "numbers: [0o17, 0x1F, 012, 1e3, -0.5, 1_000, 12:30]",
    "text: |\n  one\n  two\n",
    "text: >\n  one\n  two\n\n  three\n",
    "text: 'it''s'",
    'text: "a\\tb\\u00e9"',
    "nested:\n  a:\n    - b\n    - c: 1\n      d: 2\n",
    "empty:\nlist: []\nmap: {}",
    "url: https://example.com/a#b # a comment",
    "odd: a:b",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, data in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return tmp_path


def node() -> str:
    return str(client_command("typescript")[0])


def typescript(*words: str, given: str = "") -> Any:
    command = [node(), str(SCRIPT), *words]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.covers("SKL-16")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_its_client_verifies_every_file_of_our_server(folder: Path, era: str) -> None:
    seen = typescript("client", era, sys.executable, "-c", SERVER, str(folder))
    assert (seen["supported"], seen["directoryRead"], seen["invalid"]) == (True, True, [])
    found = seen["skills"]
    assert list(found) == [
        "skill://acme/refunds/SKILL.md",
        "skill://pdf-processing/SKILL.md",
        "skill://news/SKILL.md",
    ]
    pdf, news = found["skill://pdf-processing/SKILL.md"], found["skill://news/SKILL.md"]
    assert pdf["frontmatter"] == read_frontmatter(DOCUMENT)
    assert (pdf["verified"], pdf["same"], pdf["children"]) == (True, True, ["SKILL.md", "assets", "references"])
    assert {uri: b64decode(file["base64"]) for uri, file in pdf["files"].items()} == {
        f"skill://{path.replace(' ', '%20')}": data for path, data in FILES.items() if path.startswith("pdf")
    }
    assert all(file["verified"] for file in pdf["files"].values())
    assert (news["body"], news["verified"]) == ("Nothing.", False)


@pytest.mark.covers("SKL-16")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
def test_our_client_verifies_every_file_of_its_server(folder: Path, mode: Any) -> None:
    with Client([node(), str(SCRIPT), "server", str(folder)], mode=mode) as client:
        skills = {skill.name: skill for skill in client.skills()}
        assert list(skills) == ["refunds", "pdf-processing"]
        pdf = skills["pdf-processing"]
        assert pdf.load() == DOCUMENT
        for path, data in FILES.items():
            if path.startswith("pdf"):
                content = pdf.read(path.partition("/")[2])
                assert (content if isinstance(content, bytes) else content.encode()) == data
        with pytest.raises(SkillRefused):
            pdf.read("../acme/refunds/SKILL.md")


@pytest.mark.covers("SKL-16")
def test_both_read_the_same_frontmatter() -> None:
    texts = [f"---\nname: x\ndescription: y\n{block}\n---\n" for block in BLOCKS]
    read = typescript("frontmatter", given="\n".join(map(json.dumps, texts)))
    assert [read_frontmatter(text) for text in texts] == read
