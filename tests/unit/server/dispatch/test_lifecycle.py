"""What is entered before a server serves, and left afterwards, in one loop."""

import asyncio
import logging
from contextlib import asynccontextmanager

from dragoman import Server
from dragoman.server.dispatch import lifecycle
from dragoman.server.dispatch.lifecycle import Lifecycle, Managers


class Scope:
    """A context manager that notes what happens to it."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.may_enter, self.may_leave = asyncio.Event(), asyncio.Event()
        self.may_enter.set()
        self.may_leave.set()

    @asynccontextmanager
    async def manager(self):
        await self.may_enter.wait()
        self.happened.append("entered")
        yield
        self.happened.append("leaving")
        await self.may_leave.wait()
        self.happened.append("left")


def lifecycle_of(managers: Managers) -> Lifecycle:
    parts = Server().dispatcher
    return Lifecycle(None, parts.registry, parts.overrides, parts.report, managers)


def made(*scopes: Scope) -> Lifecycle:
    return lifecycle_of(lambda: [scope.manager() for scope in scopes])


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_server_without_anything_to_enter_has_no_values():
    server = Server(extensions=[])
    async with server.serving():
        assert server.lifecycle.values(asyncio.get_running_loop()) == {}


async def test_the_first_user_enters_and_the_last_one_leaves():
    scope = Scope()
    life = made(scope)
    for user in ("a", "b", "a"):
        await life.begin(user)
    assert scope.happened == ["entered"]
    await life.end("a")
    await life.end("unknown")
    assert scope.happened == ["entered"]
    await life.end("b")
    await life.end("b")
    assert scope.happened == ["entered", "leaving", "left"]
    await life.begin("c")
    await life.end("c")
    assert scope.happened == ["entered", "leaving", "left"] * 2


async def test_users_wait_until_all_is_entered_and_the_order_of_leaving_is_the_reverse():
    first, second = Scope(), Scope()
    happened = first.happened = second.happened
    second.may_enter.clear()
    life = made(first, second)
    users = [asyncio.create_task(life.begin(user)) for user in ("a", "b")]
    await turns()
    assert (happened, [user.done() for user in users]) == (["entered"], [False, False])
    second.may_enter.set()
    await asyncio.gather(*users)
    await life.end("a")
    await life.end("b")
    assert happened == ["entered", "entered", "leaving", "left", "leaving", "left"]


async def test_who_begins_while_the_last_user_leaves_enters_again():
    scope = Scope()
    life = made(scope)
    await life.begin("a")
    scope.may_leave.clear()
    leaving = asyncio.create_task(life.end("a"))
    await turns()
    beginning = asyncio.create_task(life.begin("b"))
    await turns()
    assert scope.happened == ["entered", "leaving"]
    scope.may_leave.set()
    await asyncio.gather(leaving, beginning)
    assert scope.happened == ["entered", "leaving", "left", "entered"]
    await life.end("b")


async def test_who_gives_up_waiting_leaves_nothing_entered():
    scope = Scope()
    scope.may_enter.clear()
    waiting = asyncio.create_task(made(scope).serving().__aenter__())
    await turns()
    waiting.cancel()
    await asyncio.wait([waiting])  # nobody waits until a slow manager is entered
    assert waiting.cancelled()
    assert scope.happened == []


async def test_what_cannot_be_entered_is_told_to_every_user_and_tried_again_by_the_next():
    scope, attempts = Scope(), []

    @asynccontextmanager
    async def failing():
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise KeyError("database")
        yield

    life = lifecycle_of(lambda: [scope.manager(), failing()])
    failed = await asyncio.gather(life.begin("a"), life.begin("b"), return_exceptions=True)
    assert [repr(error) for error in failed] == ["KeyError('database')"] * 2
    assert scope.happened == ["entered"]  # and left by the exception
    await life.begin("c")
    await life.end("c")
    assert attempts == [0, 1]


async def test_managers_are_entered_and_left_in_one_task():
    ended = []

    @asynccontextmanager
    async def grouped():
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.Event().wait())
            yield
            task.cancel()
        ended.append("group")

    life = lifecycle_of(lambda: [grouped()])
    await asyncio.create_task(life.begin("a"))
    await asyncio.create_task(life.end("a"))
    assert ended == ["group"]


async def test_what_fails_while_the_server_serves_is_reported(caplog):
    fails = asyncio.Event()

    async def fail() -> None:
        await fails.wait()
        raise KeyError("lost")

    @asynccontextmanager
    async def grouped():
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            yield

    life = lifecycle_of(lambda: [grouped()])
    await life.begin("a")
    fails.set()
    await turns()
    await life.end("a")
    assert [record.getMessage() for record in caplog.records] == [
        "Unexpected error in a lifespan or an extension, while the server serves"
    ]


async def test_what_does_not_end_is_cancelled(caplog, monkeypatch):
    monkeypatch.setattr(lifecycle, "LEAVE_SECONDS", 0.01)
    scope = Scope()
    scope.may_leave.clear()
    life = made(scope)
    await life.begin("a")
    with caplog.at_level(logging.WARNING):
        await life.end("a")
    assert scope.happened == ["entered", "leaving"]
    assert "did not end" in caplog.text


def test_a_loop_that_ends_leaves_what_was_entered_in_it_and_each_loop_enters_for_itself():
    scope: list[Scope] = []

    async def serve() -> None:
        scope.append(Scope())
        await life.begin_until_the_loop_ends()
        await life.begin_until_the_loop_ends()

    life = lifecycle_of(lambda: [scope[-1].manager()])
    for _ in range(2):
        asyncio.run(serve())
    assert [one.happened for one in scope] == [["entered", "leaving", "left"]] * 2
