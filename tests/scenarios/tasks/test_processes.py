"""Tasks of a server that is a real process on stdin and stdout, and that is started again."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from scenarios.task_peer import DECLARED, FIRST, GENERATIONS

SERVER = """
    from dragoman import BlockingContext, Context, Server

    server = Server("letters")

    @server.tool(name="async", task=True)
    async def write(ctx: Context) -> str:
        name = (await ctx.elicit("Who?", str)).content
        return f"Dear {name}"

    @server.tool(name="def", task=True)
    def write_blocking(ctx: BlockingContext) -> str:
        name = ctx.elicit("Who?", str).content
        return f"Dear {name}"

    server.run()
"""
ANSWER = {"action": "accept", "content": {"value": "Ada"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": DECLARED,
}


class Program:
    """One run of the program, and what it writes."""

    def __init__(self, folder, version):
        (folder / "letters.py").write_text(textwrap.dedent(SERVER))
        self.version = version
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "letters.py"],
            cwd=folder,
            env=os.environ | {"XDG_STATE_HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.heard = []
        if version == FIRST:
            introduction = {"protocolVersion": FIRST, "capabilities": DECLARED}
            self.request("initialize", **introduction, clientInfo={"name": "test", "version": "1"})

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method, **params):
        """Send a request, answer what the server asks meanwhile, and return the result."""
        meta = {} if self.version == FIRST else {"_meta": META}
        self.send(id=1, method=method, params={**params, **meta})
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                return message["result"]
            self.heard.append(message)
            if "id" in message:
                self.send(id=message["id"], result=ANSWER)
        raise AssertionError("the program ended")

    def until(self, id, status):
        while self.request("tasks/get", taskId=id)["status"] != status:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.mark.parametrize("kind", ["async", "def"])
@pytest.mark.parametrize("version", GENERATIONS)
@pytest.mark.covers("TKS-04", "TKS-13")
def test_a_task_that_asks_outlives_its_program(tmp_path, version, kind):
    with Program(tmp_path, version) as program:
        wish = {"task": {}} if version == FIRST else {}
        created = program.request("tools/call", name=kind, arguments={}, **wish)
        id = created.get("task", created)["taskId"]
        program.until(id, "input_required")
    with Program(tmp_path, version) as program:
        if version == FIRST:
            assert [task["taskId"] for task in program.request("tasks/list")["tasks"]] == [id]
            result = program.request("tasks/result", taskId=id)
            (asked,) = [message for message in program.heard if message["method"] == "elicitation/create"]
            assert asked["params"]["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": id}}
        else:
            program.request("tasks/update", taskId=id, inputResponses={"elicit-1": ANSWER})
            program.until(id, "completed")
            result = program.request("tasks/get", taskId=id)["result"]
        assert result["content"][0]["text"] == "Dear Ada"
