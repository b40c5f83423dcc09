"""JSON properties: parameters, derived fields, schema, HTTP, sessions."""

from __future__ import annotations

import pytest

from dil.errors import ConfigError
from dil.model.schema import ArrayType, Column, EnumType, MapType, Primitive, RecordType
from tests.unit.config.conftest import SMALLEST


def parameters(job_file, text: str, **more: str | None):
    return job_file.load({"ms.parameters": text, **more}).job.extraction.parameters


def test_parameters_keep_their_order_and_default_to_type_list(job_file):
    found = parameters(job_file, '[{"name":"b","value":5},{"name":"a","type":"PageNo"}]')
    assert [(each.name, each.type, each.value) for each in found] == [
        ("b", "list", 5), ("a", "pageno", None),
    ]  # fmt: skip


def test_parameters_inside_an_object_are_parameters_themselves(job_file):
    (found,) = parameters(
        job_file,
        '[{"name":"o","type":"object","value":{"name":"i","type":"object",'
        '"value":[{"name":"x","value":1}]}}]',
    )
    assert found.value[0].value[0].name == "x"


def test_a_watermark_parameter_takes_the_zone_of_the_job(job_file):
    text = '[{"name":"w","type":"watermark","value":"low","format":"datetime","pattern":"yyyy"}]'
    unset = {"ms.timezone": None}
    assert parameters(job_file, text, **unset)[0].timezone == "America/Los_Angeles"
    zone = {"ms.timezone": "Europe/Paris"}
    assert parameters(job_file, text, **zone)[0].timezone == "Europe/Paris"
    own = text.replace("}]", ',"timezone":"UTC"}]')
    assert parameters(job_file, own, **zone)[0].timezone == "UTC"


@pytest.mark.parametrize(
    "text",
    [
        '[{"type":"list","value":"x"}]',
        '["x"]',
        '[{"name":"a","type":"lst"}]',
        '[{"name":"a","typ":"list"}]',
        '[{"name":"a","type":"primitive"}]',
        '[{"name":"a","type":"primitive","value":[1]}]',
        '[{"name":"a","value":{"b":1}}]',
        '[{"name":"a","value":[[1]]}]',
        '[{"name":"a","type":"jsonarray","value":{}}]',
        '[{"name":"a","type":"jsonobject","value":[]}]',
        '[{"name":"a","type":"object","value":"x"}]',
        '[{"name":"a","type":"object","value":[{"name":"b","type":"nope"}]}]',
        '[{"name":"a","value":"x{{a}}"}]',
        '[{"name":"a","type":"jsonobject","value":{"q":["{{a}}"]}}]',
        '[{"name":"w","type":"watermark","value":"low","format":"datetime"}]',
        '[{"name":"w","type":"watermark","value":"low","format":"datetime","pattern":"yyyy-bb"}]',
        '[{"name":"w","type":"watermark","value":"low","timezone":"Mars/Olympus"}]',
    ],
)
def test_a_parameter_that_breaks_a_rule_is_a_problem(job_file, text):
    job_file.problem("ms.parameters", text)


def test_every_wrong_parameter_is_told(job_file):
    text = '[{"name":"a","type":"x"},{"name":"b"},{"name":"c","type":"y"}]'
    assert len(job_file.problems({"ms.parameters": text})) == 2


def derived(formula: str, name: str = "d") -> str:
    return f'[{{"name":"{name}","formula":{formula}}}]'


@pytest.mark.parametrize(
    "formula",
    [
        '{"type":"epoc","source":"CURRENTDATE"}',
        '{"type":"EPOC","source":"P3D","timezone":"UTC"}',
        '{"type":"epoc","source":"t","format":"iso"}',
        '{"type":"epoc","source":"t","format":"yyyy-MM-dd\'T\'HH:mm:ss"}',
        '{"type":"regexp","source":"t","format":"/(\\\\d+)$"}',
        '{"type":"string","value":5}',
        '{"type":"integer","source":"{{id}}"}',
    ],
)
def test_derived_fields_of_every_form_are_accepted(job_file, formula):
    given = {"ms.derived.fields": derived(formula), "ms.parameters": '[{"name":"id","value":"1"}]'}
    (found,) = job_file.load(given).job.conversion.derived_fields
    assert found.name == "d"


@pytest.mark.parametrize(
    "formula",
    [
        '{"type":"epoch"}',
        '{"source":"a"}',
        '"x"',
        '{"type":"string","source":"CURRENTDATE"}',
        '{"type":"int","source":"P1D"}',
        '{"type":"epoc","source":"t","timezone":"Mars/Olympus"}',
        '{"type":"epoc","source":"t","format":"yyyy-bb"}',
        '{"type":"regexp","source":"t","format":"("}',
        '{"type":"string","sourc":"t"}',
    ],
)
def test_a_derived_field_that_breaks_a_rule_is_a_problem(job_file, formula):
    job_file.problem("ms.derived.fields", derived(formula))


def test_two_derived_fields_of_one_name_are_refused(job_file):
    one = '{"name":"%s","formula":{"type":"string","value":"x"}}'
    job_file.problem("ms.derived.fields", f"[{one % 'a'},{one % 'A'}]")


def schema(job_file, text: str):
    return job_file.load({"ms.output.schema": f"[{text}]"}).job.extraction.output_schema


def column(data_type: str, name: str = "c", more: str = "") -> str:
    return f'{{"columnName":"{name}","dataType":{data_type}{more}}}'


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        ('{"type":"string"}', Primitive("string")),
        ('{"type":"INTEGER"}', Primitive("int")),
        ('{"type":"int64"}', Primitive("long")),
        ('{"type":"number"}', Primitive("double")),
        ('{"type":"decimal","precision":"10","scale":2}', Primitive("decimal", 10, 2)),
        ('{"type":"enum","name":"e","symbols":["A","B"]}', EnumType("e", ("A", "B"))),
        ('{"type":"array","name":"a","items":"long"}', ArrayType(Primitive("long"), True, "a")),
        (
            '{"type":"array","items":{"name":"i","isNullable":"false","dataType":{"type":"int"}}}',
            ArrayType(Primitive("int"), False, ""),
        ),
        ('{"type":"map","values":"string"}', MapType(Primitive("string"), True, "")),
        (
            '{"type":"object","name":"r","values":[{"columnName":"x","dataType":{"type":"int"}}]}',
            RecordType((Column("x", Primitive("int")),), "r"),
        ),
    ],
)
def test_types_of_the_columnar_form_are_read(job_file, data_type, expected):
    assert schema(job_file, column(data_type)) == (Column("c", expected),)


def test_a_column_is_nullable_unless_it_says_no(job_file):
    found = schema(
        job_file,
        ",".join(
            [
                column('{"type":"int"}', "a"),
                column('{"type":"int"}', "b", ',"isNullable":"false"'),
                column('{"type":"int"}', "c", ',"isNullable":true,"comment":"why"'),
                column('{"type":["int","null"]}', "d", ',"isNullable":false'),
            ]
        ),
    )
    assert [each.nullable for each in found] == [True, False, True, True]
    assert found[2].comment == "why"


@pytest.mark.parametrize(
    "text",
    [
        column('{"type":"strng"}'),
        column('{"type":"int"}', "a b"),
        column('{"type":"int"}', "1a"),
        column("{}"),
        '{"dataType":{"type":"int"}}',
        '"x"',
        column('{"type":"int"}', "a", ',"isNullable":"maybe"'),
        column('{"type":"array"}'),
        column('{"type":"record","values":[]}'),
        column('{"type":"enum","symbols":[]}'),
        column('{"type":"enum","symbols":["A","A"]}'),
        column('{"type":"enum","symbols":["a-b"]}'),
        column('{"type":["int","record"]}'),
        column('{"type":"decimal","precision":2,"scale":3}'),
        column('{"type":"int"}', "a") + "," + column('{"type":"int"}', "A"),
        column('{"type":"record","values":[{"columnName":"x","dataType":{"type":"nope"}}]}'),
    ],
)
def test_a_schema_that_files_could_not_hold_is_a_problem(job_file, text):
    job_file.problem("ms.output.schema", f"[{text}]")


def test_http_settings_keep_the_defaults_of_what_is_left_out(job_file):
    properties = job_file.load(
        {
            "ms.http.statuses": '{"warning":["204"]}',
            "ms.http.response.type": '{"Content-Type":"Application/X-Gzip","b":"text/plain"}',
            "ms.ssl": '{"socketTimeoutSeconds":"5","connectionTimeoutSeconds":-1}',
        }
    ).job
    statuses = properties.properties["ms.http.statuses"]
    assert (statuses.success, statuses.warning) == ((200, 201, 202), (204,))
    assert statuses.pagination_error == (401,)
    assert properties.extraction.extra_content_types == ("application/x-gzip", "text/plain")
    tls = properties.properties["ms.ssl"]
    assert (tls.socket_timeout_s, tls.connect_timeout_s) == (5, 60)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ms.http.statuses", '{"success":200}'),
        ("ms.http.statuses", '{"sucess":[200]}'),
        ("ms.http.request.headers", '{"a":null}'),
        ("ms.http.request.headers", '{"a":["b"]}'),
        ("ms.authentication", '{"method":"basic"}'),
        ("ms.authentication", '{"method":"digest","encryption":"none","token":"t"}'),
        ("ms.authentication", '{"method":"basic","encryption":"base64"}'),
        ("ms.ssl", '{"keyStorePath":"hdfs://n/k"}'),
        ("ms.ssl", '{"keyStoreType":"jks","keyStorePath":"/k"}'),
        ("ms.ssl", '{"keyStoreType":"pkcs21"}'),
        ("ms.ssl", '{"keystorePath":"/k"}'),
        ("ms.ssl", '{"version":"TLSv1.0"}'),
        ("ms.session.key.field", '{"condition":{"regexp":"x"}}'),
        ("ms.session.key.field", '{"name":"n","condition":{"regexp":"("}}'),
        ("ms.pagination", '{"initialvalues":[1,2,3,4]}'),
        ("ms.pagination", '{"initialvalues":["x"]}'),
        ("ms.schema.cleansing", '{"pattern":"("}'),
        ("ms.data.default.type", '{"a":"strng"}'),
        ("ms.http.response.type", '{"Content-Type":5}'),
    ],
)
def test_a_json_setting_that_breaks_its_form_is_a_problem(job_file, key, value):
    job_file.problem(key, value)


def test_a_session_may_start_with_any_scalar(job_file):
    def first(value: str):
        text = f'{{"name":"n","initValue":{value}}}'
        sent = {"ms.parameters": '[{"name":"cursor","type":"session"}]'}
        found = job_file.load({"ms.session.key.field": text, **sent})
        return found.job.extraction.session.init_value

    assert [first('""'), first("5"), first("true"), first("null")] == ["", "5", "true", None]


def test_paging_that_names_no_page_is_noticed(job_file):
    text = {"ms.pagination": '{"initialvalues":[0,100]}', "ms.total.count.field": "total"}
    assert job_file.notices(text) == ["ms.pagination"]
    declared = {**text, "ms.parameters": '[{"name":"o","type":"pagestart"}]'}
    assert job_file.notices(declared) == []


# Backslashes and quotes


def test_only_a_quote_inside_a_text_is_answered_with_how_to_write_one(load_text):
    def fix(name: str, written: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_text(name, written)
        [found] = [each for each in caught.value.problems if each.key == "ms.parameters"]
        return found.fix

    quoted = fix("a.conf", 'ms.parameters=[{"name":"x","value":"say \\"hello\\" now"}]\n')
    assert 'Write \\\\" for it' in quoted
    quoted = fix("c.conf", 'ms.parameters=[{"name":"x","value":"page(after: \\"{{y}}\\")"}]\n')
    assert 'Write \\\\" for it' in quoted
    for wrong in ('[{"name" "x"}]', '[{"name":"x"}}', '[{"name":"x" "value":"y"}]', '{"a":}'):
        assert "property file" not in fix("b.conf", f"ms.parameters={wrong}\n")
    assert "property file" not in fix("a.yaml", 'ms.parameters: \'[{"name":"x"y"}]\'\n')


@pytest.mark.parametrize(
    ("written", "is_told"),
    [
        (r"C:\data\new", True),  # one each in the file: the property file takes them
        (r"C:\\temp\\new", True),
        (r"C:\\\\temp\\\\new", False),
        ("C:/temp/new", False),
        (r"line one\nline two", False),
    ],
)
def test_a_path_whose_backslashes_became_line_breaks_is_noted(load_text, written, is_told):
    lines = [f"{key}={value}" for key, value in SMALLEST.items()]
    lines.append(f'ms.parameters=[{{"name":"file","value":"{written}"}}]')
    notices = load_text("a.conf", "\n".join(lines) + "\n").notices
    told = [each for each in notices if "backslashes were read as line breaks" in each.what]
    assert bool(told) is is_told
    assert all("paths may have /" in each.fix for each in told)
