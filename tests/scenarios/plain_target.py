"""A server with sessions on stdio that needs only the standard library, so that many of its processes start quickly."""

import json
import os
import sys
from pathlib import Path

COMMAND = [sys.executable, "-S", __file__]


def is_running(pid: int) -> bool:
    """Tell whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve the tools `pid`, which returns the id of the process, and `hang`, which reports progress and never ends."""
    for line in sys.stdin:
        message = json.loads(line)
        id, method = message.get("id"), message.get("method")
        if method == "initialize":
            declared = {"capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}
            send(id=id, result={"protocolVersion": "2025-11-25", **declared})
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pid", "hang")]
            send(id=id, result={"tools": tools})
        elif method == "tools/call" and message["params"]["name"] == "pid":
            send(id=id, result={"content": [{"type": "text", "text": str(os.getpid())}]})
        elif method == "tools/call":
            token = message["params"].get("_meta", {}).get("progressToken")
            send(method="notifications/progress", params={"progressToken": token, "progress": 1})
        elif id is not None:
            send(id=id, error={"code": -32601, "message": "There is no such method"})


if __name__ == "__main__":
    main()
