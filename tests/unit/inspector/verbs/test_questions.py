"""The verbs of questions, by a page over HTTP and real processes that ask."""

import asyncio
import json

import pytest

from scenarios.inspector_page import COMMAND, connected_page, open_page


async def asked(page, server, tool):
    """Call a tool that asks, and return its question and the call that waits."""
    waiting = asyncio.ensure_future(page.tool(server, tool))
    question = (await page.event("question"))["question"]
    return question, waiting


def said(outcome):
    return json.loads(outcome["result"]["content"][0]["text"])


async def test_a_form_is_answered_and_a_wrong_answer_can_be_corrected():
    async with connected_page() as (page, id):
        question, waiting = await asked(page, id, "ask")
        assert (question["kind"], question["server"], question["params"]["message"]) == (
            "elicitation",
            id,
            "Which city?",
        )
        assert question["params"]["requestedSchema"]["required"] == ["city"]
        wrong = {"action": "accept", "content": {"days": "many"}}
        assert (await page.refused("questions/answer", question=question["id"], answer=wrong)).status == 400
        assert [one["id"] for one in (await page.call("questions/list"))["questions"]] == [question["id"]]
        right = {"action": "accept", "content": {"city": "Oslo"}}
        await page.call("questions/answer", question=question["id"], answer=right)
        assert said(await waiting) == {"action": "accept", "content": {"city": "Oslo"}}
        assert (await page.call("questions/list"))["questions"] == []
        assert (await page.refused("questions/answer", question=question["id"], answer=right)).status == 404
        assert (await page.event("answered"))["by"] == "page"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_form_is_declined_or_cancelled(action):
    async with connected_page() as (page, id):
        question, waiting = await asked(page, id, "ask")
        await page.call("questions/answer", question=question["id"], answer={"action": action})
        assert said(await waiting) == {"action": action}


async def test_a_page_to_visit_shows_its_url():
    async with connected_page(version="2025-11-25") as (page, id):
        question, waiting = await asked(page, id, "visit")
        assert (question["kind"], question["params"]["url"]) == ("url", "https://example.com/pay")
        await page.call("questions/answer", question=question["id"], answer={"action": "accept"})
        assert said(await waiting)["action"] == "accept"


async def test_sampling_is_answered_by_hand_as_text_or_as_a_whole_result():
    async with connected_page() as (page, id):
        question, waiting = await asked(page, id, "sample")
        assert question["params"]["messages"][0]["content"]["text"] == "What is six times seven?"
        assert question["params"]["maxTokens"] == 10
        await page.call("questions/answer", question=question["id"], answer={"text": "42"})
        assert said(await waiting)["content"] == {"type": "text", "text": "42"}
        page.events.clear()
        question, waiting = await asked(page, id, "sample")
        wrong = {"result": {"role": 7}}
        assert (await page.refused("questions/answer", question=question["id"], answer=wrong)).status == 400
        whole = {"result": {"content": {"type": "text", "text": "six"}, "model": "me", "stopReason": "endTurn"}}
        await page.call("questions/answer", question=question["id"], answer=whole)
        assert said(await waiting)["model"] == "me"


async def test_sampling_is_declined_and_a_model_that_is_missing_leaves_the_question_open():
    async with connected_page() as (page, id):
        question, waiting = await asked(page, id, "sample")
        by_model = {"action": "model", "model": "nothing"}
        refused = await page.refused("questions/answer", question=question["id"], answer=by_model)
        assert (refused.status, "nothing" in refused.error["message"]) == (502, True)
        await page.call("questions/answer", question=question["id"], answer={"action": "decline", "reason": "not now"})
        assert said(await waiting)["message"] == "not now"


async def test_a_call_waits_for_its_approval_if_that_is_wanted():
    async with connected_page() as (page, id):
        assert (await page.call("questions/settings", server=id, approvals=True))["server"]["approvals"] is True
        waiting = asyncio.ensure_future(page.tool(id, "echo", {"a": 1}))
        question = (await page.event("question"))["question"]
        assert (question["kind"], question["params"]) == ("approval", {"name": "echo", "arguments": {"a": 1}})
        await page.call("questions/answer", question=question["id"], answer={"action": "accept"})
        assert (await waiting)["result"]["structuredContent"] == {"a": 1}
        rule = {"kind": "approval", "match": "echo", "answer": {"action": "decline", "reason": "not today"}}
        await page.call("questions/settings", server=id, script=[rule])
        params = {"name": "echo", "arguments": {}}
        denied = await page.refused("explore/request", server=id, method="tools/call", params=params, key="k")
        assert (denied.error["kind"], "not today" in denied.error["message"]) == ("ToolError", True)
        assert (await page.event("answered", lambda event: event["by"] == "script"))["action"] == "decline"


async def test_a_question_is_withdrawn_with_the_call_that_asked():
    async with connected_page() as (page, id):
        await asked_and_dropped(page, id)
        event = await page.event("answered")
        assert (event["by"], event["action"]) == ("server", "cancel")
        assert (await page.call("questions/list"))["questions"] == []


async def asked_and_dropped(page, id):
    question, waiting = await asked(page, id, "sample")
    assert question["kind"] == "sampling"
    await page.call("servers/disconnect", server=id)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_roots_are_declared_and_changed(tmp_path):
    root = {"uri": tmp_path.as_uri(), "name": "here"}
    async with open_page() as page:
        added = await page.added(COMMAND)
        id = added["id"]
        assert (await page.call("questions/settings", server=id, roots=[root]))["server"]["roots"] == [root]
        await page.call("servers/connect", server=id)
        assert said(await page.tool(id, "roots")) == {"roots": [root]}
        await page.call("questions/settings", server=id, roots=[])
        assert said(await page.tool(id, "roots")) == {"roots": []}
        wrong = [{"uri": "https://example.com"}]
        assert (await page.refused("questions/settings", server=id, roots=wrong)).status == 400


async def test_a_rule_with_a_wrong_expression_is_refused():
    async with connected_page() as (page, id):
        rule = {"kind": "sampling", "match": "(", "answer": {"text": "x"}}
        refused = await page.refused("questions/settings", server=id, script=[rule])
        assert (refused.status, "regular expression" in refused.error["message"]) == (400, True)
