# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Batches: the compiled twin of `_batch_py`, which says what it must do.

Every length is checked against the end of the body before it is used. A body that is no batch is left to the
twin, which has the words for it, and so is a message whose properties are not ASCII or that features must see.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from roquet.broker.core import _batch_py
from roquet.broker.core._lane_values import Run
from roquet.model.message import Draft
from roquet.wire.bodies.batch import ITEMS_MAX

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject*, Py_ssize_t)

cdef enum:
    HEAD_BYTES = 20
    FIELDS = 12

cdef Py_ssize_t COUNT_MAX = ITEMS_MAX

cdef struct Span:
    const uint8_t* at
    Py_ssize_t size

# What a pass over the properties finds.
cdef struct Found:
    Span unique_key
    Span keys
    Span tags
    bint is_marked


cdef inline int32_t i32(const uint8_t* at) noexcept:
    return <int32_t>((<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3])


def drafts(body, shared, marks, bint is_marked):
    """Return a draft for each message of a batch, and those that features must see; see the twin."""
    if type(body) is not bytes or not isinstance(shared, Draft):
        return _batch_py.drafts(body, shared, marks, is_marked)
    cdef list found = []
    cdef list marked = []
    cdef list names = [name.encode() for name in marks]
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(body), at = 0, body_size, properties_at, properties_size
    cdef Found seen
    cdef object draft
    while at < end:
        if len(found) >= COUNT_MAX or end - at < HEAD_BYTES + 2:
            return _batch_py.drafts(body, shared, marks, is_marked)
        body_size = i32(data + at + 16)
        properties_at = at + HEAD_BYTES + body_size + 2
        if body_size < 0 or properties_at > end:
            return _batch_py.drafts(body, shared, marks, is_marked)
        properties_size = <int16_t>(data[properties_at - 2] << 8 | data[properties_at - 1])
        if properties_size < 0 or properties_at + properties_size > end:
            return _batch_py.drafts(body, shared, marks, is_marked)
        if properties_at + properties_size - at != i32(data + at):
            return _batch_py.drafts(body, shared, marks, is_marked)
        flag = i32(data + at + 12)
        item_body = PyBytes_FromStringAndSize(<const char*>data + at + HEAD_BYTES, body_size)
        text = PyBytes_FromStringAndSize(<const char*>data + properties_at, properties_size)
        if not is_marked and _scan(data + properties_at, properties_size, names, &seen) and not seen.is_marked:
            draft = _build(<tuple>shared, item_body, text, flag, _hash(seen.tags), _keys(&seen))
        else:
            draft, properties = _batch_py.draft_of(flag, item_body, text, shared)
            if is_marked or not marks.isdisjoint(properties):
                marked.append((len(found), properties))
        found.append(draft)
        at = properties_at + properties_size
    return Run(found, marked)


cdef object _build(tuple shared, object body, object properties, object flag, object tag_code, object keys):
    """Return a Draft without going through its Python constructor."""
    cdef PyTypeObject* kind = <PyTypeObject*>Draft
    cdef object draft = kind.tp_alloc(kind, FIELDS)
    cdef Py_ssize_t index
    _put(draft, 2, body)
    _put(draft, 3, properties)
    _put(draft, 4, flag)
    _put(draft, 10, tag_code)
    _put(draft, 11, keys)
    for index in (0, 1, 5, 6, 7, 8, 9):
        _put(draft, index, <object>PyTuple_GET_ITEM(shared, index))
    return draft


cdef inline void _put(object target, Py_ssize_t index, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(target, index, value)


cdef bint _scan(const uint8_t* data, Py_ssize_t size, list names, Found* found):
    """Walk over `name 0x01 value 0x02 …`; False when a text is not ASCII. Of equal names the last counts."""
    cdef const uint8_t* at = data
    cdef const uint8_t* end = data + size
    cdef const uint8_t* stop
    cdef const uint8_t* middle
    cdef Span value
    cdef Py_ssize_t name_size
    found.unique_key = found.keys = found.tags = Span(NULL, 0)
    found.is_marked = False
    if not _is_ascii(data, size):
        return False
    while at < end:
        stop = <const uint8_t*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        middle = <const uint8_t*>memchr(at, 1, stop - at)
        if middle != NULL and middle > at and middle + 1 < stop:
            name_size = middle - at
            value = Span(middle + 1, stop - middle - 1)
            if name_size == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
                found.unique_key = value
            elif name_size == 4 and memcmp(at, b"KEYS", 4) == 0:
                found.keys = value
            elif name_size == 4 and memcmp(at, b"TAGS", 4) == 0:
                found.tags = value
            if not found.is_marked and _is_among(at, name_size, names):
                found.is_marked = True
        at = stop + 1
    return True


cdef inline bint _is_ascii(const uint8_t* data, Py_ssize_t size) noexcept:
    cdef uint8_t seen = 0
    cdef Py_ssize_t index
    for index in range(size):
        seen |= data[index]
    return seen < 128


cdef inline bint _is_among(const uint8_t* name, Py_ssize_t size, list names):
    for each in names:
        if PyBytes_GET_SIZE(<bytes>each) == size and memcmp(PyBytes_AS_STRING(<bytes>each), name, size) == 0:
            return True
    return False


cdef inline int32_t _hash(Span text) noexcept:
    """Return Java's hash of an ASCII text; 0 for none."""
    cdef uint32_t value = 0
    cdef Py_ssize_t index
    for index in range(text.size):
        value = 31 * value + text.at[index]
    return <int32_t>value


cdef inline bint _is_space(uint8_t letter) noexcept:
    return letter == 32 or 9 <= letter <= 13 or 28 <= letter <= 31


cdef inline object _text(const uint8_t* at, Py_ssize_t size):
    return PyUnicode_DecodeASCII(<const char*>at, size, NULL)


cdef tuple _keys(Found* found):
    """Return the words that the message is indexed under."""
    cdef list words
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef const uint8_t* begin
    if found.keys.size == 0 and found.tags.size == 0:
        return (_text(found.unique_key.at, found.unique_key.size),) if found.unique_key.size else ()
    words = [_text(found.unique_key.at, found.unique_key.size)] if found.unique_key.size else []
    if found.keys.size:
        at, end = found.keys.at, found.keys.at + found.keys.size
        while at < end:
            while at < end and _is_space(at[0]):
                at += 1
            begin = at
            while at < end and not _is_space(at[0]):
                at += 1
            if at > begin:
                words.append(_text(begin, at - begin))
    if found.tags.size:
        words.append("T#" + _text(found.tags.at, found.tags.size))
    return tuple(words)
