import json

import pytest

from dragoman import Argument, View
from dragoman.errors import DefinitionError
from dragoman.views import Views


def test_a_name_has_its_own_view_and_then_that_of_the_first_pattern():
    shown, hidden, first = View(name="find"), View(hidden=True), View(confirm=True)
    views = Views.of({"delete_*": first, "*": hidden, "search": shown})
    assert views.select("search") == (shown,)
    assert views.select("delete_all") == (first,)
    assert views.select("other") == (hidden,)
    assert Views.of({"a.b*": hidden}).select("axb1") == ()
    assert Views.of({"data://*/x?": hidden}).select("data://a/b/x?") == (hidden,)


def test_several_views_of_one_name_are_kept_in_order():
    one, other = View(confirm=True), View(name="find")
    assert Views.of({"search": [one, other]}).select("search") == (one, other)


def test_views_know_the_names_that_an_upstream_lacks():
    views = Views.of({"search": View(name="a"), "find": View(name="b"), "delete_*": View(hidden=True)})
    assert views.unknown(["search"]) == ["find"]
    assert Views.of(views) is views
    assert not Views.of(None)
    assert "delete_" in repr(views)


def test_the_views_of_a_configuration_file_are_those_of_python():
    text = """
    {"search": {"name": "find", "title": "Find", "description": "Finds.", "pick": "items[].id", "confirm": "Sure?",
                "annotations": {"readOnlyHint": true}, "meta": {"a": 1},
                "arguments": {"q": {"name": "query"}, "org": {"fixed": null}, "per_page": {"default": 20,
                              "schema": {"maximum": 50}}, "page": {"hidden": true}}},
     "delete_*": {"hidden": true}}
    """
    decoded = Views.of(json.loads(text))
    assert decoded.select("delete_x") == (View(hidden=True),)
    assert decoded.select("search") == (
        View(
            name="find",
            title="Find",
            description="Finds.",
            pick="items[].id",
            confirm="Sure?",
            annotations={"readOnlyHint": True},
            meta={"a": 1},
            arguments={
                "q": Argument(name="query"),
                "org": Argument(fixed=None),
                "per_page": Argument(default=20, schema={"maximum": 50}),
                "page": Argument(hidden=True),
            },
        ),
    )


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([], "views must map names"),
        ({"": {}}, "'' is no name"),
        ({"a": []}, r"views\['a'\] is an empty list"),
        ({"a": 3}, r"views\['a'\] must be an object with name, title"),
        ({"a_*": {"name": "b"}}, r"views\['a_\*'\] may match several definitions, so it cannot set a name"),
        ({"a": {"nam": "b"}}, r"views\['a'\] has no 'nam'; did you mean 'name'\?"),
        ({"a": {"zzz": "b"}}, r"views\['a'\] has no 'zzz'; it may have name, title"),
        ({"a": {"result": "b"}}, "a function cannot be written in a file; use pick"),
        ({"a": {"hidden": "yes"}}, r"views\['a'\]: hidden of a View must be True or False"),
        ({"a": {"arguments": []}}, r"views\['a'\].arguments must be an object"),
        ({"a": {"arguments": {"q": 1}}}, r"views\['a'\].arguments.q must be an object with name"),
        ({"a": {"arguments": {"q": {"fix": 1}}}}, r"views\['a'\].arguments.q has no 'fix'; did you mean 'fixed'"),
        ({"a": {"arguments": {"q": {"name": 1}}}}, r"views\['a'\].arguments.q: name of an Argument must be text"),
    ],
)
def test_a_mistake_in_a_configuration_is_named_with_its_place(views, message):
    with pytest.raises(DefinitionError, match=message):
        Views.of(views)
