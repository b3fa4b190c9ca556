"""Our CubeSandbox provider beside the official SDK, against one canned loopback server, in the same run.

(The file is not called ``cubesandbox``: it would hide the SDK.)
"""

from __future__ import annotations

from urllib.parse import urlsplit

from sides.comparison import Contest, main

CUBESANDBOX = Contest(
    program="sides.cubesandbox_side",
    imports={
        "ours": "from ai4j_sandbox_cubesandbox import CubeSandboxProvider",
        "theirs": "from cubesandbox import Sandbox",
    },
    environ=lambda url: {
        "CUBE_API_URL": url,
        "CUBE_PROXY_NODE_IP": str(urlsplit(url).hostname),
        "CUBE_PROXY_PORT_HTTP": str(urlsplit(url).port),
        "CUBE_TEMPLATE_ID": "tpl-bench",
    },
    sandbox={
        "sandboxID": "a" * 32,
        "templateID": "tpl-bench",
        "clientID": "c",
        "envdVersion": "0.6.13",
        "domain": "cube.app",
    },
    aims={
        "first": "<= 1.00",
        "no-op": "<= 0.50",
        "text": "<= 0.33",
        "limit": "(SDK: keeps all of it)",
        "limit memory": "ours <= 16 MB",
    },
)

if __name__ == "__main__":
    main(CUBESANDBOX, __doc__)
