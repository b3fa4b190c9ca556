from __future__ import annotations

import pytest

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox_wire.base_url import BaseUrl, Origin, path_segment


@pytest.mark.parametrize(
    ("text", "shown", "target"),
    [
        ("https://api.e2b.app", "https://api.e2b.app", "/sandboxes"),
        ("https://api.e2b.app/", "https://api.e2b.app", "/sandboxes"),
        ("  HTTP://Host:80/ ", "http://host", "/sandboxes"),
        ("http://h:8080/api/v1//", "http://h:8080/api/v1", "/api/v1/sandboxes"),
        ("http://[::1]:3000/x y".replace(" ", "%20"), "http://[::1]:3000/x%20y", "/x%20y/sandboxes"),
        ("https://bücher.example", "https://xn--bcher-kva.example", "/sandboxes"),
    ],
)
def test_parse_keeps_base_path_and_drops_trailing_slash(text: str, shown: str, target: str) -> None:
    url = BaseUrl.parse(text)

    assert str(url) == shown
    assert url.target("/sandboxes") == target


def test_default_port_is_left_out_of_the_authority() -> None:
    assert Origin("https", "h", 443).authority == "h"
    assert Origin("https", "::1", 444).authority == "[::1]:444"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("api.e2b.app", "must start with http:// or https://, got 'api.e2b.app'"),
        ("ftp://h", "must be an http or https URL, got the scheme 'ftp'"),
        ("https://", "no valid host and port"),
        ("https://h:99999", "no valid host and port"),
        ("https://h:0", "no valid host and port"),
        ("https://h:x", "no valid host and port"),
        ("https://[::1", "no valid host and port"),
        ("https://h/?a=1", "must not have a query"),
        ("https://h/#a", "must not have a query"),
        ("https://h/a b", "must not contain blanks"),
        ("https://h\r\nX: y", "must not contain blanks"),
    ],
)
def test_parse_refuses_what_is_no_base_url_and_names_the_setting(text: str, complaint: str) -> None:
    with pytest.raises(SandboxConfigError) as caught:
        BaseUrl.parse(text, setting="E2B_API_URL")

    assert complaint in caught.value.message
    assert "E2B_API_URL" in caught.value.message


@pytest.mark.parametrize("text", ["https://user:hunter2@h", "user:hunter2@h", "https://hunter2@h"])
def test_user_info_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(SandboxConfigError) as caught:
        BaseUrl.parse(text)

    assert "hunter2" not in str(caught.value)


def test_query_is_encoded_and_absent_values_are_left_out() -> None:
    target = BaseUrl.parse("http://h").target("/files", {"path": "/a b&c", "username": None, "force": True, "n": 3})

    assert target == "/files?path=%2Fa%20b%26c&force=true&n=3"


def test_path_segment_cannot_leave_its_place() -> None:
    assert path_segment("a/../b?c#d", "id") == "a%2F..%2Fb%3Fc%23d"
    for value in ("", ".", ".."):
        with pytest.raises(SandboxConfigError, match="sandbox id must not be"):
            path_segment(value, "sandbox id")
