"""One side of `cubesandbox_sdk`, in a process of its own (`figures.take`)."""

from __future__ import annotations

from .figures import LIMIT_BYTES, Side, take


def ours() -> Side:
    from ai4j_sandbox import SandboxCommand
    from ai4j_sandbox_cubesandbox import CubeSandboxProvider

    session = CubeSandboxProvider().create_session()

    def run(line: str) -> object:
        return session.execute(SandboxCommand(command=line))

    def text(line: str) -> int:
        return len(session.execute(SandboxCommand(command=line, output_limit_bytes=10**9)).stdout)

    def raw(line: str) -> int:
        return len(session.execute(SandboxCommand(command=line, output_limit_bytes=10**9)).stdout_bytes)

    def limit(line: str) -> int:
        return session.execute(SandboxCommand(command=line, output_limit_bytes=LIMIT_BYTES)).stdout_total_bytes

    return Side(run=run, text=text, bytes=raw, limit=limit, close=session.close)


def theirs() -> Side:
    from cubesandbox import Sandbox

    sandbox = Sandbox.create()

    def text(line: str) -> int:
        return len(sandbox.commands.run(line).stdout)

    # It has no way to keep less.
    return Side(run=sandbox.commands.run, text=text, bytes=text, limit=text, close=sandbox.kill)


if __name__ == "__main__":
    take({"ours": ours, "theirs": theirs})
