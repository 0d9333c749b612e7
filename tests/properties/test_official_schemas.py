"""One tree of Structs covers all five protocol versions, as the official JSON Schemas define them."""

from __future__ import annotations

import inspect
import json
import os
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import types
from dragoman.errors import RpcError
from dragoman.types import Dropped, decode
from dragoman.types.decoding import decoders
from schemas.comparison import same_json
from schemas.documents import document
from schemas.folder import VERSIONS, schema_folder
from schemas.generator import Generator, Instances
from schemas.mapping import MAPPED, MAPPED_OTHERWISE, NOT_MAPPED, Reading, reading

FOLDER = schema_folder()
DEFINITIONS = {version: document(FOLDER, version).definitions for version in VERSIONS}
READ_DEFINITIONS = [(version, name) for version in VERSIONS for name in DEFINITIONS[version] if reading(version, name)]
EXAMPLES = sorted((FOLDER / "2026-07-28" / "examples").glob("*/*.json"))

SOAKING = "DRAGOMAN_EXAMPLES" in os.environ
INSTANCES = int(os.environ.get("DRAGOMAN_EXAMPLES", "25"))


def wraps_another_definition(version: str, name: str) -> bool:
    how = reading(version, name)
    return how is not None and how.member is not None and "$ref" in DEFINITIONS[version][name]["properties"][how.member]


WRAPPERS = [read for read in READ_DEFINITIONS if wraps_another_definition(*read)]
OTHERS = [read for read in READ_DEFINITIONS if not wraps_another_definition(*read)]


def generating(number: int) -> settings:
    return settings(
        max_examples=number,
        derandomize=not SOAKING,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


SPARSE = {version: Generator(DEFINITIONS[version], complete=False) for version in VERSIONS}
COMPLETE = {version: Generator(DEFINITIONS[version], complete=True) for version in VERSIONS}


@cache
def instances(version: str, name: str) -> Instances:
    return SPARSE[version].instances(name) | COMPLETE[version].instances(name)


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def accepting_kind(data: bytes, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds[:-1]:
        try:
            decoders[kind].decode(data)
        except msgspec.ValidationError:
            continue
        return kind
    return kinds[-1]


def decoded_and_encoded(value: Any, kinds: tuple[Any, ...]) -> Any:
    data = encoded(value)
    kind = accepting_kind(data, kinds)
    dropped: list[Dropped] = []
    lenient = decode(data, kind, dropped)
    assert not dropped
    assert lenient == decoders[kind].decode(data)
    return json.loads(msgspec.json.encode(lenient))


def passed_through(instance: Any, how: Reading) -> Any:
    if how.member is None:
        return decoded_and_encoded(instance, how.kinds)
    if how.member not in instance:
        return instance
    return instance | {how.member: decoded_and_encoded(instance[how.member], how.kinds)}


def assert_nothing_is_lost(version: str, name: str, instance: Any) -> None:
    validator = document(FOLDER, version).validator(name)
    validator.validate(instance)
    how = reading(version, name)
    assert how is not None
    outcome = passed_through(instance, how)
    assert same_json(outcome, instance), f"{outcome} is not {instance}"
    validator.validate(outcome)


@pytest.mark.parametrize(("version", "name"), OTHERS)
@generating(INSTANCES)
@given(data=st.data())
def test_an_instance_of_a_definition_passes_through_its_type_unchanged(
    version: str, name: str, data: st.DataObject
) -> None:
    assert_nothing_is_lost(version, name, data.draw(instances(version, name)))


@pytest.mark.parametrize(("version", "name"), WRAPPERS)
@generating(INSTANCES // 5 + 1)
@given(data=st.data())
def test_an_instance_that_wraps_another_passes_through_its_type_unchanged(
    version: str, name: str, data: st.DataObject
) -> None:
    assert_nothing_is_lost(version, name, data.draw(instances(version, name)))


UNDEFINED_MEMBERS_OF_EXAMPLES = {"ListRootsRequest/list-roots-request": {"id"}}
"""What an official example holds though its definition does not name it."""


def example_id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", EXAMPLES, ids=example_id)
def test_an_official_example_passes_through_its_type_unchanged(path: Path) -> None:
    name = path.parent.name
    undefined = UNDEFINED_MEMBERS_OF_EXAMPLES.get(example_id(path), set())
    example = {key: value for key, value in json.loads(path.read_bytes()).items() if key not in undefined}
    if name in NOT_MAPPED:
        assert_it_is_an_error_that_we_can_raise(name, example)
    else:
        assert_nothing_is_lost("2026-07-28", name, example)


def assert_it_is_an_error_that_we_can_raise(name: str, example: dict[str, Any]) -> None:
    document(FOLDER, "2026-07-28").validator(name).validate(example)
    error = example.get("error", example)
    raised = RpcError.of(**error)
    assert type(raised) is not RpcError
    assert {key: getattr(raised, key) for key in error} == error


def test_the_official_examples_are_there() -> None:
    assert len(EXAMPLES) > 100


@pytest.mark.parametrize("version", VERSIONS)
def test_each_definition_is_either_mapped_or_listed_with_a_reason(version: str) -> None:
    names = set(DEFINITIONS[version])
    assert names <= MAPPED.keys() | NOT_MAPPED.keys()


def test_no_definition_is_both_mapped_and_listed() -> None:
    assert not MAPPED.keys() & NOT_MAPPED.keys()


def test_each_mapped_or_listed_definition_still_exists() -> None:
    names = {name for definitions in DEFINITIONS.values() for name in definitions}
    assert MAPPED.keys() | NOT_MAPPED.keys() <= names
    assert all(name in DEFINITIONS[version] for version, name in MAPPED_OTHERWISE)


def structs_within(kind: Any) -> set[type[msgspec.Struct]]:
    if not is_struct(kind):
        return {struct for argument in get_args(kind) for struct in structs_within(argument)}
    parts = {struct for field in msgspec.structs.fields(kind) for struct in structs_within(field.type)}
    return parts | {kind}


def is_struct(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, msgspec.Struct)


def test_each_public_struct_is_part_of_a_mapped_definition() -> None:
    public = {kind for kind in vars(types).values() if is_struct(kind)} - {Dropped}
    proved = {
        struct
        for how in (*MAPPED.values(), *MAPPED_OTHERWISE.values())
        for kind in how.kinds
        for struct in structs_within(kind)
    }
    assert public <= proved


NOT_IN_THE_SCHEMAS: dict[type[msgspec.Struct], set[str]] = {
    types.Params: {"_meta"},
    types.Result: {"resultType"},
    types.PaginatedResult: {"cacheScope", "ttlMs"},
    types.RequestMeta: {"traceparent", "tracestate", "baggage"},
}
"""Fields which a base gives to all that extend it, and the trace context, which the specification has in prose only."""

MAPPED_STRUCTS = sorted(
    {kind for how in MAPPED.values() for kind in how.kinds if is_struct(kind)}, key=lambda kind: kind.__name__
)


def properties_of(schema: dict[str, Any], definitions: dict[str, Any]) -> set[str]:
    if "$ref" in schema:
        return properties_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    arms = [*schema.get("allOf", ()), *schema.get("anyOf", ())]
    return set(schema.get("properties", ())).union(*(properties_of(arm, definitions) for arm in arms))


def properties_read_into(kind: type[msgspec.Struct]) -> set[str]:
    found: set[str] = set()
    for version, name in READ_DEFINITIONS:
        how = reading(version, name)
        if how is not None and kind in how.kinds:
            schema = DEFINITIONS[version][name]
            part = schema if how.member is None else schema["properties"][how.member]
            found |= properties_of(part, DEFINITIONS[version])
    return found


@pytest.mark.parametrize("kind", MAPPED_STRUCTS)
def test_a_struct_has_no_field_that_no_version_defines(kind: type[msgspec.Struct]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    allowed = {name for base, names in NOT_IN_THE_SCHEMAS.items() if issubclass(kind, base) for name in names}
    assert fields - allowed <= properties_read_into(kind)


def test_the_keys_of_meta_are_those_of_the_schema() -> None:
    definitions = DEFINITIONS["2026-07-28"]
    names = ("RequestMetaObject", "NotificationMetaObject", "ResultMetaObject", "SubscriptionsListenResultMetaObject")
    assert {key for name in names for key in definitions[name]["properties"]} == {
        types.PROTOCOL_VERSION,
        types.CLIENT_CAPABILITIES,
        types.CLIENT_INFO,
        types.LOG_LEVEL,
        types.SERVER_INFO,
        types.SUBSCRIPTION_ID,
        "progressToken",
    }
