"""The runner over an agent of any framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from wasmrt.agent.jobs._model import JobTask
from wasmrt.agent.jobs._runner import JobContext
from wasmrt.agent.registry import ToolView

Agent = Callable[[str], str | Awaitable[str]]
"""An agent as a function of a prompt. It may be a coroutine function."""


class FunctionRunner:
    """Runs an agent of any framework as a job.

    `build` receives the job's tools and returns the agent. The adapters make a framework's tools from them:
    `wasmrt.adapters.langchain.tools_for(tools)`, for example. After an answer, the messages that arrived are the next
    prompts; the job ends if none has arrived.

    Example:
        >>> from wasmrt import FunctionRunner, Jobs, JobTask, ToolRegistry
        >>> runner = FunctionRunner(lambda tools: lambda prompt: f"answer to {prompt!r}")
        >>> with Jobs(ToolRegistry(), runner) as jobs:
        ...     job = jobs.create(JobTask("Question", "Why?"))
        ...     jobs.wait(job.id, seconds=30).output
        "answer to 'Why?'"
    """

    def __init__(self, build: Callable[[ToolView], Agent]) -> None:
        self._build = build

    async def run(self, task: JobTask, job: JobContext) -> str:
        """Prompt the agent until no further message has arrived, and return its last answer."""
        agent = self._build(job.tools)
        prompts, answer = ["\n\n".join(filter(None, (task.description, task.context)))], ""
        while prompts:
            job.begin_iteration()
            returned = agent("\n\n".join(prompts))
            answer = await returned if isinstance(returned, Awaitable) else returned
            job.emit("message", {"role": "assistant", "content": answer})
            prompts = [prompt.content for prompt in job.inbox()]
        return answer
