"""``python -m ai4j_cli``."""

from .startup import main

main()
