# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Records of the timer's queue: the compiled twin of `_parked_py`, which says what it must do.

Every length is checked against the end of the record before it is used; a record whose lengths do not add up,
or whose time is written in other than plain digits, is left to the twin.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from roquet.broker.features.timer import _parked_py
from roquet.broker.features.timer._parked_values import Parked

cdef enum:
    RECORD_BYTES_MIN = 91
    BORN_V6 = 0x10
    STORE_V6 = 0x20
    OUT_DIGITS_MAX = 18

cdef uint32_t MAGIC_V2 = 0xDAA320AB
cdef object new_tuple = tuple.__new__

cdef struct Span:
    const uint8_t* at
    Py_ssize_t size

# What a pass over the properties finds.
cdef struct Found:
    Span out
    Span topic
    bint is_delete


cdef inline uint32_t u32(const uint8_t* at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t i64(const uint8_t* at) noexcept:
    return <int64_t>((<uint64_t>u32(at) << 32) | u32(at + 4))


def read_parked(records):
    """Return what whole records of the timer's queue say; see the twin."""
    cdef list found = []
    cdef Py_buffer view
    for data in records:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            parked = _read(<const uint8_t*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        found.append(_parked_py.read_one(data) if parked is None else parked)
    return found


cdef object _read(const uint8_t* data, Py_ssize_t length):
    if length < RECORD_BYTES_MIN:
        return None
    cdef Py_ssize_t size = <int32_t>u32(data)
    cdef int32_t sys_flag = <int32_t>u32(data + 36)
    cdef Py_ssize_t at = 84 + (12 if sys_flag & BORN_V6 else 0) + (12 if sys_flag & STORE_V6 else 0)
    cdef Py_ssize_t topic_field = 2 if u32(data + 4) == MAGIC_V2 else 1
    if size > length or at + 4 + topic_field + 2 > size:
        return None
    cdef int64_t body_size = <int32_t>u32(data + at)
    if body_size < 0 or at + 4 + body_size + topic_field + 2 > size:
        return None
    at += 4 + body_size
    at += topic_field + ((data[at] << 8 | data[at + 1]) if topic_field == 2 else data[at])
    if at + 2 > size:
        return None
    cdef Py_ssize_t properties_size = <int16_t>(data[at] << 8 | data[at + 1])
    if properties_size < 0 or at + 2 + properties_size > size:
        return None
    cdef Found found = _scan(data + at + 2, properties_size)
    cdef int64_t out_ms = 0
    cdef Py_ssize_t index
    if found.out.size == 0 or found.out.size > OUT_DIGITS_MAX or found.topic.size == 0:
        return None
    for index in range(found.out.size):
        if not 48 <= found.out.at[index] <= 57:
            return None
        out_ms = out_ms * 10 + (found.out.at[index] - 48)
    topic = PyUnicode_DecodeUTF8(<const char*>found.topic.at, found.topic.size, "replace")
    return new_tuple(Parked, (i64(data + 20), i64(data + 28), size, out_ms, topic, found.is_delete))


cdef Found _scan(const uint8_t* data, Py_ssize_t size) noexcept:
    """Walk over `name 0x01 value 0x02 …`; of equal names the last counts."""
    cdef const uint8_t* at = data
    cdef const uint8_t* end = data + size
    cdef const uint8_t* stop
    cdef const uint8_t* middle
    cdef Py_ssize_t name_size
    cdef Found found
    found.out = found.topic = Span(NULL, 0)
    found.is_delete = False
    while at < end:
        stop = <const uint8_t*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        middle = <const uint8_t*>memchr(at, 1, stop - at)
        if middle != NULL and middle + 1 < stop:
            name_size = middle - at
            if name_size == 12 and memcmp(at, b"TIMER_OUT_MS", 12) == 0:
                found.out = Span(middle + 1, stop - middle - 1)
            elif name_size == 10 and memcmp(at, b"REAL_TOPIC", 10) == 0:
                found.topic = Span(middle + 1, stop - middle - 1)
            elif name_size == 17 and memcmp(at, b"TIMER_DEL_UNIQKEY", 17) == 0:
                found.is_delete = True
        at = stop + 1
    return found
