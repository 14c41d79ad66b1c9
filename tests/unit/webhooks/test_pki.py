import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509 import verification

from gpustack_ctl.webhooks import pki
from gpustack_ctl.webhooks.pki import CertificateError, Certificates, Due, Pair, Validity

START = datetime(2026, 12, 1, tzinfo=UTC)
NAMES = frozenset({"gpustack-webhook.gpustack-system.svc"})
DAY = timedelta(days=1)


def verifies(leaf: bytes, trusted: bytes, at: datetime) -> bool:
    """What a TLS client that trusts `trusted` thinks of `leaf`."""
    roots = verification.Store(x509.load_pem_x509_certificates(trusted))
    builder = verification.PolicyBuilder().store(roots).time(at)
    verifier = builder.build_server_verifier(x509.DNSName(next(iter(NAMES))))
    try:
        verifier.verify(x509.load_pem_x509_certificate(leaf), [])
    except verification.VerificationError:
        return False
    return True


def test_a_first_certificate_is_trusted_by_its_own_authority_and_by_no_other():
    ours, theirs = pki.first(NAMES, START), pki.first(NAMES, START)
    assert verifies(ours.leaf.certificate, ours.trusted, START)
    assert not verifies(ours.leaf.certificate, theirs.trusted, START)


def test_the_standard_library_serves_it(tmp_path):
    leaf = pki.first(NAMES, START).leaf
    (tmp_path / "pem").write_bytes(leaf.key + leaf.certificate)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "pem")


def test_names_and_addresses_are_both_carried():
    leaf = pki.first({"localhost", "127.0.0.1", "::1"}, START).leaf
    assert pki.names_of(leaf) == {"localhost", "127.0.0.1", "::1"}


@pytest.mark.parametrize(("days", "step"), [(0, Due.NOTHING), (59, Due.NOTHING), (61, Due.LEAF), (120, Due.LEAF)])
def test_a_leaf_is_due_with_a_third_of_its_life_left(days, step):
    assert pki.due(pki.first(NAMES, START), NAMES, START + days * DAY) is step


def test_a_missing_name_makes_a_leaf_due_and_no_name_is_ever_lost():
    held = pki.first({"10.0.0.1"}, START)
    assert pki.due(held, NAMES, START) is Due.LEAF
    after = pki.renewed(held, NAMES, START)
    assert pki.names_of(after.leaf) == {"10.0.0.1", *NAMES}
    assert pki.due(after, {"10.0.0.1"}, START) is Due.NOTHING


def test_renewing_a_leaf_keeps_its_authority():
    held = pki.first(NAMES, START)
    after = pki.renewed(held, NAMES, START + 61 * DAY)
    assert after.leaf != held.leaf
    assert (after.authority, after.trusted) == (held.authority, held.trusted)
    assert pki.due(after, NAMES, START + 61 * DAY) is Due.NOTHING


def test_a_new_authority_is_announced_beside_the_old_one_before_it_signs():
    now = START + (3650 - 179) * DAY
    held = Certificates(pki.first(NAMES, now).leaf, *_authority_of(START))
    held = pki.renewed(held, NAMES, now - 2 * DAY)  # a leaf of that authority
    assert pki.due(held, NAMES, now) is Due.AUTHORITY
    announced = pki.renewed(held, NAMES, now)
    assert announced.leaf == held.leaf
    assert announced.trusted.startswith(announced.authority.certificate)
    assert announced.trusted.endswith(held.trusted)


def _authority_of(moment: datetime) -> tuple[Pair, bytes]:
    made = pki.first(NAMES, moment)
    return made.authority, made.trusted


def test_nobody_meets_a_certificate_whose_authority_they_have_not_learnt():
    """Decades of looking once a day: at every look, a client that last learnt the authorities a look ago is served."""
    validity = Validity(authority=timedelta(days=400), leaf=timedelta(days=90), settle=timedelta(days=2))
    held, learnt, authorities = pki.first(NAMES, START, validity), b"", set()
    learnt = held.trusted
    for day in range(4000):
        now = START + day * DAY
        held = pki.renewed(held, NAMES, now, validity)
        assert verifies(held.leaf.certificate, learnt, now), f"day {day}"
        assert held.trusted.count(b"BEGIN CERTIFICATE") <= 3
        learnt = held.trusted
        authorities.add(held.authority)
    assert len(authorities) > 10


def test_an_unsettled_authority_signs_at_once_when_nothing_else_is_left():
    validity = Validity()
    held = pki.first(NAMES, START, validity)
    late = START + 3700 * DAY  # both have ended: nobody can be harmed by a new authority any more
    announced = pki.renewed(held, NAMES, late, validity)
    assert pki.due(announced, NAMES, late, validity) is Due.LEAF
    assert verifies(pki.renewed(announced, NAMES, late, validity).leaf.certificate, announced.trusted, late)


def test_a_pair_that_is_none_is_told_apart():
    one, other = pki.first(NAMES, START), pki.first(NAMES, START)
    pki.check(one.leaf)
    with pytest.raises(CertificateError, match="not the one that the certificate was made for"):
        pki.check(Pair(one.leaf.certificate, other.leaf.key))
    with pytest.raises(CertificateError, match="no PEM certificate"):
        pki.check(Pair(b"junk", one.leaf.key))
    with pytest.raises(CertificateError, match="not an unencrypted PEM private key"):
        pki.check(Pair(one.leaf.certificate, b"junk"))


def test_what_was_tampered_with_in_part_is_told_apart():
    whole = pki.first(NAMES, START)
    pki.check_all(whole)
    for broken in (
        replace(whole, trusted=b"junk"),
        replace(whole, authority=whole.leaf, leaf=Pair(whole.leaf.certificate, whole.authority.key)),
        replace(whole, authority=Pair(whole.leaf.certificate, whole.authority.key)),
    ):
        with pytest.raises(CertificateError):
            pki.check_all(broken)


def test_lives_that_leave_no_time_to_rotate_are_refused():
    with pytest.raises(ValueError, match="outlives three leaves"):
        Validity(authority=DAY, leaf=DAY)
