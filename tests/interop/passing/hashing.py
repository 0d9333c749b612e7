"""Stands before a command, passes every byte, and at the end writes the digest of each direction to a file.

python hashing.py FILE COMMAND ...
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


def copy(source, sink, digest, close):
    while chunk := os.read(source, 65536):
        digest.update(chunk)
        view = memoryview(chunk)
        while view:
            view = view[os.write(sink, view) :]
    close()


def main(file, *command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    sent, received = hashlib.sha256(), hashlib.sha256()
    ways = [
        (0, child.stdin.fileno(), sent, child.stdin.close),
        (child.stdout.fileno(), 1, received, lambda: None),
    ]
    threads = [threading.Thread(target=copy, args=way, daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # a client that does not wait for the end
    try:
        child.wait()
        threads[1].join()
    finally:
        partial = Path(f"{file}.part")
        partial.write_text(json.dumps([sent.hexdigest(), received.hexdigest()]), encoding="utf-8")
        partial.rename(file)


main(*sys.argv[1:])
