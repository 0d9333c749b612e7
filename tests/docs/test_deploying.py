"""What the page about deployment shows is what the command, the server and their bounds really are."""

import configparser
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.cli.verbs.run import parse
from dragoman.protocol.jsonrpc import Limits
from ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = "\n".join(
    page.read_text(encoding="utf-8") for page in (ROOT / "docs/deploying.md", *sorted(ROOT.glob("docs/deploy/*.md")))
)
DEADLINE = 60
NAME = "mcp.example.com"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {}}}
SERVER = 'from dragoman import Server\n\nserver = Server("weather")\n'


def snippet(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{len(found)} snippets of {language}"
    return found[0]


def unit() -> dict[str, str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(snippet("ini"))
    return dict(parser["Service"])


def unit_environment() -> dict[str, str]:
    return dict(line.split("=", 1) for line in re.findall(r"^Environment=(.*)$", snippet("ini"), re.MULTILINE))


def commands() -> dict[str, list[str]]:
    """The command of the unit and that of the image, as words."""
    image = re.search(r"^CMD (\[.*\])$", snippet("dockerfile"), re.MULTILINE)
    assert image is not None
    return {"unit": shlex.split(unit()["execstart"]), "image": json.loads(image[1])}


@pytest.mark.parametrize("place", ["unit", "image"])
def test_the_command_of_the_page_is_one_that_dragoman_understands(place: str) -> None:
    program, verb, *words = commands()[place]
    understood = parse(words)
    assert (Path(program).name, verb) == ("dragoman", "run")
    assert understood is not None
    assert Path(understood.target).name == "server.py"
    assert understood.http is not None
    assert understood.http["port"] == 8000


def test_the_proxy_of_the_page_leads_to_the_port_and_takes_the_bodies_that_the_server_takes() -> None:
    proxy = snippet("nginx")
    assert re.findall(r"server 127\.0\.0\.1:(\d+);", proxy) == ["8000"]
    assert re.findall(r"client_max_body_size (\d+)m;", proxy) == [str(Limits().message_bytes // 1024**2)]
    assert re.findall(r"server_name (.*);", proxy) == [NAME] == [unit_environment()["DRAGOMAN_ALLOWED_HOSTS"]]
    assert "location /mcp {" in proxy


def test_the_unit_of_the_page_lets_the_server_write_its_state_and_nothing_else() -> None:
    assert unit()["dynamicuser"] == "yes"
    assert unit_environment()["XDG_STATE_HOME"] == f"/var/lib/{unit()['statedirectory']}"


def test_the_variables_of_the_page_are_read_by_something() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").glob("**/*.py"))
    for name in set(re.findall(r"DRAGOMAN_[A-Z_]+", PAGE)):
        assert f'"{name}"' in source, name


def status(port: int, host: str) -> int | None:
    """Return what a ping for a host is answered with, or None if nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    headers = {"Host": host, "Content-Type": "application/json", "Accept": "application/json"}
    try:
        connection.request("POST", "/mcp", json.dumps(PING), headers)
        return connection.getresponse().status
    except ConnectionRefusedError:
        return None
    finally:
        connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="several workers need fork")
def test_the_command_of_the_unit_serves_its_name_and_ends_with_0(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    port = free_port()
    _, *words = (word.replace("/srv/weather", str(tmp_path)).replace("8000", str(port)) for word in commands()["unit"])
    environment = os.environ | unit_environment() | {"XDG_STATE_HOME": str(tmp_path), "DRAGOMAN_SECRET": "s" * 32}
    process = subprocess.Popen([sys.executable, "-m", "dragoman", *words], cwd=tmp_path, env=environment)
    try:
        deadline = time.monotonic() + DEADLINE
        while (answered := status(port, NAME)) is None:
            assert process.poll() is None
            assert time.monotonic() < deadline
            # Nothing tells from outside when a process begins to listen.
            time.sleep(0.05)
        assert answered != http.HTTPStatus.MISDIRECTED_REQUEST
        assert status(port, "elsewhere.example") == http.HTTPStatus.MISDIRECTED_REQUEST
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait()
