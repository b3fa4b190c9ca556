"""A command in a sandbox of its own: output, exit code, files and artifacts."""

from ai4j_sandbox import SandboxCommand, SandboxSpec, default_registry

with default_registry().create_session(SandboxSpec(provider_id="local")) as session:
    session.files.write("answer.py", "print('computing'); open('answer.txt', 'w').write(str(6 * 7))")
    command = SandboxCommand(command=["python3", "answer.py"], timeout_millis=10_000, artifacts=["*.txt"])
    result = session.execute(command)
    print(result.exit_code, result.stdout, end="")
    for artifact in result.artifacts:
        print(artifact.path, artifact.size_bytes, "bytes:", session.files.read_text(artifact.path or ""))
