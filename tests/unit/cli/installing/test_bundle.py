"""Bundles: which files are packed, and what the manifest says."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from dragoman import Server
from dragoman.cli.installing import bundle
from dragoman.cli.installing.bundle import Project, bundle_name, bundled_files, manifest, write_bundle
from dragoman.errors import ConfigError

PROJECT = '[project]\nname = "tea"\nversion = "1.2.dev3"\ndependencies = ["dragoman[jwt]>=0.1"]\n'


def served(**options):
    server = Server("Tea House!", **options)

    @server.tool
    def brew() -> str:
        """Brews tea."""
        return "tea"

    @server.tool
    def undescribed() -> str:
        return ""

    return server


def test_without_a_project_one_is_made(tmp_path):
    project = Project(tmp_path, served(version="3"))
    assert project.is_made
    assert 'dependencies = ["dragoman"]' in project.text
    assert (project.author, project.text_of("version")) == (None, "3.0.0")


def test_the_manifest_says_what_the_server_and_its_project_are(tmp_path):
    more = 'requires-python = ">=3.12"\nlicense = "MIT"\nauthors = [{ email = "x" }, { name = "Ada" }]\n'
    (tmp_path / "pyproject.toml").write_text(PROJECT + more)
    server = served(title="Tea", description="Brews.", website_url="https://tea.example")
    server.prompt(lambda: "?", name="ask")
    project = Project(tmp_path, server)
    found = manifest(server, "tea.py:server", project, project.author, ["API_KEY"])
    assert (found["name"], found["display_name"], found["version"]) == ("tea-house", "Tea", "1.2.0")
    assert (found["author"], found["license"], found["homepage"]) == ({"name": "Ada"}, "MIT", "https://tea.example")
    assert found["server"]["entry_point"] == "tea.py"
    config = found["server"]["mcp_config"]
    assert config["args"][-3:] == ["dragoman", "run", "tea.py:server"]
    assert config["env"] == {"API_KEY": "${user_config.api_key}"}
    assert found["user_config"]["api_key"]["sensitive"]
    assert found["tools"] == [{"name": "brew", "description": "Brews tea."}, {"name": "undescribed"}]
    assert found["prompts_generated"]
    assert found["compatibility"]["runtimes"] == {"python": ">=3.12"}


def test_a_plain_server_has_a_plain_manifest(tmp_path):
    found = manifest(Server("x"), "x.py", Project(tmp_path, Server("x")), "Ada")
    assert found["description"] == "The server x."
    assert not {"user_config", "homepage", "license", "prompts_generated"} & found.keys()
    assert bundle_name(Server("天")) == "server"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project", "not valid TOML"),
        ('[project]\ndependencies = ["dragoman-tea", "mcp"]\n', "add dragoman to the dependencies"),
        ("", "add dragoman to the dependencies"),
    ],
)
def test_a_project_that_hosts_could_not_install_is_refused(tmp_path, text, said):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        Project(tmp_path, served())
    (tmp_path / "pyproject.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        Project(tmp_path, served())


def test_hidden_files_links_environments_caches_and_bundles_are_left_out(tmp_path):
    for name in ("a.py", "data/b.txt", "tests/test_a.py", ".env", ".git/x", "env/pyvenv.cfg", "env/c.py", "old.mcpb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    for folder in ("__pycache__", "node_modules", "dist"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.js").write_text("")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    assert bundled_files(tmp_path) == ["a.py", "data/b.txt", "tests/test_a.py"]
    assert bundled_files(tmp_path, ["tests/*", "*.txt"]) == ["a.py"]


def test_too_much_and_a_whole_home_are_refused(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / name).write_text("x")
    monkeypatch.setattr(bundle, "MAX_FILES", 2)
    with pytest.raises(ConfigError, match="leave some out with --exclude"):
        bundled_files(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("/")):
        with pytest.raises(ConfigError, match="move the server into a folder of its own"):
            bundled_files(folder)


def test_the_same_files_give_the_same_bundle_and_a_text_goes_before_a_file(tmp_path):
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "manifest.json").write_text("old")
    made = [tmp_path / "1.mcpb", tmp_path / "2.mcpb"]
    for path in made:
        write_bundle(path, tmp_path, ["a.py", "manifest.json"], {"manifest.json": b"new"})
        (tmp_path / "a.py").touch()
    assert made[0].read_bytes() == made[1].read_bytes()
    with ZipFile(made[0]) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == {"a.py": b"a", "manifest.json": b"new"}


def test_a_bundle_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        write_bundle(tmp_path / "a.mcpb", tmp_path, ["missing.py"], {})
    assert list(tmp_path.iterdir()) == []


def test_a_file_name_that_is_no_unicode_is_refused_in_words(tmp_path):
    name = "bad\udcff.txt"
    try:
        (tmp_path / name).write_text("")
    except (OSError, UnicodeEncodeError):
        pytest.skip("this file system takes only Unicode")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_bundle(tmp_path / "a.mcpb", tmp_path, [name], {})
    assert not (tmp_path / "a.mcpb").exists()


def test_a_project_that_is_no_table_is_refused_in_words(tmp_path):
    (tmp_path / "pyproject.toml").write_text("project = 5")
    with pytest.raises(ConfigError, match="add dragoman to the dependencies"):
        Project(tmp_path, served())
