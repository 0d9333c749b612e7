"""The barest relays that `proxying.py` measures: they copy bytes and understand nothing.

python relays.py stdio COMMAND...
python relays.py PORT TARGET_PORT

No proxy can be faster: a process stands between the two ends, and wakes up for each message of either.
"""

import os
import select
import socket
import subprocess
import sys

SIZE = 1 << 16


def relay_pipes(command: list[str]) -> None:
    """Copy stdin to a child, and what the child writes to stdout."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None
    assert child.stdout is not None
    outputs = {0: child.stdin.fileno(), child.stdout.fileno(): 1}
    epoll = select.epoll()
    for source in outputs:
        epoll.register(source, select.EPOLLIN)
    while True:
        for source, _ in epoll.poll():
            data = os.read(source, SIZE)
            if not data:
                child.stdin.close()
                child.wait(15)
                return
            write_all(outputs[source], data)


def write_all(file: int, data: bytes) -> None:
    """Write to a pipe, however many pieces it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def relay_connections(port: int, target: int) -> None:
    """Copy what comes over each connection to a connection of its own to the target, and back."""
    listener = socket.create_server(("127.0.0.1", port))
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    others: dict[int, tuple[socket.socket, socket.socket]] = {}
    while True:
        for source, _ in epoll.poll():
            if source == listener.fileno():
                ends = listener.accept()[0], socket.create_connection(("127.0.0.1", target))
                for end, other in (ends, ends[::-1]):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    others[end.fileno()] = end, other
                    epoll.register(end, select.EPOLLIN)
            elif source in others:
                end, other = others[source]
                if not passed_on(end, other):
                    for closed in (end, other):
                        del others[closed.fileno()]
                        closed.close()


def passed_on(end: socket.socket, other: socket.socket) -> bool:
    """Copy what has come, and return False at the end of a connection or when it broke."""
    try:
        data = end.recv(SIZE, socket.MSG_DONTWAIT)
        other.sendall(data)
    except BlockingIOError:  # the event was one of a connection that had the same number before
        return True
    except ConnectionError:
        return False
    return bool(data)


if __name__ == "__main__":
    where, *words = sys.argv[1:]
    if where == "stdio":
        relay_pipes(words)
    else:
        relay_connections(int(where), int(words[0]))
