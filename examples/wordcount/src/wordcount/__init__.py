"""Counts the words of a text. Read in this order: `words`, `statistics`, `report`, `command`."""
