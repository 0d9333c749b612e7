"""Client registration."""

import pytest

from dragoman.auth.client.registration import application_type, checked_metadata


@pytest.mark.covers("OAU-12")
@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        (["http://localhost:1/cb"], "native"),
        (["myapp:/callback", "http://[::1]/cb"], "native"),
        (["https://app.example.com/cb"], "web"),
        (["http://127.0.0.1/cb", "https://app.example.com/cb"], "web"),
        (["http://127.attacker.com/cb"], "web"),
    ],
)
def test_the_kind_of_application_follows_from_where_logins_end(uris, expected):
    assert application_type(uris) == expected


def test_client_metadata_are_json_objects():
    assert checked_metadata(None) == {}
    with pytest.raises(TypeError):
        checked_metadata(["client_name"])
    with pytest.raises(ValueError, match="JSON"):
        checked_metadata({"client_name": object()})
