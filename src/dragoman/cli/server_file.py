"""Server files: the target FILE[:object] of the command line, and the server that a Python file defines.

The server of a file is the object that the target names, or one of a usual name, or the only `Server`, or what the
factory of the file returns. A file that calls `server.run()` when it is loaded, without `if __name__ == "__main__"`,
is served by that call, in the way that the command line says: the statements around the call may hold what the server
needs open.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import Parameter, iscoroutinefunction, isfunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError, DefinitionError, UnknownOption
from dragoman.runtime.callables import outside_package

if TYPE_CHECKING:
    from dragoman.server.options import HttpOptions
    from dragoman.server.server import Server

_MODULE = "__dragoman__"
_USUAL_NAMES = ("server", "mcp", "app")
_USUAL_FACTORIES = frozenset(
    {f"{verb}_{noun}" for verb in ("create", "make", "build", "get") for noun in _USUAL_NAMES} | {*_USUAL_NAMES}
)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def split_target(target: str) -> tuple[Path, str | None]:
    """Split a target, FILE[:object], into the file and the name of the object."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not Path(target).exists():
        return Path(path), name
    return Path(target), None


def load_server(path: Path, name: str | None, serve: Callable[[Server, HttpOptions], None] | None = None) -> Server:
    """Import a Python file, and return its server.

    If the file calls `server.run()` meanwhile, `serve` is called with that server and the options of the call, and the
    process then ends. Without `serve`, that server is returned.

    Raises:
        ConfigError: there is no such file, or it does not define such a server; the message says why, and where.
        Exception: whatever the file raises when it is imported.
    """
    from dragoman.server.serving import LOADING

    run: list[Server] = []
    LOADING.serve = serve or (lambda server, _: run.append(server))
    try:
        return _find(_load(path), name, path)
    except SystemExit:  # the file has run its server, or ends the process itself
        if not run:
            raise
        return run[0]
    except (DefinitionError, UnknownOption) as error:
        raise ConfigError(_with_place(error)) from error
    finally:
        LOADING.serve = None


def run_script(path: Path) -> Server | None:
    """Run a Python file as `python FILE` does, and let its servers use stdio, whatever transport the file names.

    If the file ends without having served, return the server that it defines; None if it defines none.

    Raises:
        ConfigError: there is no such file, a definition is wrong, or it defines several servers and serves none.
        Exception: whatever else the file raises.
    """
    from dragoman.config import SCRIPT_RUN

    SCRIPT_RUN.uses_stdio = True
    sys.argv[:] = [str(path)]
    try:
        names = _run_as_main(path.absolute())
    except (DefinitionError, UnknownOption) as error:
        raise ConfigError(_with_place(error)) from error
    # A file of another SDK needs no import of this server.
    if SCRIPT_RUN.has_served or "dragoman.server.server" not in sys.modules:
        return None
    return _server_of(names, path)


def _run_as_main(path: Path) -> dict[str, Any]:
    """Run a file as the module `__main__`, and return its names; like `python FILE`, it writes no bytecode of it."""
    from types import ModuleType

    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    sys.path.insert(0, str(path.resolve().parent))
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102
    return vars(module)


def _with_place(error: Exception) -> str:
    """Return the text of an error after the file and the line of the author's code that raised it."""
    place = outside_package(error.__traceback__)
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return str(error) if place is None else f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}: {error}"


def _load(path: Path) -> dict[str, Any]:
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{str(path)!r} is not a Python file")
    module = sys.modules[_MODULE] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _find(names: dict[str, Any], name: str | None, path: Path) -> Server:
    from dragoman.server.server import Server

    if name is not None:
        found = names.get(name)
        if isinstance(found, Server):
            return found
        if isfunction(found):
            return _made(found, path)
        raise ConfigError(f"{str(path)!r} has no Server called {name!r}{_found(names)}")
    server = _server_of(names, path)
    if server is None:
        remedy = "make one, for example server = Server('name')"
        raise ConfigError(f"{str(path)!r} defines no Server{_found(names)}; {remedy}")
    return server


def _server_of(names: dict[str, Any], path: Path) -> Server | None:
    """Return the server that a file defines, None if it defines none."""
    from dragoman.server.server import Server

    servers = {key: value for key, value in names.items() if isinstance(value, Server)}
    usual = [servers[key] for key in _USUAL_NAMES if key in servers]
    distinct = list({id(server): server for server in servers.values()}.values())
    if usual or len(distinct) == 1:
        return usual[0] if usual else distinct[0]
    factories = {} if distinct else _factories(names)
    if len(factories) == 1:
        return _made(next(iter(factories.values())), path)
    choices = ", ".join(f"{path}:{key}" for key in servers or factories)
    if choices:
        raise ConfigError(f"{str(path)!r} defines several servers; choose one: {choices}")
    return None


def _functions(names: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    name = names["__name__"]
    return {key: value for key, value in names.items() if isfunction(value) and value.__module__ == name}


def _factories(names: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions that make a server, by their name or by their annotation, and need no argument."""
    return {key: made for key, made in _functions(names).items() if _makes_server(key, made) and not _required(made)}


def _makes_server(name: str, function: Callable[..., Any]) -> bool:
    returned = signature(function).return_annotation
    annotated = returned if isinstance(returned, str) else getattr(returned, "__name__", "")
    return name in _USUAL_FACTORIES or annotated.rpartition(".")[2] == "Server"


def _required(function: Callable[..., Any]) -> list[str]:
    parameters = signature(function).parameters.values()
    return [one.name for one in parameters if one.default is Parameter.empty and one.kind not in _VARIADIC]


def _made(factory: Callable[..., Any], path: Path) -> Server:
    from dragoman.server.server import Server

    called = f"{factory.__name__}() of {str(path)!r}"
    if required := _required(factory):
        raise ConfigError(f"{called} needs arguments: {', '.join(required)}; give them defaults")
    if iscoroutinefunction(factory):
        raise ConfigError(
            f"{called} is an `async def`; make the server in a `def`, and open connections in its lifespan"
        )
    made = factory()
    if not isinstance(made, Server):
        raise ConfigError(f"{called} did not return a Server, but an object of {_kind(made)}")
    return made


def _kind(value: object) -> str:
    kind = type(value)
    return f"the class {kind.__qualname__}" + ("" if kind.__module__ == "builtins" else f" of {kind.__module__}")


def _found(names: dict[str, Any]) -> str:
    """Return what a file has instead of a server, for an error."""
    from dragoman.server.server import Server

    functions = _functions(names)
    servers = [key for key, value in names.items() if isinstance(value, Server)]
    found = [f"it has {', '.join(servers)}"] if servers else []
    found += [f"{key} is of {_kind(names[key])}" for key in _USUAL_NAMES if key in names and key not in functions]
    listed = ", ".join(f"{key}({', '.join(_required(made))})" for key, made in list(functions.items())[:5])
    found += [f"it has the functions {listed}"] if listed else []
    return f": {'; '.join(found)}" if found else ""
