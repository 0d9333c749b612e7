"""The file of a host: one entry is changed, and nothing else."""

import json
import tomllib

import pytest

from dragoman.cli.installing.host_file import HostFile
from dragoman.errors import ConfigError

ENTRY = {"command": "/usr/bin/python3", "args": ["-m", "dragoman", "run", "/a b/server.py"]}


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_that_is_not_there_is_made_for_the_user_alone(tmp_path):
    path = tmp_path / "deep" / "mcp.json"
    assert HostFile(path, "mcpServers").write("tea", ENTRY) is None
    assert json.loads(path.read_text()) == {"mcpServers": {"tea": ENTRY}}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["mcp.json"]


def test_everything_else_in_a_json_file_stays_with_its_order_indentation_and_mode(tmp_path):
    text = '{\n\t"theme": "ünder",\n\t"mcpServers": {\n\t\t"old": {"url": "x"}\n\t},\n\t"last": 1.0\n}\n'
    path = written(tmp_path / "settings.json", text)
    path.chmod(0o640)
    backup = HostFile(path, "mcpServers").write("tea", ENTRY)
    assert backup == tmp_path / "settings.json.bak"
    assert (backup.read_text(), path.stat().st_mode & 0o777) == (text, 0o640)
    found = json.loads(path.read_text())
    assert list(found) == ["theme", "mcpServers", "last"]
    assert found["mcpServers"] == {"old": {"url": "x"}, "tea": ENTRY}
    assert '\n\t"theme": "ünder"' in path.read_text()


def test_every_change_keeps_a_backup_of_its_own(tmp_path):
    path = written(tmp_path / "mcp.json", "{}")
    names = [HostFile(path, "servers").write("tea", {"command": str(number)}).name for number in range(3)]
    assert names == ["mcp.json.bak", "mcp.json.bak1", "mcp.json.bak2"]


def test_a_link_stays_a_link(tmp_path):
    real = written(tmp_path / "real.json", "{}")
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    HostFile(link, "servers").write("tea", ENTRY)
    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"servers": {"tea": ENTRY}}


TOML = """\
# mine
model = "o5"

[mcp_servers.tea] # the old one
command = "old"

[mcp_servers.tea.env]
A = "1"

[mcp_servers.teapot]
command = "other" # kept

[profiles.x]
note = "last"
"""


def test_a_toml_file_keeps_its_comments_and_tables(tmp_path):
    path = written(tmp_path / "config.toml", TOML)
    entry = ENTRY | {"env": {"KEY": 'a "quoted" \\ \x7f é', "odd key": "2"}}
    file = HostFile(path, "mcp_servers")
    assert file.entry("tea") == {"command": "old", "env": {"A": "1"}}
    file.write("tea", entry)
    found = tomllib.loads(path.read_text())
    assert found["mcp_servers"] == {"tea": entry, "teapot": {"command": "other"}}
    assert (found["model"], found["profiles"]) == ("o5", {"x": {"note": "last"}})
    assert "# mine" in path.read_text()
    assert "# kept" in path.read_text()


def test_a_new_toml_file_holds_the_entry_alone(tmp_path):
    path = tmp_path / "config.toml"
    HostFile(path, "mcp_servers").write("tea", ENTRY)
    assert tomllib.loads(path.read_text()) == {"mcp_servers": {"tea": ENTRY}}
    assert HostFile(path, "mcp_servers").entry("tea") == ENTRY
    assert HostFile(path, "mcp_servers").entry("coffee") is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"a": 1, // mine\n}', "has comments, which would be lost"),
        ("a.json", "[]", "does not hold an object"),
        ("a.json", '{"servers": []}', "'servers' is not an object"),
        ("a.json", b"\xff\xfe", "cannot be read"),
        ("a.toml", "a = ", "the file is not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=said):
        HostFile(path, "servers")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        'servers = { tea = { command = "old" } }\n',
        '[servers."tea"]\ncommand = "old"\n',
        'note = """\n[servers.tea]\n"""\n',
    ],
)
def test_a_toml_file_that_would_lose_something_is_left_alone(tmp_path, text):
    path = written(tmp_path / "a.toml", text)
    with pytest.raises(ConfigError, match="change it by hand"):
        HostFile(path, "servers").write("tea", ENTRY)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be"):
        HostFile(tmp_path / "file" / "mcp.json", "servers").write("tea", ENTRY)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 1e400}', '{"a": NaN}', '{"x": {"b": 1, "b": 2}}'])
def test_json_that_could_not_be_written_again_as_it_was_is_refused(tmp_path, text):
    path = written(tmp_path / "mcp.json", text)
    with pytest.raises(ConfigError, match="nothing was changed"):
        HostFile(path, "servers")


def test_an_empty_file_is_one_without_servers(tmp_path):
    path = written(tmp_path / "mcp.json", " \n")
    HostFile(path, "servers").write("tea", ENTRY)
    assert json.loads(path.read_text()) == {"servers": {"tea": ENTRY}}


def test_an_entry_that_is_no_object_is_not_overwritten(tmp_path):
    path = written(tmp_path / "mcp.json", '{"servers": {"tea": "mine", "none": null}}')
    for name in ("tea", "none"):
        with pytest.raises(ConfigError, match="correct or remove"):
            HostFile(path, "servers").entry(name)


@pytest.mark.parametrize("before", [None, "{}"])
def test_what_another_program_wrote_meanwhile_is_not_lost(tmp_path, before):
    path = tmp_path / "mcp.json"
    if before is not None:
        written(path, before)
    file = HostFile(path, "servers")
    written(path, '{"servers": {"other": {}}}')
    with pytest.raises(ConfigError, match="try again"):
        file.write("tea", ENTRY)
    assert path.read_text() == '{"servers": {"other": {}}}'
    assert [one.name for one in tmp_path.iterdir()] == ["mcp.json"]


def test_comments_before_the_next_table_of_a_toml_file_stay(tmp_path):
    text = '[mcp_servers.tea]\ncommand = "old"\n\n# about x\n[x]\na = 1\n\n[mcp_servers.tea.env]\nA = "1"\n# the end\n'
    path = written(tmp_path / "config.toml", text)
    HostFile(path, "mcp_servers").write("tea", ENTRY)
    found = path.read_text()
    assert "# about x\n[x]\na = 1" in found
    assert "# the end" in found
    assert tomllib.loads(found)["mcp_servers"] == {"tea": ENTRY}
