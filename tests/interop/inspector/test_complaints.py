"""What users of other inspectors complain of, each as a test: logins, forms, lost inputs, reasons, ports, Node.js."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from interop.inspector.browser import Browser, Tab
from interop.inspector.conftest import SERVERS
from interop.inspector.using import DEADLINE, arguments, call, choose, inspecting, raw_result, tool, until

pytestmark = pytest.mark.e2e


def test_a_login_shows_every_step_with_its_request_its_response_and_its_rule(tab: Tab) -> None:
    tab.click(".server-list >> role=button[name=/protected$/]")
    tab.button("Connect", ".card")
    tab.waitForSelector(".card .status[data-status=login]")
    tab.sees("resource metadata", ".findings")
    tab.waitForSelector(".findings .rule >> text=RFC 9728")
    tab.click(".findings details >> nth=0")
    tab.sees("well-known/oauth-protected-resource", ".findings pre")
    tab.sees("200", ".findings pre")


def test_a_login_works_on_a_machine_without_a_key_ring_and_hides_its_tokens(tab: Tab) -> None:
    tab.click(".server-list >> role=button[name=/protected$/]")
    tab.button("Connect", ".card")
    tab.waitForSelector(".card .status[data-status=login]")
    tab.button("Log in", ".card")
    tab.waitForSelector(".card .status[data-status=connected]")
    tab.sees("Access token", ".card")
    assert "***" in tab.textContent(".card dl >> nth=0")
    tab.button("Decode the token", ".card")
    tab.sees("The token is opaque", ".decoded")
    tab.view("Explore")
    tool(tab, "secret")
    call(tab)
    tab.sees("the cake is a lie", ".outcome")
    tab.view("Servers")
    tab.button("Log out", ".card")
    tab.sees("Log in", ".card button")


class Closed(BaseHTTPRequestHandler):
    """A server that refuses everybody, and does not say how to get in."""

    def do_POST(self) -> None:
        self.send_response(404 if "well-known" in self.path else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815

    def log_message(self, *words: object) -> None:
        pass


def test_a_login_that_cannot_work_names_the_step_that_is_missing(tab: Tab) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Closed) as closed:
        threading.Thread(target=closed.serve_forever).start()
        tab.fill("#add-target", f"http://127.0.0.1:{closed.server_port}/mcp")
        tab.press_keys("Enter")
        tab.waitForSelector(".card .status[data-status=login], .card .status[data-status=failed]")
        tab.sees("RFC 9728", ".findings [data-mark=bad], .findings [data-mark=note]")
        tab.sees("401", ".failure")
        tab.button("Remove", ".card")
        closed.shutdown()


def test_a_failure_names_the_exit_code_and_what_the_server_wrote(tab: Tab) -> None:
    tab.click(".server-list >> role=button[name=/broken$/]")
    tab.button("Connect", ".card")
    tab.sees("exit code 1", ".failure")
    tab.sees("there is no module httpx", ".stderr-place")
    tab.waitForSelector(".findings [data-mark=bad]")


def test_a_refused_connection_names_the_step_that_failed(tab: Tab) -> None:
    tab.click(".server-list >> role=button[name=/refused$/]")
    tab.button("Connect", ".card")
    tab.waitForSelector(".failure")
    tab.waitForSelector(".findings [data-mark=bad] >> text=TCP")


def test_a_form_has_a_field_for_every_part_of_a_schema_and_stays_in_step_with_its_json(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "shape")
    tab.button("Reset", ".trial")
    assert arguments(tab) == {"count": 3}
    tab.fill("[data-field=name] textarea", "Ann")
    tab.fill("[data-field=end] textarea", "2026-09-27")
    tab.selectOption("[data-field=size] select", {"label": "Large"})
    tab.selectOption("[data-field=urgent] select", {"label": "true"})
    tab.button("Add tags")
    tab.button("Add item to tags")
    tab.fill('[data-field="tags 1"] textarea', "red")
    tab.button("Add place")
    tab.fill("[data-field=city] textarea", "Oslo")
    tab.selectOption("[data-field=contact] select", {"label": "sms"})
    tab.fill("[data-field=phone] textarea", "123")
    tab.button("Add both")
    tab.fill("[data-field=a] input", "7")
    expected = {
        "count": 3,
        "name": "Ann",
        "end": "2026-09-27",
        "size": "l",
        "urgent": True,
        "tags": ["red"],
        "place": {"city": "Oslo"},
        "contact": {"kind": "sms", "phone": "123"},
        "both": {"a": 7},
    }
    assert arguments(tab) == expected
    tab.fill(".json textarea", json.dumps(expected | {"name": "Bob", "contact": {"kind": "email", "address": "a@b.c"}}))
    assert tab.inputValue("[data-field=name] textarea") == "Bob"
    assert tab.inputValue("[data-field=address] input") == "a@b.c"
    call(tab)
    assert raw_result(tab)["structuredContent"]["contact"] == {"kind": "email", "address": "a@b.c"}


def test_a_union_at_the_root_has_the_fields_of_each_branch(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "union")
    tab.button("Reset", ".trial")
    tab.fill("[data-field=address] input", "a@b.c")
    assert arguments(tab) == {"kind": "email", "address": "a@b.c"}
    tab.selectOption(".choice > select", {"label": "sms"})
    tab.fill("[data-field=phone] textarea", "123")
    assert arguments(tab) == {"kind": "sms", "phone": "123"}
    call(tab)
    assert raw_result(tab)["structuredContent"] == {"kind": "sms", "phone": "123"}


def test_null_is_sent_when_it_is_asked_for_and_is_never_mangled(tab: Tab) -> None:
    choose(tab, "fast")
    tool(tab, "add")
    tab.button("Reset", ".trial")
    tab.fill("[data-field=a] input", "2")
    assert arguments(tab) == {"a": 2}
    tab.click("[data-field=b] >> role=button[name=null]")
    assert arguments(tab) == {"a": 2, "b": None}
    tab.click(".json textarea")
    tab.press_keys("Control+End")
    for _ in range(4):
        tab.press_keys("Backspace")
    assert "\\" not in tab.inputValue(".json textarea")
    tab.sees("This is no JSON yet", ".trial")
    tab.fill(".json textarea", '{"a": 2, "b": 40}')
    assert tab.inputValue("[data-field=b] input") == "40"
    call(tab)
    assert raw_result(tab)["structuredContent"] == {"result": 42}


def test_what_was_typed_survives_a_reload_and_another_tool(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "shape")
    tab.fill("[data-field=name] textarea", "Kari")
    tool(tab, "report")
    tool(tab, "shape")
    assert tab.inputValue("[data-field=name] textarea") == "Kari"
    tab.fill(".json textarea", '{"name": "half')
    tab.reload()
    tab.waitForSelector(".item")
    tool(tab, "shape")
    assert tab.inputValue(".json textarea") == '{"name": "half'
    assert tab.inputValue("[data-field=name] textarea") == "Kari"


def test_a_long_call_shows_its_progress_and_is_cancelled(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "work")
    tab.button("Call", ".trial")
    tab.sees("of 1000 step", ".progress")
    assert float(tab.getAttribute(".progress progress", "max")) == 1000
    tab.button("Cancel", ".trial")
    tab.sees("Cancelled", ".outcome")


def test_the_page_shows_what_each_model_gets(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "shape")
    tab.click('role=tab[name="As the model sees it"]')
    tab.waitForSelector("role=tab[name=/^anthropic ≈ \\d+ tokens/]")
    tab.click("role=tab[name=/^anthropic/]")
    tab.sees("input_schema", ".model-view")


def test_the_page_stands_between_a_client_and_a_server(tab: Tab, tmp_path: Path) -> None:
    recorded = tmp_path / "talk.mcpsession"
    workshop = [sys.executable, str(SERVERS / "workshop.py")]
    tapped = [sys.executable, "-m", "dragoman", "tap", "--output", str(recorded), "--", *workshop]
    client = f"""
from dragoman import Client
with Client({tapped!r}) as client:
    client.call_tool("table")
    input()
    client.call_tool("report")
    input()
"""
    with subprocess.Popen([sys.executable, "-c", client], stdin=subprocess.PIPE, text=True) as child:
        assert child.stdin
        try:
            until(lambda: recorded.exists() and b"table" in recorded.read_bytes(), "nothing is recorded")
            tab.view("Traffic")
            tab.click("summary >> text=Session file")
            tab.fill('[aria-label="Path of a session file"]', str(recorded))
            tab.button("Follow")
            tab.waitForSelector(".virtual-list >> text=table")
            child.stdin.write("\n")
            child.stdin.flush()
            tab.waitForSelector(".virtual-list >> text=report")
        finally:
            child.communicate("\n\n", timeout=DEADLINE)
    assert child.returncode == 0


def test_two_inspectors_run_at_once_and_one_server_is_connected_by_itself(
    browser: Browser, tmp_path: Path, address: str
) -> None:
    with inspecting(tmp_path, str(SERVERS / "workshop.py")) as other:
        assert other.split("/#")[0] != address.split("/#")[0]
        tab = browser.tab()
        tab.goto(other)
        tab.waitForSelector(".card .status[data-status=connected]")
        tab.close()
