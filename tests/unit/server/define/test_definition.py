"""What all definitions share, where the wire does not show it."""

import functools

import pytest

from dragoman import DefinitionError, Prompt, Tool
from dragoman.server.define.definition import Definition, snake_case


def plain(a: int) -> int:
    return a


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MyTool", "my_tool"),
        ("HTTPFetch", "http_fetch"),
        ("fetchURL", "fetch_url"),
        ("kebab-case", "kebab_case"),
        ("already_snake", "already_snake"),
        ("V2Api", "v2_api"),
    ],
)
def test_names_are_spelled_in_snake_case(name, expected):
    assert snake_case(name) == expected


def test_a_definition_shows_its_kind_and_name():
    assert repr(Tool.define(plain)) == "<Tool 'plain'>"


def test_a_definition_that_is_not_listed_needs_no_wire_form():
    made = Definition.define(plain, name="acme/any name")
    assert made(3) == 3
    assert made.name == "acme/any name"


def test_the_name_of_a_partial_is_that_of_its_function():
    assert Tool.define(functools.partial(functools.partial(plain), a=1)).name == "plain"


def test_a_class_may_have_options_of_its_own():
    class Greet(Tool):
        greeting = "Hello"

        def call(self, name: str) -> str:
            return f"{self.greeting} {name}"

    assert Greet()("Ada") == "Hello Ada"
    assert Greet(greeting="Moin", title=None)("Ada") == "Moin Ada"


def test_options_that_are_methods_or_properties_are_refused():
    class Review(Prompt):
        def render(self) -> str:
            return "Review this"

    for option in ("render", "completers", "invoke", "unheard_of"):
        with pytest.raises(DefinitionError, match=f"Review has no option '{option}'"):
            Review(**{option: 1})


def test_a_class_without_its_method_is_refused():
    class Silent(Prompt):
        pass

    with pytest.raises(DefinitionError, match="Silent must define a method `render`"):
        Silent()


def test_a_class_is_described_by_its_own_docstring_before_that_of_its_method():
    class Described(Tool):
        """Of the class.

        Args:
            a: Not a description.
        """

        def call(self, a: int) -> int:
            """Of the method."""
            return a

    class Undescribed(Tool):
        def call(self, a: int) -> int:
            """Of the method."""
            return a

    assert (Described().description, Undescribed().description) == ("Of the class.", "Of the method.")


def test_a_generator_is_refused_with_the_remedy():
    def yields():
        yield 1

    async def yields_later():
        yield 1

    class Yields(Tool):
        def call(self):
            yield 1

    for make in (lambda: Tool.define(yields), lambda: Tool.define(yields_later), Yields):
        with pytest.raises(DefinitionError, match=r"because it yields; return a list instead"):
            make()
