"""An HTTP client whose server breaks off its responses."""

import pytest
from yarl import URL

from dragoman.errors import TransportError
from dragoman.transports.web.http import HttpClient
from scenarios.http_peer import scenario
from scenarios.raw_http import answering


@pytest.mark.covers("CHT-18")
@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 2", "closed the connection without an answer"),
        (b"SSH-2.0-x\r\n", "broke: The response is malformed"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{", "is not completed"),
    ],
)
@scenario
async def test_a_broken_response_is_an_error_without_the_secrets_of_the_address(said, problem):
    async def script(request, writer):
        writer.write(said)
        writer.close()

    async with answering(script) as server:
        client = HttpClient(str(URL(server.url).with_user("user").with_password("secret").with_query("key=secret")))
        await client.open()
        with pytest.raises(TransportError, match=problem) as caught:
            await client.post(b"{}", {}, pytest.fail, answered=lambda: False)
        await client.close()
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.__cause__)
