"""An OpenAI-compatible chat-completions client over requests.

Rules:

* Only what certainly generated nothing is retried: a connection that was never made, 429 and 503. A request that may
  have been answered is not sent twice.
* The deadline is wall-clock for the whole call, whatever the server drips, be it the answer's head or its body: a
  watchdog cuts the connection.
* The key is sent to the configured address and nowhere else: redirects are refused, proxies and netrc are not read.
* Neither an error nor what is logged of an answer holds the key; the service's own words are masked, then cut, and no
  error keeps the foreign one it stands for, which knows the request's headers.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, urlsplit

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.redaction import Scrubber

from .chat_payloads import StreamedCompletion, error_message, parse_response, request_body, shown_word, shown_words
from .errors import (
    AgentConfigError,
    ModelAuthError,
    ModelClientError,
    ModelConnectionError,
    ModelProtocolError,
    ModelRateLimitError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnreachableError,
)
from .model_client import ModelRequest, ModelResponse, RetryCallback, TextCallback
from .model_json import parsed_json
from .sse import SseDecoder

if TYPE_CHECKING:
    import requests

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 300.0
"""How long a model may think without a byte arriving."""

LONGEST_PAUSE = 60.0
"""A service that asks for more is not waited for: the host decides."""

LONGEST_ANSWER = 32 * 1024 * 1024
LONGEST_ERROR = 64 * 1024
_PIECE = 16 * 1024
_RETRIED_STATUS = frozenset((429, 503))

Sleep = Callable[[float], None]


class ChatCompletionsClient:
    """Asks a model behind ``<base_url>/chat/completions``.

    Args:
        base_url: Address of the API, up to and including its version (``https://host/v1``).
        api_key: Sent as a bearer token; a function is called at each request, for keys that change.
        headers: Further headers. Their values are never shown.
        stream: Ask for the answer in pieces.
        max_retries: How often a request that generated nothing is sent again.
    """

    def __init__(
        self,
        *,
        base_url: str = DEFAULT_BASE_URL,
        api_key: str | Callable[[], str] | None = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = True,
        max_retries: int = 3,
        silence_seconds: float = SILENCE_SECONDS,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._url = f"{_checked_url(base_url)}/chat/completions"
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._stream = stream
        self._max_retries = max_retries
        self._silence_seconds = silence_seconds
        self._sleep = sleep
        self._sessions = threading.local()

    @classmethod
    def from_environment(cls, **options: Any) -> Self:
        """Return a client for ``OPENAI_BASE_URL`` whose key is read from ``OPENAI_API_KEY`` at each request."""
        base_url = os.environ.get("OPENAI_BASE_URL", "").strip() or DEFAULT_BASE_URL
        return cls(base_url=base_url, api_key=_key_from_environment, **options)

    def __repr__(self) -> str:
        return f"ChatCompletionsClient({self._url!r})"

    def complete(
        self,
        request: ModelRequest,
        *,
        on_text: TextCallback | None = None,
        on_retry: RetryCallback | None = None,
        deadline: Deadline | None = None,
    ) -> ModelResponse:
        """Return the model's answer.

        Raises:
            ModelAuthError, ModelRequestError, ModelRateLimitError: The service refused.
            ModelTimeoutError, ModelConnectionError, ModelProtocolError: It could not be talked to.
        """
        deadline = deadline or Deadline(None)
        headers = self._request_headers()
        body = json.dumps(request_body(request, stream=self._stream)).encode("ascii")
        attempt = 0
        while True:
            try:
                return self._attempt(body, headers, on_text, deadline)
            except ModelClientError as error:
                attempt += 1
                pause = _pause(error, attempt)
                worth_it = attempt <= self._max_retries and pause <= min(LONGEST_PAUSE, deadline.bound(pause))
                if not error.retryable or not worth_it:
                    raise
                if on_retry is not None:
                    on_retry(attempt, pause, error.message)
                self._sleep(pause)

    def _request_headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if self._stream else "application/json",
            "Accept-Encoding": "identity",  # a small answer cannot unfold into a large one
            "User-Agent": "ai4j-agent",
            **self._headers,
        }
        key = self._api_key() if callable(self._api_key) else self._api_key
        if key:
            headers["Authorization"] = f"Bearer {key}"
        for name, value in headers.items():
            if not value.isascii() or not value.isprintable():
                raise AgentConfigError(f"header {name} must be printable ASCII without line breaks")
        return headers

    def _attempt(
        self, body: bytes, headers: Mapping[str, str], on_text: TextCallback | None, deadline: Deadline
    ) -> ModelResponse:
        scrubber = Scrubber(_secrets(headers))
        try:
            with self._post(body, headers, deadline) as response:
                if response.status_code != 200:
                    raise _refusal(response, scrubber, deadline)
                return self._read(response, scrubber, on_text, deadline)
        except ModelClientError as error:
            error.scrubbed(scrubber)
            raise

    @contextmanager
    def _post(self, body: bytes, headers: Mapping[str, str], deadline: Deadline) -> Iterator[requests.Response]:
        import requests
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        from .watched_http import Watchdog, watched_post

        if deadline.expired:
            raise ModelTimeoutError("no time left to ask the model")
        try:
            with Watchdog(deadline) as watchdog:
                response = watched_post(
                    self._session(),
                    self._url,
                    watchdog,
                    data=body,
                    headers=dict(headers),
                    stream=True,
                    allow_redirects=False,
                    timeout=(deadline.bound(CONNECT_SECONDS), max(0.001, deadline.bound(self._silence_seconds))),
                )
                with response:
                    yield response
        # What requests and urllib3 say may quote headers or the address; only the kind gets through.
        except requests.ConnectTimeout:
            raise ModelUnreachableError("the model service could not be reached in time") from None
        except (requests.Timeout, ReadTimeoutError):
            raise _timed_out(deadline, "the model service fell silent") from None
        except (requests.RequestException, HTTPError) as error:
            raise _broken_connection(error, deadline) from None

    def _session(self) -> requests.Session:
        """One session for each thread: requests does not promise that one can be shared."""
        if not hasattr(self._sessions, "session"):
            from .watched_http import new_session

            self._sessions.session = new_session()
        session: requests.Session = self._sessions.session
        return session

    def _read(
        self, response: requests.Response, scrubber: Scrubber, on_text: TextCallback | None, deadline: Deadline
    ) -> ModelResponse:
        request_id = _request_id(response, scrubber)
        chunks = _bounded_chunks(response, LONGEST_ANSWER, deadline)
        if "text/event-stream" not in response.headers.get("Content-Type", "").lower():
            answer = parse_response(_json(b"".join(chunks)), request_id=request_id, scrubber=scrubber)
            if on_text is not None and answer.message.text:
                on_text(answer.message.text)
            return answer
        decoder, completion = SseDecoder(), StreamedCompletion(request_id=request_id, scrubber=scrubber)
        for chunk in chunks:
            _feed(completion, decoder.feed(chunk), on_text)
        _feed(completion, decoder.finish(), on_text)
        return completion.finish()


def _feed(completion: StreamedCompletion, events: list[str], on_text: TextCallback | None) -> None:
    for data in events:
        text = completion.feed(data)
        if text and on_text is not None:
            on_text(text)


def _bounded_chunks(response: requests.Response, limit: int, deadline: Deadline) -> Iterator[bytes]:
    total = 0
    for chunk in _chunks(response, deadline):
        total += len(chunk)
        if total > limit:
            raise ModelProtocolError(f"the answer is longer than {limit} bytes")
        yield chunk


def _chunks(response: requests.Response, deadline: Deadline) -> Iterator[bytes]:
    """Yield what arrives as it arrives. `iter_content` would read an answer that is not chunked to its end first."""
    while chunk := response.raw.read1(_PIECE, decode_content=True):
        if deadline.expired:
            raise _timed_out(deadline, "")
        yield chunk
    if deadline.expired:
        raise _timed_out(deadline, "")


def _refusal(response: requests.Response, scrubber: Scrubber, deadline: Deadline) -> ModelClientError:
    status = response.status_code
    said = _error_text(response, scrubber, deadline)
    kind = _kind_of(status)
    return kind(
        f"the model service answered {status}: {said}",
        hint=_HINTS.get(status),
        http_status=status,
        request_id=_request_id(response, scrubber),
        retry_after=_retry_after(response.headers.get("Retry-After")),
    )


_HINTS = {
    401: "check the API key",
    403: "the key may not use this model",
    404: "check base_url and the model's name",
}


def _kind_of(status: int) -> type[ModelClientError]:
    if status in (401, 403):
        return ModelAuthError
    if status in _RETRIED_STATUS:
        return ModelRateLimitError
    if 400 <= status < 500:
        return ModelRequestError
    return ModelProtocolError


def _error_text(response: requests.Response, scrubber: Scrubber, deadline: Deadline) -> str:
    if 300 <= response.status_code < 400:
        return "a redirect, which is not followed"
    body = _error_body(response, scrubber, deadline)
    try:
        return error_message(parsed_json(body), scrubber)
    except ValueError:
        return shown_words(body.decode("utf-8", "replace"), scrubber)


def _error_body(response: requests.Response, scrubber: Scrubber, deadline: Deadline) -> bytes:
    """What has come of a refusal, up to the limit: its status is what counts, and that is known.

    Where it is cut, what may be the beginning of a secret is left out.
    """
    from urllib3.exceptions import HTTPError

    masked = scrubber.stream()
    body = b""
    try:
        for chunk in _chunks(response, deadline):
            body += masked.feed(chunk)
            if len(body) > LONGEST_ERROR:
                return body[:LONGEST_ERROR]
    except HTTPError:
        if deadline.expired:
            raise _timed_out(deadline, "") from None
        return body
    return body + masked.finish()


def _json(data: bytes) -> Any:
    try:
        return parsed_json(data)
    except ValueError:
        raise ModelProtocolError("the answer is not JSON") from None


def _broken_connection(error: Exception, deadline: Deadline) -> ModelClientError:
    from urllib3.exceptions import NewConnectionError

    reason = getattr(error.args[0], "reason", None) if error.args else None
    if isinstance(reason, NewConnectionError):
        return ModelUnreachableError("the model service could not be reached", hint="check base_url")
    if deadline.expired:
        return _timed_out(deadline, "")
    return ModelConnectionError(f"the connection to the model service broke ({type(error).__name__})")


def _timed_out(deadline: Deadline, otherwise: str) -> ModelTimeoutError:
    return ModelTimeoutError("the model did not answer in time" if deadline.expired else otherwise)


def _pause(error: ModelClientError, attempt: int) -> float:
    """What the service asked for, else a doubling pause with some chance in it, so that clients spread out."""
    if error.retry_after is not None:
        return error.retry_after
    return min(20.0, 0.5 * 2.0 ** (attempt - 1)) * random.uniform(0.75, 1.25)


def _retry_after(value: str | None) -> float | None:
    """Seconds, given as such or as a date; ``None`` for anything else, for which the doubling pause will do."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (OverflowError, ValueError):
        return None


def _request_id(response: requests.Response, scrubber: Scrubber) -> str | None:
    return shown_word(response.headers.get("x-request-id"), scrubber)


def _secrets(headers: Mapping[str, str]) -> list[str]:
    """The values of all headers that are not plainly public."""
    public = ("content-type", "accept", "accept-encoding", "user-agent")
    private = [value for name, value in headers.items() if name.lower() not in public]
    return [*private, *(value.removeprefix("Bearer ") for value in private)]


def _checked_url(base_url: str) -> str:
    parts = _url_parts(base_url.strip())
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise AgentConfigError("base_url must start with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise AgentConfigError("base_url must not contain a user name, password, query or fragment")
    return base_url.strip().rstrip("/")


def _url_parts(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:  # not kept: it quotes user and password
        return None


def _key_from_environment() -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key:
        raise AgentConfigError("the API key is missing", hint="set OPENAI_API_KEY, or pass api_key=")
    return key
