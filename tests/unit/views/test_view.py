import sys

import pytest

from dragoman import Argument, View, types
from dragoman.errors import DefinitionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "name of an Argument must be text"),
        ({"description": 3}, "description of an Argument must be text"),
        ({"hidden": 1}, "hidden of an Argument must be True or False"),
        ({"hidden": True, "fixed": 1}, "both fixed and hidden"),
        ({"fixed": 1, "default": 2}, "A fixed Argument is not shown to clients: leave out default"),
        ({"hidden": True, "name": "x"}, "A hidden Argument is not shown to clients: leave out name"),
        ({"fixed": float("nan")}, "fixed of an Argument must be a JSON value"),
        ({"default": (1, 2)}, "such as a list instead of a tuple"),
        ({"default": object()}, "default of an Argument must be a JSON value"),
        ({"schema": [1]}, "schema of an Argument must be a dict"),
        ({"schema": {"type": "text"}}, "schema of an Argument: Invalid JSON Schema"),
        ({"schema": {"$ref": "#/$defs/a"}}, r"cannot have a \$ref"),
    ],
)
def test_an_argument_that_contradicts_itself_is_refused(options, message):
    with pytest.raises(DefinitionError, match=message):
        Argument(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"title": ""}, "title of a View must be text"),
        ({"hidden": None}, "hidden of a View must be True or False"),
        ({"hidden": True, "name": "x"}, "A hidden View shows nothing: leave out name"),
        ({"confirm": ""}, "confirm of a View must be True, False or a question"),
        ({"confirm": 1}, "confirm of a View must be True, False or a question"),
        ({"pick": "a", "result": print}, "pick or result, not both"),
        ({"result": "a"}, "result of a View must be a function"),
        ({"pick": "a["}, "no JMESPath expression"),
        ({"meta": []}, "meta of a View must be a dict"),
        ({"meta": {"a": {1}}}, "meta of a View must be a JSON value"),
        ({"arguments": []}, "arguments of a View must map names"),
        ({"arguments": {"q": {"name": "query"}}}, r'write \{"q": Argument'),
        ({"arguments": {"a": Argument(name="c"), "b": Argument(name="c")}}, "'a' and 'b' the same name 'c'"),
        ({"annotations": []}, "annotations of a View takes title, readOnlyHint"),
        ({"annotations": {"readOnly": True}}, "annotations of a View has no 'readOnly'; it takes title"),
        ({"annotations": {"readOnlyHint": "yes"}}, "annotations of a View: Expected"),
    ],
)
def test_a_view_that_contradicts_itself_is_refused(options, message):
    with pytest.raises(DefinitionError, match=message):
        View(**options)


def test_a_view_takes_annotations_in_both_spellings():
    expected = types.ToolAnnotations(read_only_hint=True)
    assert View(annotations={"readOnlyHint": True}).annotations == expected
    assert View(annotations={"read_only_hint": True}).annotations == expected
    assert View(annotations=expected).hints == {"readOnlyHint": True}


def test_views_cannot_be_changed():
    with pytest.raises(AttributeError):
        View(name="a").name = "b"
    with pytest.raises(AttributeError):
        Argument(name="a").name = "b"


def test_the_text_of_an_argument_does_not_show_a_fixed_value():
    assert repr(Argument(fixed="s3cret")) == "Argument(fixed=...)"
    assert repr(Argument(name="q", default=None)) == "Argument(name='q', default=None)"
    assert repr(View(name="find", arguments={"token": Argument(fixed="s3cret")})) == (
        "View(name='find', arguments={'token': Argument(fixed=...)})"
    )


def test_picking_names_the_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "jmespath", None)
    with pytest.raises(DefinitionError, match=r"pip install dragoman\[jmespath\]"):
        View(pick="a")
