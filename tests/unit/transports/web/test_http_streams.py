import asyncio
import gzip
import json
import time

import pytest

from dragoman.errors import ResumptionRefused, TransportError
from dragoman.protocol.sse import EventDecoder
from dragoman.transports.web import http
from dragoman.transports.web.http import HttpClient
from scenarios.http_peer import DEADLINE, scenario
from scenarios.http_posts import ANSWER, HEADERS, Receiver, always, post
from scenarios.raw_http import END, answering, chunk, event, reply, stream, stream_head

# Streams.


@pytest.mark.covers("CHT-08")
@scenario
async def test_comments_line_ends_a_byte_order_mark_and_empty_events_do_no_harm():
    text = (
        b"\xef\xbb\xbf: hello\r\n\r\nid: 1\r\ndata:\r\n\r\n: still here\r\revent: other\ndata: {}\n\ndata: {}\r\n\r\n"
    )
    async with answering(always(stream(text, event(ANSWER)))) as server:
        _, messages = await post(server)
    assert [json.loads(message) for message in messages] == [{}, ANSWER]


@pytest.mark.covers("CHT-08")
@scenario
async def test_a_stream_is_left_when_the_answer_came_though_it_stays_open():
    async def script(request, writer):
        return stream(event({"method": "a"}), event({"method": "b"}), event(ANSWER), end=False)

    async with answering(script) as server:
        client = HttpClient(server.url)
        received = Receiver()
        await client.open()
        began = time.monotonic()
        await client.post(b"{}", HEADERS, received, answered=received.answered)
        assert time.monotonic() - began < DEADLINE / 2
        assert len(received.messages) == 3
        again = Receiver()
        await client.post(b"{}", HEADERS, again, answered=again.answered)
        await client.close()
    assert server.connections == 2


@pytest.mark.covers("CHT-19")
@scenario
async def test_a_connection_is_used_again_when_its_stream_ends_after_the_answer():
    async def script(request, writer):
        writer.write(stream_head() + chunk(event(ANSWER)))
        await writer.drain()
        await asyncio.sleep(0)
        return END

    async with answering(script) as server:
        client = HttpClient(server.url)
        await client.open()
        for _ in range(20):
            received = Receiver()
            await client.post(b"{}", HEADERS, received, answered=received.answered)
            async with asyncio.timeout(DEADLINE):
                while client._open:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        await client.close()
    assert server.connections == 1


@pytest.mark.covers("CHT-19")
@scenario
async def test_the_connection_of_a_get_stream_is_used_for_nothing_else():
    opened = asyncio.Event()

    async def script(request, writer):
        opened.clear()
        writer.write(stream_head())
        await writer.drain()
        await asyncio.wait_for(opened.wait(), DEADLINE)
        return END

    async with answering(script) as server:
        client = HttpClient(server.url)
        await client.open()
        for _ in range(3):
            await client.listen(HEADERS, Receiver(), opened=opened.set, decoder=EventDecoder(2**20))
        await client.close()
    assert [request.headers["connection"] for request in server.requests] == ["close"] * 3
    assert server.connections == 3


@pytest.mark.covers("CHT-19")
@scenario
async def test_a_connection_whose_stream_does_not_end_is_closed_soon(monkeypatch):
    monkeypatch.setattr(http, "LINGER_SECONDS", 0.02)
    closed = asyncio.Event()

    async with asyncio.timeout(DEADLINE):

        async def serve(reader, writer):
            await reader.readuntil(b"{}")
            writer.write(stream(event(ANSWER), end=False))
            await reader.read()
            writer.close()
            closed.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        received = Receiver()
        await client.open()
        await client.post(b"{}", HEADERS, received, answered=received.answered)
        await closed.wait()
        assert not client._open
        await client.close()
        server.close()


# Resumption.


def resuming(pieces: list[bytes], *, cut: bool = True):
    """Serve the pieces of a stream, one for each request, in the order in which they are asked for."""

    async def script(request, writer):
        piece = pieces.pop(0)
        if isinstance(piece, bytes) and piece.startswith(b"HTTP/"):
            return piece
        writer.write(stream_head() + chunk(piece))
        await writer.drain()
        if cut:
            writer.close()
            return None
        return END

    return script


@pytest.mark.covers("CHT-10")
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "ended"])
@scenario
async def test_a_stream_goes_on_after_the_last_event_that_came_wherever_it_is_cut(cut):
    pieces = [
        event(id="a-0", retry=0),
        event({"method": "one"}, id="a-1"),
        event({"method": "two"}, id="a-2") + b"id: a-3\ndata: {brok",
        event({"method": "three"}, id="a-3"),
        event(ANSWER, id="a-4"),
    ]
    async with answering(resuming(pieces, cut=cut)) as server:
        _, messages = await post(server, resumes=True)
        asked = [request.headers["last-event-id"] for request in server.sent("GET")]
    assert asked == ["a-0", "a-1", "a-2", "a-3"]
    assert [json.loads(message).get("method") for message in messages] == ["one", "two", "three", None]


@pytest.mark.covers("CHT-10")
@scenario
async def test_two_attempts_without_progress_are_the_last():
    async with answering(resuming([event(id="a-0", retry=0), b": nothing\n\n", reply(503), event(ANSWER)])) as server:
        with pytest.raises(TransportError, match="could not be taken up again"):
            await post(server, resumes=True)
        assert len(server.sent("GET")) == 2


@pytest.mark.covers("CHT-10")
@scenario
async def test_progress_counts_although_the_connection_breaks_each_time():
    pieces = [event(id=f"a-{number}", retry=0) for number in range(6)]
    async with answering(resuming([*pieces, event(ANSWER)])) as server:
        assert len((await post(server, resumes=True))[1]) == 1
        assert len(server.sent("GET")) == 6


@pytest.mark.covers("CHT-10")
@pytest.mark.parametrize("status", [400, 404, 405])
@scenario
async def test_a_server_that_does_not_take_it_up_is_asked_once(status):
    async with answering(resuming([event(id="a-0", retry=0), reply(status)])) as server:
        with pytest.raises(ResumptionRefused, match=f"status {status}"):
            await post(server, resumes=True)


@pytest.mark.covers("CHT-10", "CHT-09")
@scenario
async def test_an_event_over_the_limit_is_not_asked_for_again():
    async with answering(resuming([event(id="a-0", retry=0), event("1" * 5000)])) as server:
        with pytest.raises(TransportError, match="more than 4096 bytes"):
            await post(server, resumes=True, limit=4096)
        assert len(server.sent("GET")) == 1


@pytest.mark.covers("CHT-10", "CHT-11")
@scenario
async def test_without_leave_to_resume_or_without_ids_the_end_is_an_error():
    async with answering(resuming([event(id="a-0"), b": hi\n\n"], cut=False)) as server:
        with pytest.raises(TransportError, match="ended without an answer"):
            await post(server)
        with pytest.raises(TransportError, match="ended without an answer"):
            await post(server, resumes=True)
        assert not server.sent("GET")


@pytest.mark.covers("CHT-10")
@scenario
async def test_the_pause_that_the_server_asks_for_is_kept():
    times: list[float] = []
    script = resuming([event(id="a-0", retry=300), event(ANSWER)])

    async def timed(request, writer):
        times.append(time.monotonic())
        return await script(request, writer)

    async with answering(timed) as server:
        await post(server, resumes=True)
    assert times[1] - times[0] >= 0.3


@pytest.mark.covers("CHT-10")
@scenario
async def test_a_pause_that_is_too_long_is_not_waited_for():
    async with answering(resuming([event(id="a-0", retry=301_000)])) as server:
        with pytest.raises(TransportError, match="301 seconds, which is too long"):
            await post(server, resumes=True)


@pytest.mark.covers("CHT-10")
def test_pauses_have_a_default_and_a_floor():
    decoder = EventDecoder(100)
    assert http.retry_pause(decoder) == http.RETRY_SECONDS == 1
    decoder.receive(b"retry: 5\n\n")
    assert http.retry_pause(decoder) == http.MIN_RETRY_SECONDS == 0.1
    decoder.receive(b"retry: 300000\n\n")
    assert http.retry_pause(decoder) == 300


@scenario
async def test_a_cancelled_post_leaves_the_others_that_wait_for_the_same_room():
    room, waiting = asyncio.get_running_loop().create_future(), asyncio.Semaphore(0)

    class Slow(Receiver):
        def __call__(self, message):
            super().__call__(message)
            if self.answered():
                return None
            waiting.release()
            return room

    async with answering(always(stream(event({"method": "a"}), event(ANSWER)))) as server:
        client = HttpClient(server.url)
        await client.open()
        one, other = Slow(), Slow()
        posts = [asyncio.create_task(client.post(b"{}", HEADERS, to, answered=to.answered)) for to in (one, other)]
        for _ in posts:
            await waiting.acquire()
        posts[0].cancel()
        await asyncio.wait(posts[:1])
        room.set_result(None)
        await posts[1]
        await client.close()
    assert len(one.messages) == 1
    assert len(other.messages) == 2


@scenario
async def test_other_tasks_run_while_a_small_packed_stream_brings_very_many_events():
    events = 200_000
    packed = gzip.compress(b"data: {}\n\n" * events)
    said = reply(200, packed, "text/event-stream", content_encoding="gzip")
    count, counts = 0, []

    def receive(message):
        nonlocal count
        count += 1
        if count == 1:
            asyncio.get_running_loop().call_soon(lambda: counts.append(count))

    async with answering(always(said)) as server:
        client = HttpClient(server.url)
        await client.open()
        with pytest.raises(TransportError, match="ended without an answer"):
            await client.post(b"{}", HEADERS, receive, answered=lambda: False)
        await client.close()
    assert count == events
    assert counts[0] < events
