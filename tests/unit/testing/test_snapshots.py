import json

import pytest

from dragoman import Server
from dragoman.testing import assert_schemas_unchanged, snapshots
from dragoman.testing.snapshots import differences, snapshot_of


def made(*functions, prompts=(), templates=()):
    server = Server("offers")
    for function in functions:
        server.add_tool(function)
    for prompt in prompts:
        server.add_prompt(prompt)
    for template in templates:
        server.resource(template)(lambda id: id)
    return server


def changes(before, after):
    return list(differences(snapshot_of(before), snapshot_of(after)))


def test_a_server_that_is_the_same_has_no_differences():
    def add(a: int, b: int = 0) -> int: ...

    assert changes(made(add, templates=["x://{id}"]), made(add, templates=["x://{id}"])) == []


def test_tools_prompts_and_templates_that_came_or_went_are_named():
    def add(a: int) -> int: ...

    def review(code: str) -> str: ...

    full = made(add, prompts=[review], templates=["x://{id}"])
    names = ["tool 'add'", "prompt 'review'", "resource template 'x://{id}'"]
    assert changes(made(), full) == [f"{name} was added" for name in names]
    assert changes(full, made()) == [f"{name} was removed" for name in names]


def test_an_argument_that_became_optional_or_required_is_named():
    def strict():
        def add(a: int) -> int: ...

        return add

    def lenient():
        def add(a: int = 1) -> int: ...

        return add

    assert changes(made(strict()), made(lenient())) == [
        "tool 'add': changed argument 'a': default 1 was added",
        "tool 'add': changed argument 'a': it is now optional",
    ]
    assert changes(made(lenient()), made(strict())) == [
        "tool 'add': changed argument 'a': default 1 was removed",
        "tool 'add': changed argument 'a': it is now required",
    ]


def test_a_change_of_the_output_is_named():
    def without():
        def find(name: str): ...

        return find

    def number():
        def find(name: str) -> int: ...

        return find

    def record():
        def find(name: str) -> dict[str, int]: ...

        return find

    assert changes(made(without()), made(number())) == ["tool 'find': the output schema was added"]
    assert changes(made(number()), made(without())) == ["tool 'find': the output schema was removed"]
    assert "tool 'find': removed output field 'result'" in changes(made(number()), made(record()))


def test_arguments_of_prompts_are_named():
    def before():
        def review(code: str) -> str: ...

        return review

    def after():
        def review(code: str = "", style: str = "short") -> str: ...

        return review

    assert changes(made(prompts=[before()]), made(prompts=[after()])) == [
        "prompt 'review': changed argument 'code': it is now optional",
        "prompt 'review': added argument 'style' (optional)",
    ]


def test_a_schema_that_is_true_instead_of_an_object_is_compared_too():
    kept = {"tools": {"t": {"inputSchema": {"type": "object", "properties": {"a": True}}}}}
    found = {"tools": {"t": {"inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}}}
    assert list(differences(kept, found)) == ["tool 't': changed argument 'a': true -> {\"type\": \"string\"}"]


@pytest.mark.parametrize("content", ["", "[]", '{"tools": []}', "{"])
def test_a_file_that_is_no_snapshot_is_refused_with_the_remedy(tmp_path, content):
    file = tmp_path / "schemas.json"
    file.write_text(content)
    with pytest.raises(AssertionError, match=r"schemas\.json' is no .*--dragoman-update"):
        assert_schemas_unchanged(made(), file)


def test_a_snapshot_is_written_to_a_folder_that_is_not_there_yet_and_is_readable(tmp_path):
    def add(a: int, ø: str = "å") -> int: ...

    file = tmp_path / "kept" / "schemas.json"
    assert_schemas_unchanged(made(add), file, update=True)
    assert_schemas_unchanged(made(add), str(file))
    assert '"default": "å"' in file.read_text(encoding="utf-8")
    assert list(json.loads(file.read_text(encoding="utf-8"))) == ["tools", "prompts", "resourceTemplates"]


def test_a_snapshot_is_not_written_when_the_caller_says_no(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "is_updating", True)
    with pytest.raises(AssertionError, match="There is no snapshot"):
        assert_schemas_unchanged(made(), tmp_path / "schemas.json", update=False)
    assert_schemas_unchanged(made(), tmp_path / "schemas.json")
    assert (tmp_path / "schemas.json").exists()
