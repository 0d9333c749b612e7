import asyncio
import dataclasses
import datetime as dt
import enum
import json
import logging
import threading
from concurrent.futures import Future
from types import MappingProxyType

import msgspec
import pydantic
import pytest

from dragoman import InvalidParams, ValidationError, types
from dragoman.client.answer.elicitation import Accept, Cancel, Decline, Elicitation, ElicitationRequest, result_of
from scenarios.http_peer import DEADLINE, scenario

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "minimum": 1, "default": 3},
    },
    "required": ["city"],
}
CANCELLED = types.ElicitResult("cancel")
DECLINED = types.ElicitResult("decline")


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Trip:
    city: str
    days: int | None = None


class TripStruct(msgspec.Struct):
    city: str
    days: int = 3


class TripRow(msgspec.Struct, array_like=True):
    city: str


class TripModel(pydantic.BaseModel):
    town: str = pydantic.Field(alias="city")
    days: int | None = None


def accepted(content):
    return types.ElicitResult("accept", content)


def form(**fields):
    return ElicitationRequest("Please", {"type": "object", "properties": fields})


def page():
    return ElicitationRequest("Sign in", mode="url", url="https://example.com/sign-in?a=1", elicitation_id="7")


def params(**said):
    return json.dumps({"message": "Where?", **said}).encode()


async def ask(handler, request=None, **options):
    return await Elicitation(handler, **options).answer(request or ElicitationRequest("Where?", SCHEMA))


@pytest.mark.covers("LEL-02")
def test_a_request_says_what_is_asked():
    request = Elicitation(print).read(params(mode="form", requestedSchema=SCHEMA), "weather")
    assert (request.message, request.schema, request.mode, request.server) == ("Where?", SCHEMA, "form", "weather")
    assert (request.url, request.elicitation_id, request.host) == (None, None, None)
    assert repr(request) == "<ElicitationRequest form 'Where?'>"


@pytest.mark.covers("LEL-02")
def test_no_mode_means_form():
    assert Elicitation(print).read(params(requestedSchema=SCHEMA)).mode == "form"


def test_a_page_to_visit_has_its_url_and_host():
    request = Elicitation(print).read(params(mode="url", url="https://Example.com:8443/a", elicitationId="7"))
    assert (request.mode, request.url, request.host) == ("url", "https://Example.com:8443/a", "example.com")
    assert request.elicitation_id == "7"
    assert request.defaults == {}


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{}",
        b"[]",
        b"nonsense",
        params(),
        params(mode="riddle", requestedSchema=SCHEMA),
        params(requestedSchema={"type": 5}),
        params(requestedSchema={"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}}),
        params(requestedSchema={"type": "object", "properties": {"a": {"pattern": "("}}}),
        params(mode="url"),
        params(mode="url", url="nowhere"),
        params(mode="url", url="javascript:alert(1)"),
        params(mode="url", url="file:///etc/passwd"),
        params(mode="url", url="https://["),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_before_the_user_sees_it(said):
    with pytest.raises(InvalidParams):
        Elicitation(print).read(said)


@pytest.mark.parametrize("schema", [{"type": 5}, {"title": "\ud800"}])
def test_a_schema_that_is_none_is_named(schema):
    with pytest.raises(ValidationError, match="The requestedSchema is not valid") as caught:
        ElicitationRequest("Please", schema)
    assert caught.value.path == "$.requestedSchema"


@pytest.mark.covers("LEL-07")
def test_a_mode_that_was_not_declared_is_refused():
    with pytest.raises(InvalidParams, match="does not handle elicitations of mode url"):
        Elicitation(print, handles_url=False).read(params(mode="url", url="https://example.com"))


@pytest.mark.covers("LEL-07")
def test_a_handler_says_whether_it_shows_pages():
    class Forms:
        handles_url = False

        def execute(self, request):
            return None

    assert Elicitation(print).capability() == types.ElicitationCapability(form={}, url={})
    assert Elicitation(Forms()).capability() == types.ElicitationCapability(form={})
    assert Elicitation(Forms(), handles_url=True).capability() == types.ElicitationCapability(form={}, url={})
    assert Elicitation(print, handles_url=False).capability() == types.ElicitationCapability(form={})


@pytest.mark.covers("CSR-02", "LEL-01")
@pytest.mark.parametrize(
    "answer",
    [
        {"city": "Oslo"},
        {"city": "Oslo", "days": None},
        MappingProxyType({"city": "Oslo"}),
        Trip("Oslo"),
        TripStruct("Oslo"),
        TripModel(city="Oslo"),
        Accept({"city": "Oslo"}),
        Accept(Trip("Oslo")),
        types.ElicitResult("accept", {"city": "Oslo"}),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_what_was_filled_in_accepts_with_the_defaults_for_the_rest(answer):
    request = ElicitationRequest("Where?", SCHEMA)
    assert result_of(request, answer) == accepted({"city": "Oslo", "days": 3})


@pytest.mark.covers("CSR-02")
def test_defaults_do_not_overwrite_what_was_filled_in():
    request = ElicitationRequest("Where?", SCHEMA)
    assert request.defaults == {"days": 3}
    assert request.apply_defaults({"days": 5}) == {"days": 5}
    assert result_of(request, {"city": "Oslo", "days": 5}) == accepted({"city": "Oslo", "days": 5})


def test_defaults_are_copies():
    request = form(tags={"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]})
    request.defaults["tags"].append("b")
    assert request.defaults == {"tags": ["a"]}


@pytest.mark.parametrize("schema", [{"type": "object"}, {"properties": {"a": True, "b": {"default": None}}}])
def test_a_form_without_defaults_has_none(schema):
    assert ElicitationRequest("Please", schema).defaults == {}


@pytest.mark.covers("LEL-01")
def test_true_accepts_a_form_as_its_defaults_are():
    request = form(days={"type": "integer", "default": 3})
    for answer in (True, Accept(), Accept):
        assert result_of(request, answer) == accepted({"days": 3})
    assert result_of(form(), True) == accepted({})


@pytest.mark.covers("LEL-01")
def test_true_cancels_a_form_that_its_defaults_do_not_satisfy(caplog):
    assert result_of(ElicitationRequest("Where?", SCHEMA), True) == CANCELLED
    assert '"city" is a required property' in caplog.text


@pytest.mark.covers("LEL-01")
@pytest.mark.parametrize("answer", [False, Decline(), Decline, types.ElicitResult("decline", {"city": "Oslo"})])
def test_false_declines(answer, caplog):
    assert result_of(ElicitationRequest("Where?", SCHEMA), answer) == DECLINED
    assert result_of(page(), answer) == DECLINED
    assert not caplog.records


@pytest.mark.covers("LEL-03")
@pytest.mark.parametrize("answer", [None, Cancel(), Cancel, types.ElicitResult("cancel")])
def test_none_cancels(answer, caplog):
    assert result_of(ElicitationRequest("Where?", SCHEMA), answer) == CANCELLED
    assert result_of(page(), answer) == CANCELLED
    assert not caplog.records


@pytest.mark.covers("LEL-03")
@pytest.mark.parametrize(
    "answer", ["Oslo", 5, [], Trip, TripModel, TripRow("Oslo"), object(), Accept("Oslo"), {"city": object()}]
)
def test_anything_else_cancels_with_a_warning(answer, caplog):
    assert result_of(ElicitationRequest("Where?", SCHEMA), answer) == CANCELLED
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("dragoman.client", logging.WARNING)


@pytest.mark.covers("LEL-01")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"city": "O"}, "city: "),
        ({"city": "Oslo", "days": 0}, "days: "),
        ({"city": "Oslo", "days": "many"}, "days: "),
        ({"days": 1}, '"city" is a required property'),
        ({"city": "Oslo", "nested": {"a": 1}}, "A form has text, numbers"),
        ({"city": "Oslo\ud800"}, "does not fit the form"),
    ],
)
def test_what_does_not_fit_the_form_cancels_and_the_log_says_why(answer, said, caplog):
    assert result_of(ElicitationRequest("Where?", SCHEMA), answer) == CANCELLED
    assert "does not fit the form" in caplog.text
    assert said in caplog.text


def test_the_log_does_not_tell_what_the_user_filled_in(caplog):
    request = form(email={"type": "string", "format": "email"}, days={"type": "integer"})
    assert result_of(request, {"email": "my secret", "days": "my secret"}) == CANCELLED
    assert "email: the value" in caplog.text
    assert "my secret" not in caplog.text


@pytest.mark.covers("LEL-02")
def test_content_can_be_compared_with_the_form_by_hand():
    request = ElicitationRequest("Where?", SCHEMA)
    request.validate({"city": "Oslo"})
    with pytest.raises(ValidationError, match="days: ") as caught:
        request.validate({"city": "Oslo", "days": 0})
    assert caught.value.path == "$.days"
    with pytest.raises(ValidationError, match="city") as caught:
        request.validate({})
    assert caught.value.path == "$"


@pytest.mark.parametrize(
    ("field", "fits", "misfits"),
    [
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd", 5, True, ["ab"]]),
        ({"type": "string", "format": "email"}, ["a@example.com"], ["nobody"]),
        ({"type": "string", "format": "uri"}, ["https://example.com/"], ["not a uri"]),
        ({"type": "string", "format": "date"}, ["2026-07-28", dt.date(2026, 7, 28)], ["28.7.2026"]),
        ({"type": "string", "format": "date-time"}, ["2026-07-28T12:00:00Z"], ["noon"]),
        ({"type": "number", "minimum": 0, "maximum": 1}, [0, 0.5, 1], [-1, 2, "0", float("nan")]),
        ({"type": "integer"}, [5, -5], [5.5, "5", False]),
        ({"type": "boolean"}, [True, False], ["true", 1]),
        ({"type": "string", "enum": ["red", "blue"], "enumNames": ["Red", "Blue"]}, ["red", Colour.RED], ["Red"]),
        ({"type": "string", "enum": ["red", "blue"]}, ["blue"], ["green"]),
        ({"type": "string", "oneOf": [{"const": "red", "title": "Red"}]}, ["red"], ["Red"]),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2},
            [["a"], ("a", "b")],
            [[], ["d"], ["a", "b", "c"], "a", [1]],
        ),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}},
            [["a", "b"], []],
            [["A"]],
        ),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_every_kind_of_field_is_checked(field, fits, misfits):
    request = form(value=field)
    assert [result_of(request, {"value": value}).action for value in fits] == ["accept"] * len(fits)
    assert [result_of(request, {"value": value}).action for value in misfits] == ["cancel"] * len(misfits)


@pytest.mark.covers("CSR-02")
def test_every_kind_of_field_has_its_default():
    request = form(
        text={"type": "string", "default": "a"},
        number={"type": "number", "default": 0.5},
        zero={"type": "integer", "default": 0},
        no={"type": "boolean", "default": False},
        choice={"type": "string", "enum": ["a", "b"], "default": "b"},
        titled={"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
        several={"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a", "b"]},
    )
    assert result_of(request, {}) == accepted(
        {"text": "a", "number": 0.5, "zero": 0, "no": False, "choice": "b", "titled": "a", "several": ["a", "b"]}
    )


@pytest.mark.covers("BEY-15")
@pytest.mark.parametrize("answer", [True, Accept(), Accept, Accept({"city": "Oslo"}), types.ElicitResult("accept")])
def test_consent_to_visit_a_page_has_no_content(answer):
    assert result_of(page(), answer) == types.ElicitResult("accept")


@pytest.mark.parametrize("answer", [{}, {"city": "Oslo"}, Trip("Oslo"), 1])
def test_what_fills_in_a_form_is_no_consent_to_visit_a_page(answer, caplog):
    assert result_of(page(), answer) == CANCELLED
    assert "return True or Accept() when the user agrees" in caplog.text


@scenario
async def test_a_plain_handler_may_block_without_holding_up_the_loop():
    entered, released = threading.Event(), threading.Event()

    def blocking(request):
        entered.set()
        assert released.wait(DEADLINE)
        return {"city": "Oslo"}

    answering = asyncio.create_task(ask(blocking))
    await asyncio.get_running_loop().run_in_executor(None, entered.wait, DEADLINE)
    released.set()
    assert (await answering).action == "accept"


@pytest.mark.covers("LHD-01")
@scenario
async def test_handlers_are_functions_or_objects_plain_or_async():
    class Executing:
        async def execute(self, request):
            return {"city": request.message}

    class Calling:
        def __call__(self, request):
            return {"city": request.message}

    async def asking(request):
        return {"city": request.message}

    for handler in (Executing(), Calling(), asking, lambda request: asking(request)):
        assert (await ask(handler)).content == {"city": "Where?", "days": 3}


@pytest.mark.covers("LEL-03", "LHD-04")
def test_a_handler_that_fails_cancels_and_is_logged(caplog):
    def failing(request):
        raise ValueError("the cause")

    assert asyncio.run(ask(failing)) == CANCELLED
    assert [(record.name, record.levelno) for record in caplog.records] == [("dragoman.client", logging.ERROR)]
    assert "the cause" in caplog.text


@pytest.mark.covers("LEL-04", "LHD-06")
@scenario
async def test_a_handler_may_return_a_future_that_is_completed_elsewhere():
    future = Future()
    threading.Timer(0, future.set_result, [{"city": "Oslo"}]).start()
    assert (await ask(lambda request: future)).content == {"city": "Oslo", "days": 3}


@pytest.mark.covers("LEL-04")
@scenario
async def test_a_future_that_is_cancelled_cancels_the_question():
    future = Future()
    future.cancel()
    assert await ask(lambda request: future) == CANCELLED


@pytest.mark.covers("LEL-04")
@scenario
async def test_a_question_that_the_server_takes_back_ends_its_handler():
    entered, ended = asyncio.Event(), asyncio.Event()

    async def waiting(request):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    answering = asyncio.create_task(ask(waiting))
    await entered.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert ended.is_set()


@pytest.mark.covers("LEL-05", "LHD-05")
@pytest.mark.parametrize("kind", ["async", "future", "blocking"])
def test_every_way_to_wait_has_the_same_deadline(kind, caplog):
    released = threading.Event()

    async def waiting(request):
        await asyncio.Event().wait()

    handlers = {
        "async": waiting,
        "future": lambda request: Future(),
        "blocking": lambda request: released.wait(DEADLINE),
    }
    try:
        assert asyncio.run(asyncio.wait_for(ask(handlers[kind], timeout=0.01), DEADLINE)) == CANCELLED
    finally:
        released.set()
    assert "no answer within 0.01 seconds" in caplog.text


@pytest.mark.covers("LHD-07")
@pytest.mark.parametrize("handler", [5, "yes", object(), Trip])
def test_what_cannot_be_called_is_refused_with_what_is_wanted(handler):
    with pytest.raises(TypeError, match="on_elicitation must be a function"):
        Elicitation(handler)
