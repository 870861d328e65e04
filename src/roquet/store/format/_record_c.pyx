# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Encode records and scan the log: the compiled twin of `_record_py`, which says what it must do.

`encode` serves every append, `scan` reads gigabytes after a crash. Every read is checked against the end
of the record before it is made; texts of errors come from one place, the twin, which looks again at a
record that this one refuses.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from zlib import crc32

from roquet.model.message import Draft, Entry, Host, java_hash
from roquet.store.format import _record_py
from roquet.store.format._record_values import DELAY_TOPIC, TAG_KEY, V1_TOPIC_CHARS_MAX, Scan, Stop

cdef enum:
    HEAD_BYTES_V4 = 88
    RECORD_BYTES_MIN = 91
    BORN_V6 = 0x10
    STORE_V6 = 0x20

cdef uint32_t MAGIC_V1 = 0xDAA320A7
cdef uint32_t MAGIC_V2 = 0xDAA320AB
cdef uint32_t MAGIC_BLANK = 0xCBD43194
cdef Py_ssize_t TOPIC_CHARS_MAX = V1_TOPIC_CHARS_MAX
cdef object new_tuple = tuple.__new__
cdef object MORE = Stop.MORE, FILE_END = Stop.FILE_END, ZEROS = Stop.ZEROS, BROKEN = Stop.BROKEN


cdef inline uint32_t u32(const uint8_t* at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t i64(const uint8_t* at) noexcept:
    return <int64_t>((<uint64_t>u32(at) << 32) | u32(at + 4))


cdef inline uint8_t* put32(uint8_t* at, uint32_t value) noexcept:
    at[0], at[1], at[2], at[3] = value >> 24, value >> 16, value >> 8, value
    return at + 4


cdef inline uint8_t* put64(uint8_t* at, uint64_t value) noexcept:
    return put32(put32(at, <uint32_t>(value >> 32)), <uint32_t>value)


def encode(draft, int64_t queue_offset, int64_t log_offset, int64_t store_ms, store_host):
    """Return the bytes of the record that lies at `log_offset`."""
    cdef object topic_text, body_any, born_host
    topic_text, queue_id, body_any, properties_any, flag, flags, born_ms, born_host, reconsumed, prepared = draft[:10]
    cdef bytes topic = (<str?>topic_text).encode()
    cdef bytes body = body_any if type(body_any) is bytes else bytes(body_any)
    cdef bytes properties = <bytes?>properties_any
    cdef bytes born_ip = <bytes?>born_host[0]
    cdef bytes store_ip = <bytes?>store_host[0]
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic)
    cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body)
    cdef Py_ssize_t properties_size = PyBytes_GET_SIZE(properties)
    cdef Py_ssize_t born_size = PyBytes_GET_SIZE(born_ip), store_size = PyBytes_GET_SIZE(store_ip)
    cdef bint is_v2 = len(<str>topic_text) > TOPIC_CHARS_MAX
    if topic_size > (65535 if is_v2 else 255) or properties_size > 32767 or body_size > 0x7FFF0000:
        return _record_py.encode(draft, queue_offset, log_offset, store_ms, store_host)
    cdef int32_t sys_flag = flags
    sys_flag &= ~(BORN_V6 | STORE_V6)
    if born_size == 16:
        sys_flag |= BORN_V6
    if store_size == 16:
        sys_flag |= STORE_V6
    cdef uint32_t crc = <uint32_t>crc32(body) & 0x7FFFFFFF if body_size else 0
    cdef Py_ssize_t size = (
        HEAD_BYTES_V4 - 8 + born_size + store_size + body_size + (2 if is_v2 else 1) + topic_size + 2 + properties_size
    )
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(made)
    at = put32(at, <uint32_t>size)
    at = put32(at, MAGIC_V2 if is_v2 else MAGIC_V1)
    at = put32(at, crc)
    at = put32(at, <uint32_t><int32_t>queue_id)
    at = put32(at, <uint32_t><int32_t>flag)
    at = put64(at, <uint64_t>queue_offset)
    at = put64(at, <uint64_t>log_offset)
    at = put32(at, <uint32_t>sys_flag)
    at = put64(at, <uint64_t><int64_t>born_ms)
    memcpy(at, PyBytes_AS_STRING(born_ip), born_size)
    at = put32(at + born_size, <uint32_t><int32_t>born_host[1])
    at = put64(at, <uint64_t>store_ms)
    memcpy(at, PyBytes_AS_STRING(store_ip), store_size)
    at = put32(at + store_size, <uint32_t><int32_t>store_host[1])
    at = put32(at, <uint32_t><int32_t>reconsumed)
    at = put64(at, <uint64_t><int64_t>prepared)
    at = put32(at, <uint32_t>body_size)
    memcpy(at, PyBytes_AS_STRING(body), body_size)
    at += body_size
    if is_v2:
        at[0] = topic_size >> 8
        at += 1
    at[0] = topic_size & 0xFF
    memcpy(at + 1, PyBytes_AS_STRING(topic), topic_size)
    at += 1 + topic_size
    at[0], at[1] = properties_size >> 8, properties_size & 0xFF
    memcpy(at + 2, PyBytes_AS_STRING(properties), properties_size)
    return made


def scan(bytes data not None, int64_t log_offset, int64_t file_end, bint check_crc, delays_ms, Py_ssize_t entries_max):
    """Read records one behind the other, as `_record_py.scan` does."""
    cdef list entries = []
    cdef dict topics = {}
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), position = 0, count = 0
    cdef int64_t at
    cdef int32_t size
    cdef uint32_t magic
    cdef object entry
    while count < entries_max:
        at = log_offset + position
        if length - position < 8:
            return Scan(entries, at, FILE_END if at == file_end else MORE, 0, "")
        size = <int32_t>u32(start + position)
        magic = u32(start + position + 4)
        if magic == MAGIC_BLANK:
            return Scan(entries, at, FILE_END, 0, "")
        if size == 0 and magic == 0:
            return Scan(entries, at, ZEROS, 0, "")
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_BYTES_MIN or at + size > file_end:
            return refused(entries, data, position, length - position, at, file_end, check_crc, delays_ms)
        if position + size > length:
            return Scan(entries, at, MORE, size, "")
        entry = check(start + position, size, magic, at, check_crc, delays_ms, topics)
        if entry is None:
            return refused(entries, data, position, size, at, file_end, check_crc, delays_ms)
        entries.append(entry)
        count += 1
        position += size
    return Scan(entries, log_offset + position, MORE, 0, "")


cdef refused(list entries, bytes data, Py_ssize_t position, Py_ssize_t size, int64_t at, int64_t file_end, bint check_crc, delays_ms):
    """Let the twin say what is wrong with the record at `position`."""
    found = _record_py.scan(data[position : position + min(size, 1 << 26)], at, file_end, check_crc, delays_ms, 1)
    assert found.stop is BROKEN, "the twins do not agree"
    return found._replace(entries=entries)


cdef check(const uint8_t* record, int32_t size, uint32_t magic, int64_t at, bint check_crc, delays_ms, dict topics):
    """Return the entry of one record, or None when its bytes are wrong."""
    cdef int32_t sys_flag = <int32_t>u32(record + 36)
    cdef Py_ssize_t store_at = 68 if sys_flag & BORN_V6 else 56
    cdef Py_ssize_t tail = store_at + (28 if sys_flag & STORE_V6 else 16)
    cdef Py_ssize_t topic_field = 2 if magic == MAGIC_V2 else 1
    cdef Py_ssize_t body_at = tail + 16, topic_at, topic_size, properties_at, properties_size
    cdef int64_t body_size
    if i64(record + 28) != at or body_at + topic_field + 2 > size:
        return None
    body_size = <int32_t>u32(record + tail + 12)
    if body_size < 0 or body_at + body_size + topic_field + 2 > size:
        return None
    topic_at = body_at + body_size
    topic_size = record[topic_at]
    if topic_field == 2:
        topic_size = (topic_size << 8) | record[topic_at + 1]
    properties_at = topic_at + topic_field + topic_size + 2
    if properties_at > size:
        return None
    properties_size = <int16_t>((<uint16_t>record[properties_at - 2] << 8) | record[properties_at - 1])
    if properties_size < 0 or properties_at + properties_size != size:
        return None
    if check_crc and body_size:
        body = PyBytes_FromStringAndSize(<const char*>record + body_at, body_size)
        if (<uint32_t>crc32(body) & 0x7FFFFFFF) != u32(record + 8):
            return None
    cdef bytes name = PyBytes_FromStringAndSize(<const char*>record + topic_at + topic_field, topic_size)
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = name.decode("utf-8", "replace")
    cdef int64_t store_ms = i64(record + store_at)
    cdef bytes properties = PyBytes_FromStringAndSize(<const char*>record + properties_at, properties_size)
    tag_code, keys = _describe(topic, properties, store_ms, delays_ms)
    return new_tuple(Entry, (
        at, size, topic, <int32_t>u32(record + 12), i64(record + 20), tag_code, store_ms, sys_flag,
        i64(record + tail + 4), keys, properties,
    ))


cdef inline str text(const char* at, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(at, size, "replace")


cdef struct Value:
    const char* at
    Py_ssize_t size


def describe(str topic not None, bytes properties not None, int64_t store_ms, delays_ms):
    """Return the tag code and the keys that a record's properties stand for."""
    return _describe(topic, properties, store_ms, delays_ms)


cdef tuple _describe(str topic, bytes properties, int64_t store_ms, delays_ms):
    cdef const char* at = PyBytes_AS_STRING(properties)
    cdef const char* end = at + PyBytes_GET_SIZE(properties)
    cdef const char* stop
    cdef const char* mark
    cdef Value tag = Value(NULL, 0), unique = Value(NULL, 0), keys = Value(NULL, 0), delay = Value(NULL, 0), value
    cdef Py_ssize_t name_size
    while at < end:
        stop = <const char*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        mark = <const char*>memchr(at, 1, stop - at)
        if mark != NULL and mark + 1 < stop:
            name_size = mark - at
            value.at, value.size = mark + 1, stop - mark - 1
            if name_size == 4 and memcmp(at, b"TAGS", 4) == 0:
                tag = value
            elif name_size == 4 and memcmp(at, b"KEYS", 4) == 0:
                keys = value
            elif name_size == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
                unique = value
            elif name_size == 5 and memcmp(at, b"DELAY", 5) == 0:
                delay = value
        at = stop + 1
    cdef list words = []
    cdef str tag_text = ""
    if unique.size:
        words.append(text(unique.at, unique.size))
    if keys.size:
        for word in text(keys.at, keys.size).split(" "):
            if word:
                words.append(word)
    if tag.size:
        tag_text = text(tag.at, tag.size)
        words.append(TAG_KEY + tag_text)
    if delay.size and topic == DELAY_TOPIC:
        deliver_ms = _record_py.deliver_ms_of(delay.at[:delay.size], store_ms, delays_ms)
        if deliver_ms:
            return deliver_ms, tuple(words)
    return (_hash(tag, tag_text) if tag.size else 0), tuple(words)


cdef object _hash(Value tag, str tag_text):
    cdef uint32_t value = 0
    cdef Py_ssize_t index
    if not tag_text.isascii():
        return java_hash(tag_text)
    for index in range(tag.size):
        value = 31 * value + <uint8_t>tag.at[index]
    return <int32_t>value
