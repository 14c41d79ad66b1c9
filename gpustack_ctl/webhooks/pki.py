"""Our own certificate authority: making certificates, and judging when the next ones are due.

Pure but for the random numbers of the keys: the time is an argument and nothing is read or written, so that
years of rotation pass in a test. What is renewed, and in which order, follows from one rule: nobody is ever
served a certificate whose authority they have not had time to learn. A new authority is therefore announced
first, next to the old one, and signs only after it has settled.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A reader's clock may be behind ours; a certificate that starts in its future would be refused.
_CLOCK_SKEW = timedelta(hours=1)

Names = frozenset[str]


class CertificateError(ValueError):
    """What was found is no certificate, no key, or not a pair; the message says which."""


class Due(StrEnum):
    """What has to be made anew."""

    NOTHING = "nothing"
    LEAF = "leaf"
    AUTHORITY = "authority"


@dataclass(frozen=True, slots=True)
class Validity:
    """How long certificates are good, and how long a new authority is announced before it signs."""

    authority: timedelta = timedelta(days=3650)
    leaf: timedelta = timedelta(days=90)
    settle: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        if not self.settle * 6 <= self.leaf <= self.authority / 3:
            raise ValueError("an authority outlives three leaves, and a leaf six times the settling time")


LONG_LIVED = Validity()


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Certificates:
    """What replicas share: the pair they serve, the authority that signs the next one, and what clients must trust."""

    leaf: Pair
    authority: Pair
    #: One or more authorities, PEM, the newest first.
    trusted: bytes


def first(names: Iterable[str], now: datetime, validity: Validity = LONG_LIVED) -> Certificates:
    """A new authority and a first certificate for `names` (host names and IP addresses)."""
    authority = _authority(now, validity)
    return Certificates(_leaf(authority, names, now, validity), authority, authority.certificate)


def due(certificates: Certificates, names: Iterable[str], now: datetime, validity: Validity = LONG_LIVED) -> Due:
    """What `renewed` would make. A leaf is due when a third of its life is left, or a name is missing."""
    authority = _read(certificates.authority.certificate)
    if authority.not_valid_after_utc - now < validity.leaf * 2:
        return Due.AUTHORITY
    leaf = _read(certificates.leaf.certificate)
    left = leaf.not_valid_after_utc - now
    unsettled = now - authority.not_valid_before_utc - _CLOCK_SKEW < validity.settle
    signed = any(_issued(leaf, issuer) for issuer in x509.load_pem_x509_certificates(certificates.trusted))
    if signed and left > timedelta(0) and unsettled and not _issued(leaf, authority):
        return Due.NOTHING
    if not signed or left < validity.leaf / 3 or not set(names) <= names_of(certificates.leaf):
        return Due.LEAF
    return Due.NOTHING


def renewed(
    certificates: Certificates, names: Iterable[str], now: datetime, validity: Validity = LONG_LIVED
) -> Certificates:
    """The next certificates, one step further; the same when nothing is due.

    Names are only ever added: replicas that are reached by different names share one certificate.
    """
    step = due(certificates, names, now, validity)
    if step is Due.AUTHORITY:
        authority = _authority(now, validity)
        return replace(certificates, authority=authority, trusted=_trusting(authority, certificates.trusted, now))
    if step is Due.LEAF:
        wanted = names_of(certificates.leaf) | set(names)
        return replace(certificates, leaf=_leaf(certificates.authority, wanted, now, validity))
    return certificates


def check(pair: Pair) -> None:
    """Raises CertificateError unless the pair is one: a certificate and the key it was made for."""
    certificate = _read(pair.certificate)
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError) as cause:
        raise CertificateError("the key is not an unencrypted PEM private key") from cause
    if key.public_key() != certificate.public_key():
        raise CertificateError("the key is not the one that the certificate was made for")


def check_all(certificates: Certificates) -> None:
    """Raises CertificateError unless both pairs are pairs and there is somebody to trust."""
    check(certificates.leaf)
    check(certificates.authority)
    _read(certificates.trusted)


def expiry(certificate: bytes) -> datetime:
    return _read(certificate).not_valid_after_utc


def names_of(pair: Pair) -> Names:
    """The host names and addresses that the pair's certificate speaks for."""
    try:
        found = _read(pair.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = found.get_values_for_type(x509.IPAddress)
    return frozenset(found.get_values_for_type(x509.DNSName)) | {str(address) for address in addresses}


def _trusting(authority: Pair, trusted: bytes, now: datetime) -> bytes:
    living = [known for known in x509.load_pem_x509_certificates(trusted) if known.not_valid_after_utc > now]
    return authority.certificate + b"".join(known.public_bytes(serialization.Encoding.PEM) for known in living)


def _authority(now: datetime, validity: Validity) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities live side by side during a change; a subject of their own keeps verifiers from mixing them up.
    name = _named(f"gpustack-ctl webhooks {now:%Y-%m-%d %H:%M:%S}")
    builder = _builder(name, name, key, now, validity.authority)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def _leaf(authority: Pair, names: Iterable[str], now: datetime, validity: Validity) -> Pair:
    issuer = _read(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the authority's key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_named("gpustack-ctl webhook"), issuer.subject, key, now, validity.leaf)
    builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(sorted(names))), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(signer, critical=False)
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative(name) for name in names]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, key_cert_sign: bool = False, digital_signature: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), secret)


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _read(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError as cause:
        raise CertificateError("there is no PEM certificate") from cause
