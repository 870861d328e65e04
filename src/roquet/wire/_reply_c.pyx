# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Begin an answer: the compiled twin of `_reply_py`, which says what it must do.

Writes the header as JSON, member by member, on the stack, for plain texts; anything else is the twin's affair.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from roquet.wire import _reply_py
from roquet.wire.codes import VERSION

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)

cdef enum:
    REPLY_MAX = 4096        # bytes of an answer's head that are put together on the stack

cdef bytes REPLY_LANGUAGE = b',"flag":1,"language":"PYTHON","opaque":'
cdef bytes REPLY_REMARK = b',"remark":"'
cdef bytes REPLY_TAIL = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION


def reply_head(code, opaque, ext, remark, body_size, encoding):
    """Return an answer's bytes up to its body; see the twin."""
    cdef uint8_t[REPLY_MAX] out
    cdef uint8_t* at = out + 8
    cdef uint8_t* end = out + REPLY_MAX
    cdef Py_ssize_t header_size
    cdef bint first = True
    if encoding != 0 or type(ext) is not dict:
        return _reply_py.reply_head(code, opaque, ext, remark, body_size, encoding)
    at = _literal(at, end, b'{"code":')
    at = _number(at, end, code)
    at = _literal(at, end, b',"extFields":{')
    for name, value in (<dict>ext).items():
        at = _literal(at, end, b'"' if first else b',"')
        at = _plain(at, end, name)
        at = _literal(at, end, b'":"')
        at = _plain(at, end, value)
        at = _literal(at, end, b'"')
        first = False
    at = _literal(at, end, b"}")
    at = _literal(at, end, REPLY_LANGUAGE)
    at = _number(at, end, opaque)
    if remark:
        at = _literal(at, end, REPLY_REMARK)
        at = _plain(at, end, remark)
        at = _literal(at, end, b'"')
    at = _literal(at, end, REPLY_TAIL)
    if at == NULL:
        return _reply_py.reply_head(code, opaque, ext, remark, body_size, encoding)
    header_size = at - out - 8
    _store32(out, <uint32_t>(4 + header_size + <Py_ssize_t>body_size))
    _store32(out + 4, <uint32_t>header_size)
    return PyBytes_FromStringAndSize(<const char*>out, at - out)


cdef inline void _store32(uint8_t* at, uint32_t value) noexcept:
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value


cdef inline uint8_t* _literal(uint8_t* at, uint8_t* end, bytes text):
    """Copy bytes and return the place behind them; NULL when there is no room, and NULL stays NULL."""
    cdef Py_ssize_t size = len(text)
    if at == NULL or end - at < size:
        return NULL
    memcpy(at, <const char*>text, size)
    return at + size


cdef inline uint8_t* _number(uint8_t* at, uint8_t* end, object value):
    cdef uint8_t[24] digits
    cdef int64_t left = value
    cdef uint64_t rest = <uint64_t>left if left >= 0 else <uint64_t>0 - <uint64_t>left
    cdef int count = 0
    if at == NULL or end - at < 24:
        return NULL
    if left < 0:
        at[0] = 45
        at += 1
    while True:
        digits[count] = <uint8_t>(48 + rest % 10)
        count += 1
        rest //= 10
        if rest == 0:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at


cdef inline uint8_t* _plain(uint8_t* at, uint8_t* end, object text):
    """Copy a text that needs no escapes; NULL for any other."""
    cdef const uint8_t* source
    cdef Py_ssize_t size
    cdef Py_ssize_t index
    if at == NULL or type(text) is not str or not PyUnicode_IS_COMPACT_ASCII(text):
        return NULL
    size = PyUnicode_GET_LENGTH(text)
    if end - at < size:
        return NULL
    source = <const uint8_t*>PyUnicode_DATA(text)
    for index in range(size):
        if source[index] < 32 or source[index] == 34 or source[index] == 92:
            return NULL
        at[index] = source[index]
    return at + size
