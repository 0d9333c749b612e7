"""A client process whose user logs in as they can: `python person.py url folder [redirect-uri]`."""

import asyncio
import json
import sys

from auth.visiting import visit
from dragoman.auth import FileStorage, OAuth
from dragoman.errors import AuthError


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(url: str, folder: str, redirect_uri: str | None = None) -> None:
    auth = OAuth(storage=FileStorage(folder), redirect_uri=redirect_uri)
    try:
        answer = await visit(auth, url)
    except AuthError as error:
        say({"error": str(error), "kind": type(error).__name__})
    else:
        say({"status": answer.status})
    await auth.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
