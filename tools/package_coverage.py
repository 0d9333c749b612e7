"""A pytest plugin that measures which code of the package the tests reach: `make coverage-all`.

    PYTHONPATH=tools python -m pytest -p package_coverage tests/unit

The plugin starts when pytest loads it, before the package is imported, and in every worker of xdist. Programs that
tests start as processes of their own are not measured, because they become slow enough to miss their deadlines. So code
that only such programs reach, for example `dragoman run --reload`, counts as not covered.
"""

from __future__ import annotations

import coverage

measured = coverage.Coverage(branch=True, source=["dragoman"], data_suffix=True)
measured.set_option("run:dynamic_context", None)
measured.start()


def pytest_unconfigure() -> None:
    """Save what this process measured, beside the data of the other workers."""
    measured.stop()
    measured.save()
