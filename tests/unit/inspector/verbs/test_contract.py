"""Verbs: methods that take their parameters from JSON."""

import pytest

from dragoman.errors import InspectorError
from dragoman.inspector.verbs.contract import verbs_of


class Holder:
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


VERBS = verbs_of("numbers", Holder())


async def test_parameters_are_members_in_camel_case():
    assert VERBS.keys() == {"numbers/add", "numbers/list"}
    assert await VERBS["numbers/add"](b'{"firstNumber": 3}') == {"sum": 5}
    assert await VERBS["numbers/list"](b"") == {}


@pytest.mark.parametrize("body", [b"{}", b'{"firstNumber": "x"}', b'{"firstNumber": 1, "x": 1}', b"[]", b"{", b"\xff"])
async def test_wrong_parameters_are_refused(body):
    with pytest.raises(InspectorError, match="The request is wrong"):
        await VERBS["numbers/add"](body)
