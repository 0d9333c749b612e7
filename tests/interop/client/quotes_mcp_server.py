"""A server on `mcp` with an extension of its own: a tool's price is a quote, which is to be accepted."""

from __future__ import annotations

import sys
from typing import Any, Literal

import mcp_types
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer

ID = "com.example/quotes"


class AcceptParams(mcp_types.RequestParams):
    quote_id: str


class Quote(mcp_types.Result):
    result_type: Literal["quote"] = "quote"
    quote_id: str


class Quotes(Extension):
    identifier = ID

    def settings(self) -> dict[str, Any]:
        return {"currencies": ["EUR"]}

    def methods(self) -> list[MethodBinding]:
        return [MethodBinding("quotes/accept", AcceptParams, self.accept)]

    async def accept(self, ctx: Any, params: AcceptParams) -> mcp_types.CallToolResult:
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=f"accepted {params.quote_id}")])

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        capabilities = ((ctx.meta or {}).get("io.modelcontextprotocol/clientCapabilities")) or {}
        if ID not in (capabilities.get("extensions") or {}):
            return await call_next(ctx)
        return Quote(quote_id=f"q-{params.name}")


server = MCPServer("quotes", extensions=[Quotes()])


@server.tool()
def buy() -> str:
    """Buys."""
    return "bought without a quote"


def main(transport: str, port: str = "0") -> None:
    if transport == "stdio":
        server.run()
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
