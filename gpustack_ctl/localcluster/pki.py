"""The run's own certificate authority: every server and every user of a local cluster is known by its certificate.

A certificate can be issued at any time without restarting the API server, so a test invents a user when it needs one.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=365)
_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs for one run directory; ``directory/ca.crt`` is what everybody trusts."""

    directory: Path

    @classmethod
    def create(cls, directory: Path) -> "Authority":
        directory.mkdir(parents=True, exist_ok=True)
        key = _new_key()
        name = _name("gpustack-local-ca", ())
        certificate = (
            _builder(subject=name, issuer=name, key=key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_ca_usage(), critical=True)
            .sign(key, hashes.SHA256())
        )
        _write(KeyPair(directory / "ca.crt", directory / "ca.key"), certificate, key)
        return cls(directory)

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.crt"

    def issue(self, name: str, *, groups: Iterable[str] = (), file_name: str | None = None) -> KeyPair:
        """A certificate for 127.0.0.1 and localhost that serves and identifies: the common name is the user."""
        pair = self.pair(file_name or name)
        ca_key = serialization.load_pem_private_key((self.directory / "ca.key").read_bytes(), password=None)
        ca = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is not one of its own making")
        key = _new_key()
        certificate = (
            _builder(subject=_name(name, groups), issuer=ca.subject, key=key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(_loopback()), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(ca_key, hashes.SHA256())
        )
        _write(pair, certificate, key)
        return pair

    def pair(self, file_name: str) -> KeyPair:
        """Where a pair with this name lies, issued or not."""
        return KeyPair(self.directory / f"{file_name}.crt", self.directory / f"{file_name}.key")

    def signing_key(self) -> Path:
        """The key that the API server signs service account tokens with; it checks them with the same file."""
        path = self.directory / "service-accounts.key"
        path.write_bytes(_pem(_new_key()))
        path.chmod(0o600)
        return path


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str, groups: Iterable[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(*, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
    )


def _loopback() -> list[x509.GeneralName]:
    return [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]


def _ca_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(pair: KeyPair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.touch(mode=0o600)
    pair.key.write_bytes(_pem(key))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
