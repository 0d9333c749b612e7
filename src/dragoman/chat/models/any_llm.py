"""AnyLlm: models of every provider, through the package any-llm.

A model has one client of its provider for each event loop, since connections belong to a loop. A request that fails
before the first delta of the answer is sent again after a pause, if the failure is transient. After the first delta
nothing is repeated, because the caller already has that delta. Every exception of a provider becomes a ModelError that
names the remedy. The ModelError holds neither keys nor the provider's exception, which may hold them.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import logging
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from dragoman.chat.messages import Delta, Message, ModelOptions, ToolSpec
from dragoman.chat.models.completions import (
    ANTHROPIC,
    CompletionReader,
    ProviderExtras,
    completion_messages,
    completion_tools,
)
from dragoman.errors import ModelError
from dragoman.runtime.backoff import backoff
from dragoman.runtime.callables import invoke
from dragoman.runtime.offload import offload
from dragoman.types import Json
from dragoman.types.memo import Recent

_logger = logging.getLogger("dragoman.chat")

DEFAULT_MAX_TOKENS = 8192
FIRST_PAUSE, MAX_PAUSE = 0.5, 60.0
MAX_EXTRAS = 1_000
"""The number of calls whose `ProviderExtras` are kept."""

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_SECRETS = (
    (re.compile(r"\b((sk|pk|gsk|xai|key)[-_]|AIza)[-_A-Za-z0-9*.]{6,}"), "***"),
    (re.compile(r"(?i)\b(bearer|api[-_ ]?key[=:]|key=|token=)\s*\S+"), r"\1 ***"),
    (re.compile(r"//[^/@\s]+@"), "//"),
)


class AnyLlm:
    """A model of any provider that any-llm supports, or of any endpoint that is compatible with OpenAI's.

    Example:
        model = AnyLlm("anthropic:claude-sonnet-4-5", api_key="...")
        model = AnyLlm("house:our-model", base_url="https://models.example.com/v1")

    Without `api_key` the provider's own environment variable is read. A request that failed before the model answered
    is sent again up to `retries` times. `strict` makes OpenAI enforce the schemas of the tools. Other options are sent
    with every request.

    Raises:
        ModelError: any-llm is not installed.
        ValueError: the name has no provider.
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
        self._extras: Recent[str, ProviderExtras] = Recent(MAX_EXTRAS)

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

        Raises:
            ModelError: the model cannot be reached, or its answer is incomplete.
        """
        provider = await self._provider()
        request = self._request(provider, messages, tools, options)
        for attempt in itertools.count():
            response = _Response(self.name, self._failure)
            try:
                async with aclosing(response.deltas(provider, request)) as deltas:
                    async for delta in deltas:
                        yield delta
            except ModelError as error:
                pause = self._retry_pause(response, error, attempt)
                if pause is None:
                    raise
                _logger.info("%s; it is asked again in %.1f s", error, pause)
                await asyncio.sleep(pause)
            else:
                self._keep_extras(response.reader)
                return

    def _retry_pause(self, response: _Response, error: ModelError, attempt: int) -> float | None:
        """Return the seconds to wait before a request is sent again; None if it is not sent again."""
        if response.has_begun or not response.is_transient:
            return None
        if attempt >= self._retries or (error.retry_after or 0) > MAX_PAUSE:
            return None
        return backoff(attempt, FIRST_PAUSE, MAX_PAUSE) if error.retry_after is None else error.retry_after

    def _keep_extras(self, reader: CompletionReader) -> None:
        for id, extras in reader.extras().items():
            self._extras[id] = extras

    async def aclose(self) -> None:
        """Close the connections that this event loop has to the provider."""
        creating = self._providers.pop(asyncio.get_running_loop(), None)
        if creating is None:
            return
        with suppress(Exception):
            await invoke((await creating).client.close, in_place=True)

    async def _provider(self) -> Any:
        loop = asyncio.get_running_loop()
        self._providers = {one: creating for one, creating in self._providers.items() if not one.is_closed()}
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
            http_client = _http_client(AnyLLM.get_provider_class(self._provider_name))
            try:
                return AnyLLM.create(self._provider_name, max_retries=0, **endpoint, **http_client)
            except UnsupportedParameterError:
                return AnyLLM.create(self._provider_name, **endpoint, **http_client)
        except UnsupportedProviderError:
            if self._base_url is None:
                raise
        except MissingApiKeyError:
            if self._base_url is None or self._provider_name != "openai":
                raise
        endpoint |= _http_client(AnyLLM.get_provider_class("openai"))
        return AnyLLM.create_openai_compatible(self._provider_name, max_retries=0, **endpoint)

    def _request(
        self, provider: Any, messages: Sequence[Message], tools: Sequence[ToolSpec], options: ModelOptions
    ) -> Json:
        from any_llm.providers.openai.base import BaseOpenAIProvider

        request: Json = {"stream": getattr(provider, "SUPPORTS_COMPLETION_STREAMING", True)}
        if request["stream"] and isinstance(provider, BaseOpenAIProvider):
            request["stream_options"] = {"include_usage": True}
        if self._provider_name in ANTHROPIC:
            request["max_tokens"] = DEFAULT_MAX_TOKENS
        request |= self._options
        given = {"temperature": options.temperature, "max_tokens": options.max_tokens, "stop": options.stop}
        request |= {name: value for name, value in given.items() if value is not None}
        if tools:
            request["tools"] = completion_tools(tools, self._provider_name, strict=self._strict)
            request |= {"tool_choice": options.tool_choice} if options.tool_choice else {}
        request["model"] = self._model
        request["messages"] = completion_messages(messages, self._provider_name, self._extras)
        return request | options.extra

    def _failure(self, error: Exception) -> ModelError:
        """Return the ModelError for an exception of a provider, without secrets."""
        status = _status(error)
        said = self._without_secrets(_message(error))
        about = f"The model {self.name}"
        kind = type(error).__name__
        if kind == "MissingApiKeyError":
            variable = getattr(error, "env_var_name", "its environment variable")
            return ModelError(f"{about} needs a key: give api_key=..., or set {variable}")
        if kind == "UnsupportedProviderError":
            return ModelError(
                f"{about} has no known provider: {said}. For an endpoint that is compatible with OpenAI, give"
                " base_url=..."
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


class _Response:
    """The response to one request, while it is read."""

    def __init__(self, model: str, failure: Callable[[Exception], ModelError]) -> None:
        self._model = model
        self._failure = failure
        self.reader = CompletionReader()
        self.has_begun = False
        """Whether a delta was yielded."""
        self.is_transient = False
        """Whether the failure is transient, so that the request may succeed later."""

    async def deltas(self, provider: Any, request: Json) -> AsyncGenerator[Delta, None]:
        """Make the request, and yield the deltas of its response."""
        completion = await self._guard(provider.acompletion(**request))
        if not hasattr(completion, "__aiter__"):
            for delta in [*self.reader.receive_whole(completion), *self.reader.end()]:
                yield delta
            return
        chunks = aiter(completion)
        try:
            while (chunk := await self._guard(anext(chunks, None))) is not None:
                for delta in self.reader.receive(chunk):
                    self.has_begun = True
                    yield delta
            if self.reader.finish_reason is None:
                self.is_transient = True
                raise ModelError(f"The model {self._model} was cut off in the middle of its answer")
            for delta in self.reader.end():
                yield delta
        finally:
            if hasattr(chunks, "aclose"):
                with suppress(Exception):
                    await chunks.aclose()

    async def _guard(self, call: Awaitable[Any]) -> Any:
        """Await a call of the provider; raise its exception as a ModelError without a reference to the exception."""
        failure: Exception
        try:
            return await call
        except Exception as error:
            failure = error
        self.is_transient = _is_transient(failure)
        known = self._failure(failure)
        if self.has_begun:
            raise ModelError(
                f"The model {self._model} was cut off in the middle of its answer: {known}",
                known.status,
                known.retry_after,
            )
        raise known


def _http_client(provider: Any) -> Json:
    """Return an `http_client` that does not close itself on the wrong event loop when it is garbage-collected."""
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


def _original(error: BaseException) -> BaseException:
    original = getattr(error, "original_exception", None)
    return original if isinstance(original, BaseException) else error


def _status(error: BaseException) -> int | None:
    for found in (getattr(error, "status_code", None), getattr(_original(error), "status_code", None)):
        if isinstance(found, int) and found >= 300:
            return found
    return 529 if "overloaded" in str(error).lower() else None


def _is_transient(error: Exception) -> bool:
    if isinstance(error, ImportError | TypeError | ValueError | NotImplementedError):
        return False
    if "insufficient_quota" in (getattr(error, "code", None), getattr(error, "error_type", None)):
        return False
    status = _status(error)
    return status in _TRANSIENT_STATUSES or (status is None and type(error).__name__ not in _PERMANENT_ERRORS)


_PERMANENT_ERRORS = frozenset(
    {
        *("AuthenticationError", "ContentFilterError", "ContextLengthExceededError", "InsufficientFundsError"),
        *("InvalidRequestError", "MissingApiKeyError", "ModelNotFoundError"),
        *("UnsupportedParameterError", "UnsupportedProviderError"),
    }
)


def _message(error: Exception) -> str:
    body = getattr(_original(error), "body", None)
    if isinstance(body, dict):
        inner = body.get("error")
        message = (inner if isinstance(inner, dict) else body).get("message")
        if isinstance(message, str):
            return message
    return str(_original(error)) or type(_original(error)).__name__


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(_original(error), "response", None), "headers", None) or {}
    said = headers.get("retry-after") or getattr(error, "retry_after", None)
    if not said:
        return None
    with suppress(ValueError):
        return max(0.0, float(said))
    with suppress(ValueError, TypeError):
        moment = parsedate_to_datetime(said)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None
