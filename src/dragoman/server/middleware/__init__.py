"""The public names of the ready-made middleware, each imported on first use."""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.server.middleware.concurrency import Concurrency as Concurrency
    from dragoman.server.middleware.max_result import MaxResult as MaxResult
    from dragoman.server.middleware.rate_limit import RateLimit as RateLimit
    from dragoman.server.middleware.request_timeout import RequestTimeout as RequestTimeout
    from dragoman.server.middleware.selection import RequestKey as RequestKey
else:
    __getattr__, __dir__ = lazy()
