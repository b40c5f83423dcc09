"""``ms.extract.preprocessors``: how their parameters are read, and which are refused."""

from __future__ import annotations

import json

import pytest

from dil.model.secret import Secret

NAMES = "ms.extract.preprocessors"
PARAMETERS = "ms.extract.preprocessor.parameters"


def preprocessing(name, parameters):
    return {NAMES: name, PARAMETERS: json.dumps(parameters)}


def spec_of(job_file, name, parameters, **options):
    job = job_file.load(preprocessing(name, parameters), **options).job
    (spec,) = job.extraction.preprocessors
    return spec


def test_parameters_are_texts_and_a_null_is_none(job_file):
    given = {"header": "names", "data": 1, "unwrap": None}
    spec = spec_of(job_file, "aggregated-json", {"aggregated-json": given})
    assert spec.parameters == {"header": "names", "data": "1"}


@pytest.mark.parametrize("key", ["gpg-decrypt", "GpgProcessor", "GpgDecryptProcessor"])
def test_parameters_may_have_any_name_of_their_preprocessor(job_file, key):
    name = "com.linkedin.cdi.preprocessor.GpgDecryptProcessor"
    parameters = {key: {"keystore_password": "env:PIN"}}
    spec = spec_of(job_file, name, parameters, environ={"PIN": "1"})
    assert spec.filter.qualname == "GpgDecryptProcessor"
    assert spec.parameters == {"keystore_password": Secret("1")}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("GunzipProcessor", {}),
        ("GpgDecryptProcessor", {"keystore_password": "env:PIN"}),
        ("GpgProcessor", {"action": "decrypt", "keystore_password": "env:PIN"}),
        ("AggregatedJsonProcessor", {"header": "h", "data": "d"}),
    ],
)
def test_names_of_the_old_package_mean_the_same_preprocessors(job_file, name, given):
    found = [
        spec_of(job_file, f"{package}.{name}", {f"{package}.{name}": given}, environ={"PIN": "1"})
        for package in ("com.linkedin.dil.preprocessor", "com.linkedin.cdi.preprocessor")
    ]
    assert found[0].filter == found[1].filter
    assert found[0].parameters == found[1].parameters


@pytest.mark.parametrize(
    ("action", "kind"), [("decrypt", "GpgDecryptProcessor"), ("Encrypt", "GpgEncryptProcessor")]
)
def test_the_action_says_what_the_one_name_for_both_means(job_file, action, kind):
    parameters = {"action": action, "keystore_password": "env:PIN"}
    dump = {"ms.extractor.class": "filedump", "ms.extractor.target.file.name": "x"}
    given = {**dump, **preprocessing("GpgProcessor", {"GpgProcessor": parameters})}
    (spec,) = job_file.load(given, environ={"PIN": "1"}).job.extraction.preprocessors
    assert spec.filter.qualname == kind


@pytest.mark.parametrize(
    ("name", "parameters", "key", "told"),
    [
        ("gunzp", {}, NAMES, 'Did you mean "gunzip"?'),
        ("gunzip", {"gunzip": {"level": [1]}}, PARAMETERS, '"gunzip": level is no text'),
        ("gunzip", {"gunzip": {"level": 1}}, PARAMETERS, "It has no parameters."),
        ("zip", {"zip": {"membr": "a"}}, PARAMETERS, 'Did you mean "member"?'),
        ("zip", {"zip": 3}, PARAMETERS, '"zip" is no JSON object'),
        (
            "aggregated-json",
            {"aggregated-json": {"header": "h"}},
            PARAMETERS,
            '"aggregated-json": data is missing',
        ),
        (
            "gpg-encrypt",
            {"gpg-encrypt": {"keystore_password": "env:PIN"}},
            NAMES,
            "prepares dumped files, and this job dumps none",
        ),
    ],
)
def test_what_no_preprocessor_can_use_is_refused(job_file, name, parameters, key, told):
    (found,) = job_file.problems(preprocessing(name, parameters), environ={"PIN": "1"})
    assert found.key == key
    assert told in f"{found.what}. {found.fix}"


@pytest.mark.parametrize(
    ("other", "fix"), [("gunzipp", 'Did you mean "gunzip"?'), ("zip", f"Name it as in {NAMES}.")]
)
def test_parameters_of_no_preprocessor_of_the_job_are_noted(job_file, other, fix):
    (notice,) = job_file.load(preprocessing("gunzip", {other: {"member": "a"}})).notices
    assert (notice.key, notice.fix) == (PARAMETERS, fix)


def test_limits_of_unpacked_bytes_may_be_switched_off(job_file):
    assert job_file.load().job.extraction.expansion.ratio == 250
    off = {"ms.extract.expansion.max.ratio": "0", "ms.extract.expansion.max.bytes": "0"}
    expansion = job_file.load(off).job.extraction.expansion
    assert (expansion.ratio, expansion.bytes) == (None, None)
