"""Folders and files of one user."""

import os
import stat

import pytest

from dragoman.errors import NotPrivate
from dragoman.runtime.user_files import WRITABLE_BY_OTHERS, open_private, private_folder, require_private


def test_a_folder_is_made_for_its_user_alone(tmp_path):
    folder = private_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private_folder(folder) == folder


@pytest.mark.parametrize(
    ("mode", "forbidden", "is_refused"),
    [
        (0o700, 0o077, False),
        (0o750, 0o077, True),
        (0o755, WRITABLE_BY_OTHERS, False),
        (0o775, WRITABLE_BY_OTHERS, True),
        (0o707, WRITABLE_BY_OTHERS, True),
    ],
)
def test_a_folder_that_others_may_touch_is_refused_and_left_as_it_is(mode, forbidden, is_refused, tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    folder.chmod(mode)
    if is_refused:
        with pytest.raises(NotPrivate, match="chmod 700"):
            private_folder(folder, forbidden)
    else:
        private_folder(folder, forbidden)
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_a_link_a_file_and_a_folder_of_somebody_else_are_no_folder_of_this_user(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(NotPrivate):
            require_private(tmp_path / name)
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)
    with pytest.raises(NotPrivate):
        require_private(tmp_path)


def test_a_file_is_made_for_its_user_alone_and_opened_again(tmp_path):
    for _ in range(2):
        descriptor = open_private(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o600
        os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        open_private(tmp_path / "other", os.O_RDONLY)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602])
def test_a_file_that_others_may_touch_is_not_opened(mode, tmp_path):
    (tmp_path / "file").write_text("planted")
    (tmp_path / "file").chmod(mode)
    with pytest.raises(NotPrivate, match="remove it"):
        open_private(tmp_path / "file", os.O_RDONLY)


def test_links_pipes_folders_and_files_of_others_are_not_opened(tmp_path, monkeypatch):
    (tmp_path / "own").touch(mode=0o600)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "dangling", "folder", "pipe"):
        with pytest.raises(NotPrivate):
            open_private(tmp_path / name, os.O_RDWR | os.O_CREAT)
    assert not (tmp_path / "nothing").exists()
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)
    with pytest.raises(NotPrivate):
        open_private(tmp_path / "own", os.O_RDONLY)


def test_what_takes_the_place_of_a_file_after_it_was_looked_at_is_not_opened(tmp_path, monkeypatch):
    path, others = tmp_path / "file", tmp_path / "others"
    path.touch(mode=0o600)
    others.write_text("planted")
    others.chmod(0o644)
    opened, real = [], os.open

    def swapped(name, *around):
        others.replace(path)
        opened.append(real(name, *around))
        return opened[0]

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(NotPrivate):
        open_private(path, os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_where_users_have_no_numbers_nothing_is_checked(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "getuid")
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o644)
    os.close(open_private(tmp_path / "file", os.O_RDONLY))
