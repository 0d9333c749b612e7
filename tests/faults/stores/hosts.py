"""Hosts of a test: network namespaces that a switch joins.

They need Linux, root and iproute2. Where these are missing, the hosts are processes with loopback addresses and folders
of their own, and a host that is cut off is a stopped process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


def why_not() -> str | None:
    """Return why this machine cannot have hosts of its own; None if it can."""
    if shutil.which("ip") is None:
        return "there is no `ip` (iproute2)"
    name = f"dragoman-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, timeout=10)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=True, timeout=10)
    return None


class Hosts:
    """Namespaces with one network between them.

    Example:
        with hosts("redis", "one") as network:
            network.start("one", ["server", "--redis", network.address("redis")])
    """

    stopped_by = "a link that is down"

    def __init__(self, *names: str) -> None:
        self._prefix = f"d{os.getpid()}"
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"10.213.77.{self._numbers[name]}"

    def command(self, name: str, command: list[str]) -> list[str]:
        """Return a command that runs on a host."""
        return ["ip", "netns", "exec", self._namespace(name), *command]

    def start(self, name: str, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        """Start a program on a host."""
        ready = os.environ | environment
        process = subprocess.Popen(self.command(name, command), env=ready, stdout=subprocess.DEVNULL)
        self.processes[name] = process
        return process

    def cutting_command(self, name: str) -> list[str]:
        """Return a command that cuts a host off."""
        return ["ip", "-n", self._namespace("switch"), "link", "set", self._port(name), "down"]

    def _namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _port(self, name: str) -> str:
        return f"port{self._numbers[name]}"

    def make(self) -> None:
        """Make the namespaces, the switch and the cables."""
        switch = self._namespace("switch")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for name in self._numbers:
            host, port = self._namespace(name), self._port(name)
            _ip("netns", "add", host)
            _ip("-n", host, "link", "set", "lo", "up")
            _ip("-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
            _ip("-n", host, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")

    def delete(self) -> None:
        """End the programs, and delete the namespaces."""
        for process in self.processes.values():
            process.kill()
            process.wait(10)
        for name in ("switch", *self._numbers):
            subprocess.run(["ip", "netns", "delete", self._namespace(name)], capture_output=True, timeout=10)


class LoopbackHosts(Hosts):
    """Processes in place of hosts."""

    stopped_by = "a process that is stopped"

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"127.0.77.{self._numbers[name]}"

    def command(self, name: str, command: list[str]) -> list[str]:
        """Return the command itself."""
        return command

    def cutting_command(self, name: str) -> list[str]:
        """Return a command that stops the process of a host."""
        return ["kill", "-STOP", str(self.processes[name].pid)]

    def make(self) -> None:
        """Make nothing."""


@contextmanager
def hosts(*names: str) -> Iterator[Hosts]:
    """Yield hosts with these names, and delete them at the end."""
    network = Hosts(*names) if why_not() is None else LoopbackHosts(*names)
    try:
        network.make()
        yield network
    finally:
        network.delete()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)
