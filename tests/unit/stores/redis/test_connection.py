"""One connection: the login, replies in order, silence, and what is no Redis server."""

import asyncio
import ssl
import subprocess

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from dragoman.stores.redis import connection as connections
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.connection import connect
from ports import free_port
from redis_proxy import proxied
from redis_server import RedisSentinel, RedisServer
from redis_store import fresh, until


async def test_replies_come_in_the_order_of_the_commands(redis_server):
    lost: list[str] = []
    connection = await connect(RedisAddress(redis_server.url), lost.append, 1.0)
    echoed = await asyncio.gather(*(connection.call("ECHO", f"{number}") for number in range(100)))
    assert echoed == [b"%d" % number for number in range(100)]
    with pytest.raises(StoreUnavailable, match="refused a command: ERR unknown command"):
        await connection.call("NOSUCHCOMMAND")
    connection.abort("was closed")
    await connection.closed.wait()
    assert lost == ["was closed"]
    connection.abort("again")
    assert not connection.is_open
    with pytest.raises(StoreUnavailable, match="was closed"):
        await connection.call("PING")


@pytest.mark.parametrize("is_listening", [False, True])
async def test_a_silent_connection_is_asked_for_a_sign_of_life(redis_server, monkeypatch, is_listening):
    monkeypatch.setattr(connections, "HEALTH_SECONDS", 0.05)
    lost: list[str] = []
    async with proxied(redis_server) as proxy:
        connection = await connect(RedisAddress(proxy.url), lost.append, 1.0)
        if is_listening:
            connection.listen = lambda _: None
        await until(lambda: proxy.commands.count(b"PING") > 2)
        assert connection.is_open
        proxy.is_mute = True
        await connection.closed.wait()
    assert len(lost) == 1
    assert "silent" in lost[0]


async def test_a_server_of_another_protocol_is_not_used():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        store = Redis(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}", timeout=0.2)
        with pytest.raises(StoreUnavailable, match="not the protocol of Redis"):
            await store.now()
        await store.close()


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (b"*4\r\n+version\r\n+6.0.9\r\n+role\r\n+master\r\n", r"is 6\.0\.9, and must be 6\.2 or later"),
        (b"+OK\r\n", "is not a Redis server"),
        (b"*1\r\n+version\r\n", "is not a Redis server"),
    ],
)
async def test_a_server_that_cannot_serve_a_store_is_refused(hello, why):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            writer.write(hello)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        store = Redis(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}", timeout=0.2)
        with pytest.raises(StoreUnavailable, match=why):
            await store.now()
        await store.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 that signs itself."""
    folder = tmp_path_factory.mktemp("certificate")
    names = ["-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *made]
    subprocess.run(request, check=True, capture_output=True, timeout=60)
    return folder


async def test_tls_is_used_and_the_certificate_of_the_server_is_verified(redis_server, certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")
    async with proxied(redis_server, context) as proxy:
        trusted = Redis(f"{proxy.url}?ssl_ca_certs={certificate}/certificate.pem")
        assert await trusted.state(fresh()).set("key", b"value")
        stranger = Redis(proxy.url, timeout=0.3)
        with pytest.raises(StoreUnavailable, match="certificate"):
            await stranger.now()
        for store in (trusted, stranger):
            await store.close()


async def test_a_server_that_closes_the_connection_leaves_no_caller_waiting(redis_server):
    store, name = Redis(redis_server.url), fresh()
    await store.now()
    blocked = asyncio.ensure_future(store._link().commands.call("BLPOP", name, 0))
    await until(lambda: b"cmd=blpop" in redis_store.call(redis_server, "CLIENT", "LIST"))
    redis_store.call(redis_server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with pytest.raises(StoreUnavailable, match="closed the connection; the change may have been made"):
        await blocked
    assert await store.now() > 0
    await store.close()


async def test_sentinels_lead_to_the_master_although_the_first_is_gone_and_the_second_knows_nothing(tmp_path):
    with RedisServer(tmp_path / "master") as master, RedisSentinel(tmp_path / "sentinel", master) as sentinel:
        ports = [free_port(), master.port, sentinel.port]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        store = Redis(f"redis+sentinel://{hosts}/main/1")
        assert await store.state("names").set("key", b"value")
        assert redis_store.call(master, "INFO", "keyspace").count(b"db1:keys=") == 1
        assert store._address.hosts[0] == ("127.0.0.1", sentinel.port)
        await store.close()


async def test_a_service_that_no_sentinel_knows_and_a_master_that_is_none_are_named(tmp_path):
    with (
        RedisServer(tmp_path / "master") as master,
        RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(master.port)) as replica,
        RedisSentinel(tmp_path / "sentinel", replica) as sentinel,
    ):
        for service, why in (("other", "do not know the service other"), ("main", "is not the master yet")):
            store = Redis(f"redis+sentinel://127.0.0.1:{sentinel.port}/{service}", timeout=0.3)
            with pytest.raises(StoreUnavailable, match=why):
                await store.now()
            await store.close()
