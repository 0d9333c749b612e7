"""What `server.run("http")` serves with."""

from dragoman.server.http import run as serve_http
from dragoman.transports.http.graceful_h11 import GracefulH11Connection
from dragoman.transports.http.graceful_http1 import GracefulHttp1Connection


def test_connections_are_served_without_asgi_where_they_can_be_parsed(monkeypatch):
    assert serve_http._http_protocol() is GracefulHttp1Connection
    monkeypatch.setattr(serve_http, "find_spec", lambda _: None)
    assert serve_http._http_protocol() is GracefulH11Connection
