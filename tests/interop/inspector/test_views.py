"""The views of the page, with servers of several makers: what is offered, what passes, what is asked and exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.inspector.browser import Tab
from interop.inspector.using import call, choose, keep_only, raw_result, tool, until

pytestmark = pytest.mark.e2e

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def test_a_server_of_npm_offers_its_tools_prompts_and_resources(tab: Tab) -> None:
    choose(tab, "everything")
    tool(tab, "echo")
    tab.fill("[data-field=message] textarea", "hello")
    tab.press_keys("Control+Enter")
    tab.sees("Echo: hello", ".outcome")
    tool(tab, "get-tiny-image")
    call(tab)
    tab.waitForSelector(".outcome img")
    assert tab.evaluate("document.querySelector('.outcome img').naturalWidth") > 0
    tool(tab, "simple", "Prompts")
    call(tab, "Get")
    tab.waitForSelector(".outcome .message .role >> text=user")
    tab.click(".kinds >> role=tab[name=/^Resources/]")
    tab.click(".items-list button >> nth=0")
    call(tab, "Read")
    tab.waitForSelector(".outcome .contents")
    tab.button("Subscribe", ".trial")
    tab.waitForSelector("role=button[name=Unsubscribe]")
    tab.button("Unsubscribe", ".trial")
    tab.waitForSelector("role=button[name=Subscribe]")


def test_a_typescript_server_over_http_shows_heads_and_bodies(tab: Tab) -> None:
    choose(tab, "typescript")
    tool(tab, "add")
    tab.fill("[data-field=a] input", "2")
    tab.fill("[data-field=b] input", "3")
    call(tab)
    assert raw_result(tab)["structuredContent"] == {"result": 5}
    tab.view("Traffic")
    keep_only(tab, "server:typescript")
    tab.waitForSelector(".virtual-list .summary[data-kind=request]")
    tab.waitForSelector(".virtual-list .summary[data-kind=response]")
    tab.waitForSelector(".virtual-list .summary[data-what=response]")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_is_spoken_to_in_any_version(tab: Tab, version: str) -> None:
    choose(tab, "busy", view="Servers")
    tab.selectOption('[aria-label="Protocol version"]', version)
    tab.waitForSelector(f".card .card-title >> text={version}")
    era = "stateless era" if version == VERSIONS[-1] else "handshake era"
    tab.waitForSelector(f".card .card-title >> text={era}")


def test_results_are_shown_as_tables_markdown_and_images(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "table")
    call(tab)
    tab.click(".outcome >> role=tab[name=Table]")
    tab.click(".outcome thead >> text=people")
    assert tab.evaluate(
        "[...document.querySelectorAll('.outcome tbody tr')].map((row) => row.cells[0].textContent)"
    ) == [
        "Tromsø",
        "Bergen",
        "Oslo",
    ]
    tool(tab, "report")
    call(tab)
    tab.waitForSelector(".outcome .markdown strong >> text=well")
    assert tab.getAttribute(".outcome .markdown a", "href") == "https://example.com/"
    assert tab.evaluate("document.querySelectorAll('.outcome .markdown b').length") == 0
    tool(tab, "picture")
    call(tab)
    tab.waitForSelector(".outcome img")
    assert tab.evaluate("document.querySelector('.outcome img').naturalWidth") == 24


def test_arguments_are_completed_while_they_are_typed(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "review", "Prompts")
    tab.fill("[data-field=language] input", "p")
    options = "[...document.querySelectorAll('[data-field=language] datalist option')].map((one) => one.value)"
    until(lambda: tab.evaluate(options) == ["python", "perl"], "nothing is suggested")
    tab.fill("[data-field=language] input", "python")
    call(tab, "Get")
    tab.sees("Review this python code", ".outcome")
    tool(tab, "profile", "Templates")
    tab.fill("[data-field=user_id] textarea, [data-field=user_id] input", "a b")
    call(tab, "Read")
    tab.sees("users://a%20b/profile", ".outcome")


def test_questions_of_a_server_are_answered_as_in_a_host(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "ask_size")
    tab.button("Call", ".trial")
    tab.button("Answer", ".asked")
    tab.selectOption(".question [data-field=size] select", {"label": "Large"})
    tab.button("Accept", ".question")
    tab.sees("No server asks anything", ".questions")
    tab.view("Explore")
    tab.sees("accept: {'insured': True, 'size': 'l'}", ".outcome")
    tool(tab, "ask_model")
    tab.button("Call", ".trial")
    tab.button("Answer", ".asked")
    tab.sees("Say hello.", ".question")
    tab.fill('.question [aria-label="Answer of the assistant"]', "Hello!")
    tab.button("Send the answer", ".question")
    tab.view("Explore")
    tab.sees("The model says: Hello!", ".outcome")
    tool(tab, "ask_visit")
    tab.button("Call", ".trial")
    tab.button("Answer", ".asked")
    assert tab.getAttribute(".question a", "href") == "https://pay.example.com/connect"
    tab.sees("pay.example.com", ".question strong")
    tab.button("Decline", ".question")
    tab.view("Explore")
    tab.sees("decline", ".outcome")


def test_calls_are_approved_and_questions_are_answered_by_a_script(tab: Tab) -> None:
    choose(tab, "fragile", view="Questions")
    tab.check("text=Ask me before each call of a tool")
    tab.sees("Kept.", ".notices")
    tab.view("Explore")
    tool(tab, "table")
    tab.button("Call", ".trial")
    tab.button("Answer", ".asked")
    tab.sees("May this tool be called?", ".question")
    tab.button("Decline", ".question")
    tab.view("Explore")
    tab.waitForSelector(".outcome .failure, .outcome [data-error]")
    tab.view("Questions")
    tab.uncheck("text=Ask me before each call of a tool")
    rule = {"kind": "elicitation", "match": "size", "answer": {"action": "accept", "content": {"size": "s"}}}
    tab.fill("#script", json.dumps([rule]))
    tab.button("Keep the rules")
    tab.view("Explore")
    tool(tab, "ask_size")
    call(tab)
    tab.sees("'size': 's'", ".outcome")
    tab.view("Questions")
    tab.fill("#script", "")
    tab.button("Keep the rules")


def test_messages_are_filtered_compared_and_sent_again(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "shape")
    for name in ("Ann", "Bob"):
        tab.fill("[data-field=name] textarea", name)
        call(tab)
    tab.button("Messages", ".outcome")
    tab.waitForSelector(".message-detail")
    keep_only(tab, "method:tools/call what:request sender:client Ann")
    tab.click(".virtual-list .row >> nth=-1")
    tab.button("Mark", ".message-detail")
    keep_only(tab, "method:tools/call what:request sender:client Bob")
    tab.click(".virtual-list .row >> nth=-1")
    tab.click(".message-detail >> role=button[name=/^Compare with/]")
    tab.sees("/params/arguments/name", ".difference")
    tab.sees('"Ann"', ".difference tr")
    tab.sees('"Bob"', ".difference tr")
    tab.click(".virtual-list .row >> nth=-1")
    tab.click(".message-detail >> role=tab[name=Replay]")
    area = '[aria-label="The request to send"]'
    message = json.loads(tab.inputValue(area))
    message["params"]["arguments"]["name"] = "Eve"
    tab.fill(area, json.dumps(message))
    tab.button("Send again", ".replay")
    tab.sees("Eve", ".replay .outcome")


def test_the_time_line_and_the_statistics_tell_what_took_how_long(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "table")
    call(tab)
    tab.view("Traffic")
    tab.button("Time line")
    tab.waitForSelector(".spans .bar[data-kind=call]")
    tab.click(".spans button >> nth=-1")
    tab.waitForSelector(".message-detail")
    tab.button("Statistics")
    tab.click(".statistics >> role=button[name='tools/call']")
    assert tab.inputValue('[aria-label="Filter"]') == "method:tools/call"


def test_a_session_is_saved_and_opened_again(tab: Tab, tmp_path: Path) -> None:
    choose(tab, "workshop")
    tool(tab, "table")
    call(tab)
    tab.view("Traffic")
    tab.selectOption('.toolbar [aria-label="Server"]', {"label": "workshop"})
    tab.click("summary >> text=Session file")
    tab.button("Save what is shown")
    name, path = tab.saved()
    assert name.endswith(".mcpsession")
    tab.setInputFiles(".menu input[type=file]", path)
    until(lambda: tab.inputValue(".toolbar select").startswith("f"), "the file is not opened")
    tab.waitForSelector(".virtual-list .row >> text=table")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("pytest test", "def test_"),
        ("Python client", "Client("),
        ("curl", "curl"),
        ("cassette", "table"),
        ("HAR", '"log"'),
    ],
)
def test_a_call_is_exported(tab: Tab, label: str, expected: str) -> None:
    choose(tab, "typescript" if label in ("curl", "HAR") else "workshop")
    if label in ("curl", "HAR"):
        tool(tab, "echo")
        tab.fill("[data-field=text] textarea", "hello")
    else:
        tool(tab, "table")
    call(tab)
    tab.button("Export", ".outcome")
    tab.check(f"text={label}")
    tab.sees(expected, ".preview pre")
    tab.button("Save", ".preview")
    _, path = tab.saved()
    assert expected in Path(path).read_text(encoding="utf-8")


def test_everything_is_reached_by_the_keyboard(tab: Tab) -> None:
    choose(tab, "workshop")
    tab.waitForSelector(".item")
    tab.press_keys("Control+k")
    tab.waitForSelector("dialog[open]")
    tab.fill("dialog input", "report")
    tab.press_keys("Enter")
    tab.waitForSelector(".item-detail h3 >> text=report")
    tab.press_keys("Control+Enter")
    tab.waitForSelector(".outcome .markdown")
    tab.press_keys("/")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "Search the list"
    tab.press_keys("ArrowDown")
    tab.press_keys("ArrowDown")
    tab.press_keys("Enter")
    tab.waitForSelector(".item-detail h3 >> text=union")
    tab.press_keys("Alt+Digit3")
    tab.waitForSelector(".view.traffic:not([hidden])")
    tab.waitForSelector(".virtual-list .row")
    tab.focus(".virtual-list")
    tab.press_keys("End")
    tab.waitForSelector(".message-detail")
    assert tab.evaluate("document.querySelector('.virtual-list [aria-selected=true]') !== null")
