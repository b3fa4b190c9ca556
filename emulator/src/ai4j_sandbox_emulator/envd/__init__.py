"""envd, the daemon inside E2B and CubeSandbox machines: processes, files and watches over HTTP and Connect.

Read in this order: `messages`, `codec`, `connect`, `accounts`, `signature`, `processes`, `entries`, `filesystem`,
`transfers`, `daemon`.
"""
