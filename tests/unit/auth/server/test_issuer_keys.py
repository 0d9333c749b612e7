"""The keys of an issuer: fetched once, again for unknown ones, and never so often that strangers decide."""

import asyncio

import pytest
from aiohttp import web

from auth.issuer import RESOURCE, issuing, never
from dragoman.auth import Jwt
from dragoman.auth.server import issuer_keys
from dragoman.errors import AuthError
from scenarios.http_peer import DEADLINE

OTHER = "https://other.example.com"


def jwt_of(issuer, **options):
    return Jwt(issuer.url, jwks_url=f"{issuer.url}/keys", **options)


@pytest.mark.covers("BEAR-03")
async def test_keys_are_fetched_once_for_all_who_wait():
    async with issuing() as issuer:
        verifier, token = jwt_of(issuer), issuer.token()
        found = await asyncio.gather(*(verifier.verify(token, RESOURCE) for _ in range(20)))
        assert [one.principal for one in found] == ["ann"] * 20
        assert issuer.asked == ["/keys"]


@pytest.mark.covers("BEAR-03")
async def test_a_new_key_is_fetched_at_once_and_unknown_ones_are_looked_for_together(monkeypatch):
    monkeypatch.setattr(issuer_keys, "REFETCH_SECONDS", 0.2)
    async with issuing() as issuer:
        verifier, old = jwt_of(issuer), issuer.token()
        assert await verifier.verify(old, RESOURCE)
        issuer.add_key("second")
        new = issuer.token(header={"kid": "second"})
        found = await asyncio.gather(*(verifier.verify(new, RESOURCE) for _ in range(5)))
        assert all(found)
        assert len(issuer.asked) == 2
        unknown = [made_up(issuer, f"made up {number}") for number in range(20)]
        assert await asyncio.gather(*(verifier.verify(token, RESOURCE) for token in unknown)) == [None] * 20
        assert len(issuer.asked) == 3
        # Those that were looked for in vain are refused at once.
        assert [await verifier.verify(token, RESOURCE) for token in unknown] == [None] * 20
        assert len(issuer.asked) == 3


def made_up(issuer, name):
    return issuer.token(header={"kid": name}, key=issuer.keys["first"])


@pytest.mark.covers("BEAR-03")
async def test_strangers_with_unknown_keys_keep_no_new_key_from_being_found_and_cause_few_fetches(monkeypatch):
    monkeypatch.setattr(issuer_keys, "REFETCH_SECONDS", 0.25)
    async with issuing() as issuer:
        verifier, known = jwt_of(issuer), issuer.token()
        assert await verifier.verify(known, RESOURCE)

        async def attack(stranger):
            for number in range(20):
                assert await verifier.verify(made_up(issuer, f"{stranger} {number}"), RESOURCE) is None

        clock = asyncio.get_running_loop().time
        begun = clock()
        async with asyncio.timeout(DEADLINE):
            attacks = [asyncio.create_task(attack(stranger)) for stranger in range(200)]
            for name in ("second", "third"):
                await asyncio.sleep(0.3)
                issuer.add_key(name)
                assert await verifier.verify(issuer.token(header={"kid": name}), RESOURCE)
                assert await verifier.verify(known, RESOURCE)
        for task in attacks:
            task.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
        assert issuer.times_asked("/keys") <= 2 + (clock() - begun) / 0.25


@pytest.mark.covers("BEAR-03")
async def test_a_fetch_that_began_before_a_key_was_there_does_not_make_it_missing(monkeypatch):
    monkeypatch.setattr(issuer_keys, "REFETCH_SECONDS", 0.2)
    async with issuing() as issuer:
        verifier = jwt_of(issuer)
        assert await verifier.verify(issuer.token(), RESOURCE)
        published = {"keys": [key.as_dict(private=False) for key in issuer.keys.values()]}
        asked, release = asyncio.Event(), asyncio.Event()

        async def late(request: web.Request) -> web.StreamResponse:
            del issuer.answers["/keys"]
            asked.set()
            await release.wait()
            return web.json_response(published)

        issuer.answers["/keys"] = late
        async with asyncio.timeout(DEADLINE):
            stranger = asyncio.create_task(verifier.verify(made_up(issuer, "made up"), RESOURCE))
            await asked.wait()
            issuer.add_key("second")
            honest = asyncio.create_task(verifier.verify(issuer.token(header={"kid": "second"}), RESOURCE))
            await asyncio.sleep(0)
            release.set()
            assert await stranger is None
            assert await honest


@pytest.mark.covers("BEAR-03")
async def test_of_tokens_with_unknown_keys_that_are_too_many_to_wait_nothing_is_said(monkeypatch):
    monkeypatch.setattr(issuer_keys, "MAX_WAITING", 2)
    async with issuing() as issuer:
        verifier = jwt_of(issuer)
        assert await verifier.verify(issuer.token(), RESOURCE)
        made = [verifier.verify(made_up(issuer, f"made up {number}"), RESOURCE) for number in range(4)]
        first, second, *others = await asyncio.gather(*made, return_exceptions=True)
        assert (first, second) == (None, None)
        assert [type(one) for one in others] == [AuthError, AuthError]
        assert await verifier.verify(issuer.token(), RESOURCE)


@pytest.mark.covers("BEAR-03")
async def test_a_name_that_was_looked_for_in_vain_is_looked_for_again_after_a_while(monkeypatch):
    monkeypatch.setattr(issuer_keys, "REFETCH_SECONDS", 0)
    monkeypatch.setattr(issuer_keys, "MISSING_SECONDS", 0)
    monkeypatch.setattr(issuer_keys, "MAX_MISSING", 2)
    async with issuing() as issuer:
        verifier = jwt_of(issuer)
        for name in ("one", "two", "three", "one"):
            assert await verifier.verify(made_up(issuer, name), RESOURCE) is None
        assert len(issuer.asked) == 5
        assert len(verifier._keys._missing) == 2


@pytest.mark.covers("BEAR-03")
async def test_a_key_that_was_taken_back_is_good_no_longer_than_keys_are_kept(monkeypatch):
    monkeypatch.setattr(issuer_keys, "KEPT_SECONDS", 0)
    async with issuing() as issuer:
        verifier, token = jwt_of(issuer), issuer.token()
        assert await verifier.verify(token, RESOURCE)
        issuer.add_key("second")
        del issuer.keys["first"]
        assert await verifier.verify(token, RESOURCE) is None


@pytest.mark.covers("BEAR-03")
@pytest.mark.parametrize("kid", ["first", None])
async def test_a_token_without_the_name_of_its_key_is_tried_with_all(kid):
    async with issuing() as issuer:
        issuer.add_key("second", "RSA")
        issuer.add_key("third")
        assert await jwt_of(issuer).verify(issuer.token(header={"kid": kid}), RESOURCE)


@pytest.mark.covers("BEAR-03")
async def test_a_key_that_cannot_be_read_costs_only_itself():
    async with issuing() as issuer:
        good = issuer.keys["first"].as_dict(private=False)
        secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "first"}
        issuer.listed = {"keys": [None, "key", {}, {"kty": "RSA"}, {"kty": "?"}, secret, {**good, "use": "enc"}, good]}
        assert await jwt_of(issuer).verify(issuer.token(), RESOURCE)


async def redirect(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("/other-keys")


async def broken(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text="later")


async def prose(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>")


async def no_set(request: web.Request) -> web.StreamResponse:
    return web.json_response({"keys": {"kty": "EC"}})


async def no_key(request: web.Request) -> web.StreamResponse:
    return web.json_response({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]})


@pytest.mark.covers("BEAR-04")
@pytest.mark.parametrize("answer", [redirect, broken, prose, no_set, no_key])
async def test_without_keys_nothing_is_said_of_a_token_and_the_issuer_is_left_alone_for_a_while(answer, caplog):
    async with issuing() as issuer:
        issuer.answers["/keys"] = answer
        verifier = jwt_of(issuer)
        for _ in range(3):
            with pytest.raises(AuthError, match=f"the keys of {issuer.url} are not available"):
                await verifier.verify(issuer.token(), RESOURCE)
        assert issuer.asked == ["/keys"]
        assert len(caplog.records) == 1
        assert await verifier.verify("garbage", RESOURCE) is None


@pytest.mark.covers("BEAR-04")
async def test_an_issuer_that_is_down_is_asked_again_when_it_is_up(monkeypatch, caplog):
    async with issuing() as issuer:
        issuer.answers["/keys"] = broken
        verifier, token = jwt_of(issuer), issuer.token()
        monkeypatch.setattr(issuer_keys, "RETRY_SECONDS", 0)
        with pytest.raises(AuthError):
            await verifier.verify(token, RESOURCE)
        del issuer.answers["/keys"]
        assert await verifier.verify(token, RESOURCE)


@pytest.mark.covers("BEAR-04")
async def test_all_who_wait_for_a_slow_issuer_are_told_at_once_that_it_is_slow(monkeypatch, caplog):
    monkeypatch.setattr(issuer_keys, "FETCH_SECONDS", 0.2)
    async with issuing() as issuer:
        issuer.answers["/keys"], _, release = never()
        verifier, token = jwt_of(issuer), issuer.token()
        async with asyncio.timeout(DEADLINE):
            found = await asyncio.gather(*(verifier.verify(token, RESOURCE) for _ in range(50)), return_exceptions=True)
        release.set()
        assert {type(one) for one in found} == {AuthError}
        assert issuer.asked == ["/keys"]
        assert "it takes too long to answer" in caplog.text


@pytest.mark.covers("BEAR-04")
async def test_known_keys_stay_good_while_others_are_looked_for_in_vain(monkeypatch, caplog):
    monkeypatch.setattr(issuer_keys, "FETCH_SECONDS", 0.2)
    async with issuing() as issuer:
        verifier, token = jwt_of(issuer), issuer.token()
        assert await verifier.verify(token, RESOURCE)
        issuer.answers["/keys"], asked, release = never()
        unknown = issuer.token(header={"kid": "made up"}, key=issuer.keys["first"])
        looking = asyncio.create_task(verifier.verify(unknown, RESOURCE))
        async with asyncio.timeout(DEADLINE):
            await asked.wait()
            assert await verifier.verify(token, RESOURCE)
            assert not looking.done()
            assert await looking is None
        release.set()
        assert await verifier.verify(token, RESOURCE)


@pytest.mark.covers("BEAR-04")
async def test_who_goes_away_does_not_take_the_keys_along():
    async with issuing() as issuer:
        verifier, token = jwt_of(issuer), issuer.token()
        first = asyncio.create_task(verifier.verify(token, RESOURCE))
        await asyncio.sleep(0)
        second = asyncio.create_task(verifier.verify(token, RESOURCE))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).principal == "ann"
        assert issuer.asked == ["/keys"]


def test_one_verifier_serves_one_loop_after_another():
    async def verify(verifier, token):
        found = await asyncio.gather(*(verifier.verify(token, RESOURCE) for _ in range(3)))
        return [one.principal for one in found]

    async def begin():
        async with issuing() as issuer:
            verifier, token = jwt_of(issuer), issuer.token()
            return verifier, token, await verify(verifier, token)

    verifier, token, found = asyncio.run(begin())
    assert found == asyncio.run(verify(verifier, token)) == ["ann"] * 3


@pytest.mark.covers("BEAR-03")
async def test_keys_are_found_by_the_metadata_of_the_issuer():
    async with issuing() as issuer:
        assert await Jwt(issuer.url).verify(issuer.token(), RESOURCE)
        assert issuer.asked == ["/.well-known/oauth-authorization-server", "/keys"]


@pytest.mark.covers("BEAR-03")
@pytest.mark.parametrize("document", [{}, {"issuer": OTHER}, {"jwks_uri": 7}, {"jwks_uri": "http://keys.example.com/"}])
async def test_metadata_of_another_or_without_a_safe_address_of_keys_are_not_used(document, caplog):
    async with issuing() as issuer:

        async def metadata(request: web.Request) -> web.StreamResponse:
            said = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"} if document else {}
            return web.json_response(said | document)

        issuer.answers["/.well-known/oauth-authorization-server"] = metadata
        with pytest.raises(AuthError):
            await Jwt(issuer.url).verify(issuer.token(), RESOURCE)
        assert "/keys" not in issuer.asked
