"""What outlives a request and reaches beyond its process: how the workers that serve one server hear of each other.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.stores.contract import Bus, EventLog, State, Store
    from dragoman.stores.local import Local
    from dragoman.stores.memory import Memory

__all__ = [
    "Bus",
    "EventLog",
    "Local",
    "Memory",
    "State",
    "Store",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".contract": "Bus EventLog State Store",
            ".local": "Local",
            ".memory": "Memory",
        },
    )
