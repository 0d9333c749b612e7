"""The model of the examples: the one that DRAGOMAN_MODEL names, else one that says what it was told to.

DRAGOMAN_MODEL=openai:gpt-4.1 python examples/chat/tool_calls.py
"""

import os
from pathlib import Path
from typing import Any

from dragoman.testing import ScriptedModel

SERVER = Path(__file__).parents[1] / "travel.py"


def model(*answers: Any) -> Any:
    """Return the real model if there is one, else one that gives these answers."""
    return os.environ.get("DRAGOMAN_MODEL") or ScriptedModel(*answers)


if __name__ == "__main__":
    print(model())
