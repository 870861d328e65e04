"""The two header encodings: the exact bytes, what Java forgives and we forgive too, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given

from roquet.wire.codes import LANGUAGES
from roquet.wire.frame import BINARY, JSON, Frame, FrameError, join
from roquet.wire.header import encode_header
from tests.wire.frames import ANY_FRAME, Split, binary_field, binary_header, whole


def read(split: Split, header: bytes, encoding: int = JSON) -> Frame:
    [frame], _ = split(whole(header, b"", encoding))
    return frame


def test_the_json_that_java_writes(split: Split) -> None:
    header = (
        b'{"code":105,"extFields":{"topic":"cliT"},"flag":0,"language":"JAVA","opaque":0,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    frame = Frame(105, 0, 0, {"topic": "cliT"}, b"", "", 0, 513)
    assert read(split, header) == frame
    assert encode_header(frame) == header


def test_a_remark_is_written_where_java_writes_it() -> None:
    frame = Frame(3, 7, 1, {}, b"", ' request type 9 "x"', 0, 513)
    assert encode_header(frame) == (
        b'{"code":3,"extFields":{},"flag":1,"language":"JAVA","opaque":7,'
        b'"remark":" request type 9 \\"x\\"","serializeTypeCurrentRPC":"JSON","version":513}'
    )


def test_the_binary_that_java_writes(split: Split) -> None:
    header = bytes.fromhex("0000 00 0201 000003e8 00000001 00000000 0000000d 0006 6f6666736574 00000001 37")
    frame = Frame(0, 1000, 1, {"offset": "7"}, b"", "", 0, 513, BINARY)
    assert read(split, header, BINARY) == frame
    assert encode_header(frame) == header


def test_a_binary_code_keeps_sixteen_bits(split: Split) -> None:
    [frame], _ = split(join(Frame(200_050, encoding=BINARY)))
    assert frame.code == 200_050 - 3 * 65_536


@given(ANY_FRAME)
def test_encoded_text_is_what_it_was(split: Split, frame: Frame) -> None:
    [again], _ = split(join(frame))
    assert (again.ext, again.remark) == (frame.ext, frame.remark)


FORGIVEN = {
    b"{}": Frame(0, language=0, version=0),
    b' {\n"code" :\t5 ,"flag": 1\r} ': Frame(5, 0, 1, language=0, version=0),
    b'{"code":"105","opaque":"-7","version":"513"}': Frame(105, -7, language=0, version=513),
    b'{"code":1,"extFields":{"n":5,"t":true,"f":false,"o":{"a":[1]},"x":null,"d":1.5}}': Frame(
        1, ext={"n": "5", "t": "true", "f": "false", "o": '{"a":[1]}', "d": "1.5"}, language=0, version=0
    ),
    b'{"code":1,"extFields":null,"remark":null,"language":null,"opaque":null}': Frame(
        1, language=0, version=0
    ),
    b'{"code":1,"unknown":{"deep":[1,{"a":"}"}]},"version":5}': Frame(1, language=0, version=5),
    b'{"code":1,"code":2,"extFields":{"a":"1","a":"2"}}': Frame(2, ext={"a": "2"}, language=0, version=0),
    b'{"remark":5,"code":1}': Frame(1, language=0, version=0),
    b'{"code":1,"extFields":{"":"empty name","k":""}}': Frame(
        1, ext={"": "empty name", "k": ""}, language=0, version=0
    ),
    b'{"c\\u006fde":7}': Frame(7, language=0, version=0),
    rb'{"code":1,"remark":"\"\\\/\b\f\n\r\t\u0001\u00e9\u00E9\u6d88\ud83d\ude80"}': Frame(
        1, remark='"\\/\b\f\n\r\t\x01éé消🚀', language=0, version=0
    ),
    '{"code":1,"extFields":{"ключ":"消息🚀","\\u0001":"x"}}'.encode(): Frame(
        1, ext={"ключ": "消息🚀", "\x01": "x"}, language=0, version=0
    ),
    b'{"code":-2147483648,"opaque":2147483647,"flag":-1}': Frame(
        -(2**31), 2**31 - 1, -1, language=0, version=0
    ),
    b'{"code":-0}': Frame(0, language=0, version=0),
}


@pytest.mark.parametrize(("header", "frame"), FORGIVEN.items())
def test_forms_that_are_read(split: Split, header: bytes, frame: Frame) -> None:
    assert read(split, header) == frame


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((f'"{name}"', name) for name in LANGUAGES),
        ('"java"', "JAVA"),
        ('"Go"', "GO"),
        ('"COBOL"', "OTHER"),
        ('"ÜML"', "OTHER"),
        ("9", "GO"),
        ("99", "JAVA"),
        ("-1", "JAVA"),
        ("[]", "JAVA"),
    ],
)
def test_languages(split: Split, text: str, name: str) -> None:
    frame = read(split, f'{{"language":{text}}}'.encode())
    assert LANGUAGES[frame.language] == name
    assert type(frame.language) is int


DEEP = 30_000

REFUSED = {
    b"": "not JSON",
    b"{": "not JSON",
    b"nonsense": "not JSON",
    b'{"code":1}x': "not JSON",
    b'{"code":1},': "not JSON",
    b'{"code":1,}': "not JSON",
    b'{"code":01}': "not JSON",
    b'{"code":}': "not JSON",
    b"{'code':1}": "not JSON",
    b"{code:1}": "not JSON",
    b'{"remark":"\x01"}': "not JSON",
    b'{"remark":"\\x"}': "not JSON",
    b'{"remark":"\\u00g0"}': "not JSON",
    b'{"remark":"\\u12"}': "not JSON",
    b'{"remark":"\\ud83d"}': "not JSON",
    b'{"remark":"\\ud83d\\u0041"}': "not JSON",
    b'{"remark":"unfinished': "not JSON",
    b'{"remark":"\\': "not JSON",
    b'{"remark":"\xff"}': "not JSON",
    b'{"extFields":{"\xc3":"v"}}': "not JSON",
    b'{"extFields":{"k":"\xed\xa0\x80"}}': "not JSON",
    b'\xef\xbb\xbf{"code":1}': "not JSON",
    b"\xff\xfe{\x00}\x00": "not JSON",
    b"[]": "not a JSON object",
    b"5": "not a JSON object",
    b'"text"': "not a JSON object",
    b"null": "not a JSON object",
    b'{"extFields":[]}': "extFields must be an object",
    b'{"extFields":"a"}': "extFields must be an object",
    b'{"code":"ten"}': "code is 'ten', not a number",
    b'{"code":true}': "code is not a 32-bit number",
    b'{"code":1.5}': "code is not a 32-bit number",
    b'{"code":[]}': "code is not a 32-bit number",
    b'{"opaque":2147483648}': "wider than 32 bits",
    b'{"opaque":-2147483649}': "wider than 32 bits",
    b'{"version":4294967296}': "wider than 32 bits",
    b'{"flag":99999999999999999999}': "wider than 32 bits",
    b'{"opaque":"2147483648"}': "opaque is not a 32-bit number",
    b'{"code":"' + b"1" * 5000 + b'"}': "not a number",
    b'{"code":' + b"1" * 5000 + b"}": "not JSON",
    b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}": "not JSON",
    b'{"extFields":{"a":' + b'{"a":' * 6000 + b"1" + b"}" * 6002: "not JSON",
    b"[" * DEEP: "not JSON",
}


@pytest.mark.parametrize(("header", "reason"), REFUSED.items(), ids=[repr(header[:24]) for header in REFUSED])
def test_forms_that_are_refused(split: Split, header: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        read(split, header)


@pytest.mark.parametrize("depth", [1, 100, 500, 900, 980, 1000, 1100])
def test_nesting_is_read_or_refused_at_any_depth(split: Split, depth: int) -> None:
    value = b"[" * depth + b"]" * depth
    try:
        frame = read(split, b'{"extFields":{"a":' + value + b"}}")
    except FrameError:
        assert depth > 500
    else:
        assert frame.ext["a"] == value.decode()


def test_a_long_text_with_escapes(split: Split) -> None:
    text = "a\x01b\x02ü" * 4000
    frame = Frame(310, ext={"i": text})
    assert split(join(frame))[0] == [frame]


BROKEN_BINARY = {
    "fixed part cut": binary_header()[:12],
    "no ext length": binary_header()[:17],
    "ext length cut": binary_header()[:20],
    "negative remark": binary_header()[:13] + b"\xff\xff\xff\xff\0\0\0\0",
    "remark beyond the end": binary_header()[:13] + b"\0\0\0\5abcd",
    "remark over the ext length": binary_header()[:13] + b"\0\0\0\4abcd",
    "remark of 2 GB": binary_header()[:13] + b"\x7f\xff\xff\xff\0\0\0\0",
    "negative ext": binary_header()[:17] + b"\xff\xff\xff\xff",
    "ext beyond the end": binary_header()[:17] + b"\0\0\0\x01",
    "name cut": binary_header(b"\0"),
    "negative name": binary_header(b"\xff\xff"),
    "name beyond the ext": binary_header(b"\0\x05ab"),
    "no value": binary_header(b"\0\x01a"),
    "value length cut": binary_header(b"\0\x01a\0\0"),
    "negative value": binary_header(b"\0\x01a\xff\xff\xff\xff"),
    "value beyond the ext": binary_header(b"\0\x01a\0\0\0\x02b"),
    "value beyond the ext but inside the header": binary_header(b"\0\x01a\0\0\0\x05b") + b"cdefgh",
    "remark not UTF-8": binary_header(b"", b"\xff"),
    "name not UTF-8": binary_header(binary_field(b"\xc3", b"v")),
    "value not UTF-8": binary_header(binary_field(b"k", b"\xed\xa0\x80")),
}


@pytest.mark.parametrize("header", BROKEN_BINARY.values(), ids=BROKEN_BINARY)
def test_broken_binary_headers_are_refused(split: Split, header: bytes) -> None:
    with pytest.raises(FrameError):
        read(split, header, BINARY)


def test_binary_forms_that_are_read(split: Split) -> None:
    ext = binary_field(b"k", b"v") + binary_field(b"empty", b"") + binary_field("ü".encode(), "消".encode())
    frame = read(split, binary_header(ext, "remark ü".encode(), code=-1), BINARY)
    assert frame == Frame(-1, 7, 0, {"k": "v", "ü": "消"}, b"", "remark ü", 0, 513, BINARY)
    assert read(split, binary_header() + b"bytes behind the ext section", BINARY).ext == {}


@pytest.mark.parametrize("language", [-128, -1, len(LANGUAGES), 127])
def test_an_unknown_binary_language_is_other(split: Split, language: int) -> None:
    frame = read(split, binary_header(language=language), BINARY)
    assert LANGUAGES[frame.language] == "OTHER"
