"""A server of notes, which examples/many_servers.py uses beside the weather.

python examples/notes.py
"""

import os

from dragoman import Server

server = Server("notes")

NOTES = ["Buy tea", "Pack the umbrella", "Call Jo"]


@server.tool
def search(text: str) -> list[str]:
    """Find notes.

    Args:
        text: What they hold.
    """
    return [note for note in NOTES if text.lower() in note.lower()]


@server.tool
def owner() -> str:
    """Whose notes these are."""
    return os.environ.get("NOTES_OWNER", "nobody")


if __name__ == "__main__":
    server.run()
