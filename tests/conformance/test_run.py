"""The judge of the official suite: what it lets pass, and what it does not."""

from conformance.run import Outcome, judge, reason_for, verdicts

EXCUSED = {"slow": "the suite is wrong about it"}


def outcome(*checks, scenario="ping"):
    listed = [{"id": name, "status": status} for name, status in checks]
    return judge(Outcome("server", scenario, "2025-11-25"), listed, EXCUSED)


def test_a_scenario_passes_when_something_was_checked_and_nothing_is_wrong():
    found = outcome(("a", "SUCCESS"), ("b", "INFO"), ("c", "SKIPPED"), ("wire-schema-valid", "SUCCESS"))
    assert not found.problems
    assert found.passed == 2


def test_a_failure_fails():
    assert outcome(("a", "SUCCESS"), ("b", "FAILURE")).problems


def test_a_warning_fails_unless_it_is_excused_by_name():
    assert outcome(("a", "SUCCESS"), ("b", "WARNING")).problems
    assert not outcome(("a", "SUCCESS"), ("slow", "WARNING")).problems


def test_a_scenario_in_which_nothing_was_checked_fails():
    assert outcome().problems == ["nothing was checked"]
    assert outcome(("a", "SKIPPED"), ("wire-schema-valid", "SUCCESS")).problems == ["nothing was checked"]


def test_what_is_not_built_may_fail_but_must_not_pass():
    not_built = {"server:tasks-*": "not built"}
    failing = outcome(("a", "FAILURE"), scenario="tasks-lifecycle")
    passing = outcome(("a", "SUCCESS"), scenario="tasks-lifecycle")
    assert verdicts([failing], not_built) == []
    assert len(verdicts([passing], not_built)) == 1
    assert len(verdicts([failing], {})) == 1


def test_a_reason_is_found_by_role_and_name():
    assert reason_for(outcome(scenario="tasks-x"), {"client:tasks-*": "no"}) is None
    assert reason_for(outcome(scenario="ping"), {"server:ping": "no"}) == "no"
    assert reason_for(outcome(scenario="ping-pong"), {"server:ping": "no"}) is None
