"""What is asked is valid by the official schema of its version."""

import pytest

from scenarios.asking.test_wire import Choices, Defaults, Limits, add, exchange
from schemas.documents import document
from schemas.folder import schema_folder

FOLDER = schema_folder()
VERSIONS = {"2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25", "stateless": "2026-07-28"}
OF_EVERY_VERSION = {
    "choices": ("ElicitRequest", lambda ctx: ctx.elicit("Choose", Choices)),
    "defaults": ("ElicitRequest", lambda ctx: ctx.elicit("Fill in", Defaults)),
    "limits": ("ElicitRequest", lambda ctx: ctx.elicit("Fill in", Limits)),
    "sample": ("CreateMessageRequest", lambda ctx: ctx.sample("Write", stop_sequences=["end"])),
    "roots": ("ListRootsRequest", lambda ctx: ctx.list_roots()),
}
OF_LATER_VERSIONS = {
    "page": ("ElicitRequest", lambda ctx: ctx.elicit_url("Visit", "https://example.com/")),
    "tools": ("CreateMessageRequest", lambda ctx: ctx.sample("Add", tools=[add], tool_choice={"mode": "auto"})),
}
CASES = [
    pytest.param(era, *question, id=f"{era}-{name}")
    for era in VERSIONS
    for name, question in (OF_EVERY_VERSION | ({} if era == "2025-06-18" else OF_LATER_VERSIONS)).items()
]


@pytest.mark.covers("ELI-01", "ELI-03", "ELI-08", "SMP-01", "ROO-01")
@pytest.mark.parametrize(("era", "definition", "ask"), CASES)
async def test_a_question_is_valid_by_the_official_schema(era, definition, ask):
    asked, _ = await exchange(ask, era, {"action": "decline"})
    envelope = {} if era == "stateless" else {"jsonrpc": "2.0", "id": 1}
    validator = document(FOLDER, VERSIONS[era]).validator(definition)
    assert [str(error) for error in validator.iter_errors(envelope | asked)] == []
