"""``python -m ai4j_cli``."""

from .main import main

main()
