"""ChatModels: the models of one chat, its own one and others that sampling requests name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.chat.messages import Model
from dragoman.chat.models.any_llm import AnyLlm


def resolve_model(model: str | Model, **options: Any) -> Model:
    """Return the model with a name such as "openai:gpt-4.1"; a model object is returned unchanged.

    Example:
        resolve_model("ollama:llama3.2", base_url="http://localhost:11434")

    Raises:
        TypeError: `model` is neither a name nor a model, or options are given with a model object.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(model, str):
        return AnyLlm(model, **given)
    if not callable(getattr(model, "generate", None)):
        raise TypeError(f"{model!r} is not a model: give a name such as 'openai:gpt-4.1', or an object with `generate`")
    if given:
        raise TypeError(f"{', '.join(given)} can be given only to a model by its name, not to a model object")
    return model


class ChatModels:
    """The models of one chat, by name."""

    def __init__(self, model: str | Model, **connection: Any) -> None:
        self._created: list[Any] = []
        self._added: dict[str, Model] = {}
        self.choose(model, **connection)

    def choose(self, model: str | Model, **connection: Any) -> None:
        """Set the chat's own model."""
        self._connection = connection
        self.own = self._resolve(model, connection)
        self._known: dict[str, Model] = {**self._added, self.own.name: self.own}

    def _resolve(self, model: str | Model, connection: Mapping[str, Any]) -> Model:
        resolved = resolve_model(model, **connection)
        if resolved is not model:
            self._created.append(resolved)
        return resolved

    def add(self, model: Model) -> str:
        """Add another model, and return its name."""
        self._added[model.name] = self._known[model.name] = model
        return model.name

    def named(self, name: str | None) -> Model:
        """Return the model with a name; a name without a provider means the provider of the chat's own model.

        Raises:
            ValueError: neither the name nor the chat's own model names a provider.
            ModelError: the model is not available.
        """
        if name is None:
            return self.own
        if name not in self._known:
            provider, colon, _ = self.own.name.partition(":")
            full = name if ":" in name or not colon else f"{provider}:{name}"
            is_same = full.partition(":")[0] == provider
            self._known[name] = self._known.get(full) or self._resolve(full, self._connection if is_same else {})
        return self._known[name]

    @property
    def has_created(self) -> bool:
        """Whether this object created models, which it has to close."""
        return bool(self._created)

    async def close(self) -> None:
        """Close the connections of the models that were created here."""
        for model in self._created:
            await model.aclose()
