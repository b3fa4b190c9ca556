"""Ending a command with everything it started.

envd's ``SendSignal`` reaches one process, and the daemon makes no process group, so the children of a killed command
would live on. Instead every command gets an environment variable that its descendants inherit, and a second, small
command signals all of them. It finds them in three ways, each of which covers what the others miss:

* by the variable, which survives ``setsid``, double forks and the death of the parent;
* by parentage, which survives a cleared environment (``env -i``) as long as the parents live;
* by session, when the command leads one (it does on a terminal).

A process that cleared its environment, left the session *and* lost its parents is out of reach.

The script needs ``sh``, ``cat``, ``sed``, ``tail`` and ``tr`` - dash and busybox do - and reads ``/proc``. It looks
again until it finds nobody new, so that a process that forks meanwhile is not missed. What is to end is stopped first:
a parent that died between two looks would take the only trace of a child it had just forked with it.
"""

from __future__ import annotations

import hashlib

MARKER_VARIABLE = "AI4J_COMMAND"

_SCRIPT = r"""
mark=$1 signal=$2 root=$3 sent=' ' rounds=0 first=$2
case $signal in TERM|KILL) first=STOP;; esac
scan() {
  table=$(cat /proc/[0-9]*/stat 2>/dev/null |
    sed -n 's/^\([0-9]*\) (.*) \([A-Za-z]\) \([0-9]*\) [0-9]* \([0-9]*\) .*/\1 \2 \3 \4/p')
  found=" $(tail -n +1 /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' |
    sed -n -e '/^==> .proc.[0-9]*.environ <==$/{s/[^0-9]//g;h;d;}' -e "/^$mark\$/{g;p;}" | tr '\n' ' ')"
  if [ "$root" ] && [ -d "/proc/$root" ]; then found="$found$root "; fi
  more=yes
  while [ "$more" ]; do
    more=
    while read -r pid state parent session; do
      case $found in *" $pid "*) continue;; esac
      case $found in
        *" $parent "*) ;;
        *) { [ "$root" ] && [ "$session" = "$root" ]; } || continue;;
      esac
      found="$found$pid " more=yes
    done <<TABLE
$table
TABLE
  done
}
while [ "$rounds" -lt 20 ]; do
  rounds=$((rounds + 1)) new=
  scan
  for pid in $found; do
    case $sent in *" $pid "*) ;; *) new="$new $pid";; esac
  done
  [ "$new" ] || break
  kill -s "$first" $new 2>/dev/null
  sent="$sent$new "
done
[ "$sent" != ' ' ] || exit 1
[ "$first" = "$signal" ] || kill -s "$signal" $sent 2>/dev/null
[ "$signal" = STOP ] || kill -s CONT $sent 2>/dev/null
exit 0
"""


def marker(command_id: str) -> str:
    """Return the value by which a command's processes are known: harmless in any script, whatever the id is."""
    return hashlib.sha256(command_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def marked_environment(command_id: str) -> dict[str, str]:
    """Return the variable to start a command with."""
    return {MARKER_VARIABLE: marker(command_id)}


def kill_arguments(command_id: str, signal: str, pid: int | None) -> tuple[str, ...]:
    """Return the arguments for ``/bin/sh`` that signal a command and all its descendants.

    It exits with 0 when there was somebody to signal, and with 1 when nobody was left.

    Args:
        signal: With or without ``SIG``.
        pid: The command's own process, where it is known and has not ended.
    """
    mark = f"{MARKER_VARIABLE}={marker(command_id)}"
    return ("-c", _SCRIPT, "ai4j-kill", mark, signal.removeprefix("SIG"), "" if pid is None else str(pid))
