"""What client authors use: any MCP server, blocking or async, in both eras."""
