"""One side of `daytona_sdk`, in a process of its own (`figures.take`)."""

from __future__ import annotations

from .figures import LIMIT_BYTES, Side, take


def ours() -> Side:
    from ai4j_sandbox import SandboxCommand, SandboxSpec
    from ai4j_sandbox_daytona import DaytonaSandboxProvider

    session = DaytonaSandboxProvider().create_session(SandboxSpec(config={"deleteOnClose": True}))

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
    from daytona import Daytona

    sandbox = Daytona().create()

    def text(line: str) -> int:
        return len(sandbox.process.exec(line).result)  # the SDK cannot limit what it keeps

    return Side(run=sandbox.process.exec, text=text, bytes=text, limit=text, close=sandbox.delete)


if __name__ == "__main__":
    take({"ours": ours, "theirs": theirs})
