"""`CustomMethod`: a JSON-RPC method of an author (`server.method`)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.jsonrpc import encode
from dragoman.server.define.definition import Definition
from dragoman.server.request.call import Call


class CustomMethod(Definition[..., Any]):
    """A method of `server.method`; its function takes the params by name, or all of them as `params`."""

    @staticmethod
    def require_name(name: object) -> None:
        """Check the name of a method.

        Raises:
            DefinitionError: the name is not text, is empty, or is one that JSON-RPC reserves.
        """
        if not isinstance(name, str) or not name:
            raise DefinitionError(f'server.method() needs the name of the method, such as "acme/add", not {name!r}')
        if name.startswith("rpc."):
            raise DefinitionError(f"JSON-RPC reserves the names that begin with 'rpc.'; give {name!r} another name")

    def handle(self, _server: object, call: Call) -> None:
        """Set the function as the target of a request."""
        raw = call.request.raw_params
        takes_all = [parameter.name for parameter in self.signature.parameters] == ["params"]
        call.target, call.arguments = self, Raw(encode({"params": raw})) if takes_all else raw

    def result(self, call: Call, value: Any) -> Any:  # noqa: ARG002
        """Return the value of the function, converted to JSON types unless it is a `Result`."""
        return value if isinstance(value, types.Result) else msgspec.to_builtins(value)
