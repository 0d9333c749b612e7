"""Where tokens are kept."""

import asyncio
import logging
import os
import stat
import time
from contextlib import asynccontextmanager

import pytest

from dragoman.auth import FileStorage, MemoryStorage
from dragoman.auth.client import storage
from dragoman.auth.client.storage import LoginRecords
from dragoman.auth.client.stored_records import AuthorizationServer, ClientInformation, Tokens
from dragoman.errors import AuthError

AUTHORITY = AuthorizationServer(issuer="https://a", resource="https://r", token_endpoint="https://a/token")


def tokens(access_token="the-access-token"):
    return Tokens(
        access_token=access_token,
        refresh_token="the-refresh-token",
        expires_at=time.time() + 60,
        scope="a b",
        authorization_server=AUTHORITY,
    )


class InADictionary:
    """The four methods, plain."""

    def __init__(self):
        self.kept = {}

    def tokens(self):
        return self.kept.get("tokens")

    def save_tokens(self, value):
        self.kept["tokens"] = value

    def client_information(self):
        return self.kept.get("client")

    def save_client_information(self, value):
        self.kept["client"] = value


class InADictionaryLater(InADictionary):
    """The four methods, async."""

    async def tokens(self):
        return super().tokens()

    async def save_tokens(self, value):
        super().save_tokens(value)

    async def client_information(self):
        return super().client_information()

    async def save_client_information(self, value):
        super().save_client_information(value)


@pytest.mark.covers("OAU-31", "LOA-05")
@pytest.mark.parametrize("kind", [InADictionary, InADictionaryLater, MemoryStorage, FileStorage])
async def test_what_is_kept_comes_back(kind, tmp_path):
    drawer = LoginRecords(kind(tmp_path) if kind is FileStorage else kind(), "key")
    assert await drawer.tokens() is None
    assert await drawer.client() is None
    saved = tokens()
    await drawer.save_tokens(saved)
    await drawer.save_client(ClientInformation(client_id="c", client_secret="s", issuer="https://a"))
    assert await drawer.tokens() == saved
    client = await drawer.client()
    assert client is not None
    assert (client.client_id, client.client_secret, client.issuer) == ("c", "s", "https://a")
    await drawer.save_tokens(None)
    assert await drawer.tokens() is None
    assert await drawer.client() is not None


@pytest.mark.covers("OAU-31")
async def test_a_storage_holds_plain_json_that_others_may_have_written():
    own = InADictionary()
    own.kept = {"tokens": {"access_token": "x", "unknown": 1}, "client": {"client_id": "c"}}
    drawer = LoginRecords(own, "key")
    found = await drawer.tokens()
    assert found is not None
    assert (found.access_token, found.token_type, found.issuer, found.expires_soon) == ("x", "Bearer", None, False)
    own.kept = {"tokens": {"access_token": 5}, "client": {"client_id": []}}
    assert await drawer.tokens() is None
    assert await drawer.client() is None


@pytest.mark.covers("OAU-31")
async def test_servers_clients_and_accounts_are_kept_apart(tmp_path):
    await LoginRecords(FileStorage(tmp_path), "one").save_tokens(tokens())
    assert await LoginRecords(FileStorage(tmp_path), "other").tokens() is None
    assert await LoginRecords(FileStorage(tmp_path, account="ada"), "one").tokens() is None
    assert await LoginRecords(FileStorage(tmp_path), "one").tokens() is not None


@pytest.mark.covers("OAU-39")
async def test_files_are_for_their_user_alone_and_replaced_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    drawer = LoginRecords(FileStorage(), "key")
    async with drawer.lock():
        await drawer.save_tokens(tokens())
        await drawer.save_tokens(tokens("another"))
    folder = tmp_path / "dragoman" / "auth"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.iterdir())
    assert [path.suffix for path in files] == [".json", ".lock"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


async def test_a_broken_file_counts_as_nothing_and_is_written_anew(tmp_path, caplog):
    drawer = LoginRecords(FileStorage(tmp_path), "key")
    await drawer.save_tokens(tokens())
    (path,) = tmp_path.glob("*.json")
    path.write_text('{"tokens": {"access_token": "the-acc')
    assert await drawer.tokens() is None
    assert "the-acc" not in caplog.text
    path.write_text("[]")
    assert await drawer.tokens() is None
    await drawer.save_tokens(tokens())
    assert await drawer.tokens() is not None


async def test_where_nothing_can_be_written_tokens_last_as_long_as_the_process(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    drawer = LoginRecords(FileStorage(tmp_path / "file" / "folder"), "key")
    with caplog.at_level(logging.WARNING):
        async with drawer.lock():
            await drawer.save_tokens(tokens())
            await drawer.save_tokens(tokens("second"))
    found = await drawer.tokens()
    assert found is not None
    assert found.access_token == "second"
    assert caplog.text.count("lasts until the process ends") == 1


def planted(folder):
    """Put tokens of somebody else where ours are looked for, as whoever may write into the folder can."""
    there = FileStorage(folder).drawer("key")
    there.save_tokens({"access_token": "of-the-attacker", "refresh_token": "r"})
    (path,) = folder.glob("*.json")
    return path


def link(path):
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


PLANTS = {
    "a folder that everybody can write": lambda path: path.parent.chmod(0o777),
    "a folder that everybody can write, if sticky": lambda path: path.parent.chmod(0o1777),
    "a folder that the group can write": lambda path: path.parent.chmod(0o770),
    "a file that everybody can write": lambda path: path.chmod(0o666),
    "a file that everybody can read": lambda path: path.chmod(0o644),
    "a link": link,
}


@pytest.mark.covers("OAU-39")
@pytest.mark.parametrize("plant", PLANTS)
async def test_what_others_may_have_put_there_is_refused(plant, tmp_path):
    PLANTS[plant](planted(tmp_path))
    drawer = LoginRecords(FileStorage(tmp_path), "key")
    for use in (drawer.tokens, drawer.client, lambda: drawer.save_tokens(tokens())):
        with pytest.raises(AuthError, match=r"not safe from others: .*; (run: chmod 700|remove it)"):
            await use()
    assert "the-refresh-token" not in "".join(path.read_text() for path in tmp_path.iterdir())


@pytest.mark.covers("OAU-39")
async def test_files_and_folders_of_somebody_else_are_refused(tmp_path, monkeypatch):
    planted(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)
    drawer = LoginRecords(FileStorage(tmp_path), "key")
    with pytest.raises(AuthError, match="of this user"):
        await drawer.tokens()
    with pytest.raises(AuthError, match="of this user"):
        async with drawer.lock():
            raise AssertionError("the lock of somebody else was taken")


@pytest.mark.covers("OAU-39")
async def test_a_link_in_the_place_of_the_lock_or_the_folder_is_refused(tmp_path):
    path = planted(tmp_path)
    path.with_suffix(".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuthError, match="not safe from others"):
        async with LoginRecords(FileStorage(tmp_path), "key").lock():
            raise AssertionError("the lock of somebody else was taken")
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(AuthError, match="not safe from others"):
        await LoginRecords(FileStorage(tmp_path / "link"), "key").tokens()


@pytest.mark.covers("OAU-45")
async def test_a_program_without_a_folder_remembers_as_long_as_it_lives(monkeypatch, caplog):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(storage, "state_folder", nobody)
    drawer = LoginRecords(storage.IssuerStorage(), "key")
    await drawer.save_client(ClientInformation(client_id="c", issuer="https://a"))
    assert (await drawer.client()).issuer == "https://a"
    assert "give issuer=" in caplog.text


@pytest.mark.covers("OAU-39")
async def test_the_lock_of_a_file_lets_one_in_at_a_time(tmp_path, monkeypatch):
    first, second = LoginRecords(FileStorage(tmp_path), "key"), LoginRecords(FileStorage(tmp_path), "key")
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.05)
    async with first.lock():
        with pytest.raises(AuthError, match="Another process"):
            async with second.lock():
                raise AssertionError("two are in")
    async with second.lock():
        pass


@pytest.mark.covers("OAU-31")
async def test_a_storage_of_the_author_may_have_a_lock():
    class Locked(InADictionary):
        entered = 0

        @asynccontextmanager
        async def lock(self):
            self.entered += 1
            yield

    own = Locked()
    async with LoginRecords(own, "key").lock():
        await asyncio.sleep(0)
    assert own.entered == 1
