"""TLS of the HTTP connector against real servers: trust stores, client certificates, proxies."""

import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path

import pytest

from connectors.http.settings import RetryBudget
from dil.errors import ConfigError, SourceError, TransientSourceError, UnknownOutcomeError
from dil.model.secret import Secret
from dil.model.settings import TlsSettings
from dil.spi.connector import RequestValues
from tests.servers.certificates import (
    authority,
    client_of,
    server_context,
    server_of,
    trust_store,
)
from tests.servers.connect_proxy import ConnectProxy
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.servers.http_sessions import Session

PASSWORD = "s3cret-of-store"
# Read by Java only: the magic number of a JKS file, and its version.
JKS = b"\xfe\xed\xfe\xed\x00\x00\x00\x02"


@pytest.fixture(scope="module")
def ours():
    return authority("ours")


@pytest.fixture(scope="module")
def stranger():
    return authority("stranger")


@pytest.fixture
def server(tmp_path, ours):
    """A server that our authority vouches for."""
    with HttpServer(tls=server_context(tmp_path, server_of(ours))) as running:
        running.script("/x", Reply(b"{}"))
        yield running


@pytest.fixture
def strict(tmp_path, ours):
    """The same, and it asks for a client certificate of our authority."""
    with HttpServer(tls=server_context(tmp_path, server_of(ours), clients=ours)) as running:
        running.script("/x", Reply(b"{}"))
        yield running


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a file and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def asked(server, **members):
    """Ask for /x with these members of ms.ssl; return the body."""
    with Session(server.url + "/x?key=s3cret", tls=TlsSettings(**members)) as session:
        return session.get()


def refusal(server, **members):
    with pytest.raises(SourceError) as caught:
        asked(server, **members)
    assert "s3cret" not in str(caught.value)
    return caught.value.message


def problem(server, **members):
    with pytest.raises(ConfigError) as caught:
        asked(server, **members)
    assert PASSWORD not in str(caught.value)
    assert server.requests == []
    (found,) = caught.value.problems
    return found


# Trust


@pytest.mark.parametrize("form", ["pem", "pkcs12", "pkcs12 with a key"])
def test_a_trust_store_vouches_for_the_server(server, written, ours, form):
    content = {
        "pem": ours.pem,
        "pkcs12": trust_store(PASSWORD, ours),
        "pkcs12 with a key": client_of(ours).pkcs12(PASSWORD, ours),
    }[form]
    path = written("trust", content)
    assert asked(server, trust_store_path=path, trust_store_password=Secret(PASSWORD)) == b"{}"


def test_a_trust_store_takes_the_place_of_the_systems_trust(
    server, written, ours, stranger, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", written("system.pem", ours.pem))
    assert asked(server) == b"{}"
    message = refusal(server, trust_store_path=written("trust.pem", stranger.pem))
    assert "the server's certificate is not trusted" in message


def test_an_untrusted_certificate_fails_at_once(server):
    session = Session(server.url + "/x?k=s3cret")
    with session, pytest.raises(SourceError) as caught:
        session.get()
    assert type(caught.value) is SourceError
    assert session.waits == []
    assert "s3cret" not in str(caught.value)


def test_host_names_are_verified_against_the_systems_trust(server, written, ours, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", written("system.pem", ours.pem))
    session = Session(server.url.replace("127.0.0.1", "localhost") + "/x")
    with session, pytest.raises(SourceError):
        session.get()
    assert (session.waits, server.requests) == ([], [])


def test_a_trust_store_does_not_switch_off_the_check_of_the_host_name(tmp_path, written, ours):
    context = server_context(tmp_path, server_of(ours, "127.0.0.2"))
    with HttpServer(tls=context) as server:
        message = refusal(server, trust_store_path=written("trust.pem", ours.pem))
    assert "the server's certificate is not trusted: it does not contain the host name" in message
    assert server.requests == []


@pytest.mark.parametrize(("days_of_authority", "days_of_server"), [(36_500, 1), (1, 36_500)])
def test_an_expired_certificate_is_not_taken_for_one_of_an_unknown_authority(
    tmp_path, written, days_of_authority, days_of_server
):
    issuer = authority("expiring", days=days_of_authority)
    context = server_context(tmp_path, server_of(issuer, days=days_of_server))
    with HttpServer(tls=context) as server:
        message = refusal(server, trust_store_path=written("trust.pem", issuer.pem))
    assert "it or its authority is not valid at this time" in message


def test_a_server_that_has_no_site_of_this_name_is_not_asked_again(tmp_path, written, ours):
    context = server_context(tmp_path, server_of(ours))
    context.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
    trust = TlsSettings(trust_store_path=written("trust.pem", ours.pem))
    with HttpServer(tls=context) as server:
        session = Session(server.url + "/x", tls=trust)
        with session, pytest.raises(SourceError) as caught:
            session.get()
    assert not isinstance(caught.value, TransientSourceError)
    assert "ms.source.uri" in caught.value.fix
    assert session.waits == []


# Client certificates


def identity(written, ours, form):
    """Return the members of ms.ssl that show a client of ours."""
    client = client_of(ours)
    secret = Secret(PASSWORD)
    match form:
        case "pkcs12":
            path = written("client.p12", client.pkcs12(PASSWORD, ours))
            return {"key_store_path": path, "key_store_password": secret}
        case "pkcs12 by key password":
            path = written("client.p12", client.pkcs12(PASSWORD))
            return {"key_store_path": path, "key_password": secret}
        case "pkcs12 without password":
            return {"key_store_path": written("client.p12", client.pkcs12(""))}
        case "pem":
            path = written("client.pem", client.pem + client.key_pem())
            return {"key_store_path": path, "key_store_type": "pem"}
        case _:
            path = written("client.pem", client.key_pem(PASSWORD) + client.pem)
            return {"key_store_path": path, "key_store_type": "PEM", "key_password": secret}


FORMS = [
    "pkcs12", "pkcs12 by key password", "pkcs12 without password", "pem", "pem with a password",
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_client_certificate_is_shown_and_leaves_no_file_behind(
    strict, written, ours, form, tmp_path, monkeypatch
):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    members = identity(written, ours, form)
    assert asked(strict, trust_store_path=written("trust.pem", ours.pem), **members) == b"{}"
    assert list(folder.iterdir()) == []


def test_a_server_that_misses_a_client_certificate_of_its_own_is_told_apart(
    tmp_path, written, ours, stranger
):
    # With TLS 1.3 a client may send its request, and lose the connection, before it hears of it.
    context = server_context(tmp_path, server_of(ours), clients=ours)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    trust = {"trust_store_path": written("trust.pem", ours.pem)}
    with HttpServer(tls=context) as server:
        assert "the server breaks the TLS handshake off" in refusal(server, **trust)
        message = refusal(server, **trust, **identity(written, stranger, "pkcs12"))
        assert "the server asks for a client certificate that it knows" in message
        stale = client_of(ours, days=1)
        path = written("stale.pem", stale.pem + stale.key_pem())
        message = refusal(server, **trust, key_store_path=path, key_store_type="pem")
        assert "the server refuses the client certificate, which has expired" in message
        assert server.requests == []


def test_the_least_version_of_tls_is_kept(tmp_path, written, ours):
    context = server_context(tmp_path, server_of(ours))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    trust = {"trust_store_path": written("trust.pem", ours.pem)}
    with HttpServer(tls=context) as server:
        server.script("/x", Reply(b"{}"))
        assert asked(server, version="TLSv1.2", **trust) == b"{}"
        assert "no TLS of the version asked for" in refusal(server, version="tlsv1.3", **trust)


# Stores that cannot be used


def test_a_java_key_store_is_refused_with_the_command_that_converts_it(server, written):
    for name, member in (
        ("key_store_path", "keyStorePath"),
        ("trust_store_path", "trustStorePath"),
    ):
        path = written("store", JKS)
        found = problem(server, **{name: path})
        assert found.key == "ms.ssl"
        assert f"{member} {path} is a key store of Java's own kind" in found.what
        assert f"keytool -importkeystore -srckeystore {path}" in found.fix


@pytest.mark.parametrize("member", ["key_store_path", "trust_store_path"])
def test_a_store_that_is_not_there_or_does_not_open_is_a_problem_of_the_configuration(
    server, written, ours, tmp_path, member
):
    password = {member.replace("path", "password"): Secret(PASSWORD)}
    assert "No such file" in problem(server, **{member: str(tmp_path / "none")}, **password).what
    other = written("other.p12", client_of(ours).pkcs12("another"))
    for path in (other, written("noise", b"noise")):
        assert "is no PKCS#12 or PEM file" in problem(server, **{member: path}, **password).what


def test_a_store_without_what_it_is_for_is_a_problem(server, written, ours):
    trust = written("trust.p12", trust_store(PASSWORD, ours))
    found = problem(server, key_store_path=trust, key_store_password=Secret(PASSWORD))
    assert "holds no private key with its certificate" in found.what
    damaged = written("damaged.pem", ours.pem.replace(b"M", b"A"))
    assert "holds a damaged certificate" in problem(server, trust_store_path=damaged).what
    key = written("key.pem", client_of(ours).key_pem())
    assert "holds no certificate" in problem(server, trust_store_path=key).what
    found = problem(server, key_store_path=written("cert.pem", ours.pem), key_store_type="pem")
    assert "does not give a certificate with its private key" in found.what


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs keytool of a Java runtime")
def test_stores_that_javas_own_tool_wrote_are_read(server, tmp_path, written, ours):
    store = tmp_path / "java.p12"
    command = [
        "keytool", "-importcert", "-noprompt", "-alias", "ours", "-file",
        written("ours.pem", ours.pem), "-keystore", str(store), "-storetype", "PKCS12",
        "-storepass", PASSWORD,
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert (
        asked(server, trust_store_path=str(store), trust_store_password=Secret(PASSWORD)) == b"{}"
    )


# Proxies


def test_https_goes_through_the_proxy_as_a_tunnel_with_our_certificates(strict, written, ours):
    port = int(strict.url.rpartition(":")[2])
    tls = TlsSettings(
        trust_store_path=written("trust.pem", ours.pem), **identity(written, ours, "pkcs12")
    )
    with ConnectProxy(port) as proxy:
        # No such port is open: only the proxy can lead there.
        with Session("https://127.0.0.1:1/x?a=%2c", tls=tls, proxy=proxy.url) as session:
            assert session.get() == b"{}"
        assert proxy.asked == ["127.0.0.1:1"]
    assert strict.requests[-1].target == "/x?a=%2c"


def test_a_proxy_that_refuses_the_tunnel_is_told_with_its_status(server):
    with ConnectProxy(0, status=407) as proxy:
        session = Session("https://shop.invalid/x?k=s3cret", proxy=proxy.url)
        with session, pytest.raises(SourceError) as caught:
            session.get()
    assert "shop.invalid/x (k): the proxy answers with HTTP status 407" in caught.value.message
    assert session.waits == []


def test_a_proxy_that_does_not_reach_the_host_is_asked_again_and_named_with_its_status():
    with ConnectProxy(0, status=503) as proxy:
        session = Session(
            "https://shop.invalid/x?k=s3cret", proxy=proxy.url, retry=RetryBudget(2, 60)
        )
        with session, pytest.raises(TransientSourceError) as caught:
            session.get()
    assert "the proxy answers with HTTP status 503 after 2 retries" in caught.value.message
    assert "source.conn.use.proxy.url" in caught.value.fix


@pytest.fixture
def plain():
    """A server without TLS."""
    with HttpServer() as running:
        running.script("/x", Reply(b"{}"))
        yield running


def test_a_proxy_that_speaks_tls_is_verified_by_our_trust_store(tmp_path, server, written, ours):
    tls = TlsSettings(trust_store_path=written("trust.pem", ours.pem))
    there = server_context(tmp_path, server_of(ours))
    with ConnectProxy(server.port, tls=there) as proxy:
        with Session("https://127.0.0.1:1/x", tls=tls, proxy=proxy.url) as session:
            assert session.get() == b"{}"
        assert proxy.asked == ["127.0.0.1:1"]
    # An http request goes to the proxy as it is, over TLS.
    with Session("http://shop.invalid/x", tls=tls, proxy=server.url) as session:
        assert session.get() == b"{}"
    assert server.requests[-1].target == "http://shop.invalid/x"


def test_a_row_that_went_through_a_proxy_before_the_connection_broke_is_sent_once(
    server, plain, written, ours
):
    tls = TlsSettings(trust_store_path=written("trust.pem", ours.pem))
    plain.faults.append(Fault("reset", path="/x"))
    server.faults.append(Fault("reset", path="/x"))
    with ConnectProxy(server.port) as tunnel:
        ways = (
            ("http://shop.invalid/x", plain.url),
            ("http://shop.invalid/x", server.url),
            ("https://127.0.0.1:1/x", tunnel.url),
        )
        for uri, proxy in ways:
            session = Session(uri, method="POST", tls=tls, proxy=proxy)
            with session, pytest.raises(UnknownOutcomeError):
                session.get(RequestValues({}, {}, payload={"id": 1}))
    assert (len(plain.requests), len(server.requests)) == (1, 2)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_without_a_trusted_certificate_gets_no_request(tmp_path, scheme, server, plain):
    login = server.url.replace("://", "://me:s3cret@")
    session = Session(f"{scheme}://127.0.0.1:{plain.port}/x", proxy=login)
    with session, pytest.raises(SourceError) as caught:
        session.get()
    assert server.requests == plain.requests == []
    assert "the proxy's certificate is not trusted" in caught.value.message


def test_a_proxy_that_speaks_no_tls_is_named_by_its_property(plain):
    proxy = plain.url.replace("http:", "https:")
    session = Session("https://127.0.0.1:1/x", proxy=proxy)
    with session, pytest.raises(SourceError) as caught:
        session.get()
    assert "source.conn.use.proxy.url" in caught.value.fix


def test_a_redirect_from_http_to_https_is_checked_by_the_same_stores(
    server, written, ours, stranger
):
    with HttpServer() as plain:
        plain.script("/x", Reply(status=302, headers=(("Location", server.url + "/x"),)))
        assert asked(plain, trust_store_path=written("trust.pem", ours.pem)) == b"{}"
        message = refusal(plain, trust_store_path=written("other.pem", stranger.pem))
    assert "the server's certificate is not trusted" in message


def test_a_redirect_from_https_to_http_is_refused(server, written, ours):
    with HttpServer() as plain:
        plain.script("/x", Reply(b"{}"))
        server.script("/x", Reply(status=302, headers=(("Location", plain.url + "/x"),)))
        message = refusal(server, trust_store_path=written("trust.pem", ours.pem))
        assert plain.requests == []
    assert "a redirect leads from https to http" in message


def error_of_row_sent_to_http(server, written, ours, status: int) -> SourceError:
    """Send a row that is answered by a redirect to http; return the error, which names it."""
    away = server.url.replace("https:", "http:") + "/rows/1"
    server.script("/rows", Reply(status=status, headers=(("Location", away),)))
    trust = TlsSettings(trust_store_path=written("trust.pem", ours.pem))
    row = RequestValues({}, {}, payload={"id": 1})
    session = Session(server.url + "/rows", method="POST", tls=trust)
    with session, pytest.raises(SourceError) as caught:
        session.get(row)
    assert away in caught.value.message
    return caught.value


def test_a_redirect_of_a_row_to_http_gives_no_advice_to_use_that_address(server, written, ours):
    error = error_of_row_sent_to_http(server, written, ours, 308)
    assert "https address" in error.fix


def test_a_row_that_is_answered_by_a_redirect_to_http_may_have_been_done(server, written, ours):
    # An application behind a proxy that speaks https often takes itself for an http address.
    error = error_of_row_sent_to_http(server, written, ours, 303)
    assert isinstance(error, UnknownOutcomeError)


def test_the_client_certificate_does_not_follow_a_redirect_to_another_origin(
    server, strict, written, ours
):
    server.script("/x", Reply(status=302, headers=(("Location", strict.url + "/x"),)))
    trust = written("trust.pem", ours.pem)
    refusal(server, trust_store_path=trust, **identity(written, ours, "pkcs12"))
    assert strict.requests == []


def test_the_temporary_file_of_a_key_is_for_its_owner_alone_and_holds_it_encrypted(
    strict, written, ours, monkeypatch
):
    seen = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context, path, **options):
        seen.append((Path(path).stat().st_mode & 0o777, Path(path).read_bytes()))
        return load(context, path, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    trust = written("trust.pem", ours.pem)
    assert asked(strict, trust_store_path=trust, **identity(written, ours, "pkcs12")) == b"{}"
    ((mode, content),) = seen
    assert mode == 0o600
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in content
