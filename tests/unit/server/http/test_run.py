"""What `server.run("http")` serves with."""

from dragoman.server.http import run as serve_http
from dragoman.transports.http.ending import EndingConnection
from dragoman.transports.http.h11 import EndingH11


def test_connections_are_served_without_asgi_where_they_can_be_parsed(monkeypatch):
    assert serve_http._http_protocol() is EndingConnection
    monkeypatch.setattr(serve_http, "find_spec", lambda _: None)
    assert serve_http._http_protocol() is EndingH11
