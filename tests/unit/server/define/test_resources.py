"""Contents that resources return."""

from pydantic import BaseModel

from dragoman.server.define.resources import resource_contents


def test_a_resource_may_hold_whatever_a_tool_may_return():
    class Place(BaseModel):
        city: str

    [contents] = resource_contents(Place(city="Oslo"), "place://oslo", None)
    assert (contents.mime_type, contents.text) == ("application/json", '{"city":"Oslo"}')
