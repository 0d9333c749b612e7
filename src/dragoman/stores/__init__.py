"""Stores: messages, events, values and tasks that the processes of one server share.

Each name is imported at its first use.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.stores.contract import Bus as Bus
    from dragoman.stores.contract import EventLog as EventLog
    from dragoman.stores.contract import Reach as Reach
    from dragoman.stores.contract import Revised as Revised
    from dragoman.stores.contract import State as State
    from dragoman.stores.contract import Store as Store
    from dragoman.stores.contract import TaskPhase as TaskPhase
    from dragoman.stores.contract import TaskRecord as TaskRecord
    from dragoman.stores.contract import Tasks as Tasks
    from dragoman.stores.contract import TaskSummary as TaskSummary
    from dragoman.stores.limits import Share as Share
    from dragoman.stores.limits import StoreLimits as StoreLimits
    from dragoman.stores.local.store import Local as Local
    from dragoman.stores.memory import Memory as Memory
    from dragoman.stores.redis.store import Redis as Redis
else:
    __getattr__, __dir__ = lazy()
