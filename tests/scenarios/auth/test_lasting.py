"""One login lasts: over many requests at once, expiry, restarts, and several processes."""

import asyncio
import json
import logging
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from auth.visiting import person, statuses, visit
from auth.world import world, world_with_person
from dragoman.auth import FileStorage, MemoryStorage
from dragoman.errors import AuthError

TESTS = Path(__file__).resolve().parents[2]
DEADLINE = 60


@asynccontextmanager
async def visitor(url, folder, visits=1):
    """Start a client process, and let it be ready; the block calls what is yielded to let it go on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(TESTS / "auth" / "visitor.py"),
        url,
        str(folder),
        str(visits),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    assert process.stdin is not None
    assert process.stdout is not None

    async def go():
        process.stdin.write(b"\n")
        return json.loads(await asyncio.wait_for(process.stdout.readline(), DEADLINE))

    try:
        assert await asyncio.wait_for(process.stdout.readline(), DEADLINE) == b'"ready"\n'
        yield go
        await asyncio.wait_for(process.wait(), DEADLINE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.covers("OAU-40")
async def test_fifty_requests_that_are_challenged_at_once_cause_one_login():
    async with world_with_person() as (there, browser, auth):
        assert await statuses(auth, there.url, 50) == {200}
        assert (len(browser.urls), there.count("/token"), there.count("/register")) == (1, 1, 1)
        there.expire_everything()
        assert await statuses(auth, there.url, 50) == {200}
        assert (len(browser.urls), len(there.forms("refresh_token"))) == (1, 1)


@pytest.mark.covers("OAU-40")
async def test_fifty_requests_that_are_never_let_in_cause_one_login():
    async with world_with_person(refuses_always=True) as (there, browser, auth):
        answers = await asyncio.gather(*(visit(auth, there.url) for _ in range(50)), return_exceptions=True)
        assert all(isinstance(answer, AuthError) for answer in answers)
        assert len(browser.urls) == 1


@pytest.mark.covers("OAU-40")
async def test_fifty_requests_that_want_more_cause_one_login():
    async with world_with_person(challenge_scope="read", needed_scopes=frozenset({"write"})) as (there, browser, auth):
        assert await statuses(auth, there.url, 50) == {200}
        assert len(browser.urls) == 2


@pytest.mark.covers("OAU-40")
async def test_a_login_that_fails_fails_for_all_who_wait_and_the_next_request_tries_again():
    async with world_with_person(token_error={"error": "server_error"}, token_status=500) as (there, _, auth):
        answers = await asyncio.gather(*(visit(auth, there.url) for _ in range(5)), return_exceptions=True)
        assert all(isinstance(answer, AuthError) for answer in answers)
        there.settings.token_error = None
        assert (await visit(auth, there.url)).status == 200


@pytest.mark.covers("OAU-40")
async def test_a_login_goes_on_when_who_began_it_is_cancelled():
    async with world() as there:
        there.slow = asyncio.Event()
        browser, auth = person()
        first = asyncio.create_task(visit(auth, there.url))
        async with asyncio.timeout(DEADLINE):
            await there.asked("/token", 1)
            second = asyncio.create_task(visit(auth, there.url))
            await there.asked("/mcp", 3)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        there.slow.set()
        assert (await second).status == 200
        assert len(browser.urls) == 1


async def test_closing_ends_a_login_and_tells_who_waits():
    async with world() as there:
        there.slow = asyncio.Event()
        _, auth = person()
        waiting = asyncio.create_task(visit(auth, there.url))
        async with asyncio.timeout(DEADLINE):
            await there.asked("/token", 1)
            await auth.close()
            with pytest.raises(AuthError, match="was cancelled"):
                await waiting
            await auth.close()
        there.slow.set()


@pytest.mark.covers("OAU-28", "LOA-04", "BEY-22")
async def test_a_token_is_renewed_before_it_expires():
    async with world_with_person(expires_in=3600) as (there, browser, auth):
        await visit(auth, there.url)
        auth._tokens.expires_at -= 3590
        answers = await asyncio.gather(*(visit(auth, there.url) for _ in range(10)))
        assert {(answer.status, answer.attempts) for answer in answers} == {(200, 1)}
        assert (len(browser.urls), len(there.forms("refresh_token"))) == (1, 1)
        assert sum("protected-resource" in path for _, path, _, _ in there.requests) == 1


@pytest.mark.covers("OAU-28", "BEY-22")
async def test_a_refresh_token_that_is_not_replaced_is_kept():
    async with world_with_person() as (there, browser, auth):
        await visit(auth, there.url)
        original = there._give
        there._give = lambda *given, refresh: original(*given, refresh=False)
        there.expire_everything()
        await visit(auth, there.url)
        first = there.forms("refresh_token")[0]["refresh_token"]
        there.refresh[first]["used"] = False
        there.expire_everything()
        assert (await visit(auth, there.url)).status == 200
        assert [form["refresh_token"] for form in there.forms("refresh_token")] == [first, first]
        assert len(browser.urls) == 1


@pytest.mark.covers("OAU-29", "BEY-22")
async def test_a_refresh_token_that_is_refused_for_good_is_forgotten_and_there_is_a_login():
    async with world_with_person() as (there, browser, auth):
        await visit(auth, there.url)
        there.expire_everything()
        there.dead_families = {known["family"] for known in there.refresh.values()}
        assert (await visit(auth, there.url)).status == 200
        assert (len(browser.urls), len(there.forms("refresh_token"))) == (2, 1)


@pytest.mark.covers("OAU-29")
async def test_a_refresh_that_fails_otherwise_keeps_the_refresh_token(caplog):
    own = MemoryStorage()
    async with world() as there:
        browser, auth = person(storage=own)
        await visit(auth, there.url)
        (drawer,) = own._drawers.values()
        kept = drawer.tokens()["refresh_token"]
        there.settings.token_error, there.settings.token_status = {"error": "temporarily_unavailable"}, 503
        there.expire_everything()
        with caplog.at_level(logging.WARNING), pytest.raises(AuthError, match="temporarily_unavailable"):
            await visit(auth, there.url)
        assert drawer.tokens()["refresh_token"] == kept
        assert kept not in caplog.text
        there.settings.token_error = None
        assert (await visit(auth, there.url)).status == 200
        assert len(browser.urls) == 2  # the second login is the one that could not be ended


@pytest.mark.covers("OAU-29")
async def test_while_the_authorization_server_is_down_a_token_that_is_still_good_is_used(caplog):
    async with world_with_person() as (there, _, auth):
        await visit(auth, there.url)
        auth._tokens.expires_at -= 3590
        there.settings.is_dead = True
        assert (await visit(auth, there.url)).attempts == 1
        assert (await visit(auth, there.url)).attempts == 1
        assert there.count("/token") == 2
        assert "could not be renewed" in caplog.text


@pytest.mark.covers("OAU-28")
async def test_closing_waits_for_a_renewal_that_may_have_used_the_refresh_token_up(tmp_path):
    async with world() as there:
        browser, auth = person(storage=FileStorage(tmp_path))
        await visit(auth, there.url)
        there.expire_everything()
        there.slow = asyncio.Event()
        waiting = asyncio.create_task(visit(auth, there.url))
        async with asyncio.timeout(DEADLINE):
            await there.asked("/token", 2)
            closing = asyncio.create_task(auth.close())
            await asyncio.sleep(0)
            there.slow.set()
            await closing
            assert (await waiting).status == 200
        _, again = person(storage=FileStorage(tmp_path))
        assert (await visit(again, there.url)).attempts == 1
        assert len(browser.urls) == 1
        assert not there.dead_families


@pytest.mark.covers("OAU-30")
async def test_scopes_that_another_process_was_given_are_used_here_too(tmp_path):
    async with world(challenge_scope="read") as there:
        browser, auth = person(storage=FileStorage(tmp_path))
        other, elsewhere = person(storage=FileStorage(tmp_path))
        await visit(auth, there.url)
        await visit(elsewhere, there.url)
        there.settings.needed_scopes = frozenset({"write"})
        assert (await visit(elsewhere, there.url)).status == 200
        assert (await visit(auth, there.url)).status == 200
        assert (len(browser.urls), len(other.urls)) == (1, 1)


@pytest.mark.covers("OAU-40")
async def test_a_renewal_that_fails_is_no_answer_to_a_challenge(caplog):
    async with world_with_person() as (there, browser, auth):
        await visit(auth, there.url)
        auth._tokens.expires_at -= 3590
        there.expire_everything()
        there.settings.token_error, there.settings.token_status = {"error": "slow_down"}, 429
        with pytest.raises(AuthError, match="slow_down"):
            await visit(auth, there.url)
        there.settings.token_error = None
        assert await statuses(auth, there.url, 10) == {200}
        assert len(browser.urls) == 2
        assert "could not be renewed before it expires" in caplog.text


@pytest.mark.covers("OAU-41")
@pytest.mark.parametrize("document", ["_resource_metadata", "_metadata"])
async def test_a_token_is_renewed_while_the_metadata_of_either_server_are_down(document):
    async with world_with_person() as (there, browser, auth):
        await visit(auth, there.url)
        there.expire_everything()
        setattr(there, document, lambda base: 1 / 0)
        assert (await visit(auth, there.url)).status == 200
        assert (len(browser.urls), len(there.registrations)) == (1, 1)


@pytest.mark.covers("OAU-28")
@pytest.mark.parametrize("given", ["3600", 3600.5, "soon", -1, True, None, [], 1e300])
async def test_a_lifetime_is_read_however_it_is_given(given):
    async with world_with_person(token_error={"access_token": "x" * 20, "expires_in": given}, token_status=200) as (
        there,
        _,
        auth,
    ):
        there.access["x" * 20] = {"expires_at": 1e12, "family": "", "scope": "", "client_id": "c", "jkt": None}
        assert (await visit(auth, there.url)).status == 200
        assert (auth._tokens.expires_at is not None) is (given in ("3600", 3600.5))


@pytest.mark.covers("OAU-39")
async def test_what_another_one_renewed_is_not_renewed_again(tmp_path):
    async with world() as there:
        _, auth = person(storage=FileStorage(tmp_path))
        _, other = person(storage=FileStorage(tmp_path))
        await visit(auth, there.url)
        await visit(other, there.url)
        there.expire_everything()
        await visit(other, there.url)
        auth._tokens.expires_at -= 3590
        assert (await visit(auth, there.url)).attempts == 1
        assert len(there.forms("refresh_token")) == 1


@pytest.mark.covers("OAU-41")
async def test_a_registration_that_the_server_forgot_is_made_anew():
    async with world_with_person() as (there, browser, auth):
        await visit(auth, there.url)
        there.expire_everything()
        there.clients.clear()
        assert (await visit(auth, there.url)).status == 200
        assert (len(browser.urls), len(there.registrations)) == (2, 2)


@pytest.mark.covers("OAU-39")
async def test_after_a_restart_nobody_logs_in_again(tmp_path):
    async with world() as there:
        async with visitor(there.url, tmp_path, 2) as go:
            assert (await go())["logins"] == 1
        async with visitor(there.url, tmp_path, 2) as go:
            report = await go()
        assert (report["statuses"], report["logins"]) == ([200, 200], 0)
        there.expire_everything()
        async with visitor(there.url, tmp_path) as go:
            report = await go()
        assert (report["statuses"], report["logins"]) == ([200], 0)
        assert len(there.registrations) == 1
        assert not there.dead_families


@pytest.mark.covers("OAU-39")
async def test_after_a_restart_a_token_that_expired_meanwhile_is_renewed_without_a_challenge(tmp_path):
    async with world() as there:
        _, auth = person(storage=FileStorage(tmp_path))
        await visit(auth, there.url)
        (path,) = tmp_path.glob("*.json")
        kept = json.loads(path.read_text())
        kept["tokens"]["expires_at"] -= 4000
        path.write_text(json.dumps(kept))
        there.expire_everything()
        browser, again = person(storage=FileStorage(tmp_path))
        answer = await visit(again, there.url)
        assert (answer.status, answer.attempts, len(browser.urls)) == (200, 1, 0)


@pytest.mark.covers("OAU-39", "BEY-22")
async def test_two_processes_that_renew_at_once_use_one_refresh_token_once(tmp_path):
    async with world() as there:
        async with visitor(there.url, tmp_path) as go:
            await go()
        there.expire_everything()
        async with visitor(there.url, tmp_path) as first, visitor(there.url, tmp_path) as second:
            reports = await asyncio.gather(first(), second())
        assert [report["statuses"] for report in reports] == [[200], [200]]
        assert [report["logins"] for report in reports] == [0, 0]
        assert not there.dead_families
        assert len(there.forms("refresh_token")) == 1
        assert len({report["token"] for report in reports}) == 1


@pytest.mark.covers("OAU-39")
async def test_two_processes_that_begin_at_once_log_in_once(tmp_path):
    async with world() as there:
        async with visitor(there.url, tmp_path) as first, visitor(there.url, tmp_path) as second:
            reports = await asyncio.gather(first(), second())
        assert sorted(report["logins"] for report in reports) == [0, 1]
        assert [report["statuses"] for report in reports] == [[200], [200]]
