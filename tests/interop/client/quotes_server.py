"""A server of others with an extension of its own: a tool's price is a quote, which is to be accepted.

python quotes_server.py (mcp|fastmcp) (stdio | http PORT), in the environment of the peers
"""

from __future__ import annotations

import sys
from typing import Any, Literal

import mcp_types

LIBRARY = sys.argv[1]
ID = "com.example/quotes"

if LIBRARY == "mcp":
    from mcp.server.extension import Extension, MethodBinding
    from mcp.server.mcpserver import MCPServer
else:
    from fastmcp import FastMCP
    from fastmcp.server.extensions import MethodBinding
    from fastmcp.server.extensions import ServerExtension as Extension


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

    async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
        if LIBRARY == "fastmcp":
            declared = context.client_extension_settings(ID) is not None
        else:
            capabilities = (context.meta or {}).get("io.modelcontextprotocol/clientCapabilities") or {}
            declared = ID in (capabilities.get("extensions") or {})
        if declared:
            return Quote(quote_id=f"q-{params.name}")
        return await (call_next() if LIBRARY == "fastmcp" else call_next(context))


def buy() -> str:
    """Buys."""
    return "bought without a quote"


def main(transport: str, port: str = "0") -> None:
    if LIBRARY == "mcp":
        server = MCPServer("quotes", extensions=[Quotes()])
        options: dict[str, Any] = {}
    else:
        server = FastMCP("quotes")
        server.add_extension(Quotes())
        options = {"show_banner": False, "log_level": "ERROR"}
    server.tool()(buy)
    if transport == "stdio":
        server.run("stdio", **options)
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(port), **options)


if __name__ == "__main__":
    main(*sys.argv[2:])
