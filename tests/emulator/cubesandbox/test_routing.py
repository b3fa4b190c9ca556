from __future__ import annotations

import pytest

from ai4j_sandbox_emulator.cubesandbox.routing import Target, target_of

ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("host", "path", "target"),
    [
        ("127.0.0.1:3000", "/sandboxes", None),
        ("localhost", "/sandboxes/49983-abc", None),
        (f"49983-{ID}.cube.app", "/health", Target(ID, 49983)),
        (f"49983-{ID}.cube.app:8080", "/health", Target(ID, 49983)),
        (f"8080-{ID}.whatever.else", "/", Target(ID, 8080)),
        (f"49983-{ID}", "/", Target(ID, 49983)),
        ("x49983-abc.cube.app", "/", None),
        ("127.0.0.1:3000", f"/sandbox/{ID}/49983/files", Target(ID, 49983, "/files")),
        ("127.0.0.1:3000", f"/sandbox/{ID}/80", Target(ID, 80, "/")),
        ("127.0.0.1:3000", f"/sandbox/{ID}/80/a%20b", Target(ID, 80, "/a%20b")),
        ("127.0.0.1:3000", f"/sandbox/{ID}/http/x", None),
    ],
)
def test_sandbox_and_port_are_read_off_the_host_or_the_path(host: str, path: str, target: Target | None) -> None:
    assert target_of(host, path) == target
