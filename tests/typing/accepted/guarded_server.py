"""A server with limits of its own and of the package, and with tokens of two issuers."""

from typing import assert_type

from dragoman import Context, Server, types
from dragoman.auth import Bearer, Jwt
from dragoman.errors import TooManyRequests
from dragoman.server import Auth, CallNext
from dragoman.server.middleware import Concurrency, MaxResult, RateLimit, RequestKey, RequestTimeout

server = Server("files")


def by_tool(ctx: Context) -> str | None:
    return ctx.params.name if isinstance(ctx.params, types.CallToolRequestParams) else None


key: RequestKey = by_tool
assert_type(server.middleware(RateLimit(60, seconds=60, burst=5, store=True)), RateLimit)
assert_type(server.middleware(Concurrency(20, per_key=2, by=key, max_waiting=0)), Concurrency)
server.middleware(RequestTimeout(30, methods=["tools/call", "resources/read"]))
server.middleware(MaxResult(100_000, cut=False))
limit = RateLimit(1, seconds=0.5, by="session")


@server.middleware
async def only_some(ctx: Context, call_next: CallNext) -> object:
    try:
        return await limit(ctx, call_next) if ctx.principal is None else await call_next()
    except TooManyRequests as error:
        assert_type(error.retry_after, float | None)
        raise


def door(issuer: str) -> Bearer:
    return Bearer(Jwt(issuer), resource="https://api.example.com/mcp")


auth: Auth = [door("https://a.example.com"), door("https://b.example.com")]
server.asgi(auth=auth)
server.asgi(auth=(door("https://a.example.com"),))
