"""A call that runs until its client cancels it, on a connection in memory."""

import asyncio

from dragoman import Server


async def cancel_endless_call(server: Server) -> None:
    """Call the tool `wait`, which this function adds, and cancel the call when it runs."""
    begun = asyncio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    connection = server.connect(lambda data: None)
    connection.receive_message(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}')
    await begun.wait()
    connection.receive_message(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    await connection.drain()
    connection.close()
