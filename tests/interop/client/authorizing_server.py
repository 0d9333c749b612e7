"""A server of fastmcp behind the authorization server of the official SDK, which rotates its refresh tokens.

python authorizing_server.py PORT
"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions

port = int(sys.argv[1])
provider = InMemoryOAuthProvider(
    base_url=f"http://127.0.0.1:{port}",
    client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
    required_scopes=["read"],
)
server = FastMCP("authorizing", auth=provider)


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


server.run(transport="http", host="127.0.0.1", port=port, show_banner=False)
