"""A server with progress and a question, for tests of what passes conversations on."""

from dragoman import Context, Server


def shop() -> Server:
    """Return a server that greets with progress, and asks who is there."""
    server = Server("shop")

    @server.tool
    async def greet(name: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return f"Hello {name}"

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).content

    return server
