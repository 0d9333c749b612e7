"""Verbs: methods that take their parameters from JSON."""

import pytest

from dragoman.errors import InspectorError
from dragoman.inspector.inspector import Inspector
from dragoman.inspector.verbs.contract import PageVerbs


class Numbers(PageVerbs):
    async def add(self, first_number: int, second: int = 2) -> dict:
        """Adds."""
        return {"sum": first_number + second}

    async def list_(self) -> dict:
        """Lists."""
        return {}

    async def _hidden(self) -> dict:
        return {}

    def plain(self) -> dict:
        return {}


VERBS = Numbers(Inspector()).all()


async def test_parameters_are_members_in_camel_case():
    assert VERBS.keys() == {"add", "list"}
    assert await VERBS["add"](b'{"firstNumber": 3}') == {"sum": 5}
    assert await VERBS["list"](b"") == {}


@pytest.mark.parametrize("body", [b"{}", b'{"firstNumber": "x"}', b'{"firstNumber": 1, "x": 1}', b"[]", b"{", b"\xff"])
async def test_wrong_parameters_are_refused(body):
    with pytest.raises(InspectorError, match="The request is wrong"):
        await VERBS["add"](body)
