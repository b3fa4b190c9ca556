"""The programs that run in a sandbox, `agent` and `warden`: standard library only, nothing from outside this folder.

The host does not import them; it hands them over as an archive of compiled files. Read in this order: `messages`,
`processes`, `programs`, `filesystem`, `agent`; `warden` stands alone.
"""
