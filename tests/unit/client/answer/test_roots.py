import threading
from pathlib import Path

import pytest

from dragoman import types
from dragoman.client.answer.roots import Roots


@pytest.fixture
def changes():
    return []


def watched(changes, *paths):
    roots = Roots(paths)
    roots.on_change = lambda: changes.append(roots.paths)
    return roots


@pytest.mark.covers("LRO-02")
def test_paths_are_added_and_removed_in_order(changes):
    roots = watched(changes, "/a")
    roots.add("/b", Path("/c"))
    roots.remove("/a")
    assert roots.paths == [Path("/b"), Path("/c")]
    assert list(roots) == roots.paths
    assert len(roots) == 2


@pytest.mark.covers("LRO-02")
def test_each_real_change_is_told_once(changes):
    roots = watched(changes, "/a")
    roots.add("/b", "/c")
    roots.remove("/a", "/b")
    roots.clear()
    assert changes == [[Path("/a"), Path("/b"), Path("/c")], [Path("/c")], []]


@pytest.mark.covers("LRO-02")
def test_what_changes_nothing_is_not_told(changes):
    roots = watched(changes, "/a")
    roots.add("/a", "file:///a")
    roots.add()
    roots.remove("/b")
    roots.remove()
    watched(changes).clear()
    assert changes == []


@pytest.mark.covers("LRO-03")
@pytest.mark.parametrize(
    ("path", "uri", "name"),
    [
        ("/srv/my notes", "file:///srv/my%20notes", "my notes"),
        ("/srv/ünï#1?", "file:///srv/%C3%BCn%C3%AF%231%3F", "ünï#1?"),
        ("/srv/100%", "file:///srv/100%25", "100%"),
        ("/srv/project.v2", "file:///srv/project.v2", "project.v2"),
        ("/", "file:///", "/"),
        ("file:///srv/my%20notes", "file:///srv/my%20notes", "my notes"),
        ("file://localhost/srv", "file:///srv", "srv"),
    ],
)
def test_a_root_is_sent_as_an_encoded_uri_with_its_name(path, uri, name):
    assert Roots([path]).as_wire() == [types.Root(uri, name=name)]


def test_a_relative_path_counts_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Roots([".", "sub", Path("sub/../other")]).paths == [
        tmp_path,
        tmp_path / "sub",
        (tmp_path / "other").resolve(),
    ]


def test_a_tilde_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Roots(["~/notes"]).paths == [tmp_path / "notes"]


def test_a_root_that_is_given_whole_is_sent_as_it_is():
    root = types.Root("file:///srv/data/", name="The data", meta={"acme/kind": 1})
    roots = Roots([root])
    assert roots.as_wire() == [root]
    assert roots.paths == [Path("/srv/data")]


@pytest.mark.covers("LRO-04")
def test_a_root_is_found_in_every_spelling():
    roots = Roots(["/srv/my notes"])
    assert "/srv/my notes" in roots
    assert Path("/srv/my notes") in roots
    assert "file:///srv/my%20notes" in roots
    assert types.Root("file:///srv/my%20notes") in roots
    assert "/srv" not in roots
    assert "https://example.com" not in roots
    assert 5 not in roots


@pytest.mark.covers("LRO-04")
def test_clear_removes_every_root():
    roots = Roots(["/a", "/b"])
    roots.clear()
    assert roots.paths == []
    assert roots.as_wire() == []


def test_one_path_need_not_be_in_a_list():
    assert Roots("/srv/data").paths == Roots(Path("/srv/data")).paths == [Path("/srv/data")]


@pytest.mark.parametrize("uri", ["https://example.com/a", "file://elsewhere/a", "file:a", "s3://bucket/key"])
def test_a_uri_that_is_no_file_of_this_machine_is_refused(changes, uri):
    roots = watched(changes)
    with pytest.raises(ValueError, match="must be a path or a file:// URI of this machine"):
        roots.add("/fine", types.Root(uri))
    assert roots.paths == changes == []


@pytest.mark.parametrize("uri", ["https://example.com/a", "file://elsewhere/a"])
def test_a_text_that_is_another_uri_is_not_taken_for_a_path(uri):
    with pytest.raises(ValueError, match="must be a path or a file:// URI"):
        Roots([uri])


@pytest.mark.covers("LRO-05")
def test_nothing_is_shared_with_the_caller():
    given = ["/a"]
    first, second = Roots(given), Roots(given)
    given.append("/b")
    first.add("/c")
    first.paths.append(Path("/d"))
    first.as_wire()[0].name = "changed"
    assert first.paths == [Path("/a"), Path("/c")]
    assert first.as_wire()[0].name == "a"
    assert second.paths == [Path("/a")]


@pytest.mark.covers("LRO-01")
def test_roots_count_as_given_from_the_first_one_on():
    roots = Roots()
    assert not roots.were_given
    roots.add("/a")
    roots.clear()
    assert roots.were_given


def test_roots_may_be_changed_from_many_threads():
    roots = Roots()
    threads = [
        threading.Thread(target=lambda start=start: [roots.add(f"/{start}/{n}") for n in range(100)])
        for start in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(roots) == 800


def test_roots_show_their_paths():
    assert repr(Roots(["/a"])) == "Roots(['/a'])"
