"""Our E2B provider beside the official SDK, against one canned loopback server, in the same run.

(The file is not called ``e2b``: it would hide the SDK.)
"""

from __future__ import annotations

from sides.comparison import Contest, main

E2B = Contest(
    program="sides.e2b_side",
    imports={"ours": "from ai4j_sandbox_e2b import E2BSandboxProvider", "theirs": "from e2b import Sandbox"},
    environ=lambda url: {"E2B_API_KEY": "e2b_" + "0" * 40, "E2B_API_URL": url, "E2B_SANDBOX_URL": url},
    sandbox={
        "sandboxID": "i" + "a" * 20,
        "templateID": "base",
        "clientID": "c",
        "envdVersion": "0.6.13",
        "envdAccessToken": "f" * 64,
    },
    aims={
        "import": "<= 0.33",
        "first": "<= 0.40",
        "no-op": "<= 0.60",
        "text": "<= 0.67",
        "limit": "<= 0.50 (SDK: retain_output=False)",
        "limit memory": "ours <= 16 MB",
    },
)

if __name__ == "__main__":
    main(E2B, __doc__)
