"""The smallest HTTP loop that uses an authorization, and a browser that consents to everything."""

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from dragoman.auth import Authorization, MemoryStorage, OAuth

DEADLINE = 60
REDIRECT = "http://127.0.0.1:9/callback"
MOST_ATTEMPTS = 10


class Answer:
    def __init__(self, status: int, body: bytes, attempts: int) -> None:
        self.status = status
        self.body = body
        self.attempts = attempts


async def visit(auth: Authorization, url: str, method: str = "POST") -> Answer:
    """Send a request as a link over HTTP does: with headers, and again after a challenge that was met."""
    async with asyncio.timeout(DEADLINE), aiohttp.ClientSession() as session:
        for attempt in range(1, MOST_ATTEMPTS + 1):
            headers = await auth.headers(method, url)
            async with session.request(method, url, headers=headers, allow_redirects=False) as response:
                body = await response.read()
                status, said = response.status, response.headers
            if status not in (401, 403) or not await auth.challenged(status, said, method, url):
                return Answer(status, body, attempt)
    raise AssertionError("the authorization never ends")


async def statuses(auth: Authorization, url: str, visits: int) -> set[int]:
    """Send some requests at once, and return the statuses of their answers."""
    return {answer.status for answer in await asyncio.gather(*(visit(auth, url) for _ in range(visits)))}


class Browser:
    """A person who consents at once: `redirect` opens a URL, `callback` returns where that led."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.location = ""

    async def redirect(self, url: str) -> None:
        self.urls.append(url)
        async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as response:
            self.location = response.headers.get("Location", "")
            assert self.location, await response.text()

    async def callback(self) -> tuple[Any, ...] | str:
        fields = query(self.location)
        if "error" in fields:
            return self.location
        return fields.get("code"), fields.get("state"), fields.get("iss")

    async def follow(self, url: str) -> None:
        """Open a URL, and go where it leads, as a browser does by itself."""
        await self.redirect(url)
        async with aiohttp.ClientSession() as session, session.get(self.location) as response:
            assert response.status == 200, await response.text()

    @property
    def asked(self) -> list[dict[str, str]]:
        """What each authorization request asked for."""
        return [query(url) for url in self.urls]


def person(**options: Any) -> tuple[Browser, OAuth]:
    """Return a browser, and an authorization whose logins take place in it."""
    browser = Browser()
    handlers = {"redirect_handler": browser.redirect, "callback_handler": browser.callback}
    return browser, OAuth(**{"redirect_uri": REDIRECT, "storage": MemoryStorage(), **handlers, **options})


class OwnStorage:
    """A storage of an author, with the four methods."""

    def __init__(self, **kept: Any) -> None:
        self.kept = kept

    def tokens(self) -> Any:
        return self.kept.get("tokens")

    def save_tokens(self, tokens: Any) -> None:
        self.kept["tokens"] = tokens

    def client_information(self) -> Any:
        return self.kept.get("client")

    def save_client_information(self, information: Any) -> None:
        self.kept["client"] = information


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
