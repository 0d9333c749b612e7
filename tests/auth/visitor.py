"""A client process that visits a protected server: `python visitor.py url folder visits`.

It says on its output when it is ready, waits for a line, and then prints how its visits went as JSON.
"""

import asyncio
import json
import sys

from auth.visiting import person, visit
from dragoman.auth import FileStorage


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(url: str, folder: str, visits: int) -> None:
    browser, auth = person(storage=FileStorage(folder))
    await auth.headers("POST", url)
    say("ready")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    answers = [await visit(auth, url) for _ in range(visits)]
    sent = await auth.headers("POST", url)
    report = {
        "statuses": [answer.status for answer in answers],
        "logins": len(browser.urls),
        "token": sent["Authorization"].removeprefix("Bearer "),
    }
    say(report)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
