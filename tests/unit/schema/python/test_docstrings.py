"""Docstrings of three styles, and of none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.schema.python.docstrings import parse

GOOGLE = """Weather for a city.

    It asks several services.

    Args:
        city: Where, by
            its usual name.
        days (int, optional): How far ahead: at most 14.
        *stations: Which stations
        **options (dict):
            What else.
        empty:

    Returns:
        What is to come.
    """

NUMPY = """Weather for a city.

    Parameters
    ----------
    city : str
        Where, by
        its usual name.
    days, hours : int, optional
        How far ahead.
    plain
        Without a type.

    Returns
    -------
    str
        What is to come.
    """

SPHINX = """Weather for a city.

    :param city: Where, by
        its usual name.
    :type city: str
    :param int days: How far ahead.
    :keyword units: In what.
    :returns: What is to come.
    """


def test_google_sections_are_read():
    found = parse(GOOGLE)
    assert found.parameters == {
        "city": "Where, by its usual name.",
        "days": "How far ahead: at most 14.",
        "stations": "Which stations",
        "options": "What else.",
    }
    assert found.description == ("Weather for a city.\n\nIt asks several services.\n\nReturns:\n    What is to come.")


def test_numpy_sections_are_read():
    found = parse(NUMPY)
    assert found.parameters == {
        "city": "Where, by its usual name.",
        "days": "How far ahead.",
        "hours": "How far ahead.",
        "plain": "Without a type.",
    }
    assert found.description == "Weather for a city.\n\nReturns\n-------\nstr\n    What is to come."


def test_sphinx_fields_are_read():
    found = parse(SPHINX)
    assert found.parameters == {
        "city": "Where, by its usual name.",
        "days": "How far ahead.",
        "units": "In what.",
    }
    assert found.description == "Weather for a city.\n\n:returns: What is to come."


@pytest.mark.parametrize("heading", ["Args", "Arguments", "Parameters", "Params", "Keyword Args", "Attributes", "args"])
def test_a_section_may_have_several_names(heading):
    assert parse(f"Do.\n\n{heading}:\n    a: The first.").parameters == {"a": "The first."}


def test_a_numpy_section_may_end_the_text():
    assert parse("Do.\n\nParameters\n----------\na : int\n    The first.").parameters == {"a": "The first."}


def test_a_numpy_section_ends_at_prose():
    found = parse("Do.\n\nParameters\n----------\na : int\n    The first.\n\nThen, more prose: here.")
    assert found.parameters == {"a": "The first."}
    assert found.description == "Do.\n\nThen, more prose: here."


@pytest.mark.parametrize(
    "text",
    [
        "Parameters",
        "Args:",
        "Args:\n\nNothing is indented.",
        "Parameters\n    are many.",
        "Args:\n    This is prose, not a list of parameters",
        ":not a field",
        "Do.\n\nNote:\n    a: this is no parameter.",
    ],
)
def test_text_that_follows_no_style_is_description(text):
    found = parse(text)
    assert found.parameters == {}
    assert found.description == text


def test_prose_before_the_first_entry_is_dropped_with_its_section():
    found = parse("Do.\n\nArgs:\n    Some of these are needed.\n    a: The first.")
    assert (found.description, found.parameters) == ("Do.", {"a": "The first."})


def test_a_heading_may_stand_on_the_opening_line():
    found = parse("Args:\n        a: The first.\n\n        b: The second.")
    assert (found.description, found.parameters) == ("", {"a": "The first.", "b": "The second."})


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_nothing_says_nothing(text):
    assert (parse(text).description, parse(text).parameters) == ("", {})


LINES = st.lists(
    st.sampled_from(
        [
            "Args:",
            "Parameters",
            "----------",
            ":param a: x",
            ":type a: int",
            "a : int",
            "a: b",
            "    a: b",
            "      c",
            "",
        ]
    )
    | st.text(max_size=20)
)


@given(LINES)
def test_no_text_makes_it_raise(lines):
    found = parse("\n".join(lines))
    assert all(found.parameters.values())
