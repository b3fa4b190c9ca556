"""One side of `cubesandbox_sdk`, in a process of its own (`figures.take`)."""

from __future__ import annotations

from .figures import LIMIT_BYTES, Side, take


def ours() -> Side:
    from ai4j_sandbox import SandboxCommand
    from ai4j_sandbox_cubesandbox import CubeSandboxProvider

    session = CubeSandboxProvider().create_session()

    def run(line: str) -> object:
        return session.execute(SandboxCommand(command=line))

    def keep(line: str) -> int:
        return len(session.execute(SandboxCommand(command=line, output_limit_bytes=10**9)).stdout)

    def limit(line: str) -> int:
        return session.execute(SandboxCommand(command=line, output_limit_bytes=LIMIT_BYTES)).stdout_total_bytes

    return run, keep, limit, session.close


def theirs() -> Side:
    from cubesandbox import Sandbox

    sandbox = Sandbox.create()

    def keep(line: str) -> int:
        return len(sandbox.commands.run(line).stdout)

    return sandbox.commands.run, keep, keep, sandbox.kill  # it has no way to keep less


if __name__ == "__main__":
    take({"ours": ours, "theirs": theirs})
