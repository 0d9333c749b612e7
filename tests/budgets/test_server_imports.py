"""What `from dragoman import Server` costs: most servers are started by a client that waits for them."""

from budgets.test_imports import modules_after


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
