"""A server over SQLite, as somebody writes it on the first day."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dragoman import BlockingContext, Context, File, Image, Server, ToolError
from dragoman.types import Icon, PromptMessage, TextContent, ToolAnnotations

DATABASE = Path("notes.db")

server = Server("notes", version="1.0", instructions="Keeps notes.", icons=[Icon("https://example.com/notes.png")])


@dataclass
class Note:
    id: int
    title: str
    text: str


@dataclass
class Confirmation:
    sure: bool


@contextmanager
def database() -> Generator[sqlite3.Connection, None, None]:
    connection = sqlite3.connect(DATABASE)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


@server.tool
def add_note(title: str, text: str) -> Note:
    """Adds a note."""
    with database() as connection:
        cursor = connection.execute("INSERT INTO notes (title, text) VALUES (?, ?)", (title, text))
        return Note(cursor.lastrowid or 0, title, text)


@server.tool(title="Find notes", annotations=ToolAnnotations(read_only_hint=True))
def find_notes(words: str, limit: int = 10) -> list[Note]:
    """Finds notes by the words in them."""
    with database() as connection:
        rows = connection.execute("SELECT id, title, text FROM notes WHERE text LIKE ? LIMIT ?", (f"%{words}%", limit))
        return [Note(*row) for row in rows]


@server.tool(annotations={"destructiveHint": True})
def delete_note(note_id: int, ctx: BlockingContext) -> str:
    """Deletes a note, if the user is sure."""
    answer = ctx.elicit(f"Delete note {note_id}?", Confirmation)
    if not (answer.accepted and answer.content.sure):
        return "kept"
    with database() as connection:
        if connection.execute("DELETE FROM notes WHERE id = ?", (note_id,)).rowcount == 0:
            raise ToolError(f"There is no note {note_id}")
    return "deleted"


@server.tool("summarise")
async def summarise_note(note_id: int, ctx: Context) -> str:
    """Lets the client's model summarise a note."""
    await ctx.report_progress(1, total=2, message="reading")
    with database() as connection:
        row = connection.execute("SELECT text FROM notes WHERE id = ?", (note_id,)).fetchone()
    text = await ctx.step("text", lambda: str(row[0]))
    said = await ctx.sample(f"Summarise: {text.strip()}", max_tokens=200)
    return said.text


@server.tool
def cover() -> Image:
    """The cover of the notebook."""
    return Image(Path("cover.png").read_bytes(), "image/png")


@server.tool
def export() -> File:
    """All notes, as they are kept."""
    return File(DATABASE, "application/vnd.sqlite3")


@server.resource("notes://{note_id}", mime_type="text/plain")
def note(note_id: int) -> str:
    with database() as connection:
        return str(connection.execute("SELECT text FROM notes WHERE id = ?", (note_id,)).fetchone()[0])


@note.complete("note_id")
def note_ids(value: str) -> list[str]:
    return [str(number) for number in range(10) if str(number).startswith(value)]


@server.prompt
def review(title: str, tone: str = "kind") -> list[PromptMessage]:
    return [PromptMessage("user", TextContent(f"Review my note {title!r} in a {tone} tone."))]


@review.complete("tone")
def tones(value: str, arguments: dict[str, str]) -> list[str]:
    return [tone for tone in ("terse", "kind") if tone.startswith(value) and "title" in arguments]


if __name__ == "__main__":
    server.run()
