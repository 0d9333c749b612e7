"""The settings of a server: its configuration, merged over the defaults of the process, and checks of its options.

A server may pin one protocol version. Registration then refuses a definition with a field that the pinned version
lacks, because the server could not send that field.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from msgspec import UNSET, Struct

from dragoman.config import Configuration
from dragoman.errors import DefinitionError
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import Limits
from dragoman.protocol.versions import VERSIONS, Version, find_version, version_names
from dragoman.runtime.callables import at_caller

T = TypeVar("T")
OPTIONS_ELSEWHERE = {
    **dict.fromkeys(
        ("auth", "host", "port", "path", "workers", "include_tags", "exclude_tags", "json_response"),
        'give it to run("http", ...) or asgi(...), which serve the server',
    ),
    **dict.fromkeys(
        ("token_verifier", "auth_server_provider"), 'write auth=Bearer(...) of run("http", ...) or asgi(...)'
    ),
    "stateless_http": 'write run("http", stateless=True) or asgi(stateless=True)',
    "middleware": "register each with @server.middleware",
    "dependencies": "name the packages in pyproject.toml",
    "mask_error_details": "the texts of exceptions are kept from clients already, unless debug=True",
    "strict_input_validation": "write strict_arguments=True",
    "session_state_store": "write store=",
    "log_level": 'write logging.getLogger("dragoman").setLevel(...)',
    **dict.fromkeys(
        (f"on_duplicate{kind}" for kind in ("", "_tools", "_prompts", "_resources")),
        "a name that is used twice is always an error; remove_tool() and its like make room for another",
    ),
}
"""Options that servers of other packages have, and what to write here instead."""
_ASGI = "write server.asgi(), which needs no lifespan of its own"
_CLIENT = "write `with Client(server) as client:`, and call that method of the client"
_OPENAPI = "OpenAPI is not imported; write a tool for each operation that a model needs"
_SSE = "the transport HTTP+SSE of 2024-11-05 is not served; write"
NAMES_ELSEWHERE = {
    **dict.fromkeys(("http_app", "streamable_http_app"), _ASGI),
    "sse_app": f"{_SSE} server.asgi()",
    "session_manager": _ASGI,
    "custom_route": 'write @server.route("/path", methods=["GET"])',
    "add_middleware": "write server.middleware(function) with an `async def (ctx, call_next)`",
    **dict.fromkeys(("list_tools", "get_tools", "get_tool"), "read server.tools"),
    **dict.fromkeys(("list_prompts", "get_prompts"), "read server.prompts"),
    **dict.fromkeys(("list_resources", "get_resources", "get_resource"), "read server.resources"),
    **dict.fromkeys(
        ("list_resource_templates", "get_resource_templates", "get_resource_template"), "read server.resource_templates"
    ),
    **dict.fromkeys(("call_tool", "read_resource", "get_prompt", "render_prompt"), _CLIENT),
    "import_server": 'write server.mount(other, prefix="name")',
    **dict.fromkeys(("as_proxy", "create_proxy"), "write Server.proxy(target)"),
    **dict.fromkeys(("from_openapi", "from_fastapi"), _OPENAPI),
    "run_stdio_async": "write await server.run_async()",
    **dict.fromkeys(("run_http_async", "run_streamable_http_async"), 'write await server.run_async("http", port=8000)'),
    "run_sse_async": f'{_SSE} await server.run_async("http")',
    **dict.fromkeys(("add_template", "add_resource_template"), "write server.add_resource(template)"),
    "add_resource_fn": "write server.resource(uri)(function)",
    "completion": "write @server.on_complete, or complete() of a prompt or resource template",
    "get_context": "give the function a parameter `ctx: Context`",
}
"""Methods and attributes that servers of other packages have, and what to write here instead."""
MOUNT_OPTIONS_ELSEWHERE = {
    "namespace": 'write prefix="name"',
    "as_proxy": "write mount(Server.proxy(target), prefix=...)",
    **dict.fromkeys(("tool_separator", "resource_separator", "prompt_separator"), "write separator="),
    "tool_names": "write rename={...}",
}
"""Options of `mount` in other packages, and what to write here instead."""
_BY_TAGS = "choose by tags where the server is served, as in run(include_tags=[...], exclude_tags=[...]) or asgi(...)"
_BY_NAME = "give one definition or its name, and call it once for each"
ENABLE_OPTIONS_ELSEWHERE = {"tags": _BY_TAGS, "names": _BY_NAME, "keys": _BY_NAME, "only": _BY_TAGS}
"""Options of `enable` and `disable` in other packages, and what to write here instead."""
RUN_OPTIONS_ELSEWHERE = {
    "stateless_http": "write stateless=True",
    "show_banner": "leave it out; HTTP writes one line to stderr when it starts",
    "uvicorn_config": "serve server.asgi() with a uvicorn of your own",
    **{name: OPTIONS_ELSEWHERE[name] for name in ("middleware", "log_level")},
}
"""Options of `run` in other packages, and what to write here instead."""


class ServerType(ABCMeta):
    """The class of `Server`: explains class attributes that servers of other packages have.

    It extends ABCMeta, so that a subclass of `Server` may extend an abstract class too.
    """

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(cls, name: str) -> object:
            return missing_attribute(cls, name)


def missing_attribute(owner: object, name: str) -> object:
    """Explain an attribute that a server or its class lacks; this is their `__getattr__`.

    Raises:
        AttributeError: always; the message says what to write instead of a name of another package.
    """
    if hasattr(type(owner), name):
        return object.__getattribute__(owner, name)  # a property raised an AttributeError: raise it again
    kind = f"type object {owner.__name__!r}" if isinstance(owner, type) else f"{type(owner).__name__!r} object"
    remedy = NAMES_ELSEWHERE.get(name)
    if remedy is None:
        raise AttributeError(f"{kind} has no attribute {name!r}", name=name, obj=owner)
    # Without `obj`, Python does not suggest another name after the remedy.
    raise AttributeError(f"{kind} has no attribute {name!r}: {remedy}", name=name)


class PartField(Generic[T]):
    """An attribute of a `Server` that is the attribute of the same name of one of its parts.

    Example:
        title = PartField[str | None]("identity", "The name of the server to show to people.")
    """

    def __init__(self, part: str, doc: str) -> None:
        self._part = part
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, server: None, owner: type) -> Self: ...
    @overload
    def __get__(self, server: object, owner: type) -> T: ...
    def __get__(self, server: object, owner: type) -> Self | T:
        return self if server is None else self._read(getattr(server, self._part))

    @at_caller
    def __set__(self, server: object, value: T) -> None:
        self._write(getattr(server, self._part), value)

    def _read(self, part: Any) -> Any:
        return getattr(part, self._name)

    def _write(self, part: Any, value: T) -> None:
        setattr(part, self._name, value)


class IdentityField(PartField[T]):
    """An attribute of a `Server` that is a field of its identity; clients receive an assigned value from then on."""

    def __init__(self, doc: str) -> None:
        super().__init__("identity", doc)

    def _read(self, identity: Any) -> Any:
        return getattr(identity.info, self._name)

    def _write(self, identity: Any, value: T) -> None:
        identity.describe(**{self._name: value})


class ServerSettings(Struct, frozen=True):
    """The configuration of a server, merged over the defaults of the process, and the values derived from it."""

    configuration: Configuration
    pinned: Version | None
    is_observed: bool
    validates_arguments: bool
    """Whether the server validates arguments against an input schema that the author gave."""
    validates_results: bool
    """Whether the server validates structured content against the output schema."""
    strict_arguments: bool = False
    """Whether the server refuses arguments that a tool does not have."""

    @classmethod
    def of(cls, own: Configuration, defaults: Configuration, *, strict_arguments: bool = False) -> ServerSettings:
        """Merge a configuration over the defaults.

        Raises:
            DefinitionError: there is no such protocol version.
        """
        merged = own.over(defaults)
        return cls(
            merged,
            _pinned(merged.protocol_version),
            merged.around_request is not None or merged.instrumentation_callback is not None,
            merged.validate_tool_call_arguments is not False,
            merged.validate_tool_call_results is True,
            strict_arguments,
        )

    @property
    def versions(self) -> tuple[Version, ...]:
        """The versions that the server serves, newest first."""
        return VERSIONS if self.pinned is None else (self.pinned,)

    def require_carried(self, what: str, value: Struct | None) -> None:
        """Refuse a value with a field that the pinned version lacks; `what` names the value in the error.

        Raises:
            DefinitionError: the version lacks a field, which the message names.
        """
        if self.pinned is None or value is None:
            return
        lost = next(_lost(value, trim(value, self.pinned)), None)
        if lost is not None:
            raise DefinitionError(
                f"{what} has {lost}, which the pinned protocol version {self.pinned.name} lacks;"
                " leave it out, or do not pin the version"
            )


def _pinned(name: str | None) -> Version | None:
    version = find_version(name)
    if name is not None and version is None:
        raise DefinitionError(f"There is no protocol version {name!r}; there are {', '.join(version_names(VERSIONS))}")
    return version


def _lost(before: Any, after: Any) -> Iterator[str]:
    """Yield the paths of the fields that `before` has and `after` lacks; a renamed field does not count as lost."""
    if isinstance(before, list) and isinstance(after, list):
        for index, (held, kept) in enumerate(zip(before, after, strict=True)):
            yield from (f"[{index}].{path}" for path in _lost(held, kept))
    elif isinstance(before, Struct) and type(before) is type(after):
        for name in before.__struct_fields__:
            held, kept = getattr(before, name), getattr(after, name)
            if held is not kept and (kept is None or kept is UNSET):
                yield name
            elif held is not kept:
                separator = "" if isinstance(held, list) else "."
                yield from (f"{name}{separator}{path}" for path in _lost(held, kept))


DEFAULT_SETTINGS = ServerSettings.of(Configuration(), Configuration())
"""The settings of a server that configures nothing, in a process that configures nothing."""


def checked_configuration(configuration: Configuration | None) -> Configuration:
    """Return the configuration that an author gave, or an empty one.

    Raises:
        DefinitionError: the value is not a Configuration.
    """
    if configuration is not None and not isinstance(configuration, Configuration):
        raise DefinitionError(f"configuration must be a Configuration(...), not {configuration!r}")
    return Configuration() if configuration is None else configuration


def checked_limits(max_message_bytes: int) -> Limits:
    """Return the limits of messages.

    Raises:
        DefinitionError: the size is not a positive integer.
    """
    if type(max_message_bytes) is not int or max_message_bytes < 1:
        raise DefinitionError(f"max_message_bytes must be an integer of at least 1, not {max_message_bytes!r}")
    return Limits(max_message_bytes)


def checked_cache_hints(ttl_ms: int | None, cache_scope: str | None) -> tuple[int | None, Any]:
    """Return the cache hints for results that have none.

    Raises:
        DefinitionError: a hint has an invalid value.
    """
    if ttl_ms is not None and (type(ttl_ms) is not int or ttl_ms < 0):
        raise DefinitionError(f"ttl_ms must be an integer of at least 0, not {ttl_ms!r}")
    if cache_scope not in (None, "public", "private"):
        raise DefinitionError(f'cache_scope must be "public" or "private", not {cache_scope!r}')
    return ttl_ms, cache_scope


def checked_flag(name: str, value: bool) -> bool:  # noqa: FBT001
    """Return an option that is True or False.

    Raises:
        DefinitionError: the value is something else, such as the text "false", which would count as True.
    """
    if not isinstance(value, bool):
        raise DefinitionError(f"{name} must be True or False, not {value!r}")
    return value
