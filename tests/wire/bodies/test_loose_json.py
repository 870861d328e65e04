"""Java's JSON dialect, in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.wire.bodies import loose_json
from roquet.wire.bodies.loose_json import (
    LooseJsonError,
    ObjectKey,
    dumps,
    dumps_pretty,
    dumps_standard,
    loads,
)

QUEUE = ObjectKey({"topic": "t", "queueId": 0, "brokerName": "a"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1}', {"a": 1}),
        ("{0:1,-2:3}", {0: 1, -2: 3}),
        ('{"0":1}', {"0": 1}),
        ("{ 1 : 2 , -3:-4,,5:6.5,7:8e1,9:10}", {1: 2, -3: -4, 5: 6.5, 7: 80.0, 9: 10}),
        ("{99999999999999999999:1,1:99999999999999999999}", {10**20 - 1: 1, 1: 10**20 - 1}),
        ('{{"brokerName":"a","queueId":0,"topic":"t"}:123}', {QUEUE: 123}),
        ('{ {"topic":"t" , "queueId" : 0,\n"brokerName":"a"} : 1 }', {QUEUE: 1}),
        ("{'a':'it''}".replace("''", "\"x'"), {"a": 'it"x'}),
        (r"{'a':'it\'s'}", {"a": "it's"}),
        ("[1,2,]", [1, 2]),
        ("[,1,,2,,]", [1, 2]),
        ('{,"a":1,,"b":2,}', {"a": 1, "b": 2}),
        ("{a:1,$b_2:true}", {"a": 1, "$b_2": True}),
        ("{null:1,true:2,1.5:3,[1,2]:4}", {None: 1, True: 2, 1.5: 3, (1, 2): 4}),
        ("[1.5,-2e3,null,true,false,]", [1.5, -2000.0, None, True, False]),
        (r'["\u0041\x42\t\/\0\v",]', ["AB\t/\0\v"]),
        (r'["\ud83d\ude00 \ud83d",]', ["😀 �"]),
        ('["raw \n newline",]', ["raw \n newline"]),
        ("\ufeff{0:1}", {0: 1}),
        ("{}", {}),
        ("[]", []),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)
def test_what_is_understood(text: str, value: object) -> None:
    assert loads(text) == value
    assert loads(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("   ", 3),
        ("{0:1", 4),
        ("{0 1}", 3),
        ("{0:1 2:3}", 5),
        ("{0:1٣:3}", 3),
        ("[1 2]", 3),
        ("{0:1}x", 5),
        ("[bare]", 1),
        ('{0:"open}', 3),
        (r'{0:"\q"}', 4),
        ("{0:-}", 3),
        ("{0:٣}", 3),
        ("[" * 200 + "," + "]" * 200, 101),
        ("{0:" + "9" * 500 + "}", 3),
        ("{:1}", 1),
        ("{0:}", 3),
    ],
)
def test_errors_say_where(text: str, position: int) -> None:
    with pytest.raises(LooseJsonError) as raised:
        loads(text)
    assert raised.value.position == position
    assert str(position) in str(raised.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(LooseJsonError, match="UTF-8") as raised:
        loads(b'{"a":"\xff"}')
    assert raised.value.position == 6


def test_a_text_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loose_json, "SIZE_BYTES_MAX", 10)
    with pytest.raises(LooseJsonError, match="more than 10"):
        loads(b"[1,2,3,4,5,6]")


def test_very_deep_strict_json_is_an_error_too() -> None:
    with pytest.raises(LooseJsonError):
        loads("[" * 100_000)


def test_an_unterminated_string_of_a_million_letters_fails_at_once() -> None:
    with pytest.raises(LooseJsonError, match="without its end"):
        loads('{0:"' + "ab\\n" * 250_000, 2_000_000)


def test_object_keys_read_like_mappings() -> None:
    table = loads('{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"t"}:{"offset":5}}}')
    assert isinstance(table, dict)
    ((key, value),) = table["offsetTable"].items()
    assert key["topic"] == "t" and dict(key) == {"brokerName": "a", "queueId": 0, "topic": "t"}
    assert len(key) == 3 and value == {"offset": 5} and key != {"topic": "t"}
    assert "queueId" in repr(key)
    assert hash(ObjectKey({"a": [1, {"b": 2}]})) == hash(ObjectKey({"a": [1, {"b": 2}]}))


@pytest.mark.parametrize(
    ("text", "get"),
    [
        ('{"a":{"x":1},"b":{"$ref":"$.a"}}', lambda v: v["b"] is v["a"]),
        ('{"a":[{"x":1}],"b":[{"$ref":"$.a[0]"}]}', lambda v: v["b"][0] is v["a"][0]),
        ('{"a":{7:{"x":1}},"b":{"$ref":"$.a[7]"}}', lambda v: v["b"] is v["a"][7]),
        ('{"a":{7:{"x":1}},"b":{"$ref":"$.a.7"}}', lambda v: v["b"] is v["a"][7]),
        ('{"a":{"7":{"x":1}},"b":{"$ref":"$.a[7]"}}', lambda v: v["b"] is v["a"]["7"]),
        ('{"a":{"p.q":{"x":1}},"b":{"$ref":"$.a.p\\\\.q"}}', lambda v: v["b"] is v["a"]["p.q"]),
        ('{"a":{"p.q":{"x":1}},"b":{"$ref":"$.a[\'p.q\']"}}', lambda v: v["b"] is v["a"]["p.q"]),
        ('{"a":{"me":{"$ref":"@"}}}', lambda v: v["a"]["me"] is v["a"]),
        ('{"a":{"up":{"$ref":".."}}}', lambda v: v["a"]["up"] is v),
        ('{"a":[{"up":{"$ref":".."}}]}', lambda v: v["a"][0]["up"] is v["a"]),
        ('{"a":{"all":{"$ref":"$"}}}', lambda v: v["a"]["all"] is v),
        ('{"c":{"$ref":"$.b.x"},"b":{"$ref":"$.a"},"a":{"x":[1]}}', lambda v: v["c"] is v["a"]["x"]),
        ('{"a":{"$ref":"$.none.at.all"}}', lambda v: v["a"] is None),
        ('{"a":{"$ref":"$.a"}}', lambda v: v["a"] is None),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', lambda v: v == {"a": None, "b": None}),
        ('{"a":[1],"b":{"$ref":"$.a[5]"}}', lambda v: v["b"] is None),
        ('{"a":1,"b":{"$ref":"$.a.x"},"c":{"$ref":"$.a[0]"}}', lambda v: v["b"] is v["c"] is None),
        (
            '{"b":{"$ref":"nonsense"},"c":{"$ref":"$$"},"d":{"$ref":".."}}',
            lambda v: set(v.values()) == {None},
        ),
        ('{"a":{"$ref":5},"b":{"$ref":"$","x":1}}', lambda v: v["a"] == {"$ref": 5} and v["b"]["x"] == 1),
        ('{"a":{"$ref":"$.b.c"},"b":{"$ref":"@"}}', lambda v: v["a"] is None),
        ("[[{'x':1}],{'$ref':'$[0][0]'},]", lambda v: v[1] is v[0][0]),
    ],
)
def test_references(text: str, get: Callable[[object], bool]) -> None:
    assert get(loads(text))


def test_references_cannot_be_made_to_run_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loose_json, "REFERENCE_STEPS_MAX", 50)
    text = json.dumps({f"a{n}": {"$ref": f"$.a{n + 1}.a{n + 1}"} for n in range(60)})
    with pytest.raises(LooseJsonError, match="more than 50 steps"):
        loads(text)


class Colour(Enum):
    RED = 1


class Bean(msgspec.Struct, rename="camel"):
    topic_name: str
    order: bool = False
    nothing: str | None = None


def test_the_compact_dialect() -> None:
    assert dumps({"b": 1, "a": {0: "x", 10: "y", 9: "z"}, "n": None}) == b'{"a":{0:"x",9:"z",10:"y"},"b":1}'
    assert dumps({QUEUE: 123}) == b'{{"brokerName":"a","queueId":0,"topic":"t"}:123}'
    assert dumps([None, True, False, 1.5, float("nan"), Colour.RED, (), {}]) == (
        b'[null,true,false,1.5,null,"RED",[],{}]'
    )
    assert dumps('a/\u0001\x1f\n"\\ü😀') == '"a/\\u0001\\u001f\\n\\"\\\\ü😀"'.encode()
    assert dumps(b"\x00\x7f\x80\xff") == b"[0,127,-128,-1]"
    assert dumps(Bean("t")) == b'{"order":false,"topicName":"t"}'
    assert dumps({"b": 1, "a": 2}, sort_keys=False) == b'{"b":1,"a":2}'
    assert dumps({Colour.RED: 1, "x": 2}) == b'{"x":2,"RED":1}'
    assert dumps("\ud800") == b'"?"'


# Written by RemotingSerializable.toJson of 5.5.0 from the same values, in both layouts.
OF_5_5_0 = {
    "bool": True,
    "bytes": b"\x00\x7f\x80\xff",
    "dbl2": 1e10,
    "dbl3": 1.0e-7,
    "dbl4": 3.0,
    "double": 1.5,
    "empty": {},
    "emptyList": [],
    "ints": {10: 5, 3: 1, 0: 2},
    "listnull": [1, None, 2],
    "long": (1 << 63) - 1,
    "mq": {ObjectKey({"topic": "obsT", "queueId": 2, "brokerName": "broker-a"}): 1},
    "nan": float("nan"),
    "nested": [{"x": 1}, [1, 2]],
    "none": None,
    "text": "a/\x01\x1f\b\f\n\r\t\"\\\x7f\x80\u00fc\u2028\U0001f600<>&'",
}
TEXT_OF_5_5_0 = '"text":"a/\\u0001\\u001f\\b\\f\\n\\r\\t\\"\\\\\x7f\x80\u00fc\u2028\U0001f600<>&\'"'


def test_compact_as_5_5_0_writes_it() -> None:
    assert dumps(OF_5_5_0).decode() == (
        '{"bool":true,"bytes":[0,127,-128,-1],"dbl2":1.0E10,"dbl3":1.0E-7,"dbl4":3.0,"double":1.5,"empty":{},'
        '"emptyList":[],"ints":{0:2,3:1,10:5},"listnull":[1,null,2],"long":9223372036854775807,'
        '"mq":{{"brokerName":"broker-a","queueId":2,"topic":"obsT"}:1},"nan":null,"nested":[{"x":1},[1,2]],'
        + TEXT_OF_5_5_0
        + "}"
    )


def test_pretty_as_5_5_0_writes_it() -> None:
    assert dumps_pretty(OF_5_5_0).decode() == (
        '{\n\t"bool":true,\n\t"bytes":[0,127,-128,-1],\n\t"dbl2":1.0E10,\n\t"dbl3":1.0E-7,\n\t"dbl4":3.0,'
        '\n\t"double":1.5,\n\t"empty":{},\n\t"emptyList":[],\n\t"ints":{\n\t\t0:2,\n\t\t3:1,\n\t\t10:5\n\t},'
        '\n\t"listnull":[\n\t\t1,\n\t\tnull,\n\t\t2\n\t],\n\t"long":9223372036854775807,'
        '\n\t"mq":{\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":2,\n\t\t\t"topic":"obsT"\n\t\t}:1\n\t},'
        '\n\t"nan":null,\n\t"nested":[\n\t\t{\n\t\t\t"x":1\n\t\t},\n\t\t[\n\t\t\t1,\n\t\t\t2\n\t\t]\n\t],'
        "\n\t" + TEXT_OF_5_5_0 + "\n}"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (0.001, "0.001"), (0.0001, "1.0E-4"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (-12345678.5, "-1.23456785E7"), (1.5e300, "1.5E300"),
    ],
)  # fmt: skip
def test_doubles_as_java_writes_them(value: float, text: str) -> None:
    assert dumps(value).decode() == text
    assert loads(dumps(value)) == value


def test_the_standard_dialect_is_strict_json() -> None:
    text = dumps_standard({"brokerAddrs": {10: "c", 9: "b", 0: "a/b"}, QUEUE: 1, Colour.RED: 2, "ü": 3})
    assert text.startswith('{"brokerAddrs":{"0":"a/b","9":"b","10":"c"},"ü":3,'.encode())
    assert json.loads(text)["brokerAddrs"] == {"0": "a/b", "9": "b", "10": "c"}
    assert json.loads(text)["RED"] == 2


def test_the_layout_of_configuration_files() -> None:
    offsets = {
        "dataVersion": {"counter": 2, "stateVersion": 0, "timestamp": 5},
        "groupTopicMap": {"g": ["t", "u"]},
        "offsetTable": {"t@g": {3: 1, 0: 2}, "u@g": {}},
        "none": [],
    }
    assert dumps_pretty(offsets).decode() == (
        "{\n"
        '\t"dataVersion":{\n\t\t"counter":2,\n\t\t"stateVersion":0,\n\t\t"timestamp":5\n\t},\n'
        '\t"groupTopicMap":{\n\t\t"g":[\n\t\t\t"t",\n\t\t\t"u"\n\t\t]\n\t},\n'
        '\t"none":[],\n'
        '\t"offsetTable":{\n\t\t"t@g":{\n\t\t\t0:2,\n\t\t\t3:1\n\t\t},\n\t\t"u@g":{}\n\t}\n'
        "}"
    )


def test_the_layout_of_a_file_with_queues_as_keys() -> None:
    queue = ObjectKey({"brokerName": "broker-a", "queueId": 2, "topic": "obsT"})
    assert dumps_pretty({"offsetTable": {queue: 1}}).decode() == (
        '{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":2,'
        '\n\t\t\t"topic":"obsT"\n\t\t}:1\n\t}\n}'
    )


def test_what_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="set"):
        dumps({"a": {1, 2}})
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        dumps(loop)


scalars = st.one_of(
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).filter(lambda text: text != "$ref")
object_keys = st.dictionaries(names, scalars, max_size=3).map(ObjectKey)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(names, inner, max_size=4),
        st.dictionaries(st.integers(-(1 << 63), 1 << 63), inner, max_size=4),
        st.dictionaries(object_keys, inner, max_size=3),
    ),
    max_leaves=15,
)


@settings(max_examples=150, deadline=None)
@given(values)
def test_what_is_written_is_read_again(value: object) -> None:
    assert loads(dumps(value)) == value
    assert loads(dumps_pretty(value)) == value


@settings(max_examples=80, deadline=None)
@given(values)
def test_standard_is_standard(value: object) -> None:
    msgspec.json.decode(dumps_standard(value))


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        values.map(dumps).flatmap(
            lambda text: st.tuples(st.just(text), st.integers(0, len(text)), st.binary(max_size=3)).map(
                lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + len(parts[2]) :]
            )
        ),
    )
)
def test_garbage_gives_a_value_or_an_error_with_a_position(data: bytes) -> None:
    try:
        loads(data)
    except LooseJsonError as error:
        assert 0 <= error.position <= len(data)
