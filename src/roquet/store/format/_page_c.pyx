# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Cut a run of records: the compiled twin of `_page_py`, which says what it must do.

Every read is checked against the end of the record before it is made. What is no record is given to the
twin, which finds the words for it. Hosts and topics repeat from record to record, so the last ones are kept.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from roquet.model.message import Host
from roquet.store.format import _page_py
from roquet.store.format._record_values import Record

cdef enum:
    RECORD_BYTES_MIN = 91
    BORN_V6 = 0x10
    STORE_V6 = 0x20

cdef uint32_t MAGIC_V1 = 0xDAA320A7
cdef uint32_t MAGIC_V2 = 0xDAA320AB
cdef object new_tuple = tuple.__new__


cdef inline uint32_t u32(const uint8_t* at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t i64(const uint8_t* at) noexcept:
    return <int64_t>((<uint64_t>u32(at) << 32) | u32(at + 4))


cdef struct Seen:
    const uint8_t* at
    Py_ssize_t size


cdef object host_at(const uint8_t* at, Py_ssize_t size, Seen* seen, object last):
    """Return the host at a place, the last one again when its bytes are the same."""
    if seen.at != NULL and seen.size == size and memcmp(seen.at, at, size) == 0:
        return last
    seen.at, seen.size = at, size
    ip = PyBytes_FromStringAndSize(<char*>at, size - 4)
    return new_tuple(Host, (ip, <int32_t>u32(at + size - 4)))


def read_page(data):
    """Return the records; raises ValueError where there is none."""
    if type(data) is not bytes:
        return _page_py.read_page(data)
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef const uint8_t* at = base
    cdef const uint8_t* end = base + PyBytes_GET_SIZE(data)
    cdef const uint8_t* field
    cdef const uint8_t* stop
    cdef const uint8_t* tail
    cdef int64_t size, body_size, topic_size, properties_size
    cdef Py_ssize_t born_size, store_size, topic_field
    cdef uint32_t magic
    cdef int32_t sys_flag
    cdef Seen born_seen, store_seen, topic_seen
    cdef object born = None, store = None, topic = None
    cdef list records = []
    born_seen.at = store_seen.at = topic_seen.at = NULL
    born_seen.size = store_seen.size = topic_seen.size = 0
    while at < end:
        if end - at < RECORD_BYTES_MIN:
            return _page_py.read_page(data)
        size = <int32_t>u32(at)
        magic = u32(at + 4)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_BYTES_MIN or size > end - at:
            return _page_py.read_page(data)
        stop = at + size
        sys_flag = <int32_t>u32(at + 36)
        born_size = 20 if sys_flag & BORN_V6 else 8
        store_size = 20 if sys_flag & STORE_V6 else 8
        topic_field = 2 if magic == MAGIC_V2 else 1
        tail = at + 48 + born_size + 8 + store_size  # reconsumed, prepared offset, body size
        if tail + 16 + topic_field + 2 > stop:
            return _page_py.read_page(data)
        body_size = <int32_t>u32(tail + 12)
        if body_size < 0 or body_size > stop - tail - 16 - topic_field - 2:
            return _page_py.read_page(data)
        field = tail + 16 + body_size
        topic_size = (<int64_t>field[0] << 8 | field[1]) if topic_field == 2 else field[0]
        field += topic_field
        if topic_size > stop - field - 2:
            return _page_py.read_page(data)
        properties_size = <int64_t>field[topic_size] << 8 | field[topic_size + 1]
        if properties_size > 32767 or field + topic_size + 2 + properties_size != stop:
            return _page_py.read_page(data)
        born = host_at(at + 48, born_size, &born_seen, born)
        store = host_at(at + 48 + born_size + 8, store_size, &store_seen, store)
        if topic_seen.at == NULL or topic_seen.size != topic_size or memcmp(topic_seen.at, field, topic_size) != 0:
            topic = PyUnicode_DecodeUTF8(<char*>field, topic_size, "replace")
            topic_seen.at, topic_seen.size = field, topic_size
        records.append(new_tuple(Record, (
            size, u32(at + 8), <int32_t>u32(at + 12), <int32_t>u32(at + 16), i64(at + 20), i64(at + 28),
            sys_flag, i64(at + 40), born, i64(at + 48 + born_size), store, <int32_t>u32(tail), i64(tail + 4),
            PyBytes_FromStringAndSize(<char*>(tail + 16), body_size), topic,
            PyBytes_FromStringAndSize(<char*>(field + topic_size + 2), properties_size),
        )))
        at = stop
    return records
