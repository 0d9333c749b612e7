"""Says which of the names in its arguments a library has; run in the environment of that library.

A name is `module`, `module:attribute.attribute`, or `module:callable(parameter)`. What is not there is one line each.
"""

import importlib
import inspect
import sys
from functools import reduce
from typing import Any


def has(name: str) -> bool:
    """Tell whether a name leads to something."""
    path, _, parameter = name.rstrip(")").partition("(")
    module, _, attributes = path.partition(":")
    try:
        found: Any = reduce(getattr, filter(None, attributes.split(".")), importlib.import_module(module))
    except (ImportError, AttributeError):
        return False
    return not parameter or parameter in inspect.signature(found).parameters


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in sys.argv[1:] if not has(name))
