"""Which certificates are trusted: the usual ones, or those of a file. Checking is never switched off."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from ai4j_sandbox.errors import SandboxConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Certificates to trust, and the knob that names them.

    Attributes:
        ca_bundle: File with the certificates to trust instead of the usual ones.
        setting: The knob that names the file, for error messages.
    """

    ca_bundle: str | None = None
    setting: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return a new client context; the file is read now.

        Raises:
            SandboxConfigError: The file cannot be read, or holds no certificate.
        """
        import certifi  # late: whoever speaks plain http does not need it

        try:
            return ssl.create_default_context(cafile=self.ca_bundle or certifi.where())
        except (OSError, ssl.SSLError):
            raise SandboxConfigError(
                f"{self.setting or 'the CA bundle'}: {self.ca_bundle!r} cannot be read as a file of PEM certificates",
                hint="give the path of a file that can be read here and holds the certificate authority's certificate",
            ) from None

    @property
    def hint(self) -> str:
        """What to do about a certificate that is not trusted."""
        way = f"set {self.setting} to its CA bundle" if self.setting else "give its CA bundle"
        return f"for a private certificate authority {way}; checking is never switched off"
