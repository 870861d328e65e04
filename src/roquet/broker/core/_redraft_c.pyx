# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""A stored record as a draft again: the compiled twin of `_redraft_py`, which says what it must do.

Every length is checked against the end of the record before it is used; a record whose lengths do not add up
is left to the twin.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr

from roquet.broker.core import _redraft_py
from roquet.broker.core._redraft_values import Stored, keys_of, tag_code_of
from roquet.model.message import Draft, Host

cdef enum:
    RECORD_BYTES_MIN = 91
    BORN_V6 = 0x10
    STORE_V6 = 0x20

cdef uint32_t MAGIC_V2 = 0xDAA320AB
cdef object new_tuple = tuple.__new__


cdef inline uint32_t u32(const uint8_t* at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t i64(const uint8_t* at) noexcept:
    return <int64_t>((<uint64_t>u32(at) << 32) | u32(at + 4))


def reopen(data):
    """Return what a whole record says; see the twin."""
    cdef Py_buffer view
    cdef object stored
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        stored = _reopen(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return _redraft_py.reopen(data) if stored is None else stored


cdef object _reopen(const uint8_t* data, Py_ssize_t length):
    if length < RECORD_BYTES_MIN:
        return None
    cdef Py_ssize_t size = <int32_t>u32(data)
    cdef int32_t sys_flag = <int32_t>u32(data + 36)
    cdef Py_ssize_t born_size = 16 if sys_flag & BORN_V6 else 4
    cdef Py_ssize_t store_size = 16 if sys_flag & STORE_V6 else 4
    cdef Py_ssize_t tail_at = 48 + born_size + 4 + 8 + store_size + 4
    if size > length or tail_at + 16 + 3 > size:
        return None
    cdef int64_t body_size = <int32_t>u32(data + tail_at + 12)
    cdef Py_ssize_t body_at = tail_at + 16
    cdef bint is_v2 = u32(data + 4) == MAGIC_V2
    cdef Py_ssize_t topic_field = 2 if is_v2 else 1
    cdef Py_ssize_t topic_at = body_at + body_size
    if body_size < 0 or topic_at + topic_field + 2 > size:
        return None
    cdef Py_ssize_t topic_size = (data[topic_at] << 8 | data[topic_at + 1]) if is_v2 else data[topic_at]
    topic_at += topic_field
    cdef Py_ssize_t properties_at = topic_at + topic_size + 2
    if properties_at > size:
        return None
    cdef Py_ssize_t properties_size = <int16_t>(data[properties_at - 2] << 8 | data[properties_at - 1])
    if properties_size < 0 or properties_at + properties_size > size:
        return None
    cdef dict properties = _pairs(data + properties_at, properties_size)
    born_host = new_tuple(Host, (
        PyBytes_FromStringAndSize(<const char*>data + 48, born_size), <int32_t>u32(data + 48 + born_size)
    ))
    draft = new_tuple(Draft, (
        PyUnicode_DecodeUTF8(<const char*>data + topic_at, topic_size, "replace"),
        <int32_t>u32(data + 12),
        PyBytes_FromStringAndSize(<const char*>data + body_at, body_size),
        PyBytes_FromStringAndSize(<const char*>data + properties_at, properties_size),
        <int32_t>u32(data + 16),
        sys_flag,
        i64(data + 40),
        born_host,
        <int32_t>u32(data + tail_at),
        i64(data + tail_at + 4),
        tag_code_of(properties),
        keys_of(properties),
    ))
    return new_tuple(Stored, (
        draft, properties, i64(data + 20), i64(data + 28), size, i64(data + 48 + born_size + 4)
    ))


cdef dict _pairs(const uint8_t* data, Py_ssize_t size):
    """Return the pairs of a property text; those without a name or a value are dropped."""
    cdef dict pairs = {}
    cdef const uint8_t* at = data
    cdef const uint8_t* end = data + size
    cdef const uint8_t* stop
    cdef const uint8_t* middle
    while at < end:
        stop = <const uint8_t*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        middle = <const uint8_t*>memchr(at, 1, stop - at)
        if middle != NULL and middle > at and middle + 1 < stop:
            name = PyUnicode_DecodeUTF8(<const char*>at, middle - at, "replace")
            pairs[name] = PyUnicode_DecodeUTF8(<const char*>middle + 1, stop - middle - 1, "replace")
        at = stop + 1
    return pairs
