"""Which task is running in a loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

current_task: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None]

if sys.version_info >= (3, 12):
    current_task = asyncio.current_task
else:
    # Which asyncio looks up by a function that takes four times as long, being written in Python.
    current_task = asyncio.tasks._current_tasks.get  # type: ignore[attr-defined]
