"""HTTP properties as settings: methods, TLS, and what an attempt reads from a job."""

import pytest

from connectors.http import HttpConnector
from connectors.http.settings import HttpSettings


def settings(job_file, properties):
    return HttpSettings.of(job_file.load(properties).job)


@pytest.mark.parametrize(
    ("written", "method", "encodes"),
    [
        ("", "GET", True),
        ("get", "GET", True),
        ("Get_xe", "GET", False),
        ("post", "POST", True),
        ("PUT", "PUT", True),
        ("patch", "PATCH", True),
        ("Delete", "DELETE", True),
    ],
)
def test_a_method_is_read_in_any_case_and_blank_is_get(job_file, written, method, encodes):
    found = settings(job_file, {"ms.http.request.method": written})
    assert (found.method, found.encodes) == (method, encodes)


def test_an_unknown_method_is_a_problem(job_file):
    assert "POST" in job_file.problem("ms.http.request.method", "PSOT").fix


def test_stores_of_ms_ssl_are_found_from_the_folder_of_the_job_file(job_file, tmp_path):
    text = '{"keyStorePath":"a/client.p12","trustStorePath":"/etc/trust.pem","version":"tlsv1.3"}'
    tls = settings(job_file, {"ms.ssl": text}).tls
    assert tls.key_store_path.endswith("/a/client.p12")
    assert tls.key_store_path.startswith("/")
    assert (tls.trust_store_path, tls.version) == ("/etc/trust.pem", "tlsv1.3")


def test_a_java_key_store_is_told_with_the_command_that_converts_it(job_file):
    found = job_file.problem("ms.ssl", '{"keyStoreType":"JKS","keyStorePath":"/k"}')
    assert found.what == 'keyStoreType is "JKS", which only Java reads'
    assert "keytool -importkeystore" in found.fix


def test_all_that_is_wrong_with_ms_ssl_is_told_at_once(job_file):
    text = '{"keyStoreType":"pkcs21","trustStorePath":"s3://b/t","version":"SSLv3"}'
    whats = [problem.what for problem in job_file.problems({"ms.ssl": text})]
    assert len(whats) == 3


@pytest.mark.parametrize(
    "name",
    ["SecureConnectionClientFactory", "com.linkedin.cdi.factory.SecureConnectionClientFactory"],
)
def test_the_secure_factory_is_taken(job_file, name):
    job_file.load({"ms.connection.client.factory": name})


def test_the_settings_of_repeating_are_read(job_file):
    found = settings(
        job_file,
        {
            "ms.http.idempotency.header": "Idempotency-Key",
            "ms.http.retry.unsafe": "true",
            "ms.http.response.max.seconds": "0",
            "ms.http.statuses": '{"quota":[402]}',
        },
    )
    assert (found.idempotency_header, found.repeats_unsafe) == ("Idempotency-Key", True)
    assert (found.body_wait_s, found.statuses.quota) == (0, (402,))


@pytest.mark.parametrize(
    ("retry", "expected"),
    [("", (300, 3)), (',"retry":{"delayInSec":"5","retryCount":2}', (5, 2))],
)
def test_the_renewal_of_a_token_is_that_of_its_input_or_dils_default(
    job_file, tmp_path, retry, expected
):
    text = f'[{{"path":"{tmp_path}","category":"authentication","fields":["t"]{retry}}}]'
    renewal = settings(job_file, {"ms.secondary.input": text}).renewal
    assert (renewal.delay_s, renewal.count) == expected


def test_a_header_name_that_http_does_not_know_is_a_problem(job_file):
    properties = job_file.load({}).job.properties
    wrong = properties.having("ms.http.idempotency.header", "Idempotency Key:")
    assert [each.key for each in HttpConnector.check(wrong)] == ["ms.http.idempotency.header"]


@pytest.mark.parametrize(
    ("written", "proxy"),
    [
        ("proxy.test", "http://proxy.test:3128"),
        ("https://proxy.test/", "https://proxy.test:3128"),
        ("::1", "http://[::1]:3128"),
        ("me:p#s/w?d@proxy.test", "http://me:p%23s%2Fw%3Fd@proxy.test:3128"),
        ("http://me:a%20b@[fe80::1]", "http://me:a%20b@[fe80::1]:3128"),
    ],
)
def test_the_proxy_is_a_host_with_a_login_before_it(job_file, written, proxy):
    given = {"source.conn.use.proxy.url": written, "source.conn.use.proxy.port": "3128"}
    assert settings(job_file, given).proxy == proxy


@pytest.mark.parametrize("at", ["socks5://me:s3cret@proxy.test", "me:s3cret@http://proxy.test"])
def test_a_proxy_that_does_not_speak_http_is_a_problem(job_file, at):
    given = {"source.conn.use.proxy.url": at, "source.conn.use.proxy.port": "1080"}
    (problem,) = job_file.problems(given)
    assert problem.key == "source.conn.use.proxy.url"
    assert "s3cret" not in str(problem)


@pytest.mark.parametrize("written", ["proxy.test:3128", "me:s3cret@", "proxy.test/path", "//"])
def test_a_proxy_that_names_no_host_is_a_problem_that_shows_no_login(job_file, written):
    given = {"source.conn.use.proxy.url": written, "source.conn.use.proxy.port": "3128"}
    (problem,) = job_file.problems(given)
    assert (problem.key, problem.what) == ("source.conn.use.proxy.url", "names no host")
    assert "s3cret" not in str(problem)
