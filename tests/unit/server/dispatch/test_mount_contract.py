"""The contract by which a server knows its mounts."""

import inspect

from dragoman import Server
from dragoman.server.dispatch.mount_contract import MountedServer, MountedServers


def members(contract):
    return {name for name, _ in inspect.getmembers(contract, callable) if not name.startswith("_")}


def test_the_mounts_of_a_server_and_each_mount_keep_the_contract():
    outer, inner = Server("outer"), Server("inner")
    outer.mount(inner, prefix="inner")
    (mount,) = outer.mounts
    assert members(MountedServers) - set(dir(outer.mounts)) == members(MountedServer) - set(dir(mount)) == set()
    assert (mount.parent, mount.server, list(inner.mounted_in)) == (outer, inner, [mount])
    assert (mount.outer("tools", "x"), mount.inner("tools", "inner_x")) == ("inner_x", "x")
