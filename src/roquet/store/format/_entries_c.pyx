# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Make and check runs of 20-byte entries: the compiled twin of `_entries_py`, which says what it must do.

Serves every send that has keys, and every record that a start reads again. Lengths are checked before the
loops, so that no word outside of the table is touched whatever the rows say.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from roquet.model.message import Entry

cdef enum:
    ROW_BYTES = 20
    HEADER_BYTES = 40
    PAGE_SHIFT = 12
    ROLLBACK = 0xC
    INT_MAX = 0x7FFFFFFF


cdef inline uint32_t u32(const uint8_t* at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t i64(const uint8_t* at) noexcept:
    return <int64_t>((<uint64_t>u32(at) << 32) | u32(at + 4))


cdef inline void put32(uint8_t* at, uint32_t value) noexcept:
    at[0], at[1], at[2], at[3] = value >> 24, value >> 16, value >> 8, value


cdef inline void put64(uint8_t* at, uint64_t value) noexcept:
    put32(at, <uint32_t>(value >> 32))
    put32(at + 4, <uint32_t>value)


cdef uint32_t hash_on(uint32_t value, str text):
    """Go on with Java's hash of a text: over UTF-16 units."""
    cdef Py_UCS4 letter
    for letter in text:
        if <uint32_t>letter > 0xFFFF:
            value = 31 * value + (0xD800 + ((<uint32_t>letter - 0x10000) >> 10))
            value = 31 * value + (0xDC00 + ((<uint32_t>letter - 0x10000) & 0x3FF))
        else:
            value = 31 * value + <uint32_t>letter
    return value


cdef inline uint32_t positive(uint32_t hashed) noexcept:
    if hashed & 0x80000000:
        hashed = 0 - hashed
    return hashed & INT_MAX


def key_rows(entries):
    """Return a row for each key of each entry."""
    cdef Py_ssize_t count = 0
    cdef tuple entry, keys
    for entry_any in entries:
        if not isinstance(entry_any, Entry):
            raise TypeError("rows are made of entries")
        entry = <tuple>entry_any
        if <int64_t>entry[7] & ROLLBACK != ROLLBACK:
            count += len(<tuple?>entry[9])
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * ROW_BYTES)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(made)
    cdef uint32_t prefix = 0
    cdef object topic = None
    cdef int64_t log_offset, store_ms
    for entry_any in entries:
        entry = <tuple>entry_any
        keys = <tuple>entry[9]
        if not keys or <int64_t>entry[7] & ROLLBACK == ROLLBACK:
            continue
        log_offset, store_ms = entry[0], entry[6]
        if entry[2] is not topic:
            topic = entry[2]
            prefix = 31 * hash_on(0, <str?>topic) + c'#'
        for key in keys:
            put32(at, positive(hash_on(prefix, <str?>key)))
            put64(at + 4, <uint64_t>log_offset)
            put64(at + 12, <uint64_t>store_ms)
            at += ROW_BYTES
    return made


cdef class Piece:  # the rows of a queue while they are collected
    cdef bytes made
    cdef Py_ssize_t size


def queue_rows(entries, owners, counts):
    """Return the entries as their queues hold them: a piece for each queue; see the twin."""
    cdef list pieces = []
    cdef Piece piece
    cdef tuple entry
    cdef uint8_t* at
    cdef Py_ssize_t owner
    if len(entries) != len(owners) or sum(counts) != len(owners):
        raise ValueError("not as many entries as were counted")
    for count in counts:
        piece = Piece()
        piece.made = PyBytes_FromStringAndSize(NULL, count * ROW_BYTES)
        pieces.append(piece)
    for entry_any, owner_any in zip(entries, owners):
        if not isinstance(entry_any, Entry):
            raise TypeError("rows are made of entries")
        entry, owner = <tuple>entry_any, owner_any
        if not 0 <= owner < len(pieces):
            raise IndexError("an entry belongs to no queue")
        piece = <Piece>pieces[owner]
        if piece.size + ROW_BYTES > PyBytes_GET_SIZE(piece.made):
            raise ValueError("not as many entries as were counted")
        at = <uint8_t*>PyBytes_AS_STRING(piece.made) + piece.size
        put64(at, <uint64_t><int64_t>entry[0])
        put32(at + 8, <uint32_t><int32_t>entry[1])
        put64(at + 12, <uint64_t><int64_t>entry[5])
        piece.size += ROW_BYTES
    return [(<Piece>each).made for each in pieces]


def file_rows(
    bytes rows not None, Py_ssize_t position, bytearray table not None, bytearray dirty not None,
    int64_t slots, int64_t max_entries, int64_t begin_ms, int64_t number,
):
    """File the rows from `position` on; return their index entries, where the file was full, new slots."""
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(rows)
    cdef uint8_t* words = <uint8_t*>PyByteArray_AS_STRING(table)
    cdef uint8_t* marks = <uint8_t*>PyByteArray_AS_STRING(dirty)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(rows), stop, end, filled = 0
    cdef int64_t used = 0, count, word, previous, seconds, log_offset
    cdef uint32_t hashed
    if slots <= 0 or length % ROW_BYTES or position < 0 or position % ROW_BYTES:
        raise ValueError("rows and slots must be whole")
    if PyByteArray_GET_SIZE(table) < HEADER_BYTES + 4 * slots:
        raise IndexError("the table is too short")
    if (PyByteArray_GET_SIZE(dirty) << PAGE_SHIFT) < HEADER_BYTES + 4 * slots:
        raise IndexError("there are too few pages")
    cdef bytes made = PyBytes_FromStringAndSize(NULL, max(length - position, 0))
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(made)
    while position < length:
        log_offset = i64(data + position + 4)
        stop = position + ROW_BYTES
        while stop < length and i64(data + stop + 4) == log_offset:
            stop += ROW_BYTES
        count = min((stop - position) // ROW_BYTES, max_entries - 1)
        if number + count > max_entries:
            break
        end = position + count * ROW_BYTES
        while position < end:
            hashed = u32(data + position)
            word = HEADER_BYTES + <int64_t>(hashed & INT_MAX) % slots * 4
            previous = <int32_t>u32(words + word)
            if previous <= 0 or previous >= number:
                previous = 0
                used += 1
            seconds = 0
            if begin_ms > 0 and i64(data + position + 12) > begin_ms:
                seconds = min((i64(data + position + 12) - begin_ms) // 1000, <int64_t>INT_MAX)
            put32(at, hashed)
            put64(at + 4, <uint64_t>log_offset)
            put32(at + 12, <uint32_t>seconds)
            put32(at + 16, <uint32_t>previous)
            put32(words + word, <uint32_t>number)
            marks[word >> PAGE_SHIFT] = 1
            at += ROW_BYTES
            filled += ROW_BYTES
            number += 1
            position += ROW_BYTES
        position = stop
    return (made if filled == PyBytes_GET_SIZE(made) else made[:filled]), position, used


def link(bytes entries not None, int64_t number, int64_t newest_log_offset, bytearray table not None, int64_t slots):
    """Set the slot words of entries that were read from a file; return how many are right."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(entries)
    cdef uint8_t* words = <uint8_t*>PyByteArray_AS_STRING(table)
    cdef Py_ssize_t count = 0, whole = PyBytes_GET_SIZE(entries) // ROW_BYTES
    cdef int64_t log_offset, word
    cdef int32_t hashed
    if slots <= 0 or PyBytes_GET_SIZE(entries) % ROW_BYTES:
        raise ValueError("entries and slots must be whole")
    if PyByteArray_GET_SIZE(table) < HEADER_BYTES + 4 * slots:
        raise IndexError("the table is too short")
    while count < whole:
        hashed = <int32_t>u32(at)
        log_offset = i64(at + 4)
        if hashed < 0 or log_offset < newest_log_offset or <int32_t>u32(at + 12) < 0:
            break
        word = HEADER_BYTES + hashed % slots * 4
        if u32(words + word) != u32(at + 16):
            break
        put32(words + word, <uint32_t>(number + count))
        newest_log_offset = log_offset
        count += 1
        at += ROW_BYTES
    return count, newest_log_offset


def count_valid(bytes data not None):
    """Return how many queue entries at the beginning of `data` are ones."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t count = 0, whole = PyBytes_GET_SIZE(data) // ROW_BYTES
    while count < whole and i64(at) >= 0 and <int32_t>u32(at + 8) > 0:
        count += 1
        at += ROW_BYTES
    return count
