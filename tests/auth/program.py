"""A program that gets in by its own credentials: `python program.py url`; it prints how that went as JSON."""

import asyncio
import json
import sys

from auth.visiting import visit
from dragoman.auth import ClientCredentials
from dragoman.errors import AuthError


async def main(url: str) -> None:
    auth = ClientCredentials("reports", "the-own-secret")
    try:
        report = {"status": (await visit(auth, url)).status}
    except AuthError as error:
        report = {"error": str(error)}
    await auth.close()
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
