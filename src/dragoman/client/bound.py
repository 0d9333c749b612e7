"""Tools, prompts, resources and templates of a server, bound to the client that found them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, Unpack

from dragoman import types
from dragoman.client.results import CallResult, Structured, contents_bytes
from dragoman.protocol.uritemplate import UriTemplate

if TYPE_CHECKING:
    from dragoman.client.client import AsyncClient
    from dragoman.client.options import CallOptions, OnProgress

D = TypeVar("D", bound=types.Tool | types.Prompt | types.Resource | types.ResourceTemplate)


class AcceptsResources(Protocol):
    """A conversation that a resource can be added to, such as a `Chat`."""

    def with_resource(self, resource: Any, arguments: Mapping[str, Any] | None = None) -> Any:
        """Add a resource, or the resource of a template for some arguments, to the conversation."""


C = TypeVar("C", bound=AcceptsResources)


class Described(Generic[D]):
    """The fields that all definitions of a server have."""

    definition: D

    @property
    def name(self) -> str:
        """The name."""
        return self.definition.name

    @property
    def title(self) -> str | None:
        """The name for people."""
        return self.definition.title

    @property
    def display_name(self) -> str:
        """The name to show to people: the title, or else the name."""
        return self.definition.title or self.definition.name

    @property
    def description(self) -> str | None:
        """The server's description."""
        return self.definition.description

    @property
    def icons(self) -> list[types.Icon]:
        """The icons."""
        return self.definition.icons or []

    @property
    def meta(self) -> types.Json:
        """The `_meta` of the definition."""
        return self.definition.meta or {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Bound(Generic[D]):
    """A definition of a server, bound to the client that uses it."""

    def __init__(self, client: AsyncClient, definition: D) -> None:
        self._client = client
        self.definition = definition

    def _bound_to(self, client: AsyncClient) -> Self:
        return type(self)(client, self.definition)

    def extension(self, id: str) -> Any:
        """Return the value that an extension of the client reads from the definition; None if there is none."""
        definition, extensions = self.definition, self._client._session.extensions
        if isinstance(definition, types.Tool):
            return extensions.read_tool(id, definition)
        return None if isinstance(definition, types.Prompt) else extensions.read_resource(id, definition)


class ToolView(Described[types.Tool]):
    """The definition of a tool."""

    @property
    def display_name(self) -> str:
        """The name to show to people: the title, else the title of the annotations, else the name."""
        return self.definition.title or self.annotations.title or self.definition.name

    @property
    def input_schema(self) -> types.Json:
        """The JSON Schema of the arguments."""
        return self.definition.input_schema

    @property
    def output_schema(self) -> types.Json | None:
        """The JSON Schema of the structured content; None if the server gave none."""
        return self.definition.output_schema

    @property
    def ui(self) -> types.ToolUi:
        """The app that shows the tool's results, and whether models and apps may call the tool."""
        from dragoman.protocol.official.apps import tool_ui

        return tool_ui(self.definition.meta)

    @property
    def annotations(self) -> types.ToolAnnotations:
        """The server's hints about the tool. Rely on them only if you trust the server."""
        return self.definition.annotations or types.ToolAnnotations()

    def to_openai(self, *, name: str | None = None, strict: bool = False) -> types.Json:
        """Return the tool as OpenAI's APIs take it, for use with a model of your own."""
        from dragoman.schema.dialects import to_openai

        return to_openai(self.definition, name=name, strict=strict)

    def to_anthropic(self, *, name: str | None = None) -> types.Json:
        """Return the tool as Anthropic's API takes it, for use with a model of your own."""
        from dragoman.schema.dialects import to_anthropic

        return to_anthropic(self.definition, name=name)

    def to_gemini(self, *, name: str | None = None) -> types.Json:
        """Return the tool as Google's Gemini API takes it, for use with a model of your own."""
        from dragoman.schema.dialects import to_gemini

        return to_gemini(self.definition, name=name)


class AsyncBoundTool(Bound[types.Tool], ToolView):
    """A tool of a server.

    Example:
        forecast = await client.tool("forecast")
        result = await forecast(city="Oslo")
    """

    @property
    def server(self) -> str | None:
        """The name of the server: the client's `server_name`."""
        return self._client.server_name

    @property
    def is_trusted(self) -> bool:
        """Whether the client trusts the server's annotations of the tool."""
        return self._client.trusted

    @property
    def on_progress(self) -> OnProgress | None:
        """The function of the client that receives the progress of calls without an `on_progress` of their own."""
        return self._client.on_progress

    def is_same_as(self, other: AsyncBoundTool) -> bool:
        """Tell whether another object is the same tool of the same client."""
        return self._client is other._client and self.name == other.name

    async def __call__(self, /, **arguments: object) -> CallResult:
        """Call the tool with keyword arguments; `call` takes options too."""
        return await self.call(arguments)

    async def call(
        self,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: type[Structured] | None = None,
        **options: Unpack[CallOptions],
    ) -> CallResult[Structured]:
        """Call the tool with the options of `call_tool`."""
        return await self._client.call_tool(self, arguments, result_type=result_type, **options)


class PromptView(Described[types.Prompt]):
    """The definition of a prompt."""

    @property
    def arguments(self) -> list[types.PromptArgument]:
        """The arguments of the prompt."""
        return self.definition.arguments or []


class AsyncBoundPrompt(Bound[types.Prompt], PromptView):
    """A prompt of a server.

    Example:
        greet = await client.prompt("greet")
        messages = (await greet.fetch(name="Jo")).messages
    """

    async def fetch(self, /, **arguments: object) -> types.GetPromptResult:
        """Return the prompt with its arguments filled in.

        Raises:
            TypeError: a required argument is missing; nothing was sent.
        """
        missing = [one.name for one in self.arguments if one.required and arguments.get(one.name) is None]
        if missing:
            raise TypeError(f"The prompt {self.name!r} needs {_argument_names(missing)}")
        return await self._client.get_prompt(self.name, arguments)

    async def complete(self, argument: str, value: str, context: Mapping[str, str] | None = None) -> types.Completion:
        """Return completions of an argument of this definition."""
        return await self._client.complete(types.PromptReference(self.name), argument, value, context)


class AppDocument(Described[D]):
    """The definition of a resource or template, which may be the document of an app."""

    @property
    def ui(self) -> types.ResourceUi:
        """What the document of an app needs of its host: origins, permissions, domain and border."""
        from dragoman.protocol.official.apps import resource_ui

        return resource_ui(self.definition.meta)


class ResourceView(AppDocument[types.Resource]):
    """The definition of a resource."""

    @property
    def uri(self) -> str:
        """The URI."""
        return self.definition.uri

    @property
    def mime_type(self) -> str | None:
        """The MIME type."""
        return self.definition.mime_type

    @property
    def size(self) -> int | None:
        """The size in bytes."""
        return self.definition.size

    def include(self, chat: C) -> C:
        """Add the resource to a chat, as `chat.with_resource(resource)` does, and return the chat.

        Example:
            resource.include(chat)

        Raises:
            TypeError: one of chat and client is blocking, and the other is asynchronous.
        """
        chat.with_resource(self)
        return chat


class AsyncBoundResource(Bound[types.Resource], ResourceView):
    """A resource of a server; its contents are cached until the server notifies of a change.

    Example:
        readme = await client.resource("readme")
        print(await readme.content())
    """

    def __init__(self, client: AsyncClient, definition: types.Resource) -> None:
        super().__init__(client, definition)
        self._contents: list[types.ResourceContents] | None = None
        self._edition = 0

    async def contents(self, *, refresh: bool = False) -> list[types.ResourceContents]:
        """Return all contents of the resource."""
        contents = None if refresh else self._contents
        if contents is None:
            self._client._session.catalog.watch(self.uri, self)
            edition = self._edition
            contents = (await self._client.read_resource(self.uri)).contents
            # The resource may have changed while it was read.
            self._contents = contents if edition == self._edition else None
        return contents

    async def content(self, *, refresh: bool = False) -> str | bytes:
        """Return the content of the resource: text, or bytes."""
        return join_contents(await self.contents(refresh=refresh))

    async def subscribe(self, on_update: Callable[[str], object] | None = None) -> None:
        """Subscribe to the resource; each change calls `on_update` with the URI and drops the cached contents."""
        self._client._session.catalog.watch(self.uri, self)
        await self._client.subscribe(self.uri, on_update)

    async def unsubscribe(self) -> None:
        """End the subscription."""
        await self._client.unsubscribe(self.uri)

    def forget(self) -> None:
        """Drop the cached contents."""
        self._contents = None
        self._edition += 1


class ResourceTemplateView(AppDocument[types.ResourceTemplate]):
    """The definition of a resource template."""

    @property
    def uri_template(self) -> str:
        """The URI template."""
        return self.definition.uri_template

    @property
    def mime_type(self) -> str | None:
        """The MIME type of the resources."""
        return self.definition.mime_type

    def uri(self, /, **arguments: object) -> str:
        """Return the URI for some arguments; optional arguments that are missing or None are left out of it.

        Raises:
            TypeError: the template has no such variable, or a required argument is missing.
            DefinitionError: the URI template is invalid.
        """
        template = UriTemplate(self.uri_template)
        unknown = [name for name in arguments if name not in template.variables]
        if unknown:
            known = ", ".join(template.variables) or "none"
            raise TypeError(f"{self.uri_template} has no variable {unknown[0]!r}; there are: {known}")
        missing = [name for name in template.required if arguments.get(name) is None]
        if missing:
            raise TypeError(f"{self.uri_template} needs {_argument_names(missing)}")
        return template.expand({name: _as_value(value) for name, value in arguments.items()})

    def include(self, chat: C, /, **arguments: object) -> C:
        """Add the resource for some arguments to a chat, as `chat.with_resource` does, and return the chat.

        Example:
            template.include(chat, date="2026-07-28")

        Raises:
            TypeError: one of chat and client is blocking, and the other is asynchronous.
        """
        chat.with_resource(self, arguments)
        return chat


class AsyncBoundResourceTemplate(Bound[types.ResourceTemplate], ResourceTemplateView):
    """A resource template of a server.

    Example:
        logs = await client.resource_template("logs")
        print(await logs.fetch(date="2026-07-28"))
    """

    async def contents(self, /, **arguments: object) -> list[types.ResourceContents]:
        """Return all contents of the resource for some arguments."""
        return (await self._client.read_resource(self.uri(**arguments))).contents

    async def fetch(self, /, **arguments: object) -> str | bytes:
        """Return the content of the resource for some arguments: text, or bytes."""
        return join_contents(await self.contents(**arguments))

    async def complete(self, argument: str, value: str, context: Mapping[str, str] | None = None) -> types.Completion:
        """Return completions of an argument of this definition."""
        reference = types.ResourceTemplateReference(self.uri_template)
        return await self._client.complete(reference, argument, value, context)


def _argument_names(missing: list[str]) -> str:
    names = ", ".join(repr(name) for name in missing)
    return f"the argument {names}" if len(missing) == 1 else f"the arguments {names}"


def _as_value(value: Any) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def join_contents(contents: list[types.ResourceContents]) -> str | bytes:
    """Return contents as text, or as bytes if any of them is binary.

    Raises:
        ValidationError: a blob is not base64.
    """
    if all(part.blob is None for part in contents):
        return "\n".join(part.text or "" for part in contents)
    return b"".join(contents_bytes(part) for part in contents)
