"""What outlives a request and reaches beyond its process: how the workers that serve one server hear of each other."""

from dragoman.stores.contract import Bus, EventLog, State, Store
from dragoman.stores.local import Local
from dragoman.stores.memory import Memory

__all__ = ["Bus", "EventLog", "Local", "Memory", "State", "Store"]
