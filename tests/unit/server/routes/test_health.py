"""`Health`: the answers to probes, and how often the store is asked."""

import asyncio
import json
from typing import Any

import pytest

from dragoman import Server
from dragoman.server.routes import health
from dragoman.server.routes.health import Health
from dragoman.stores import Memory
from dragoman.transports.http.asgi import AsgiExchange


async def asked(made: Health, path: str = "/readyz") -> tuple[int, Any] | None:
    sent: list[Any] = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    if not await made.serve(AsgiExchange(scope, receive, send), path):
        return None
    return sent[0]["status"], json.loads(sent[1]["body"])


async def begun() -> None: ...


def unready(reason: str) -> tuple[int, dict[str, str]]:
    return 503, {"status": "unavailable", "reason": reason}


async def test_other_paths_are_left_alone_and_a_process_that_drains_lives():
    made = Health(Server(store=Memory()).dispatcher, start=begun, is_draining=lambda: True)
    assert await asked(made, "/health") is None
    assert await asked(made, "/healthz/") == (200, {"status": "ok"})
    assert await asked(made) == unready("draining")


async def test_a_start_that_takes_long_is_not_ready(monkeypatch):
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.01)
    made = Health(Server(store=Memory()).dispatcher, start=asyncio.Event().wait, is_draining=lambda: False)
    assert await asked(made) == unready("starting")


async def test_a_start_that_fails_is_reported_and_not_ready(caplog):
    async def fails() -> None:
        raise ValueError("no database")

    made = Health(Server(store=Memory()).dispatcher, start=fails, is_draining=lambda: False)
    assert await asked(made) == unready("not started")
    assert "no database" in caplog.text


@pytest.mark.parametrize(("kept", "times"), [(3600.0, 1), (0.0, 3)])
async def test_the_answer_of_the_store_is_kept_for_a_while(monkeypatch, kept, times):
    counted = []

    class Counting(Memory):
        def state(self, namespace: str, **options: Any) -> Any:
            counted.append(namespace)
            raise OSError("away")

    monkeypatch.setattr(health, "KEEP_SECONDS", kept)
    made = Health(Server(store=Counting()).dispatcher, start=begun, is_draining=lambda: False)
    assert [await asked(made) for _ in range(3)] == [unready("store unreachable")] * 3
    assert len(counted) == times
