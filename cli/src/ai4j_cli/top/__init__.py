"""``ai4j top``: the sandboxes of all providers, what runs in them, and a key to stop it.

Read in this order: `board` (what is shown, as data), `screen` (the data as a picture), `tail` (the output of one
command), `watcher` (where the data comes from), `keys`, `dashboard` (what they do), `command`.
"""
