"""The URLs that programs print when they begin to serve HTTP."""

import pytest

from dragoman.transports.process.announced_url import announced_url


@pytest.mark.parametrize(
    ("output", "url"),
    [
        ("dragoman: serving web 0 at http://127.0.0.1:8000/mcp (versions: all)", "http://127.0.0.1:8000/mcp"),
        ("INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)", "http://0.0.0.0:8000"),
        ("Uvicorn running on \x1b[1mhttp://[::1]:8000\x1b[0m (Press CTRL+C)", "http://[::1]:8000"),
        ("[INFO] Listening at: http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        (" * Running on http://127.0.0.1:5000.", "http://127.0.0.1:5000"),
        ("Loading\nMCP Streamable HTTP Server listening on port 3001\n", "http://127.0.0.1:3001"),
        ("Server is running on port 3001", "http://127.0.0.1:3001"),
        ("See http://127.0.0.1:8000 for help", None),
        ("listening on stdio", None),
        ("", None),
    ],
)
def test_announced_url_is_read_from_the_output(output, url):
    assert announced_url(output) == url
