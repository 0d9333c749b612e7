"""Language models of every provider, by way of the package any-llm.

Theory of operation: a model keeps one client of its provider for each event loop, since connections belong to a loop.
A request is opened and read up to the first piece of the answer; what fails before that, and may pass, is tried again
after a pause. From the first piece on nothing is repeated: whoever reads has seen it. Whatever a provider raises
becomes a ModelError that says what to do and holds neither keys nor the provider's own exception, which may.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from dragoman.chat.completions import ANTHROPIC, CompletionReader, ProviderExtras, completion_messages, completion_tools
from dragoman.chat.messages import Delta, Message, Model, ModelOptions, ToolSpec
from dragoman.errors import ModelError
from dragoman.runtime.backoff import backoff
from dragoman.runtime.callables import invoke
from dragoman.runtime.offload import offload
from dragoman.types import Json

logger = logging.getLogger("dragoman.chat")

MOST_TOKENS_BY_DEFAULT = 8192
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
MOST_MEMORIES = 1_000

_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_SECRETS = (
    (re.compile(r"\b((sk|pk|gsk|xai|key)[-_]|AIza)[-_A-Za-z0-9*.]{6,}"), "***"),
    (re.compile(r"(?i)\b(bearer|api[-_ ]?key[=:]|key=|token=)\s*\S+"), r"\1 ***"),
    (re.compile(r"//[^/@\s]+@"), "//"),
)


def resolve_model(model: str | Model, **options: Any) -> Model:
    """Return the model of a name such as "openai:gpt-4.1", and a model as it is.

    Example:
        resolve_model("ollama:llama3.2", base_url="http://localhost:11434")

    Raises TypeError for what is neither, and where options are given to a model that is there already.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(model, str):
        return AnyLlm(model, **given)
    if not callable(getattr(model, "generate", None)):
        raise TypeError(f"{model!r} is no model: give a name such as 'openai:gpt-4.1', or an object with `generate`")
    if given:
        raise TypeError(f"{', '.join(given)} cannot be given to a model that is there already, only to one by its name")
    return model


class AnyLlm:
    """A model of any provider that any-llm knows, or of any endpoint that speaks as OpenAI's does.

    Example:
        model = AnyLlm("anthropic:claude-sonnet-4-5", api_key="...")
        model = AnyLlm("house:our-model", base_url="https://models.example.com/v1")

    Without `api_key` the provider's own environment variable is read. `retries` bounds how often a request is made
    again that failed before the model said anything. `strict` makes OpenAI hold the model to the tools' schemas. Other
    options go with every request.

    Raises ModelError where any-llm is not installed, and ValueError where the name lacks its provider.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        retries: int = 2,
        strict: bool = False,
        **options: Any,
    ) -> None:
        self._provider_name, colon, self._model = model.partition(":")
        if not colon or not self._provider_name or not self._model:
            raise ValueError(f"{model!r} does not name a provider; write it as in 'openai:gpt-4.1'")
        if importlib.util.find_spec("any_llm") is None:
            raise ModelError(
                f'Models by name need the package any-llm-sdk; run: pip install "dragoman[chat]" ({model})'
            )
        self._api_key = api_key
        self._base_url = base_url
        self._retries = retries
        self._strict = strict
        self._options = options
        self._providers: dict[asyncio.AbstractEventLoop, asyncio.Future[Any]] = {}
        self._memories: OrderedDict[str, ProviderExtras] = OrderedDict()

    @property
    def name(self) -> str:
        """The provider and the model, as in "openai:gpt-4.1"."""
        return f"{self._provider_name}:{self._model}"

    def __repr__(self) -> str:
        return f"<AnyLlm {self.name!r}>"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], options: ModelOptions
    ) -> AsyncIterator[Delta]:
        """Yield the answer to a conversation, piece by piece.

        Raises ModelError where the model cannot be asked, and where it did not answer to the end.
        """
        provider = await self._provider()
        stream = await self._begin(provider, self._request(provider, messages, tools, options))
        try:
            while stream.pieces:
                yield stream.pieces.pop(0)
                if not stream.pieces:
                    await stream.advance()
            self._remember(stream.answer)
        finally:
            await stream.close()

    async def aclose(self) -> None:
        """Close the connections that this event loop has to the provider."""
        creating = self._providers.pop(asyncio.get_running_loop(), None)
        if creating is None:
            return
        with suppress(Exception):
            await invoke((await creating).client.close, in_place=True)

    async def _provider(self) -> Any:
        loop = asyncio.get_running_loop()
        self._providers = {known: kept for known, kept in self._providers.items() if not known.is_closed()}
        creating = self._providers.get(loop)
        if creating is None:
            creating = self._providers[loop] = asyncio.ensure_future(offload(self._create))
        failure: Exception
        try:
            return await asyncio.shield(creating)
        except Exception as error:
            self._providers.pop(loop, None)
            failure = error
        raise self._failure(failure)

    def _create(self) -> Any:
        from any_llm import AnyLLM, MissingApiKeyError, UnsupportedParameterError, UnsupportedProviderError

        endpoint: Json = {"api_key": self._api_key, "api_base": self._base_url, "unified_exceptions": True}
        try:
            connections = _connections(AnyLLM.get_provider_class(self._provider_name))
            try:
                return AnyLLM.create(self._provider_name, max_retries=0, **endpoint, **connections)
            except UnsupportedParameterError:
                return AnyLLM.create(self._provider_name, **endpoint, **connections)
        except UnsupportedProviderError:
            if self._base_url is None:
                raise
        except MissingApiKeyError:
            if self._base_url is None or self._provider_name != "openai":
                raise
        endpoint |= _connections(AnyLLM.get_provider_class("openai"))
        return AnyLLM.create_openai_compatible(self._provider_name, max_retries=0, **endpoint)

    def _request(
        self, provider: Any, messages: Sequence[Message], tools: Sequence[ToolSpec], options: ModelOptions
    ) -> Json:
        from any_llm.providers.openai.base import BaseOpenAIProvider

        request: Json = {"stream": getattr(provider, "SUPPORTS_COMPLETION_STREAMING", True)}
        if request["stream"] and isinstance(provider, BaseOpenAIProvider):
            request["stream_options"] = {"include_usage": True}
        if self._provider_name in ANTHROPIC:
            request["max_tokens"] = MOST_TOKENS_BY_DEFAULT
        request |= self._options
        wishes = {"temperature": options.temperature, "max_tokens": options.max_tokens, "stop": options.stop}
        request |= {name: value for name, value in wishes.items() if value is not None}
        if tools:
            request["tools"] = completion_tools(tools, self._provider_name, strict=self._strict)
            request |= {"tool_choice": options.tool_choice} if options.tool_choice else {}
        request["model"] = self._model
        request["messages"] = completion_messages(messages, self._provider_name, self._memories)
        return request | options.extra

    async def _begin(self, provider: Any, request: Json) -> _Stream:
        """Return the answer to a request, read up to its first piece."""
        attempt = 0
        while True:
            stream = _Stream(self)
            try:
                await stream.open(provider, request)
            except BaseException as error:
                await stream.close()
                if not isinstance(error, ModelError):
                    raise
                pause = self._pause(stream, error, attempt)
                if pause is None:
                    raise
                logger.info("%s; it is asked again in %.1f s", error, pause)
            else:
                return stream
            attempt += 1
            await asyncio.sleep(pause)

    def _pause(self, stream: _Stream, error: ModelError, attempt: int) -> float | None:
        """Return for how long to wait before a request is made again, None if it is not."""
        if attempt >= self._retries or not stream.may_pass or (error.retry_after or 0) > LONGEST_PAUSE:
            return None
        if error.retry_after is not None:
            return error.retry_after
        return backoff(attempt, FIRST_PAUSE, LONGEST_PAUSE)

    def _remember(self, answer: CompletionReader) -> None:
        self._memories |= answer.memories()
        while len(self._memories) > MOST_MEMORIES:
            self._memories.popitem(last=False)

    def _failure(self, error: Exception) -> ModelError:
        """Return what a provider raised as an error that holds no secrets."""
        status = _status(error)
        said = self._without_secrets(_words(error))
        about = f"The model {self.name}"
        kind = type(error).__name__
        if kind == "MissingApiKeyError":
            variable = getattr(error, "env_var_name", "its environment variable")
            return ModelError(f"{about} needs a key: give api_key=..., or set {variable}")
        if kind == "UnsupportedProviderError":
            return ModelError(
                f"{about} has no provider that is known here: {said}. For an endpoint that speaks as OpenAI's does, "
                "give base_url=..."
            )
        if isinstance(error, ImportError):
            return ModelError(f"{about} needs a package that is missing: {said}")
        if status is None:
            place = f" at {self._without_secrets(self._base_url)}" if self._base_url else ""
            return ModelError(f"{about} cannot be asked{place}: {said}")
        remedy = _REMEDIES.get(status, "")
        return ModelError(f"{about} answered {status}: {said}{remedy}", status, _retry_after(error))

    def _without_secrets(self, text: str) -> str:
        keys = [self._api_key, *(value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_TOKEN")))]
        for key in keys:
            if key and len(key) >= 6:
                text = text.replace(key, "***")
        for pattern, instead in _SECRETS:
            text = pattern.sub(instead, text)
        return text


_REMEDIES = {
    401: "; check api_key, or the environment variable of the provider",
    403: "; the key does not allow this",
    404: "; check the name of the model and base_url",
    429: "; ask less often, or see what your plan allows",
}


class _Stream:
    """An answer on its way."""

    def __init__(self, model: AnyLlm) -> None:
        self._model = model
        self._chunks: AsyncIterator[Any] | None = None
        self.answer = CompletionReader()
        self.pieces: list[Delta] = []
        self.may_pass = False
        """Whether what failed may succeed when it is tried again."""
        self._begun = False
        self._ended = False

    async def open(self, provider: Any, request: Json) -> None:
        """Ask, and read up to the first piece."""
        answered = await self._guard(provider.acompletion(**request))
        if hasattr(answered, "__aiter__"):
            self._chunks = aiter(answered)
            await self.advance()
            return
        self.pieces = [*self.answer.receive_whole(answered), *self.answer.end()]
        self._ended = True

    async def advance(self) -> None:
        """Read up to the next piece; there is none at the end."""
        while not self.pieces and not self._ended:
            chunk = await self._guard(self._next())
            if chunk is None:
                self._finish()
            else:
                self.pieces = list(self.answer.receive(chunk))
        self._begun = True

    async def close(self) -> None:
        """Let go of the connection."""
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            with suppress(Exception):
                await close()

    async def _next(self) -> Any:
        assert self._chunks is not None
        return await anext(self._chunks, None)

    def _finish(self) -> None:
        if self.answer.finish_reason is None:
            self.may_pass = not self._begun
            raise ModelError(f"The model {self._model.name} was cut off in the middle of its answer")
        self._ended = True
        self.pieces = list(self.answer.end())

    async def _guard(self, call: Any) -> Any:
        """Await something of the provider; what it raises becomes a ModelError without a trace of it."""
        failure: Exception
        try:
            return await call
        except Exception as error:
            failure = error
        self.may_pass = _may_pass(failure)
        known = self._model._failure(failure)
        if self._begun:
            raise ModelError(
                f"The model {self._model.name} was cut off in the middle of its answer: {known}",
                known.status,
                known.retry_after,
            )
        raise known


def _connections(provider: Any) -> Json:
    """Return connections for a provider that, once forgotten, do not close themselves on whichever loop then runs."""
    from any_llm.providers.openai.base import BaseOpenAIProvider

    if provider.MISSING_PACKAGES_ERROR is not None:
        return {}
    if provider.PROVIDER_NAME == "anthropic":
        import anthropic

        return {"http_client": anthropic.DefaultAsyncHttpxClient()}
    if getattr(provider, "_init_client", None) is BaseOpenAIProvider._init_client:
        import openai

        return {"http_client": openai.DefaultAsyncHttpxClient()}
    return {}


def _cause(error: BaseException) -> BaseException:
    original = getattr(error, "original_exception", None)
    return original if isinstance(original, BaseException) else error


def _status(error: BaseException) -> int | None:
    for found in (getattr(error, "status_code", None), getattr(_cause(error), "status_code", None)):
        if isinstance(found, int) and found >= 300:
            return found
    return 529 if "overloaded" in str(error).lower() else None


def _may_pass(error: Exception) -> bool:
    if isinstance(error, ImportError | TypeError | ValueError | NotImplementedError):
        return False
    if "insufficient_quota" in (getattr(error, "code", None), getattr(error, "error_type", None)):
        return False
    status = _status(error)
    return status in _PASSING or (status is None and type(error).__name__ not in _HOPELESS)


_HOPELESS = frozenset(
    {
        "AuthenticationError",
        "ContentFilterError",
        "ContextLengthExceededError",
        "InsufficientFundsError",
        "InvalidRequestError",
        "MissingApiKeyError",
        "ModelNotFoundError",
        "UnsupportedParameterError",
        "UnsupportedProviderError",
    }
)


def _words(error: Exception) -> str:
    """Return what a provider said, without its wrapping."""
    body = getattr(_cause(error), "body", None)
    if isinstance(body, dict):
        inner = body.get("error")
        message = (inner if isinstance(inner, dict) else body).get("message")
        if isinstance(message, str):
            return message
    return str(_cause(error)) or type(_cause(error)).__name__


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(_cause(error), "response", None), "headers", None) or {}
    said = headers.get("retry-after") or getattr(error, "retry_after", None)
    if not said:
        return None
    with suppress(ValueError):
        return max(0.0, float(said))
    with suppress(ValueError, TypeError):
        moment = parsedate_to_datetime(said)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None
