"""How people log in: in a browser that opens, in one of their own, or in a web application."""

import asyncio
import json
import os
import pty
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from auth.visiting import OwnStorage, query, visit
from auth.world import world
from dragoman.auth import FileStorage, MemoryStorage, OAuth
from dragoman.errors import AuthError, AuthRequired

TESTS = Path(__file__).resolve().parents[2]
PERSON = str(TESTS / "auth" / "person.py")
DEADLINE = 60
WEB = "https://app.example.com/callback"


def surroundings(**more):
    hidden = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"PYTHONPATH": str(TESTS)} | more


async def start_person(url, folder, *more, stdin=asyncio.subprocess.DEVNULL, **variables):
    """Start a client process whose user logs in as they can."""
    piped = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    command = [sys.executable, PERSON, url, str(folder), *more]
    return await asyncio.create_subprocess_exec(*command, stdin=stdin, env=surroundings(**variables), **piped)


async def where_it_leads(url):
    async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as response:
        return response.headers["Location"]


@pytest.mark.covers("LOA-02", "LOA-03")
async def test_without_anything_else_the_browser_opens_and_comes_back(tmp_path):
    browser = f"{sys.executable} {TESTS / 'auth' / 'consenting_browser.py'} %s"
    async with world() as there:
        for _ in range(2):
            process = await start_person(there.url, tmp_path, BROWSER=browser)
            said, errors = await asyncio.wait_for(process.communicate(), DEADLINE)
            assert json.loads(said) == {"status": 200}, errors.decode()
        assert there.count("/authorize") == 1
        assert there.registrations[0]["redirect_uris"][0].startswith("http://127.0.0.1:")


@pytest.mark.covers("OAU-42")
@pytest.mark.parametrize("redirect_uri", [None, WEB])
async def test_without_a_browser_the_address_is_pasted_in_the_terminal(redirect_uri, tmp_path):
    ours, theirs = pty.openpty()
    async with world() as there:
        process = await start_person(there.url, tmp_path, *filter(None, [redirect_uri]), stdin=theirs)
        os.close(theirs)
        assert process.stderr is not None
        try:
            async with asyncio.timeout(DEADLINE):
                url = ""
                while not url.startswith("http"):
                    line = await process.stderr.readline()
                    assert line, "the client ended without showing an address"
                    url = line.decode().strip()
                os.write(ours, b"http://127.0.0.1/callback?code=x&state=wrong\n")
                os.write(ours, (await where_it_leads(url) + "\n").encode())
                said, errors = await process.communicate()
            assert json.loads(said) == {"status": 200}
            assert b"paste the whole of it" in errors
        finally:
            os.close(ours)
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.mark.covers("OAU-42")
async def test_without_a_browser_and_a_terminal_it_is_said_what_to_do(tmp_path):
    async with world() as there:
        process = await start_person(there.url, tmp_path)
        said, _ = await asyncio.wait_for(process.communicate(), DEADLINE)
        report = json.loads(said)
        assert report["kind"] == "AuthRequired"
        assert "log in once from a terminal" in report["error"]
        assert not there.registrations


class Own(OwnStorage):
    """A storage of the author that is asynchronous, and keeps text."""

    async def tokens(self):
        return super().tokens()

    async def save_tokens(self, tokens):
        super().save_tokens(json.loads(json.dumps(tokens)))

    async def client_information(self):
        return super().client_information()

    async def save_client_information(self, information):
        super().save_client_information(json.loads(json.dumps(information)))


@pytest.mark.covers("LOA-02", "OAU-43")
@pytest.mark.parametrize("kind", ["file", "own", "document"])
async def test_a_web_application_begins_a_login_in_one_process_and_ends_it_in_another(kind, tmp_path):
    own = Own()

    def another():
        document = "https://app.example.com/client.json" if kind == "document" else None
        storage = own if kind == "own" else FileStorage(tmp_path)
        return OAuth(redirect_uri=WEB, storage=storage, client_id_metadata_document_url=document)

    async with world(takes_documents=True) as there:
        first = another()
        with pytest.raises(AuthRequired, match=r"start\(\)"):
            await visit(first, there.url)
        url = await first.start()
        came_back = query(await where_it_leads(url))
        second = another()
        await second.finish(came_back["code"], came_back["state"], came_back["iss"], url=there.url)
        assert (await visit(another(), there.url)).attempts == 1
        with pytest.raises(AuthError, match="No login waits"):
            await another().finish(came_back["code"], came_back["state"], came_back["iss"], url=there.url)
        assert (there.registrations[0]["application_type"] if kind != "document" else "web") == "web"


@pytest.mark.covers("LOA-02", "OAU-43")
async def test_a_web_application_that_blocks_begins_and_ends_a_login(tmp_path):
    def another():
        return OAuth(redirect_uri=WEB, storage=FileStorage(tmp_path))

    async with world() as there:
        url = await asyncio.wait_for(asyncio.to_thread(another().blocking.start, there.url), DEADLINE)
        came_back = query(await where_it_leads(url))
        finish = another().blocking.finish
        given = (came_back["code"], came_back["state"], came_back["iss"])
        await asyncio.wait_for(asyncio.to_thread(finish, *given, url=there.url), DEADLINE)
        assert (await visit(another(), there.url)).attempts == 1
        with pytest.raises(AuthError, match="No login waits"):
            await asyncio.wait_for(asyncio.to_thread(finish, *given, url=there.url), DEADLINE)


@pytest.mark.covers("LOA-03")
@pytest.mark.parametrize(
    ("answer", "page"), [("code=c", "<h1>Welcome</h1>"), ("error=access_denied", "<h1>Sorry</h1>")]
)
async def test_the_browser_ends_at_a_page_of_the_author(answer, page):
    shown = []

    async def redirect(url):
        asked = query(url)
        back = f"{asked['redirect_uri']}?{answer}&state={asked['state']}"
        async with aiohttp.ClientSession() as session, session.get(back) as response:
            shown.append(await response.text())

    async with world() as there:
        auth = OAuth(
            redirect_handler=redirect,
            storage=MemoryStorage(),
            success_page="<h1>Welcome</h1>",
            error_page="<h1>Sorry</h1>",
        )
        with pytest.raises(AuthError):
            await asyncio.wait_for(visit(auth, there.url), DEADLINE)
    assert shown == [page]


@pytest.mark.covers("OAU-43")
async def test_several_people_may_be_at_the_login_of_a_web_application():
    own = Own()
    async with world() as there:
        oauth = OAuth(redirect_uri=WEB, storage=own)
        urls = [await oauth.start(there.url) for _ in range(20)]
        assert there.count("/register") == 1
        assert len(own.kept["client"]["pending"]) == 16
        answers = [query(await where_it_leads(url)) for url in (urls[0], urls[-1], urls[-2])]
        with pytest.raises(AuthError, match="No login waits"):
            await oauth.finish(answers[0]["code"], answers[0]["state"], answers[0]["iss"])
        await oauth.finish(answers[1]["code"], answers[1]["state"], answers[1]["iss"])
        with pytest.raises(AuthError, match="does not say that it comes from"):
            await oauth.finish(answers[2]["code"], answers[2]["state"])
        assert (await visit(oauth, there.url)).attempts == 1


@pytest.mark.covers("OAU-43")
async def test_an_answer_that_comes_too_late_or_from_nowhere_is_refused():
    own = Own()
    async with world() as there:
        oauth = OAuth(redirect_uri=WEB, storage=own)
        answer = query(await where_it_leads(await oauth.start(there.url)))
        with pytest.raises(AuthError, match="No login waits"):
            await oauth.finish(answer["code"], "forged", answer["iss"])
        own.kept["client"]["pending"][answer["state"]]["begun_at"] = time.time() - 3600
        with pytest.raises(AuthError, match="No login waits"):
            await oauth.finish(answer["code"], answer["state"], answer["iss"])


async def test_a_login_of_a_web_application_needs_to_know_where_it_begins_and_ends():
    with pytest.raises(ValueError, match="URL of the server is missing"):
        await OAuth(redirect_uri=WEB, storage=MemoryStorage()).start()
    with pytest.raises(ValueError, match="redirect_uri"):
        await OAuth(storage=MemoryStorage()).start("https://mcp.example.com/mcp")
    with pytest.raises(ValueError, match="URL of the server is missing"):
        await OAuth(redirect_uri=WEB, storage=MemoryStorage()).finish("code", "state")
