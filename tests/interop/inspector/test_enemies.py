"""What servers may do to the page: hostile texts, floods, large results, a death; and what the page owes everybody."""

from __future__ import annotations

import os
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from interop.inspector.browser import Tab
from interop.inspector.using import call, choose, keep_only, tool, until
from interop.wild.environments import ROOT

pytestmark = pytest.mark.e2e

MOST_ROWS = 500
MOST_MILLISECONDS = 100
PICTURES = ROOT / "docs/assets"
LARGEST_PICTURE = 200_000
CRASH = """async () => {
    const { ask } = await import('/page/backend.js');
    const { state } = await import('/page/state.js');
    const params = { name: 'crash', arguments: {} };
    await ask('explore/request', { server: state.chosen, method: 'tools/call', params, key: 'x' }).catch(() => {});
}"""

ASK = """async ([verb, parameters]) => (await import('/page/backend.js')).ask(verb, parameters)"""
FLOOD = """async () => {
    const { ask } = await import('/page/backend.js');
    const { state } = await import('/page/state.js');
    const params = { name: 'flood', arguments: { messages: 1_000_000 } };
    ask('explore/request', { server: state.chosen, method: 'tools/call', params, key: 'flood' }).catch(() => {});
}"""
WORD = "document.querySelector('.filter-word').textContent"
ROWS = "document.querySelectorAll('.virtual-list .row').length"
LAST = "Number(document.querySelector('.virtual-list .row:last-child .number')?.textContent)"


def test_hostile_texts_are_shown_and_do_nothing(tab: Tab) -> None:
    choose(tab, "workshop", view="Servers")
    tab.sees("<b>Not bold.</b>", ".facts")
    tab.view("Explore")
    tool(tab, "hostile")
    tab.sees("<script>window.harmed = true</script>", ".description")
    tab.sees("⟨U+202E⟩gnirts", ".description")
    tab.fill("[data-field=length] input", "1000")
    call(tab)
    tab.sees("<img src=x onerror=", ".outcome")
    tab.sees("␛[31mred", ".outcome")
    for panel in ("As the model sees it", "Definition"):
        tab.click(f'role=tab[name="{panel}"]')
        tab.sees("<script>", ".item-detail .panel")
    assert tab.evaluate(
        "window.harmed === undefined && document.querySelectorAll('main script, main img').length === 0"
    )


def test_definitions_of_the_wrong_types_are_shown_and_break_nothing(tab: Tab) -> None:
    choose(tab, "malformed")
    for kind, count in (("Tools", 7), ("Prompts", 2), ("Resources", 2), ("Templates", 2)):
        tab.click(f".kinds >> role=tab[name=/^{kind}/]")
        for place in range(count):
            tab.click(f".items-list li >> nth={place} >> button")
            tab.waitForSelector(".item-detail .trial")
            tab.click('role=tab[name="Definition"]')
            tab.waitForSelector(".item-detail .raw")
    tool(tab, "plain")
    call(tab)
    tab.waitForSelector(".outcome .tree, .outcome .failure")


def test_a_megabyte_in_one_line_is_cut_and_the_page_keeps_its_width(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "hostile")
    tab.fill("[data-field=length] input", "150000")
    call(tab)
    tab.waitForSelector(".outcome >> role=button[name=/^Show more/]")
    shown = tab.evaluate("document.querySelector('.outcome .text').textContent.length")
    assert shown < 5_000
    tab.click(".outcome >> role=button[name=/^Show more/]")
    assert tab.evaluate("document.querySelector('.outcome .text').textContent.length") > 30_000
    tab.fill("[data-field=length] input", "1000000")
    call(tab)
    tab.sees("The beginning is shown.", ".outcome")
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_result_of_20_megabytes_is_shown_cut_and_saved_whole(tab: Tab) -> None:
    choose(tab, "workshop")
    tool(tab, "large")
    call(tab)
    tab.sees("20.0 MB", ".outcome .cut")
    assert tab.evaluate("document.querySelector('.outcome').textContent.length") < 300_000
    tab.button("Save it whole", ".outcome")
    _, path = tab.saved()
    assert Path(path).stat().st_size > 20_000_000


def test_ten_thousand_messages_are_few_rows_and_a_quick_filter(tab: Tab) -> None:
    choose(tab, "busy")
    tool(tab, "flood")
    call(tab)
    tab.sees("flooded", ".outcome")
    tab.view("Traffic")
    tab.selectOption('.toolbar [aria-label="Server"]', {"label": "busy"})
    counted = "Number(document.querySelector('.filter-word').textContent.split(' of ')[0].replaceAll(',', ''))"
    until(lambda: tab.evaluate(counted) >= 10_000, "the messages do not come")
    tab.waitForSelector(".virtual-list .row")
    taken = [keep_only(tab, text) for text in ("p", "pr", "pro", "prog", "progr", "progress", "progress 99")]
    assert statistics.median(taken) < MOST_MILLISECONDS, taken  # other programs of the machine only add to it
    keep_only(tab, "")
    tab.evaluate("document.querySelector('.virtual-list').scrollTop = 0")
    until(
        lambda: tab.evaluate("document.querySelector('.space').offsetHeight") > 1_000 * 28, "earlier rows do not come"
    )
    assert 0 < tab.evaluate("document.querySelectorAll('.virtual-list .row').length") <= MOST_ROWS
    assert tab.evaluate("document.querySelectorAll('*').length") < 6_000


def counts(tab: Tab) -> tuple[int, int, int]:
    """Return how many messages match, how many are kept, and how many the list skipped, as the page says."""
    said = tab.evaluate(WORD).replace(",", "")
    found = re.match(r"(\d+) of (\d+) messages(?:.* sampled: (\d+) came faster)?", said)
    assert found, said
    matched, kept, skipped = found.groups()
    return int(matched), int(kept), int(skipped or 0)


def test_a_flood_is_sampled_and_the_page_says_so_and_stays_usable(tab: Tab) -> None:
    choose(tab, "busy", view="Traffic")
    tab.evaluate(ASK, ["traffic/clear", {}])
    tab.selectOption('.toolbar [aria-label="Server"]', {"label": "busy"})
    tab.evaluate(FLOOD)
    try:
        tab.sees("came faster than the list can show them. Scroll up or filter to see them", ".filter-word")
        assert 0 < tab.evaluate(ROWS) <= MOST_ROWS
        tab.fill('[aria-label="Filter"]', "there-is-no-such-text")
        until(lambda: counts(tab)[0] == 0, "the filter is not answered in the flood")
        tab.fill('[aria-label="Filter"]', "method:notifications/progress")
        tab.sees("sampled", ".filter-word")
        tab.fill('[aria-label="Filter"]', "")
        tab.sees("sampled", ".filter-word")
        assert tab.evaluate(ASK, ["explore/cancel", {"key": "flood"}]) == {"cancelled": True}
    finally:
        tab.evaluate(ASK, ["explore/cancel", {"key": "flood"}])
    kept = until(lambda: quiet(tab), "the flood does not end")
    until(lambda: tab.evaluate(LAST) == kept["rows"][-1]["number"], "the last message is not shown")
    matched, held, skipped = counts(tab)
    assert (matched, held) == (kept["matched"], kept["kept"])
    assert skipped > MOST_ROWS
    before = tab.evaluate("document.querySelector('.space').offsetHeight")
    tab.evaluate("document.querySelector('.virtual-list').scrollTop = 0")
    until(lambda: tab.evaluate("document.querySelector('.space').offsetHeight") > before, "skipped rows do not come")
    tab.evaluate(ASK, ["traffic/clear", {}])


def quiet(tab: Tab) -> Any:
    """Return the newest row and the counts if nothing more comes."""
    first, second = (tab.evaluate(ASK, ["traffic/rows", {"limit": 1}]) for _ in range(2))
    return second if first == second and first["rows"] else None


def test_a_server_that_dies_while_a_form_is_open_loses_nothing_and_tells_why(tab: Tab) -> None:
    choose(tab, "fragile")
    tool(tab, "shape")
    tab.fill("[data-field=name] textarea", "Ann")
    tab.evaluate(CRASH)
    assert tab.inputValue("[data-field=name] textarea") == "Ann"
    tab.button("Call", ".trial")
    tab.waitForSelector(".outcome > *")
    assert tab.inputValue("[data-field=name] textarea") == "Ann"
    tab.view("Servers")
    tab.sees("the disk is on fire", ".card")


def test_the_reason_of_a_death_is_shown_where_the_call_was_made(tab: Tab) -> None:
    choose(tab, "fragile")
    tool(tab, "crash")
    call(tab)
    tab.sees("exit code 3", ".outcome")
    tab.sees("the disk is on fire", ".outcome")


VIEWS = ["Servers", "Explore", "Traffic", "Questions", "Export"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_can_be_used_by_everybody_wide_and_narrow(tab: Tab, scheme: str) -> None:
    tab.emulateMedia({"colorScheme": scheme})
    choose(tab, "workshop")
    tool(tab, "shape")
    tab.fill("[data-field=name] textarea", "Ann")
    call(tab)
    tab.view("Traffic")
    tab.button("Time line")
    tab.waitForSelector(".spans .bar")
    tab.click(".virtual-list .row >> nth=-1")
    tab.waitForSelector(".message-detail")
    found = []
    for view in VIEWS:
        tab.view(view)
        if view == "Export":
            tab.waitForSelector(".preview > *")
        found += [(view, one["id"], one["nodes"]) for one in tab.axe() if one["impact"] in ("serious", "critical")]
    assert found == []
    tab.setViewportSize({"width": 390, "height": 844})
    try:
        for view in VIEWS:
            tab.view(view)
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390, view
    finally:
        tab.setViewportSize({"width": 1440, "height": 900})
        tab.emulateMedia({"colorScheme": "light"})


def test_the_pictures_of_the_documentation_are_of_this_page(tab: Tab, tmp_path: Path) -> None:
    """Makes the pictures; with DRAGOMAN_PICTURES=1 it puts them into the documentation."""
    folder = PICTURES if os.environ.get("DRAGOMAN_PICTURES") else tmp_path
    tab.setViewportSize({"width": 1180, "height": 700})
    try:
        tab.click(".server-list >> role=button[name=/broken$/]")
        tab.button("Connect", ".card")
        tab.waitForSelector(".findings [data-mark=bad]")
        picture(tab, folder / "inspector-servers.png")
        choose(tab, "workshop")
        tool(tab, "union")
        tab.fill("[data-field=address] input", "ann@example.com")
        call(tab)
        tab.click(".outcome >> role=tab[name=Structured]")
        picture(tab, folder / "inspector-explore.png")
        tool(tab, "ask_size")
        tab.button("Call", ".trial")
        tab.button("Answer", ".asked")
        picture(tab, folder / "inspector-questions.png")
        tab.button("Decline", ".question")
        tab.emulateMedia({"colorScheme": "dark"})
        tab.view("Traffic")
        tab.selectOption('.toolbar [aria-label="Server"]', {"label": "workshop"})
        keep_only(tab, "method:tools/*")
        tab.click(".virtual-list .row >> nth=-1")
        tab.waitForSelector(".message-detail")
        picture(tab, folder / "inspector-traffic.png")
    finally:
        tab.emulateMedia({"colorScheme": "light"})
        tab.setViewportSize({"width": 1440, "height": 900})
    made = sorted(path.name for path in folder.glob("inspector-*.png"))
    assert made == [f"inspector-{view}.png" for view in ("explore", "questions", "servers", "traffic")]
    assert all(0 < (folder / name).stat().st_size < LARGEST_PICTURE for name in made)


def picture(tab: Tab, path: Path) -> None:
    """Take a picture, without short messages and without the folders of this machine."""
    tab.evaluate("document.querySelector('.notices').replaceChildren()")
    tab.evaluate("document.querySelector('.target').textContent = 'python server.py'")
    tab.screenshot({"path": str(path)})
