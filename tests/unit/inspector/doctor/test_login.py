"""The steps of a login, as an examination shows them."""

from auth.world import world
from dragoman.auth.fetcher import exchange_observer
from dragoman.errors import AuthRequired
from dragoman.inspector.doctor.findings import Findings
from dragoman.inspector.doctor.login import examine_login


async def examined(url, challenge):
    findings = Findings(lambda finding: None)
    await examine_login(url, AuthRequired("no", 401, challenge), findings)
    return {finding.step: finding for finding in findings.all}


async def test_a_server_without_a_challenge_and_a_dead_issuer_are_found():
    async with world(is_dead=True) as there:
        found = await examined(there.url, None)
    assert not found["challenge"].ok
    assert not found["authorization server"].ok
    assert any("oauth-authorization-server" in one.request.url for one in found["authorization server"].exchanges)
    assert exchange_observer.get() is None
