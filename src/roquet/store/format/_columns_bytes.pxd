# cython: language_level=3, cdivision=True
"""The bytes of a record, read in place: structs and small functions that `_columns_c` is made of."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp


cdef enum:
    RECORD_BYTES_MIN = 91
    COMPRESSED = 0x1
    BORN_V6 = 0x10
    STORE_V6 = 0x20
    PAIRS_MAX = 64

cdef enum Magic:
    MAGIC_V1 = 0xDAA320A7
    MAGIC_V2 = 0xDAA320AB
    MAGIC_BLANK = 0xCBD43194


cdef inline uint32_t u32(const uint8_t* at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t i64(const uint8_t* at) noexcept:
    return <int64_t>((<uint64_t>u32(at) << 32) | u32(at + 4))


cdef struct Record:  # where the parts of a record lie
    const uint8_t* at
    int32_t size
    int32_t sys_flag
    int64_t queue_offset
    int64_t log_offset
    int64_t store_ms
    Py_ssize_t store_at
    Py_ssize_t tail
    Py_ssize_t body_size
    const uint8_t* topic
    Py_ssize_t topic_size
    const uint8_t* properties
    Py_ssize_t properties_size


cdef struct Pair:
    const uint8_t* name
    Py_ssize_t name_size
    const uint8_t* value
    Py_ssize_t value_size


cdef inline bint read_record(const uint8_t* at, int32_t size, uint32_t magic, Record* record) noexcept:
    """Fill in where the parts lie; return whether they add up to the size."""
    cdef int32_t sys_flag = <int32_t>u32(at + 36)
    cdef Py_ssize_t store_at = 68 if sys_flag & BORN_V6 else 56
    cdef Py_ssize_t tail = store_at + (28 if sys_flag & STORE_V6 else 16)
    cdef Py_ssize_t topic_field = 2 if magic == MAGIC_V2 else 1
    cdef Py_ssize_t topic_at, topic_size, properties_at, properties_size
    cdef int64_t body_size
    if tail + 16 + topic_field + 2 > size:
        return False
    body_size = <int32_t>u32(at + tail + 12)
    if body_size < 0 or tail + 16 + body_size + topic_field + 2 > size:
        return False
    topic_at = tail + 16 + body_size
    topic_size = at[topic_at]
    if topic_field == 2:
        topic_size = (topic_size << 8) | at[topic_at + 1]
    properties_at = topic_at + topic_field + topic_size + 2
    if properties_at > size:
        return False
    properties_size = <int16_t>((<uint16_t>at[properties_at - 2] << 8) | at[properties_at - 1])
    if properties_size < 0 or properties_at + properties_size != size:
        return False
    record.at, record.size, record.sys_flag = at, size, sys_flag
    record.queue_offset, record.log_offset, record.store_ms = i64(at + 20), i64(at + 28), i64(at + store_at)
    record.store_at, record.tail, record.body_size = store_at, tail, body_size
    record.topic, record.topic_size = at + topic_at + topic_field, topic_size
    record.properties, record.properties_size = at + properties_at, properties_size
    return True


cdef inline bint is_ascii(const uint8_t* at, Py_ssize_t size) noexcept:
    cdef Py_ssize_t index
    cdef uint8_t seen = 0
    for index in range(size):
        seen |= at[index]
    return seen < 0x80


cdef inline int split(const uint8_t* at, Py_ssize_t size, Pair* pairs) noexcept:
    """Fill in the pairs of a property text and return their number, -1 where the twin must look."""
    cdef const uint8_t* end = at + size
    cdef const uint8_t* stop
    cdef const uint8_t* mid
    cdef int count = 0, other
    while at < end:
        stop = <const uint8_t*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        mid = <const uint8_t*>memchr(at, 1, stop - at)
        if mid != NULL and mid > at and stop > mid + 1:
            if count == PAIRS_MAX:
                return -1
            for other in range(count):
                if pairs[other].name_size == mid - at and memcmp(pairs[other].name, at, mid - at) == 0:
                    return -1
            pairs[count].name, pairs[count].name_size = at, mid - at
            pairs[count].value, pairs[count].value_size = mid + 1, stop - mid - 1
            count += 1
        at = stop + 1
    return count


cdef inline Py_ssize_t put_number(uint8_t* at, uint32_t value) noexcept:
    cdef uint8_t digits[10]
    cdef Py_ssize_t count = 0, index
    while True:
        digits[count] = c"0" + value % 10
        count += 1
        value //= 10
        if not value:
            break
    for index in range(count):
        at[index] = digits[count - 1 - index]
    return count


cdef inline Py_ssize_t put_offset_id(uint8_t* text, Record* record) noexcept:
    """Write where the record lies as 32 or 56 hex digits; return how many."""
    cdef Py_ssize_t host_size = 20 if record.sys_flag & STORE_V6 else 8, index
    cdef uint8_t source
    for index in range(host_size + 8):
        if index < host_size:
            source = record.at[record.store_at + 8 + index]
        else:
            source = record.at[28 + index - host_size]
        text[2 * index] = hex_digit(source >> 4)
        text[2 * index + 1] = hex_digit(source & 15)
    return 2 * (host_size + 8)


cdef inline uint8_t hex_digit(uint8_t value) noexcept:
    return value + (c"0" if value < 10 else c"A" - 10)
