from functools import partial

import pytest

import dragoman
from dragoman import Configuration, DefinitionError
from dragoman.config import CLIENT_OPTIONS, PROCESS, PROTOCOL_VERSIONS, ConfigurationOptions, is_async
from dragoman.protocol.versions import VERSIONS, version_names


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(PROCESS, "configuration", Configuration())


async def around(data, call_next):
    await call_next()


def report(error, info):
    """Hear of nothing."""


class Callable:
    def __call__(self, error, info):
        """Hear of nothing."""


class AsyncCallable:
    async def __call__(self, data, call_next):
        await call_next()


@pytest.mark.covers("CFG-01")
def test_what_a_server_says_stands_above_the_defaults():
    defaults = Configuration(exception_reporter=report, validate_tool_call_results=True, protocol_version="2025-11-25")
    merged = Configuration(validate_tool_call_results=False).over(defaults)
    assert merged == Configuration(
        exception_reporter=report, validate_tool_call_results=False, protocol_version="2025-11-25"
    )


@pytest.mark.covers("CFG-01")
def test_configuring_adds_to_what_was_configured_and_none_takes_it_back():
    dragoman.configure(exception_reporter=report)
    dragoman.configure(validate_tool_call_results=True)
    assert PROCESS.configuration == Configuration(exception_reporter=report, validate_tool_call_results=True)
    dragoman.configure(exception_reporter=None)
    assert PROCESS.configuration == Configuration(validate_tool_call_results=True)


@pytest.mark.covers("CFG-14")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"instrument_server_context": 1}, "instrument_server_context must be True or False, not 1"),
        ({"validate_tool_call_arguments": "yes"}, "validate_tool_call_arguments must be True or False, not 'yes'"),
        ({"validate_tool_call_results": 0}, "validate_tool_call_results must be True or False, not 0"),
        ({"exception_reporter": "log"}, "exception_reporter must be callable, not 'log'"),
        ({"instrumentation_callback": 3}, "instrumentation_callback must be callable, not 3"),
        ({"around_request": []}, r"around_request must be callable, not \[\]"),
        ({"around_request": report}, r"around_request must be async, .*async def around\(data, call_next\)"),
        ({"exception_reporter": around}, r"exception_reporter must not be async, .*def report\(error, info\)"),
        ({"protocol_version": 2025}, "There is no protocol version 2025; there are 2026-07-28, 2025-11-25"),
        ({"protocol_version": "nonsense"}, "There is no protocol version 'nonsense'; there are 2026-07-28, 2025-11-25"),
    ],
)
@pytest.mark.parametrize("configure", [Configuration, dragoman.configure])
def test_a_value_that_does_not_fit_is_refused_and_changes_nothing(configure, options, said):
    with pytest.raises(DefinitionError, match=said):
        configure(**options)
    assert PROCESS.configuration == Configuration()


@pytest.mark.covers("CFG-14")
def test_an_option_that_does_not_exist_is_refused_and_those_that_do_are_named():
    with pytest.raises(DefinitionError, match=r"no option 'reporter'; there are exception_reporter, around_request"):
        dragoman.configure(reporter=report)


@pytest.mark.covers("CFG-14")
def test_a_configuration_is_filled_attribute_by_attribute_and_each_value_is_checked():
    configuration = Configuration()
    configuration.exception_reporter = report
    assert configuration == Configuration(exception_reporter=report)
    with pytest.raises(DefinitionError, match="There is no protocol version 'nonsense'"):
        configuration.protocol_version = "nonsense"
    with pytest.raises(DefinitionError, match="There is no option 'reporter'; there are exception_reporter"):
        configuration.reporter = report
    assert configuration == Configuration(exception_reporter=report)


def test_the_versions_that_can_be_configured_are_those_that_are_spoken():
    assert list(PROTOCOL_VERSIONS) == version_names(VERSIONS)


@pytest.mark.parametrize("function", [around, AsyncCallable(), partial(around, {})])
def test_functions_methods_objects_and_partials_may_be_async(function):
    assert is_async(function)


@pytest.mark.parametrize("function", [report, Callable(), partial(report, None), print])
def test_others_are_not(function):
    assert not is_async(function)


def test_configure_takes_the_fields_of_a_configuration():
    assert tuple(ConfigurationOptions.__annotations__) == (*Configuration.__struct_fields__, *CLIENT_OPTIONS)
