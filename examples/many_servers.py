"""Many servers at once: two that work, one that lacks a token, and one that is switched off.

python examples/many_servers.py
"""

import logging
import os
import sys
from pathlib import Path

from dragoman import Clients

CONFIGURATION = Path(__file__).with_suffix(".json")


def main() -> None:
    """Show what a group of servers has, and how each of them is."""
    logging.getLogger("dragoman").setLevel(logging.ERROR)  # what fails is shown below
    os.environ["EXAMPLE_PYTHON"] = sys.executable
    with Clients.from_config(CONFIGURATION) as clients:
        for name, status in clients.status.items():
            print(f"{name:<10} {status:<10} {clients.errors.get(name, '')}")
        print("tools:", ", ".join(tool.qualified_name for tool in clients.tools()))
        print("search:", clients.call_tool("search", {"text": "umbrella"}).structured)
        print("weather__forecast:", clients.call_tool("weather__forecast", {"city": "Oslo"}).structured)
        print("owner:", clients["notes"].call_tool("owner").text)


if __name__ == "__main__":
    main()
