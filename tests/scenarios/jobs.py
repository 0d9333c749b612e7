"""An extension of the tests' own that runs tools apart from their requests: jobs that ask, replay and can be cancelled.

It keeps each call as JSON, as a store would, and begins every run with what that JSON says.
"""

import asyncio
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from dragoman import Context, Server, types
from dragoman.errors import InvalidParams, RpcError
from dragoman.server import DetachedCall, ExtensionRow, Method, OfferedTask, ServerExtension

ID = "com.example/jobs"
DECLARED: types.Json = {"extensions": {ID: {}}, "elicitation": {}, "roots": {}}


class JobParams(types.Params):
    job_id: str
    answers: dict[str, Raw] = msgspec.field(default_factory=dict)


class JobResult(types.Result):
    job_id: str


class Job:
    """One call, as it is stored, and what became of it."""

    def __init__(self, id: str, call: DetachedCall) -> None:
        self.id = id
        self.stored = msgspec.json.encode(call)
        self.status = "working"
        self.ended = asyncio.Event()
        self.result: Any = None
        self.error: RpcError | None = None
        self.questions: dict[str, Any] = {}
        self.progress: list[tuple[Any, ...]] = []
        self.steps: list[tuple[str, bytes | None]] = []
        self.runs = 0
        self.running: asyncio.Task[None] | None = None


class Jobs(ServerExtension):
    """Tools with `job="now"` answer with a job; those with `job="later"` when their handler asks for one."""

    rows = (
        ExtensionRow(
            id=ID,
            methods=tuple(
                Method(name=f"jobs/{verb}", params=JobParams, result=types.Result, name_from="jobId")
                for verb in ("get", "answer", "cancel")
            ),
            result_types={"job": ("tools/call",)},
        ),
    )
    tool_options: ClassVar[dict[str, type]] = {"job": str}

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.kinds: dict[str, str] = {}

    def bind(self, server: Server) -> None:
        self.server = server

    def define_tool(self, tool: Any, options: Any) -> None:
        self.kinds[tool.name] = options["job"]

    def handlers(self) -> Any:
        return {"jobs/get": self.get, "jobs/answer": self.answer, "jobs/cancel": self.cancel}

    async def around_call(self, ctx: Context, call_next: Any) -> Any:
        assert isinstance(ctx.params, types.CallToolRequestParams)
        kind = self.kinds.get(ctx.params.name)
        if kind is None or ctx.client.extension(ID) is None:
            return await call_next()
        if kind == "now":
            return self.create(ctx)

        async def begin() -> JobResult:
            return self.create(ctx)

        ctx.task.offer(begin)
        return await call_next()

    def create(self, ctx: Context) -> JobResult:
        job = self.jobs[str(len(self.jobs) + 1)] = Job(str(len(self.jobs) + 1), DetachedCall.of(ctx))
        self.start(job)
        return JobResult(job.id, result_type="job")

    def start(self, job: Job, server: Server | None = None) -> None:
        job.status = "working"
        job.running = asyncio.get_running_loop().create_task(self.run(job, server or self.server))

    async def run(self, job: Job, server: Server) -> None:
        """Run the tool once, with what is stored of the call."""
        job.runs += 1
        call = msgspec.json.decode(job.stored, type=DetachedCall)

        async def note(name: str, value: Raw | None) -> None:
            job.steps.append((name, None if value is None else bytes(value)))

        try:
            outcome = await self.run_detached(
                server,
                call,
                task=OfferedTask(job.id),
                on_progress=lambda *told: job.progress.append(told),
                on_step=note,
            )
        except RpcError as error:
            job.status, job.error = "failed", error
        except asyncio.CancelledError:
            job.status = "cancelled"
            raise
        else:
            job.stored = msgspec.json.encode(call)
            if isinstance(outcome, types.InputRequiredResult):
                job.status, job.questions = "asking", outcome.input_requests or {}
            else:
                job.status, job.result = "done", outcome
        finally:
            job.ended.set()

    def find(self, id: str) -> Job:
        if id not in self.jobs:
            raise InvalidParams("There is no such job")
        return self.jobs[id]

    async def get(self, ctx: Context, params: JobParams) -> types.Json:
        job = self.find(params.job_id)
        await job.ended.wait()
        error = None if job.error is None else {"code": job.error.code, "message": job.error.message}
        told = {"questions": job.questions, "result": job.result, "error": error}
        return {"status": job.status, **{name: value for name, value in told.items() if value}}

    async def answer(self, ctx: Context, params: JobParams) -> types.Result:
        job = self.find(params.job_id)
        call = msgspec.json.decode(job.stored, type=DetachedCall)
        call.recording.answer(params.answers)
        job.questions = {key: asked for key, asked in job.questions.items() if key in call.recording.unanswered}
        job.stored = msgspec.json.encode(call)
        if not job.questions:
            job.ended.clear()
            self.start(job)
        return types.Result()

    async def cancel(self, ctx: Context, params: JobParams) -> types.Result:
        running = self.find(params.job_id).running
        assert running is not None
        running.cancel()
        await asyncio.wait([running])
        return types.Result()
