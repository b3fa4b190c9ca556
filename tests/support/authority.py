"""A certificate authority that nobody trusts unless told to, and a server that it vouches for."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Authority:
    """Signs a certificate for 127.0.0.1.

    Args:
        folder: Where the file with the authority's own certificate is put.

    Attributes:
        bundle: This file: what a client is told to trust.
        server: Context of a server with the signed certificate.
    """

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.bundle = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.bundle)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self.server)
