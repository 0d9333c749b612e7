"""A web application that serves MCP beside its own pages, and uses another server."""

from fastapi import FastAPI, HTTPException

from dragoman import AsyncClients, Context, DragomanError, Server
from dragoman.auth import Bearer, Identity, Jwt
from dragoman.server import HttpRequest

server = Server("shop")


@server.tool(scopes=["orders"])
async def order(item: str, ctx: Context) -> dict[str, str | None]:
    """Orders an item."""
    await ctx.info({"item": item})
    return {"item": item, "by": ctx.principal}


async def who(request: HttpRequest) -> Identity | None:
    token = request.headers.get("x-token")
    return Identity(token, scopes=frozenset({"orders"})) if token else None


clients = AsyncClients({"stock": "https://stock.example.com/mcp"}, timeout=10)
app = FastAPI(lifespan=clients.lifespan)
app.mount("/functional", server.asgi(auth=who, stateless=True))
app.mount(
    "/",
    server.asgi(
        allowed_hosts=["shop.example.com"],
        session_idle_timeout=600,
        auth=Bearer(
            Jwt(issuer="https://login.example.com", audience="https://shop.example.com/mcp"),
            resource="https://shop.example.com/mcp",
            authorization_servers=["https://login.example.com"],
        ),
    ),
)


@app.get("/stock/{item}")
async def stock(item: str) -> dict[str, str]:
    try:
        result = await clients.call_tool("stock__count", {"item": item}, timeout=3)
    except DragomanError as error:
        raise HTTPException(502, str(error)) from error
    return {"item": item, "count": result.text}
