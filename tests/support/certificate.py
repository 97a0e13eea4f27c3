"""A certificate for 127.0.0.1 that is its own issuer."""

from __future__ import annotations

import ipaddress
from datetime import datetime
from pathlib import Path


def certificate(folder: Path) -> tuple[Path, Path]:
    """Files of it and of its key, as PEM. Raises ModuleNotFoundError where cryptography is missing."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2099, 1, 1))
    made = made.add_extension(address, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = made.sign(key, hashes.SHA256())
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return folder / "certificate.pem", folder / "key.pem"
