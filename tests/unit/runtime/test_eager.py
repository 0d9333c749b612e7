"""Coroutines share a task until one of them waits; none notices the others."""

import asyncio
import contextlib
import gc
import inspect
import sys
import weakref
from contextvars import ContextVar, copy_context

import pytest

from dragoman.runtime import eager
from dragoman.runtime.eager import EagerRunner
from unit.loops import DEADLINE, in_a_loop

MINE = ContextVar("MINE", default="nobody's")


def as_it_is(job):
    return job


class Jobs:
    """Starts coroutines, and notes which task each began and ended in."""

    def __init__(self):
        self.relay = EagerRunner(asyncio.get_running_loop(), as_it_is)
        self.began = {}
        self.ended = {}
        self.failed = {}
        self._all_ended = asyncio.Event()
        self._started = 0

    def start(self, name, work=None):
        self.relay.run(iter((self.counted(name, work),)))

    def counted(self, name, work=None):
        self._started += 1
        self._all_ended.clear()
        return self._run(name, work)

    async def _run(self, name, work):
        self.began[name] = asyncio.current_task()
        try:
            if work is not None:
                await work()
        except BaseException as error:
            self.failed[name] = type(error)
        self.ended[name] = asyncio.current_task()
        if len(self.ended) == self._started:
            self._all_ended.set()

    async def done(self):
        await self._all_ended.wait()


async def pause():
    await asyncio.sleep(0)


@in_a_loop
async def test_coroutines_that_do_not_wait_share_one_task_in_the_order_they_were_started_in():
    jobs = Jobs()
    for number in range(100):
        jobs.start(number)
    await jobs.done()
    assert list(jobs.ended) == list(range(100))
    assert len(set(jobs.began.values())) == 1


@in_a_loop
async def test_each_is_made_when_the_one_before_has_ended_or_waits():
    jobs = Jobs()
    order = []

    def made():
        for name in ("first", "second", "third"):
            order.append(f"made {name}")
            yield jobs.counted(name, pause if name == "second" else None)

    jobs.relay.run(made())
    assert order == ["made first", "made second", "made third"]
    assert list(jobs.ended) == ["first", "third"]
    assert not jobs.relay.is_pending
    await jobs.done()


@in_a_loop
async def test_what_comes_while_one_is_begun_waits_for_its_turn_even_in_another_context():
    jobs = Jobs()
    order = []

    def made(*names):
        for name in names:
            order.append(name)
            yield jobs.counted(name, bring if name == "first" else None)

    def start(name):
        MINE.set(name)
        jobs.relay.run(made(name))

    async def bring():
        jobs.relay.run(made("third"))
        copy_context().run(start, "fourth")
        assert jobs.relay.is_pending
        assert order == ["first"]

    jobs.relay.run(made("first", "second"))
    assert order == ["first", "second", "third", "fourth"]
    assert jobs.failed == {}
    assert len(set(jobs.began.values())) == 1
    await jobs.done()


@pytest.mark.parametrize("way", ["a future", "a pause"])
@in_a_loop
async def test_a_cancellation_before_its_task_has_begun_keeps_its_message(way):
    said = []

    async def wait():
        try:
            await (asyncio.get_running_loop().create_future() if way == "a future" else asyncio.sleep(0))
        except asyncio.CancelledError as cancelled:
            said.append(cancelled.args)

    async def work():
        tasks.append(asyncio.current_task())
        await wait()

    tasks = []
    EagerRunner(asyncio.get_running_loop(), as_it_is).run(iter((work(),)))
    tasks[0].cancel("not wanted any more")
    await asyncio.wait(tasks)
    assert said == [("not wanted any more",)]


@in_a_loop
async def test_whoever_brings_them_is_the_current_task_again():
    jobs = Jobs()
    mine = asyncio.current_task()
    for number in range(4):
        jobs.start(number, pause if number % 2 else None)
        assert asyncio.current_task() is mine
    asyncio.get_running_loop().call_soon(jobs.start, "from a callback")
    await jobs.done()
    assert mine not in jobs.began.values()


@in_a_loop
async def test_who_comes_after_more_than_a_moment_waits_for_a_turn_of_the_loop(monkeypatch):
    jobs = Jobs()
    jobs.start("first")
    monkeypatch.setattr(eager, "MAX_SPARE_SECONDS", -1)
    jobs.start("second")
    jobs.start("third", pause)
    jobs.start("fourth")
    assert list(jobs.ended) == ["first"]
    assert jobs.relay.is_pending
    await jobs.done()
    assert sorted(jobs.ended) == ["first", "fourth", "second", "third"]
    assert jobs.began["first"] is jobs.began["second"] is jobs.ended["third"]
    assert jobs.began["fourth"] is not jobs.began["third"]
    assert not jobs.relay.is_pending


@in_a_loop
async def test_what_is_brought_by_one_that_was_begun_at_once_waits_for_a_turn_of_the_loop():
    depths = []

    async def deepen(levels):
        depths.append(len(inspect.stack(0)))
        if levels:
            ended = asyncio.get_running_loop().create_future()

            async def inner():
                await deepen(levels - 1)
                ended.set_result(None)

            EagerRunner(asyncio.get_running_loop(), as_it_is).run(iter((inner(),)))
            await ended

    jobs = Jobs()
    jobs.start("outermost", lambda: deepen(50))
    await jobs.done()
    assert jobs.failed == {}
    assert len(depths) == 51
    assert max(depths) < min(depths) + 20


@pytest.mark.parametrize("when", ["before its task began", "later"])
@in_a_loop
async def test_one_that_cancels_its_own_task_notices_where_it_waits(when):
    jobs = Jobs()

    async def cancel_oneself():
        if when == "later":
            await pause()
        asyncio.current_task().cancel()
        await asyncio.Event().wait()

    jobs.start("cancels itself", cancel_oneself)
    jobs.start("next")
    await jobs.done()
    assert jobs.failed == {"cancels itself": asyncio.CancelledError}


@in_a_loop
async def test_nothing_is_started_for_nothing():
    relay = EagerRunner(asyncio.get_running_loop(), as_it_is)
    before = asyncio.all_tasks()
    relay.run(iter(()))
    assert not relay.is_pending
    assert asyncio.all_tasks() == before


@in_a_loop
async def test_one_that_waits_keeps_its_task_and_the_others_have_another():
    jobs = Jobs()
    released = asyncio.Event()
    jobs.start("before")
    jobs.start("waits", released.wait)
    jobs.start("after")
    while "after" not in jobs.ended:
        await pause()
    assert "waits" not in jobs.ended
    released.set()
    await jobs.done()
    assert jobs.began["before"] is jobs.began["waits"] is jobs.ended["waits"]
    assert jobs.began["after"] is not jobs.began["waits"]


@in_a_loop
async def test_of_many_that_wait_each_has_a_task():
    jobs = Jobs()
    released = asyncio.Event()
    for number in range(50):
        jobs.start(number, released.wait)
    await pause()
    await pause()
    assert len(set(jobs.began.values())) == 50
    released.set()
    await jobs.done()
    assert jobs.began == jobs.ended


@in_a_loop
async def test_those_after_one_that_waits_share_a_task_again():
    jobs = Jobs()
    jobs.start("waits", pause)
    jobs.start("with another")
    jobs.start("the other")
    await jobs.done()
    assert jobs.began["with another"] is jobs.began["the other"] is not jobs.began["waits"]


@in_a_loop
async def test_a_time_limit_of_one_is_no_limit_of_the_next():
    jobs = Jobs()

    async def limited():
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    async def finished():
        pass

    async def quick():
        async with asyncio.timeout(0.001):
            await finished()

    jobs.start("quick", quick)
    jobs.start("limited", limited)
    jobs.start("after", lambda: asyncio.sleep(0.05))
    await jobs.done()
    assert jobs.failed == {"limited": TimeoutError}


@in_a_loop
async def test_a_cancellation_reaches_the_one_that_waits_and_no_other():
    jobs = Jobs()
    jobs.start("before")
    jobs.start("cancelled", asyncio.Event().wait)
    jobs.start("after", lambda: asyncio.sleep(0.01))
    while "after" not in jobs.began:
        await pause()
    jobs.began["cancelled"].cancel()
    await jobs.done()
    assert jobs.failed == {"cancelled": asyncio.CancelledError}


@in_a_loop
async def test_a_cancellation_that_came_too_late_for_one_is_not_for_the_next():
    jobs = Jobs()

    async def cancel_oneself():
        asyncio.current_task().cancel()

    jobs.start("cancels itself", cancel_oneself)
    jobs.start("next", pause)
    jobs.start("last")
    await jobs.done()
    assert jobs.failed == {}
    assert jobs.began["next"] is not jobs.began["cancels itself"]


@in_a_loop
async def test_many_may_wait_for_the_same():
    jobs = Jobs()
    shared = asyncio.ensure_future(asyncio.sleep(0.01, "shared"))
    got = []

    async def wait():
        got.append(await shared)

    for number in range(4):
        jobs.start(number, wait)
    jobs.start("another", lambda: asyncio.wait_for(shared, DEADLINE))
    await jobs.done()
    assert jobs.failed == {}
    assert got == ["shared"] * 4


@pytest.mark.parametrize("takes_it_back", [False, True])
@in_a_loop
async def test_a_task_that_is_cancelled_when_nothing_runs_in_it_is_not_for_the_next(takes_it_back):
    jobs = Jobs()
    jobs.start("first")
    jobs.began["first"].cancel()
    if takes_it_back:
        jobs.began["first"].uncancel()
    jobs.start("next", pause)
    await jobs.done()
    assert jobs.failed == {}


@pytest.mark.parametrize("turns", range(3))
@in_a_loop
async def test_whoever_waits_for_a_task_cancels_it_when_it_is_cancelled(turns):
    jobs = Jobs()
    child = asyncio.ensure_future(asyncio.sleep(DEADLINE))

    async def wait():
        await child

    jobs.start("waits", wait)
    for _ in range(turns):
        await pause()
    jobs.began["waits"].cancel()
    await jobs.done()
    assert jobs.failed == {"waits": asyncio.CancelledError}
    assert child.cancelled()


@in_a_loop
async def test_an_exception_of_whoever_brings_them_is_not_seen():
    jobs = Jobs()
    seen = []

    async def look():
        seen.append(sys.exc_info()[1])

    with contextlib.suppress(ValueError):
        try:
            int("not theirs")
        finally:
            jobs.start("in a handler", look)
            await jobs.done()
    assert seen == [None]


@in_a_loop
async def test_one_may_go_on_after_its_cancellation():
    jobs = Jobs()
    went_on = []

    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await pause()
            went_on.append(True)

    jobs.start("stubborn", stubborn)
    await pause()
    jobs.began["stubborn"].cancel()
    await jobs.done()
    assert went_on == [True]
    assert jobs.failed == {}


@pytest.mark.parametrize("then", [None, pause], ids=["at once", "later"])
@in_a_loop
async def test_context_variables_that_one_sets_are_not_seen_by_the_next(then):
    jobs = Jobs()
    seen = []

    async def look_and_set():
        seen.append(MINE.get())
        MINE.set("somebody's")
        if then is not None:
            await then()
        seen.append(MINE.get())

    for number in range(3):
        jobs.start(number, look_and_set)
    await jobs.done()
    assert sorted(seen) == ["nobody's"] * 3 + ["somebody's"] * 3
    assert MINE.get() == "nobody's"


@in_a_loop
async def test_each_sees_the_context_that_it_was_started_in():
    jobs = Jobs()
    seen = {}

    def start(name):
        async def look():
            seen[name] = MINE.get()

        MINE.set(name)
        jobs.start(name, look)

    for name in ("Ada's", "Grace's"):
        copy_context().run(start, name)
    await jobs.done()
    assert seen == {"Ada's": "Ada's", "Grace's": "Grace's"}


@pytest.mark.parametrize("then", [None, pause], ids=["at once", "later"])
@in_a_loop
async def test_values_that_are_equal_are_not_taken_for_each_other(then):
    jobs = Jobs()
    given, found = {}, {}

    def start(name):
        async def look():
            found[name] = MINE.get()
            if then is not None:
                await then()
            found[name, "later"] = MINE.get()

        given[name] = {}
        MINE.set(given[name])
        jobs.start(name, look)

    for name in ("Ada's", "Grace's", "Mary's"):
        copy_context().run(start, name)
    await jobs.done()
    for name, value in given.items():
        assert found[name] is value
        assert found[name, "later"] is value


@in_a_loop
async def test_a_task_that_is_cancelled_before_it_began_keeps_nothing_from_being_run():
    jobs = Jobs()
    before = asyncio.all_tasks()
    jobs.start("one")
    jobs.start("two")
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await jobs.done()
    jobs.start("three")
    await jobs.done()
    assert list(jobs.ended) == ["one", "two", "three"]


@in_a_loop
async def test_what_cannot_be_made_harms_nobody_who_waits(monkeypatch):
    jobs = Jobs()
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def made(name):
        yield jobs.counted(name, pause)
        raise LookupError("nothing more")

    with pytest.raises(LookupError):
        jobs.relay.run(made("at once"))
    monkeypatch.setattr(eager, "MAX_SPARE_SECONDS", -1)
    jobs.start("first")
    jobs.relay.run(made("later"))
    jobs.start("next")
    await jobs.done()
    assert sorted(jobs.ended) == ["at once", "first", "later", "next"]
    assert [type(error) for error in reported] == [LookupError]


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="tasks are eager from Python 3.12 on")
@in_a_loop
async def test_tasks_that_begin_at_once_are_as_good():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    jobs = Jobs()
    for number in range(3):
        jobs.start(number, pause if number == 1 else None)
    await jobs.done()
    assert sorted(jobs.ended) == [0, 1, 2]


def test_one_that_still_waits_when_its_loop_is_gone_is_closed():
    closed = []

    async def wait():
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            closed.append(True)
            raise

    loop = asyncio.new_event_loop()

    async def scenario():
        EagerRunner(loop, as_it_is).run(iter((wait(),)))
        await pause()

    loop.run_until_complete(scenario())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    for task in tasks:
        task._log_destroy_pending = False
    del tasks, task
    gc.collect()
    assert closed == [True]


@in_a_loop
async def test_whoever_brought_something_is_not_held_on_to():
    jobs = Jobs()

    async def bring(name, work=None):
        jobs.start(name, work)

    for name, work in (("at once", None), ("waits", pause)):
        bringing = asyncio.create_task(bring(name, work))
        await bringing
        task = weakref.ref(bringing)
        del bringing
        await pause()
        assert task() is None
    await jobs.done()


def test_an_interruption_while_pending_work_is_begun_does_not_keep_what_comes_later_waiting():
    begun = []

    def begin(name):
        if name == "interrupts":
            raise KeyboardInterrupt
        begun.append(name)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # asyncio would report the interruption whenever garbage is collected
    relay = EagerRunner(loop, begin)

    async def bring_while_an_exception_is_handled():
        try:
            {}["nothing"]
        except KeyError:
            relay.run(["first", "interrupts", "lost"])
        assert relay.is_pending
        await asyncio.Event().wait()

    async def bring_more():
        relay.run(["second"])
        await pause()
        relay.run(["third"])
        assert not relay.is_pending

    interrupted = loop.create_task(bring_while_an_exception_is_handled())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(interrupted)
    loop.run_until_complete(bring_more())
    assert begun == ["first", "second", "third"]
    interrupted.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(interrupted)
    loop.close()


@in_a_loop
async def test_what_comes_after_one_that_closes_comes_to_nothing():
    begun = []

    def begin(name):
        begun.append(name)
        relay.close()

    relay = EagerRunner(asyncio.get_running_loop(), begin)
    relay.run(["closes", "later"])
    assert begun == ["closes"]


@in_a_loop
async def test_what_comes_to_a_closed_one_comes_to_nothing_also_what_was_pending():
    begun = []
    relay = EagerRunner(asyncio.get_running_loop(), begun.append)
    try:
        {}["nothing"]
    except KeyError:
        relay.run(["pending"])
    relay.close()
    relay.run(["late"])
    while relay.is_pending:
        await pause()
    assert begun == []
