"""What `from dragoman import Server` costs: most servers are started by a client that waits for them."""

import statistics

from budgets.test_imports import modules_after, seconds_to


def test_a_server_is_imported_without_asyncio_or_anything_that_only_some_servers_need():
    loaded = modules_after("from dragoman import Server")
    assert not loaded & {
        "asyncio",
        "logging",
        "ssl",
        "subprocess",
        "aiohttp",
        "uvicorn",
        "click",
        "rich",
        "jsonschema_rs",
    }


def test_a_server_is_imported_with_at_most_150_modules_beyond_the_interpreter():
    assert len(modules_after("from dragoman import Server") - modules_after("pass")) <= 150


def test_importing_a_server_takes_at_most_twice_as_long_as_importing_msgspec():
    seconds_to("from dragoman import Server")
    ratios = [seconds_to("from dragoman import Server") / seconds_to("import msgspec") for _ in range(9)]
    assert statistics.median(ratios) <= 2, sorted(ratios)
