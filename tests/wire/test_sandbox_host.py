from __future__ import annotations

import pytest

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox_wire.sandbox_host import is_sandbox_id, parse_domain, port_host


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("cube.app", "cube.app"),
        (".cube.app", "cube.app"),
        ("Cube.App:8080", "cube.app:8080"),
        ("localhost", "localhost"),
    ],
)
def test_domain_is_normalised(text: str, domain: str) -> None:  # K08
    assert parse_domain(text) == domain


@pytest.mark.parametrize("text", ["", "http://cube.app", "a b", "a..b", "-a.b", "a/b", "u@h", "h:port", "a" * 300])
def test_what_is_no_domain_is_refused(text: str) -> None:  # K08
    with pytest.raises(ValueError, match="must be a domain"):
        parse_domain(text)


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_port_that_nothing_can_listen_on_is_refused(port: str) -> None:  # K08
    with pytest.raises(ValueError, match="port from 1 to 65535"):
        parse_domain(f"cube.app:{port}")


def test_port_is_part_of_the_host() -> None:
    assert port_host(49983, "sb1", "cube.app:8080") == "49983-sb1.cube.app:8080"


@pytest.mark.parametrize(
    ("sandbox_id", "domain"), [("a/b", "x.y"), ("", "x.y"), ("a@b", "x.y"), ("s", "x y"), ("s", "x/y")]
)
def test_names_that_would_lead_elsewhere_are_refused(sandbox_id: str, domain: str) -> None:
    with pytest.raises(SandboxProtocolError):
        port_host(1, sandbox_id, domain)


@pytest.mark.parametrize(
    ("value", "safe"), [("i9abc", True), ("a-b.c_d", True), (None, False), (7, False), ("a:b", False)]
)
def test_id_is_safe_in_a_host_name(value: object, safe: bool) -> None:
    assert is_sandbox_id(value) is safe
