"""An asynchronous program that uses two servers at once, and answers what they ask."""

import asyncio
import logging
from dataclasses import dataclass

from dragoman import AsyncClient, AsyncClients, ConnectError, Timeout, ToolError
from dragoman.client import Accept, Approval, AsyncBoundTool, Decline, ElicitationRequest, LogMessage, SamplingRequest
from dragoman.types import ImageContent, TextContent

log = logging.getLogger("orders")


@dataclass
class Receipt:
    number: int
    total: float


async def ask_user(request: ElicitationRequest) -> Accept | Decline:
    street = await asyncio.to_thread(input, f"{request.server}: {request.message} ")
    return Accept({"street": street}) if street else Decline()


async def ask_model(request: SamplingRequest) -> str:
    await asyncio.sleep(0)
    return f"I was asked: {request.message}"


async def approve(call: Approval) -> bool:
    return not call.name.startswith("delete_")


async def show(progress: float, total: float | None, message: str | None) -> None:
    log.info("%s of %s: %s", progress, total or "?", message or "")


def note(message: LogMessage) -> None:
    log.log(logging.WARNING if message.level == "warning" else logging.INFO, "%s", message.data)


async def order(client: AsyncClient, isbn: str) -> Receipt | None:
    try:
        result = await client.call_tool("order", {"isbns": [isbn]}, result_type=Receipt, on_progress=show, timeout=30)
    except ToolError as error:
        log.warning("The shop refused %s: %s", isbn, error)
        return None
    for block in result.content:
        match block:
            case TextContent(text=text):
                log.info("%s", text)
            case ImageContent(mime_type=kind):
                log.info("a picture, %s", kind)
            case _:
                log.info("%s", type(block).__name__)
    return result.structured


async def total(isbns: list[str]) -> float:
    async with AsyncClient(
        "https://shop.example.com/mcp",
        on_elicitation=ask_user,
        on_sampling=ask_model,
        on_approval=approve,
        on_log=note,
        headers={"x-tenant": "north"},
    ) as client:
        tool: AsyncBoundTool = await client.tool("find")
        found = await tool(words="dragoman")
        log.info("%s %s", found.text, [entry.name for entry in await client.tools()])
        async with asyncio.TaskGroup() as group:
            orders = [group.create_task(order(client, isbn)) for isbn in isbns]
        receipts = [receipt for receipt in (task.result() for task in orders) if receipt is not None]
        return sum(receipt.total for receipt in receipts)


async def everywhere() -> dict[str, int]:
    async with AsyncClients.from_config("mcp.json") as clients:
        tools = await clients.tools()
        return {tool.name: len(tool.description or "") for tool in tools}


async def main() -> None:
    logging.basicConfig(level=logging.INFO)
    try:
        print(f"{await total(['9780000000001']):.2f}", await everywhere())
    except (ConnectError, Timeout) as error:
        print("The shop does not answer:", error)


if __name__ == "__main__":
    asyncio.run(main())
