r"""Commands as texts for Daytona's ``execute``, and what those texts answer. Pure.

The service feeds the text to a shell of its choice (zsh, bash, sh), merges stdout and stderr, replaces what is no
UTF-8, knows no stdin, and forgets all output when its time limit passes. So the text hands over at once to ``/bin/sh``
with one of the scripts below, whose arguments are quoted, and whose answer is plain ASCII:

    AI4J:<mark>:<word> <exit code> <late or full> <bytes of stdout> <bytes of stderr>
    <base64>-<base64>-<base64>-<base64>-.

The four parts are head and tail of stdout, head and tail of stderr. Rules the scripts keep:

* POSIX ``sh`` with the tools that GNU and busybox have alike; tried under dash, bash and busybox.
* A command lives in files ``/tmp/.ai4j-<mark>.*``. Whoever creates ``.pid`` decides its fate: the script that runs it,
  or a cancellation that came first.
* The command has a session of its own, so that a ``kill 0`` of its own does not end the script.
* The command writes into pipes, not files (``echo x >/dev/stderr`` would truncate a file), and collectors copy them.
  A grandchild that keeps the pipes open does not hold up the end.
* Its own variables reach the command only; the scripts use their own ``PATH`` and say nothing on stderr.
* Time is kept inside: at the limit the tree gets TERM, then KILL, and what was written is answered as usual.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox.model import HEAD_ONLY_BELOW_BYTES, SandboxCommand
from ai4j_sandbox_wire.process_tree import MARKER_VARIABLE, kill_arguments, marker

INLINE_BYTES = 1024 * 1024
"""How much output one answer carries; what is longer is fetched from the files."""

INLINE_INPUT_BYTES = 48 * 1024
"""How much input travels within the text; what is longer is uploaded first."""

BACKLOG_BYTES = 256 * 1024 * 1024
"""How much of a stream may wait for a slow reader in the sandbox before its command has to wait."""

BEGIN_OF_OUTPUT = b"\x1eAI4J\x1e"
"""What the terminal script prints right before the command starts."""

NO_DIRECTORY = b"\x1eAI4J-NODIR\x1e"
"""What it prints instead when the working directory does not exist."""

_SPARE_BYTES = 64 * 1024 * 1024  # how much may lie between the kept head and tail before its disk space is given back

# --- the scripts --------------------------------------------------------------------------------------------------

_COMMON = r"""
path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
exec 2>/dev/null
nap() {
  set -- "$(($1 / 100))" "$(($1 % 100))"
  case $2 in ?) set -- "$1" "0$2";; esac
  sleep "$1.$2" || sleep "$(($1 + 1))"
}
size() { bytes=0; [ ! -s "$1" ] || bytes=$(($(wc -c <"$1"))); }
part() { [ "$3" -le 0 ] || tail -c "+$(($2 + 1))" "$1" | head -c "$3" | { base64 -w0 || base64; }; printf -; }
say() { printf 'AI4J:%s:%s %s %s %s %s\n' "$mark" "$1" "${2:--}" "${3:--}" "${4:-0}" "${5:-0}"; }
claim() { (umask 077; set -C; : >"$base.pid" && : >"$base.out" && : >"$base.err" && exec mkfifo "$base.1" "$base.2"); }
"""

_SUPERVISE = r"""
slay() {
  pid=; read -r pid <"$base.pid"
  /bin/sh -c "$killer" ai4j-kill "MARKER=$mark" "$1" "$pid"
}
clock() { read -r up rest </proc/uptime; now=$((${up%.*} * 100 + 1${up#*.} - 100)); }
watch() {
  tick=10
  while :; do
    wait=$tick
    if [ "$limit" ]; then
      clock
      left=$((deadline - now))
      [ "$left" -ge "$wait" ] || wait=$left
    fi
    [ "$wait" -le 0 ] || nap "$wait"
    [ ! -e "$base.over" ] || { nap 10; kill "$out_copier" "$err_copier"; }
    if [ "$limit" ] && clock && [ "$now" -ge "$deadline" ]; then
      : >"$base.late"
      slay TERM; nap 50; slay KILL
      limit=
    fi
    guard "$base.out" "$out_copier" 1
    guard "$base.err" "$err_copier" 2
    [ "$tick" -ge 80 ] || tick=$((tick * 2))
  done
}
supervise() {
  case $input in
    '') source=/dev/null;;
    open)
      source=$base.0
      mkfifo -m 600 "$source"
      ([ ! -e "$base.in" ] || cat "$base.in"; : >"$base.fed"; exec sleep 2147483647) >"$source" &
      holder=$!
      echo "$holder" >"$base.holder";;
    *) source=$base.in;;
  esac
  if [ "$limit" ]; then clock; deadline=$((now + limit)); fi
  cat "$base.1" >>"$base.out" & out_copier=$!
  cat "$base.2" >>"$base.err" & err_copier=$!
  watch >/dev/null & watcher=$!
  for own in /usr/bin/setsid /bin/setsid ''; do [ ! -x "$own" ] || break; done
  (MARKER=$mark PATH=$path $own /bin/sh -c 'echo $$ >>"$1.pid"; shift; exec "$@"' sh "$base" "$@" \
    <"$source" >"$base.1" 2>"$base.2")
  code=$?
  : >"$base.over"
  [ ! -e "$base.late" ] || { nap 10; slay KILL; }
  [ ! "$holder" ] || kill "$holder"
  kill -s CONT "$out_copier" "$err_copier"
  wait "$out_copier"; [ "$?" -ne 1 ] || : >"$base.full"
  wait "$err_copier"; [ "$?" -ne 1 ] || : >"$base.full"
  kill "$watcher"
}
"""

RUN = (
    r"""
base=$1 mark=$2 killer=$3 cwd=$4 limit=$5 input=$6 head=$7 tail=$8 inline=$9
shift 9
spare=$1 holder= late=-
shift
"""
    + _COMMON
    + r"""
guard() {
  size "$1"
  [ "$bytes" -gt "$((head + tail + spare))" ] || return
  fallocate -p -o "$head" -l "$((bytes - head - tail))" "$1"
  tick=5
}
"""
    + _SUPERVISE
    + r"""
kept() {
  size "$1"
  first=$bytes last=0
  [ "$bytes" -le "$((head + tail))" ] || first=$head last=$tail
}
if [ "$cwd" ]; then CDPATH= cd -- "$cwd" || { say nodir; rm -f "$base".*; exit 0; }; fi
claim || {
  word=refused; [ ! -e "$base.pid" ] || word=stopped
  say "$word"; rm -f "$base".*; exit 0
}
[ "$input" != inline ] || (umask 077; base64 -d >"$base.in")
supervise "$@"
[ -e "$base.out" ] && [ -e "$base.err" ] || { say gone "$code"; rm -f "$base".*; exit 0; }
[ ! -e "$base.late" ] || late=late
[ ! -e "$base.full" ] || late=full
kept "$base.out"; out=$bytes out_first=$first out_last=$last
kept "$base.err"; err=$bytes err_first=$first err_last=$last
if [ "$((out_first + out_last + err_first + err_last))" -gt "$inline" ]; then
  say filed "$code" "$late" "$out" "$err"
  exit 0
fi
say done "$code" "$late" "$out" "$err"
part "$base.out" 0 "$out_first"; part "$base.out" "$((out - out_last))" "$out_last"
part "$base.err" 0 "$err_first"; part "$base.err" "$((err - err_last))" "$err_last"
echo .
rm -f "$base".* >/dev/null &
"""
)
"""Run a command to its end and answer with its result; stdin of the script is its input, if that is ``inline``."""

_SUPERVISOR = (
    r"""
base=$1 mark=$2 killer=$3 limit=$4 input=$5 backlog=$6 holder=
shift 6
"""
    + _COMMON
    + r"""
echo $$ >"$base.boss"
path=$AI4J_PATH
unset AI4J_PATH
guard() {
  size "$1"
  if [ -e "$base.loose" ]; then
    [ "$bytes" -le "$backlog" ] || fallocate -p -o 0 -l "$bytes" "$1"
    kill -s CONT "$2"
    return
  fi
  taken=0 taken_out=0 taken_err=0
  [ ! -e "$base.taken" ] || read -r taken_out taken_err <"$base.taken"
  [ "$3" = 1 ] && taken=$taken_out || taken=$taken_err
  [ "$((bytes - taken))" -le "$((backlog / 8))" ] || tick=5
  if [ "$((bytes - taken))" -gt "$backlog" ]; then kill -s STOP "$2"; else kill -s CONT "$2"; fi
}
"""
    + _SUPERVISE
    + r"""
supervise "$@"
[ ! -e "$base.out" ] || { echo "$code" >"$base.part" && mv -f "$base.part" "$base.code"; }
"""
)

_FOLLOW = r"""
is_looked_after() {
  [ -e "$base.out" ] && [ -e "$base.err" ] || return
  boss=; read -r boss <"$base.boss"
  [ "$boss" ] || return 0
  life=; read -r life <"/proc/$boss/stat"
  case $life in ''|*') Z '*) [ -e "$base.code" ];; esac
}
follow() {
  waited=0 nap=2 over= word=live code=- late=-
  while :; do
    [ ! -e "$base.code" ] || over=yes
    size "$base.out"; out=$bytes
    size "$base.err"; err=$bytes
    [ "$out" -le "$out_from" ] && [ "$err" -le "$err_from" ] && [ ! "$over" ] && [ "$waited" -lt "$wait" ] || break
    nap "$nap"
    waited=$((waited + nap))
    [ "$nap" -ge 5 ] || nap=$((nap + 1))
  done
  if [ "$over" ]; then word=done; read -r code <"$base.code"; else is_looked_after || word=gone; fi
  [ ! -e "$base.late" ] || late=late
  [ ! -e "$base.full" ] || late=full
  new_out=$((out - out_from)) new_err=$((err - err_from))
  if [ "$((new_out + new_err))" -gt "$inline" ]; then
    word=filed
    new_out=0 new_err=0
  fi
  say "$word" "$code" "$late" "$out" "$err"
  part "$base.out" "$out_from" "$new_out"; printf -
  part "$base.err" "$err_from" "$new_err"; printf -
  echo .
}
"""

START = (
    r"""
base=$1 mark=$2 killer=$3 cwd=$4 limit=$5 input=$6 backlog=$7 supervisor=$8 inline=$9
shift 9
wait=$1 id=$2 out_from=0 err_from=0
shift 2
"""
    + _COMMON
    + _FOLLOW
    + r"""
if [ "$cwd" ]; then CDPATH= cd -- "$cwd" || { say nodir; rm -f "$base".*; exit 0; }; fi
claim || {
  word=refused; [ ! -e "$base.pid" ] || word=stopped
  say "$word"; rm -f "$base".*; exit 0
}
[ "$input" != inline ] || (umask 077; base64 -d >"$base.in")
(umask 077; printf '%s\0%s' "$id" "$*" >"$base.line")
AI4J_PATH=$path; export AI4J_PATH
set -- /bin/sh -c "$supervisor" ai4j-run "$base" "$mark" "$killer" "$limit" "$input" "$backlog" "$@"
setsid -f "$@" </dev/null >/dev/null || "$@" </dev/null >/dev/null &
follow
[ "$word" != done ] || exec rm -f "$base".*
"""
)
"""Start a command that outlives the call, and answer with what it has written within a moment."""

FOLLOW = (
    r"""
base=$1 mark=$2 out_from=$3 err_from=$4 inline=$5 wait=$6
"""
    + _COMMON
    + _FOLLOW
    + r"""
[ -e "$base.out" ] || { say gone; exit 0; }
echo "$out_from $err_from" >"$base.part.$$" && mv -f "$base.part.$$" "$base.taken"
[ "$out_from" -lt 16777216 ] || fallocate -p -o 0 -l "$out_from" "$base.out"
[ "$err_from" -lt 16777216 ] || fallocate -p -o 0 -l "$err_from" "$base.err"
follow
"""
)
"""Answer with what a command has written since the last time, as soon as there is something, or with its end."""

KILL = (
    r"""
base=$1 mark=$2 killer=$3 signal=$4
"""
    + _COMMON
    + r"""
if (umask 077; set -C; : >"$base.pid"); then say stopped; exit 0; fi
rounds=0 pid=
until read -r pid <"$base.pid" && [ "$pid" ]; do
  [ "$rounds" -lt 50 ] && [ -e "$base.pid" ] && [ ! -e "$base.code" ] || break
  rounds=$((rounds + 1))
  nap 2
done
[ ! -e "$base.code" ] || { say ended; exit 0; }
if /bin/sh -c "$killer" ai4j-kill "MARKER=$mark" "$signal" "$pid"; then say sent; else say ended; fi
"""
)
"""Signal a command's whole tree; one that has not begun never will."""

KILL_LEFT = r"""
mark=$1 killer=$2
exec /bin/sh -c "$killer" ai4j-kill "MARKER=$mark" KILL ''
"""
"""Kill what is left of a command that was told to end, by its mark alone: its process id may be another's by now."""

FEED = (
    r"""
base=$1 mark=$2 part=$3
"""
    + _COMMON
    + r"""
until [ -e "$base.fed" ]; do
  [ -e "$base.0" ] && [ ! -e "$base.code" ] || { say ended; exit 0; }
  nap 2
done
[ ! -e "$base.code" ] || { say ended; exit 0; }
exec 3<>"$base.0" 4>"$base.0" 3>&-
if [ "$part" ]; then cat "$part" >&4; else base64 -d >&4; fi && say fed || say ended
[ ! "$part" ] || rm -f "$part"
"""
)
"""Hand input to a command that was started with its input ``open``."""

END_INPUT = (
    r"""
base=$1 mark=$2
"""
    + _COMMON
    + r"""
until [ -e "$base.fed" ] || [ -e "$base.code" ] || [ ! -e "$base.0" ]; do nap 2; done
read -r holder <"$base.holder" && kill "$holder"
say fed
"""
)
"""Let a command find the end of its input."""

LOOSEN = r"""
base=$1
[ ! -e "$base.out" ] || : >"$base.loose"
"""
"""Nobody reads a command's output any more; it is dropped when it gets long."""

CLEAN = r"""
exec rm -f "$1".*
"""
"""Forget a command that has ended."""

LIST = r"""
for pid in /tmp/.ai4j-*.pid; do
  base=${pid%.pid}
  [ -e "$base.line" ] && [ ! -e "$base.code" ] || continue
  number=; read -r number <"$pid"
  [ "$number" ] && [ -d "/proc/$number" ] || continue
  printf '%s ' "$number"; base64 <"$base.line" | tr -d '\n'; echo
done
"""
"""One line for each started command that runs: process id, base64 of command id, NUL and words."""

ATTACH = (
    r"""
base=$1 mark=$2
"""
    + _COMMON
    + r"""
[ -e "$base.line" ] && [ ! -e "$base.code" ] || { say gone; exit 0; }
rm -f "$base.loose"
size "$base.out"; out=$bytes
size "$base.err"
say live - - "$out" "$bytes"
"""
)
"""Tell from where on a running command can be followed."""

TERMINAL = r"""
rm -f "$0"
base=$1 mark=$2 cwd=$3
shift 3
if [ "$cwd" ]; then CDPATH= cd -- "$cwd" 2>/dev/null || { printf '\036AI4J-NODIR\036'; exit 1; }; fi
if ! (umask 077; set -C; : >"$base.pid") 2>/dev/null; then rm -f "$base".*; exit 137; fi
trap : INT QUIT
printf '\036AI4J\036'
exec 3>&2 2>/dev/null
MARKER=$mark /bin/sh -c 'exec 2>&3 3>&-; echo $$ >>"$1.pid"; shift; exec "$@"' sh "$base" "$@"
code=$?
rm -f "$base".*
exit "$code"
"""
"""Run a command on the terminal this script runs on; `BEGIN_OF_OUTPUT` comes before its output."""


# --- from commands to texts ---------------------------------------------------------------------------------------


class Input(StrEnum):
    """Where a command's stdin comes from."""

    NONE = ""
    INLINE = "inline"
    FILE = "file"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Running:
    """A command inside the sandbox: the names of its files and processes."""

    command_id: str

    @property
    def mark(self) -> str:
        """What its processes carry in their environment and its answers in their first line."""
        return marker(self.command_id)

    @property
    def base(self) -> str:
        """What the paths of its files begin with."""
        return f"/tmp/.ai4j-{self.mark}"

    def path(self, suffix: str) -> str:
        """Return the path of one of its files."""
        return f"{self.base}.{suffix}"

    def run_text(self, command: SandboxCommand, source: Input) -> str:
        """Return the text that runs a command to its end (`RUN`)."""
        head, tail = kept_bytes(command.output_limit_bytes)
        arguments = (
            *self._common(command, source),
            head,
            tail,
            INLINE_BYTES,
            _SPARE_BYTES,
            *command.argv(),
        )
        return _text(RUN, arguments, _inline(command, source))

    def start_text(self, command: SandboxCommand, source: Input, wait_seconds: float) -> str:
        """Return the text that starts a command (`START`)."""
        arguments = (
            *self._common(command, source),
            BACKLOG_BYTES,
            _dense(_SUPERVISOR),
            INLINE_BYTES,
            _centiseconds(wait_seconds),
            self.command_id,
            *command.argv(),
        )
        return _text(START, arguments, _inline(command, source))

    def follow_text(self, out_from: int, err_from: int, wait_seconds: float) -> str:
        """Return the text that asks for news (`FOLLOW`)."""
        return _text(FOLLOW, (self.base, self.mark, out_from, err_from, INLINE_BYTES, _centiseconds(wait_seconds)))

    def kill_text(self, signal: str) -> str:
        """Return the text that signals a command (`KILL`)."""
        return _text(KILL, (self.base, self.mark, self._killer, signal.removeprefix("SIG")))

    def kill_left_text(self) -> str:
        """Return the text that kills what is left of a command (`KILL_LEFT`)."""
        return _text(KILL_LEFT, (self.mark, self._killer))

    def feed_text(self, data: bytes) -> str:
        """Return the text that hands over input (`FEED`)."""
        return _text(FEED, (self.base, self.mark, ""), data)

    def feed_file_text(self, part: str) -> str:
        """Return the text that hands over an uploaded file as input (`FEED`)."""
        return _text(FEED, (self.base, self.mark, part))

    def end_input_text(self) -> str:
        """Return the text that ends the input (`END_INPUT`)."""
        return _text(END_INPUT, (self.base, self.mark))

    def attach_text(self) -> str:
        """Return the text that finds a command again (`ATTACH`)."""
        return _text(ATTACH, (self.base, self.mark))

    def loosen_text(self) -> str:
        """Return the text that lets go of a command's output (`LOOSEN`)."""
        return _text(LOOSEN, (self.base,))

    def clean_text(self) -> str:
        """Return the text that removes a command's files (`CLEAN`)."""
        return _text(CLEAN, (self.base,))

    def terminal_line(self) -> str:
        """Return what is typed into a new terminal; the script (`TERMINAL`) must lie at ``path("tty")``."""
        return f" exec /bin/sh {self.path('tty')}\r"

    def terminal_script(self, command: SandboxCommand) -> str:
        """Return the content of that script."""
        arguments = (self.base, self.mark, _directory(command), *command.argv())
        return f"set -- {_quoted(arguments)}\n{_dense(TERMINAL)}\n"

    @property
    def _killer(self) -> str:
        return kill_arguments(self.command_id, "TERM", None)[1]

    def _common(self, command: SandboxCommand, source: Input) -> tuple[str, ...]:
        limit = "" if command.timeout_millis is None else str(-(-command.timeout_millis // 10))
        return (self.base, self.mark, self._killer, _directory(command), limit, source.value)


def list_text() -> str:
    """Return the text that lists the started commands (`LIST`)."""
    return _text(LIST, ())


def kept_bytes(limit_bytes: int) -> tuple[int, int]:
    """Return how much of a stream's head and tail must come back so that the result can keep `limit_bytes` of it.

    At least one byte of the tail comes, to carry how much lies before it.
    """
    if limit_bytes < HEAD_ONLY_BELOW_BYTES:
        return limit_bytes, 1
    return limit_bytes - limit_bytes // 2, limit_bytes // 2


def kept_ranges(total_bytes: int, limit_bytes: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where the kept head and tail of a stream lie, as first byte and length, like the scripts cut them."""
    head, tail = kept_bytes(limit_bytes)
    if total_bytes <= head + tail:
        return (0, total_bytes), (total_bytes, 0)
    return (0, head), (total_bytes - tail, tail)


def _directory(command: SandboxCommand) -> str:
    directory = command.working_directory or ""
    return directory if not directory or directory.startswith("/") else f"./{directory}"


def _centiseconds(seconds: float) -> int:
    return max(0, round(seconds * 100))


def _inline(command: SandboxCommand, source: Input) -> bytes | None:
    return command.stdin_bytes if source is Input.INLINE else None


def _text(script: str, arguments: Sequence[object], stdin: bytes | None = None) -> str:
    call = f"{_opening(script)} {_quoted(arguments)}"
    if stdin is None:
        return f"{call} </dev/null\n"
    return f"{call} <<'AI4J_INPUT'\n{_base64(stdin)}\nAI4J_INPUT\n"


@cache
def _opening(script: str) -> str:
    return f"exec /bin/sh -c {shlex.quote(_dense(script))} ai4j"


@cache
def _dense(script: str) -> str:
    """Return a script without its indentation, and with the marker's variable: bash reads a text byte by byte."""
    lines = (line.strip() for line in script.replace("MARKER", MARKER_VARIABLE).splitlines())
    return "\n".join(filter(None, lines))


def _quoted(arguments: Sequence[object]) -> str:
    return " ".join(map(_quote, map(str, arguments)))


@lru_cache(maxsize=64)
def _quote_long(argument: str) -> str:
    return shlex.quote(argument)


def _quote(argument: str) -> str:
    # The long ones are our own scripts, the same in every call.
    return _quote_long(argument) if len(argument) > 512 else shlex.quote(argument)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# --- from answers to facts ----------------------------------------------------------------------------------------

_NUMBER = "([0-9]{1,18})"
_HEAD = re.compile(rf"AI4J:([0-9a-f]{{32}}):([a-z]+) (-|[0-9]{{1,18}}) (-|late|full) {_NUMBER} {_NUMBER}\n")
_LISTED = re.compile(rf"^{_NUMBER} ([A-Za-z0-9+/=]+)$", re.MULTILINE)


class Word(StrEnum):
    """What an answer says first."""

    DONE = "done"
    LIVE = "live"
    FILED = "filed"
    NO_DIRECTORY = "nodir"
    STOPPED = "stopped"
    REFUSED = "refused"
    GONE = "gone"
    SENT = "sent"
    ENDED = "ended"
    FED = "fed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a script answered.

    Attributes:
        late: The time limit passed, and the command was stopped for it.
        full: Not all of its output could be kept, because the disk is full.
        stdout_bytes, stderr_bytes: How much the command has written so far.
        stdout, stderr: Head and tail that came along; empty when they are to be fetched.
    """

    word: Word
    exit_code: int | None = None
    late: bool = False
    full: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout: tuple[bytes, bytes] = (b"", b"")
    stderr: tuple[bytes, bytes] = (b"", b"")


def parse_answer(running: Running, text: str) -> Answer | None:
    """Return what a script answered; ``None`` when the text is no answer, because the script did not run.

    Raises:
        SandboxProtocolError: The answer is incomplete.
    """
    head = next((found for found in _HEAD.finditer(text) if found[1] == running.mark), None)
    if head is None or head[2] not in tuple(Word):
        return None
    parts = _parts(text[head.end() :])
    return Answer(
        word=Word(head[2]),
        exit_code=None if head[3] == "-" else int(head[3]),
        late=head[4] == "late",
        full=head[4] == "full",
        stdout_bytes=int(head[5]),
        stderr_bytes=int(head[6]),
        stdout=parts[:2],
        stderr=parts[2:],
    )


def _parts(body: str) -> tuple[bytes, bytes, bytes, bytes]:
    if not body.strip():
        return (b"", b"", b"", b"")
    encoded, end = body.split("-")[:-1], body.rpartition("-")[2]
    if len(encoded) != 4 or not end.startswith("."):
        raise SandboxProtocolError("the service cut the answer of a command short")
    head, tail, other_head, other_tail = map(_decoded, encoded)
    return head, tail, other_head, other_tail


def _decoded(part: str) -> bytes:
    try:
        return binascii.a2b_base64(part)
    except ValueError:
        raise SandboxProtocolError("the service changed the answer of a command") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One started command that runs."""

    command_id: str
    pid: int
    line: str


def parse_list(text: str) -> list[Listed]:
    """Return the commands that `LIST` found.

    Raises:
        SandboxProtocolError: It is not what `LIST` says.
    """
    return [_listed(int(pid), _decoded(words).decode("utf-8", "replace")) for pid, words in _LISTED.findall(text)]


def _listed(pid: int, words: str) -> Listed:
    command_id, _, line = words.partition("\0")
    return Listed(command_id=command_id, pid=pid, line=line.removeprefix("/bin/sh -c "))
