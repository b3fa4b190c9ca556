"""``ai4j chat``: a coding session with a model, whose sandbox can be changed while it goes on.

Read in this order: `words`, `directive` (what was typed, as data), `completion`; `probe` (a look at a sandbox),
`journal`, `link` (the sandbox and the rules for changing it), `status`; `console` (plain text in and out), `scripted`,
`conversation` (the chat itself, which knows no terminal); `prompt` (the terminal), `assembly` and `command`.
"""
