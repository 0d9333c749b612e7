"""A server on fastmcp with an extension of its own: a tool's price is a quote, which is to be accepted."""

from __future__ import annotations

import sys
from typing import Any, Literal

import mcp_types
from fastmcp import FastMCP
from fastmcp.server.extensions import MethodBinding, ServerExtension

ID = "com.example/quotes"


class AcceptParams(mcp_types.RequestParams):
    quote_id: str


class Quote(mcp_types.Result):
    result_type: Literal["quote"] = "quote"
    quote_id: str


class Quotes(ServerExtension):
    identifier = ID

    def settings(self) -> dict[str, Any]:
        return {"currencies": ["EUR"]}

    def methods(self) -> list[MethodBinding]:
        return [MethodBinding("quotes/accept", AcceptParams, self.accept)]

    async def accept(self, ctx: Any, params: AcceptParams) -> mcp_types.CallToolResult:
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=f"accepted {params.quote_id}")])

    async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
        if context.client_extension_settings(ID) is None:
            return await call_next()
        return Quote(quote_id=f"q-{params.name}")


server: FastMCP[Any] = FastMCP("quotes")
server.add_extension(Quotes())


@server.tool
def buy() -> str:
    """Buys."""
    return "bought without a quote"


def main(transport: str, port: str = "0") -> None:
    if transport == "stdio":
        server.run("stdio", show_banner=False, log_level="ERROR")
    else:
        server.run("http", show_banner=False, host="127.0.0.1", port=int(port), log_level="ERROR")


if __name__ == "__main__":
    main(*sys.argv[1:])
