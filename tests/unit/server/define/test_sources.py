"""Where parameters get values that no client sends, and what is refused when a function is registered."""

from typing import Annotated, Any, Protocol

import fastapi
import pytest

from dragoman import BlockingContext, Context, DefinitionError, Depends, DragomanError, InvalidParams, Lifespan
from dragoman.server import Header
from dragoman.server.define.binding import signature_of
from dragoman.server.define.sources import key_of
from dragoman.server.request.call import Call, Session


class Database:
    """What a lifespan opens."""


class Mail:
    """What another lifespan opens."""


class Readable(Protocol):
    def read(self) -> str: ...


def open_database() -> None: ...


def open_mail() -> None: ...


class OpenServer:
    """Has the values of lifespans."""

    def __init__(self, values: dict[Any, Any]) -> None:
        self._values = values

    def lifespan_values(self, loop: object) -> dict[Any, Any]:
        return self._values


def call_of(*headers: tuple[bytes, bytes], values: dict[Any, Any] | None = None) -> Call:
    request: Any = None
    return Call(request, Session(), server=OpenServer(values or {}), headers=headers)


def bound(function: Any, call: Call) -> Any:
    return signature_of(function).bind(None, call)[1]


@pytest.mark.covers("DEP-14")
@pytest.mark.parametrize(
    ("annotation", "default", "value"),
    [
        (str, ..., "7"),
        (int, ..., 7),
        (float | None, ..., 7.0),
        (str, "none", "7"),
    ],
)
def test_a_header_has_the_type_of_its_parameter(annotation, default, value):
    def read(*, tenant): ...

    read.__annotations__["tenant"] = Annotated[annotation, Header("X-Tenant")]
    read.__kwdefaults__ = None if default is ... else {"tenant": default}
    assert bound(read, call_of((b"x-tenant", b"7"))) == {"tenant": value}


@pytest.mark.covers("DEP-14")
def test_a_missing_header_is_the_default_or_none_or_a_refusal_that_names_it():
    def with_default(*, tenant: Annotated[str, Header("x-tenant")] = "house"): ...
    def optional(*, tenant: Annotated[str | None, Header("x-tenant")]): ...
    def required(*, tenant: Annotated[str, Header("x-tenant")]): ...
    def by_default_value(*, tenant: str = Header("x-tenant")): ...
    def counted(*, number: Annotated[int, Header("x-number")]): ...

    assert bound(with_default, call_of()) == {"tenant": "house"}
    assert bound(optional, call_of()) == {"tenant": None}
    for function in (required, by_default_value):
        with pytest.raises(InvalidParams, match="no HTTP header 'x-tenant'"):
            bound(function, call_of((b"other", b"x")))
    with pytest.raises(InvalidParams) as refused:
        bound(counted, call_of((b"x-number", b"s3cret")))
    assert "'x-number' is not int" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_header_that_is_no_text_is_refused_at_registration():
    def read(tenant: Annotated[Database, Header("x-tenant")]): ...

    with pytest.raises(DefinitionError, match=r"a header is a text, which cannot become .*Database; take a str"):
        signature_of(read)


@pytest.mark.covers("DEP-03")
def test_the_value_of_a_lifespan_is_found_by_its_type_or_its_function():
    database, mail = Database(), Mail()
    values = {open_database: database, open_mail: mail}

    def typed(*, it: Annotated[Database, Lifespan()]): ...
    def optional(*, it: Annotated[Database | None, Lifespan()]): ...
    def named(*, it: Annotated[Any, Lifespan(open_mail)]): ...
    def as_default(*, it: Mail = Lifespan()): ...
    def generic(*, it: Annotated[dict[str, int], Lifespan()]): ...

    for function, value in ((typed, database), (optional, database), (named, mail), (as_default, mail)):
        assert bound(function, call_of(values=values)) == {"it": value}
    assert bound(generic, call_of(values={open_mail: {"a": 1}})) == {"it": {"a": 1}}


@pytest.mark.covers("DEP-03")
def test_a_lifespan_that_is_not_there_or_not_clear_is_an_error_with_the_remedy():
    values = {open_database: Database(), open_mail: Mail()}

    def unknown(*, it: Annotated[bytes, Lifespan()]): ...
    def unclear(*, it: Annotated[Readable, Lifespan()]): ...
    def foreign(*, it: Annotated[Mail, Lifespan(open_mail)]): ...

    with pytest.raises(DragomanError, match=r"Lifespan\(\) should give a parameter bytes, but no lifespan has one"):
        bound(unknown, call_of(values=values))
    with pytest.raises(DragomanError, match=r"several lifespans have one: write Lifespan\(function\)"):
        bound(unclear, call_of(values=values))
    with pytest.raises(DragomanError, match=r"Lifespan\(open_mail\) should give .*, but no lifespan has one"):
        bound(foreign, call_of(values={open_database: Database()}))
    assert isinstance(bound(unclear, call_of(values={open_mail: Mail()}))["it"], Mail)


@pytest.mark.covers("DEP-15")
@pytest.mark.parametrize(
    ("annotation", "remedy"),
    [
        (fastapi.Request, "take `ctx: Context` and read ctx.headers"),
        (Annotated[str, fastapi.Header()], "of dragoman.server"),
        (Annotated[str, fastapi.Security(open_mail)], r"scopes to @server.tool\(scopes=...\)"),
        (fastapi.BackgroundTasks | None, "take a plain argument of the tool instead"),
        (Annotated[int, fastapi.Query(ge=1)], "take a plain argument of the tool instead"),
    ],
)
def test_what_only_fastapi_fills_in_is_refused_with_the_remedy(annotation, remedy):
    def read(value): ...

    read.__annotations__["value"] = annotation
    with pytest.raises(DefinitionError, match=remedy):
        signature_of(read)


@pytest.mark.covers("DEP-12")
def test_a_dependency_must_be_callable():
    def read(value: Annotated[str, Depends("text")]): ...
    def untyped(value=Depends()): ...

    for function in (read, untyped):
        with pytest.raises(DefinitionError, match=r"cannot be called; give a function, Depends\(function\)"):
            signature_of(function)


def test_markers_describe_themselves():
    described = [Header("X-Tenant"), Lifespan(), Lifespan(open_mail), Depends(), Depends(open_mail)]
    texts = ["Header('x-tenant')", "Lifespan()", "Lifespan(open_mail)", "Depends()", "Depends(open_mail)"]
    assert [repr(one) for one in described] == texts


def test_an_object_that_cannot_be_a_key_is_known_by_its_identity():
    class Equal:
        __hash__ = None

    one = Equal()
    assert (key_of(one), key_of(open_mail)) == (id(one), open_mail)


def test_contexts_keep_their_rules_in_handlers():
    def blocks(ctx: Context): ...
    async def waits(ctx: BlockingContext): ...

    for function in (blocks, waits):
        with pytest.raises(DefinitionError, match="annotate the parameter so"):
            signature_of(function)
