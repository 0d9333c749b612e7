"""How much a registration derives: only what it changes, however much is registered already."""

import pytest

from dragoman import Server, prompt, resource, tool
from dragoman.server import offering
from dragoman.server.dispatch import middleware
from dragoman.server.dispatch.dispatcher import Dispatcher
from dragoman.server.registry import Registry

MANY = 10_000


@pytest.fixture
def derivations(monkeypatch):
    """Count what is derived from all definitions, by the name of the function that derives it."""
    counts = dict.fromkeys(["derive", "derived_capabilities", "composed", "definitions"], 0)

    def count(owner, name):
        function = getattr(owner, name)

        def counted(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    count(Dispatcher, "derive")
    count(offering, "derived_capabilities")
    count(middleware, "composed")
    count(Registry, "definitions")
    return counts


def nothing() -> str:
    return ""


@pytest.mark.parametrize(
    "make",
    [
        lambda name: tool(name=name)(nothing),
        lambda name: prompt(name=name)(nothing),
        lambda name: resource(f"data://{name}")(nothing),
        lambda name: resource(f"data://{name}/{{id}}", name=name)(lambda id: id),
    ],
    ids=["tools", "prompts", "resources", "templates"],
)
def test_registering_one_at_a_time_derives_nothing_of_the_others(derivations, make):
    server = Server()
    add = {"Tool": server.add_tool, "Prompt": server.add_prompt}
    made = [make(f"n{number}") for number in range(MANY // 10)]
    before = dict(derivations)
    for definition in made:
        add.get(type(definition).__name__, server.add_resource)(definition)
    assert derivations == before


def test_ten_thousand_tools_are_registered_with_no_derivation(derivations):
    server, before = Server(), dict(derivations)
    for number in range(MANY):
        server.tool(name=f"n{number}")(nothing)
    assert derivations == {**before, "derive": before["derive"]}
    assert len(server.tools) == MANY


def test_the_first_definition_that_changes_a_fact_is_derived_from_and_the_next_is_not(derivations):
    server = Server()
    server.tool(name="seen", visible=lambda ctx: True)(nothing)
    first = derivations["derive"]
    server.add_tool(tool(name="seen_too", visible=lambda ctx: True)(nothing))
    assert derivations["derive"] == first
    server.middleware(_around)
    assert derivations["derive"] == first
    assert derivations["composed"] >= 1


async def _around(ctx, call_next):
    return await call_next()


def test_a_registration_clears_only_its_own_list():
    server = Server(tools=[tool(nothing)], prompts=[prompt(name="p")(nothing)])
    pages = {method: listing._pages for method, listing in server.registry.listings.items()}
    server.add_tool(tool(name="other")(nothing))
    cleared = [method for method, listing in server.registry.listings.items() if listing._pages is not pages[method]]
    assert cleared == ["tools/list"]
