"""`WithMounts`: the part of a `Server` that makes one server of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

from dragoman.errors import DefinitionError
from dragoman.runtime.lazy import look_up

if TYPE_CHECKING:
    from dragoman.server.mounting.mounts import Mounts
    from dragoman.server.mounting.renaming import Patterns
    from dragoman.server.server import Server
    from dragoman.stores import Store


class WithMounts:
    """A server that serves what other servers have."""

    mounts: Mounts | None
    """The servers that are mounted in this one; None if there are none."""

    def mount(
        self,
        server: Server,
        prefix: str | None = None,
        *,
        separator: str = "_",
        rename: Mapping[str, str] | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
    ) -> None:
        """Serve what another server has as well, under a prefix: what it has now, and what is registered there later.

        Example:
            server.mount(weather, prefix="weather")  # its tool `forecast` is `weather_forecast` here

        The requests for it are run by the other server, with its own middleware, dependencies, lifespan and extensions.
        A URI gets the prefix after its scheme: `data://cities` is `data://weather/cities`. `rename` maps names and URIs
        of the other server to those that they have here. `include` and `exclude` are names and URIs to serve or to
        leave out; in them `*` stands for any text.

        Raises:
            DefinitionError: a name is taken or too long, an option has an invalid value, or the servers form a cycle.
        """
        from dragoman.server.mounting.mounts import Mounts
        from dragoman.server.mounting.renaming import Renaming

        if not isinstance(server, WithMounts):
            raise DefinitionError(f"{server!r} cannot be mounted: give a Server")
        renaming = Renaming(prefix, separator, rename, include, exclude)
        (self.mounts or Mounts(cast("Server", self))).add(server, renaming)

    @staticmethod
    def proxy(
        target: str | PathLike[str] | Sequence[str] | Mapping[str, Any] | Server,
        *,
        name: str | None = None,
        isolate: Literal["principal", "session"] | None = None,
        forward_credentials: bool | Callable[[str], str | Awaitable[str]] = False,
        headers: Mapping[str, str] | None = None,
        auth: object = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        connect_timeout: float = 30.0,
        max_connections: int = 100,
        secret: str | bytes | Iterable[str | bytes] | None = None,
        store: Store | None = None,
    ) -> Server:
        """Return a server in front of another server, which passes everything that either side says.

        Example:
            Server.proxy(["python", "weather.py"]).run("http", port=8000)

        `target` is a URL, a command, an entry of a configuration file, or a Server. `name` replaces the name that the
        target gives itself. Clients share connections to the target; `isolate` gives each principal or each session
        its own. The credentials of a caller stay here. With `forward_credentials=True` the target, which must have a
        URL, gets the caller's `Authorization` header; a function takes that header and returns the one to send.
        `headers` and `auth` are those of a client, `env` and `cwd` those of a process that the proxy starts. Of at most
        `max_connections`, the connection that was idle longest is closed first. `secret` and `store` are those of a
        `Server`.

        Raises:
            DefinitionError: the target or an option cannot be used; the message says why.
        """
        options = {"secret": secret, "store": store, "env": env, "cwd": cwd, "headers": headers, "auth": auth}
        limits = {"connect_timeout": connect_timeout, "max_connections": max_connections, "isolate": isolate}
        made: Server = look_up("dragoman.compose.proxy", "ProxyServer")(
            target, name=name, forward_credentials=forward_credentials, **options, **limits
        )
        return made
