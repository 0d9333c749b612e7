"""A server for tests of middleware, and a middleware that notes what it sees."""

from dragoman import BlockingContext, Context, RpcError, Server
from scenarios.http_peer import NEWEST, STATELESS

VERSIONS = {"handshake": NEWEST, "stateless": STATELESS}
ADD = ("tools/call", {"name": "add", "arguments": {"a": 2}})


def serving(**options):
    """Return a server whose definitions end in every way."""
    server = Server("shop", secret="a secret of sixteen", **options)

    @server.tool
    def add(a: int, b: int = 1) -> str:
        """Adds."""
        return str(a + b)

    @server.tool
    async def whoami(ctx: Context) -> str:
        """Says what middleware noted."""
        return str(ctx.values.get("user"))

    @server.tool
    def whoami_blocking(ctx: BlockingContext) -> str:
        """Says the same."""
        return f"{ctx.values['user']} {ctx.method} {ctx.arguments}"

    @server.prompt
    def greet(name: str) -> str:
        raise LookupError(name)

    @server.method("acme/echo")
    def echo(value: int) -> dict:
        return {"value": value}

    return server


def text_of(result):
    return result.content[0].text


def watching(server):
    """Let a middleware note what it sees of each request that is no introduction."""
    seen = []

    @server.middleware
    async def watch(ctx, call_next):
        if ctx.method == "initialize":
            return await call_next()
        try:
            result = await call_next()
        except RpcError as error:
            seen.append((ctx, error))
            raise
        seen.append((ctx, result))
        return result

    return seen
