"""The way in: from its first line on, Ctrl-C ends the program with its documented exit code and without a traceback.

Until a command begins there is nothing to clean up, so the interrupt ends the process at once, also in the middle of an
import. While a command runs it is Python's own, and once it has failed and only that is left to be told, the first way
again. Where the command tree is used without `main`, signals are left alone.
"""

import os
import signal

_INTERRUPTED = 130  # `failures.ExitCode.INTERRUPTED`, which is not imported yet
_handed_over = False  # whether `main` took the signal and `interrupts_raise` gave it back


def _leave(number: int, frame: object) -> None:
    os._exit(_INTERRUPTED)


def interrupts_raise() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` from now on, if `main` had it end the process."""
    global _handed_over
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _handed_over = True


def interrupts_leave() -> None:
    """Let Ctrl-C end the process again, if `interrupts_raise` changed that."""
    if _handed_over and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def main() -> None:
    """Be the program; ends the process with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is not ignored
        signal.signal(signal.SIGINT, _leave)
    from .main import main

    main()
