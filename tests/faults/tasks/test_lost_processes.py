"""Processes that are killed, paused and stopped while they run tasks, on Local and on Redis."""

import signal
import time
import urllib.error
from http import HTTPStatus
from pathlib import Path

import pytest

from faults.tasks.crew import Member, counted, until
from redis_server import RedisServer

LEASE = 1.0
STEPS = 5
SECONDS = 0.3
TASKS = 8


@pytest.fixture(params=["local", "redis"])
def store(request, tmp_path):
    if request.param == "local":
        yield "local"
        return
    with RedisServer(tmp_path / "redis") as redis:
        yield redis.url


@pytest.fixture
def crew(store, tmp_path):
    members = [Member(tmp_path, store, LEASE) for _ in range(2)]
    yield members
    for member in members:
        member.end()


def started(crew, tool, steps=STEPS, seconds=SECONDS):
    """Start as many tasks in each process, and wait until each has begun its first step."""
    tasks = {}
    for number in range(TASKS):
        tasks[f"t{number}"] = crew[number % 2].start(tool, name=f"t{number}", steps=steps, seconds=seconds)
    until(lambda: len(counted(crew[0].steps(), "begun")) >= TASKS, "each task has begun")
    return tasks


@pytest.mark.covers("TKS-13")
def test_after_a_kill_another_process_goes_on_and_runs_no_finished_step_again(crew):
    tasks = started(crew, "repeatable")
    lost, survivor = crew
    finished_before = counted(lost.steps(), "done")
    lost.kill()
    began = time.monotonic()
    for name, id in tasks.items():
        task = survivor.ended(id)
        assert task["status"] == "completed", task
        assert task["result"]["content"][0]["text"] == f"{name} {sum(range(STEPS))}"
    assert time.monotonic() - began < 15
    begun = counted(survivor.steps(), "begun")
    assert len(begun) == TASKS * STEPS
    assert all(begun[step] == 1 for step in finished_before)
    assert sum(count - 1 for count in begun.values()) <= TASKS // 2  # the steps in flight of the lost process


@pytest.mark.covers("TKS-13")
def test_after_a_kill_a_tool_that_must_not_run_twice_fails(crew):
    tasks = started(crew, "once")
    lost, survivor = crew
    lost.kill()
    ended = {name: survivor.ended(id) for name, id in tasks.items()}
    failed = {name for name, task in ended.items() if task["status"] == "failed"}
    assert failed == {f"t{number}" for number in range(0, TASKS, 2)}
    for name in failed:
        assert ended[name]["error"]["code"] == -32603
        assert "may have run" in ended[name]["error"]["message"]
    assert set(counted(survivor.steps(), "begun").values()) == {1}


@pytest.mark.covers("TKS-13")
def test_a_question_survives_the_process_that_asked_it(crew):
    lost, survivor = crew
    id = lost.start("ask", name="a")
    until(lambda: lost.get(id)["status"] == "input_required", "the task asks")
    lost.kill()
    survivor.answer(id, True)
    task = survivor.ended(id)
    assert task["result"]["content"][0]["text"] == "a True"


@pytest.mark.covers("TKS-10", "TKS-13")
def test_a_subscriber_of_one_process_hears_of_tasks_that_others_run_and_lose(crew):
    lost, survivor = crew
    id = lost.start("repeatable", name="s", steps=3, seconds=SECONDS)
    messages = survivor.listen(id)
    assert next(messages)["params"]["notifications"] == {"taskIds": [id]}
    assert next(messages)["params"]["status"] == "working"
    lost.kill()
    heard = []
    for message in messages:
        heard.append(message["params"])
        if message["params"]["status"] != "working":
            break
    messages.close()
    assert heard[-1]["status"] == "completed"
    assert {one["taskId"] for one in heard} == {id}
    assert any("the tool runs again" in one.get("statusMessage", "") for one in heard)


@pytest.mark.covers("TKS-14")
def test_a_process_that_was_paused_too_long_cannot_change_the_task(crew):
    paused, other = crew
    id = paused.start("repeatable", name="p", steps=STEPS, seconds=SECONDS)
    until(lambda: ("p", "1") in counted(paused.steps(), "begun"), "the second step runs")
    paused.signal(signal.SIGSTOP)
    task = other.ended(id)
    assert task["status"] == "completed"
    before = other.steps()
    paused.signal(signal.SIGCONT)
    until(lambda: paused.runs() == 0, "it has given the task up")
    assert paused.get(id) == task
    # The step that ran when the process was paused may go on to its end. No other step begins, and none runs thrice.
    pid = str(paused.process.pid)
    assert other.steps()[len(before) :] in ([], [[pid, "done", "p", "1"]])
    assert [step for step in before if step[0] == pid] == [
        [pid, "begun", "p", "0"],
        [pid, "done", "p", "0"],
        [pid, "begun", "p", "1"],
    ]
    assert counted(before, "begun") == {("p", str(number)): 1 + (number == 1) for number in range(STEPS)}


@pytest.mark.e2e
@pytest.mark.covers("TKS-14")
def test_of_a_process_that_is_paused_at_any_moment_only_the_step_in_flight_runs_on(tmp_path):
    with RedisServer(tmp_path / "redis") as redis:
        crew = [Member(tmp_path, redis.url, 0.5) for _ in range(2)]
        try:
            paused, other = crew
            for number in range(20):
                name = f"p{number}"
                id = paused.start("repeatable", name=name, steps=150, seconds=0)
                step = name, str(5 * number)
                until(lambda step=step: step in counted(paused.steps(), "begun"), "it runs")
                paused.signal(signal.SIGSTOP)
                assert other.ended(id)["status"] == "completed"
                before = other.steps()
                paused.signal(signal.SIGCONT)
                until(lambda: paused.runs() == 0, "it has given the task up")
                late = other.steps()[len(before) :]
                # A process that is paused within the first line of a step notes the step late.
                mine = [step for step in before if step[0] == str(paused.process.pid) and step[2] == name]
                in_flight = str(len([step for step in mine if step[1] == "done"]))
                assert {step[3] for step in late} <= {in_flight}
                assert max(counted(other.steps(), "begun").values()) <= 2
        finally:
            for member in crew:
                member.end()


@pytest.mark.covers("TKS-15")
def test_a_process_that_is_stopped_gives_its_tasks_to_another(tmp_path):
    crew = [Member(tmp_path, "local", 30) for _ in range(2)]
    try:
        stopped, other = crew
        again = stopped.start("repeatable", name="r", steps=40, seconds=0.3)
        never = stopped.start("once", name="o", steps=40, seconds=0.3)
        until(lambda: len(counted(stopped.steps(), "done")) >= 2, "both have done a step")
        stopped.signal(signal.SIGTERM)
        stopped.process.wait(30)
        assert other.get(again)["status"] == "working"
        until(lambda: any(step[0] == str(other.process.pid) for step in other.steps()), "the other process goes on", 5)
        task = other.ended(never)
        assert (task["status"], task["error"]["code"]) == ("failed", -32603)
        assert "was stopped" in task["error"]["message"]
        assert set(counted(other.steps(), "done").values()) == {1}
    finally:
        for member in crew:
            member.end()


@pytest.mark.covers("TKS-16")
def test_a_redis_that_comes_back_has_lost_nothing(tmp_path: Path):
    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as redis:
        member = Member(tmp_path, redis.url, LEASE)
        try:
            tasks = [member.start("repeatable", name=f"t{number}", steps=STEPS, seconds=0.2) for number in range(4)]
            until(lambda: len(counted(member.steps(), "done")) >= 4, "steps are done")
            redis.kill()
            redis.start()
            for number, id in enumerate(tasks):
                task = until(lambda id=id: ended_if_there(member, id), f"t{number} ends")
                assert task["status"] == "completed"
            assert set(counted(member.steps(), "begun").values()) == {1}
        finally:
            member.end()


def ended_if_there(member: Member, id: str):
    """Return a task that has ended; None while it has not, or while the store cannot be reached."""
    try:
        task = member.request("tasks/get", id, taskId=id).get("result")
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        raise
    return task if task is not None and task["status"] == "completed" else None
