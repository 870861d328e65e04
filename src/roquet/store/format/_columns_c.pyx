# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records to columns: the compiled twin of `_columns_py`, which says what it must do.

Bulk readers pull millions of messages through here. Every read is checked against the end of the record
before it is made; what is rare (a broken record, a text that is not ASCII, a name that comes twice, an
IPv6 host, a compressed body) is left to the twin's functions.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

from roquet.store.format._columns_bytes cimport (
    BORN_V6, COMPRESSED, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PAIRS_MAX, RECORD_BYTES_MIN, STORE_V6,
    Pair, Record, i64, is_ascii, put_number, put_offset_id, read_record, split, u32,
)

from roquet.model.message import Host
from roquet.store.format import _columns_py
from roquet.store.format._columns_values import BYTES_MAX, EVERY, KINDS, OFFSET_MAX, Columns
from roquet.store.format._record_values import Stop

cdef Py_ssize_t COLUMN_BYTES_MAX = BYTES_MAX
cdef object MORE = Stop.MORE, FILE_END = Stop.FILE_END, ZEROS = Stop.ZEROS, BROKEN = Stop.BROKEN


@cython.final
cdef class Growing:  # bytes that grow at their end, handed out without a copy
    cdef uint8_t* data
    cdef Py_ssize_t size, capacity

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    cdef int grow(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t wanted = 2 * self.capacity + count + 4096
        cdef uint8_t* grown = <uint8_t*>realloc(self.data, wanted)
        if grown == NULL:
            raise MemoryError
        self.data, self.capacity = grown, wanted
        return 0

    cdef inline int put(self, const void* source, Py_ssize_t count) except -1:
        if self.size + count > self.capacity:
            self.grow(count)
        memcpy(self.data + self.size, source, count)
        self.size += count
        return 0

    cdef inline int put32(self, int32_t value) except -1:
        return self.put(&value, 4)

    cdef inline int put64(self, int64_t value) except -1:
        return self.put(&value, 8)


@cython.final
cdef class Texts:  # texts behind each other and where each ends
    cdef Growing ends, data
    cdef int32_t count

    def __cinit__(self):
        self.ends, self.data = Growing(), Growing()
        self.data.grow(0)
        self.ends.put32(0)

    cdef inline int put(self, const void* source, Py_ssize_t count) except -1:
        self.data.put(source, count)
        self.ends.put32(<int32_t>self.data.size)
        self.count += 1
        return 0

    cdef int put_bytes(self, bytes text) except -1:
        return self.put(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    cdef tuple buffers(self):
        return self.ends, self.data


cdef bint is_text(const uint8_t* at, Py_ssize_t size) except -1:
    """True when the bytes are UTF-8."""
    if is_ascii(at, size):
        return True
    try:
        PyUnicode_DecodeUTF8(<const char*>at, size, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef int put_host(Texts column, const uint8_t* at, bint is_v6) except -1:
    cdef uint8_t text[32]
    cdef Py_ssize_t size = 0
    cdef int part
    cdef int32_t port
    if is_v6:
        host = Host(PyBytes_FromStringAndSize(<const char*>at, 16), <int32_t>u32(at + 16))
        return column.put_bytes(_columns_py.host_text(host).encode())
    for part in range(4):
        size += put_number(text + size, at[part])
        text[size] = c"." if part < 3 else c":"
        size += 1
    port = <int32_t>u32(at + 4)
    if port < 0:
        host = Host(PyBytes_FromStringAndSize(<const char*>at, 4), port)
        return column.put_bytes(_columns_py.host_text(host).encode())
    size += put_number(text + size, port)
    return column.put(text, size)


@cython.final
cdef class Table:  # the columns that were asked for; None for the others
    cdef Growing queue_id, queue_offset, born_us, store_us, reconsume_times, sys_flag, flag
    cdef Growing log_offset, prepared_log_offset, size_bytes, keys_ends, pairs_ends
    cdef Texts topic, body, tag, keys, names, values, message_id, born_host, store_host
    cdef bint needs_pairs
    cdef object inflate
    cdef Pair pairs[PAIRS_MAX]

    def __init__(self, wanted, inflate):
        self.inflate = inflate
        self.queue_id = Growing() if "queue_id" in wanted else None
        self.queue_offset = Growing() if "queue_offset" in wanted else None
        self.born_us = Growing() if "born_us" in wanted else None
        self.store_us = Growing() if "store_us" in wanted else None
        self.reconsume_times = Growing() if "reconsume_times" in wanted else None
        self.sys_flag = Growing() if "sys_flag" in wanted else None
        self.flag = Growing() if "flag" in wanted else None
        self.log_offset = Growing() if "log_offset" in wanted else None
        self.prepared_log_offset = Growing() if "prepared_log_offset" in wanted else None
        self.size_bytes = Growing() if "size_bytes" in wanted else None
        self.topic = Texts() if "topic" in wanted else None
        self.body = Texts() if "body" in wanted else None
        self.tag = Texts() if "tag" in wanted else None
        self.message_id = Texts() if "message_id" in wanted else None
        self.born_host = Texts() if "born_host" in wanted else None
        self.store_host = Texts() if "store_host" in wanted else None
        if "keys" in wanted:
            self.keys, self.keys_ends = Texts(), Growing()
            self.keys_ends.put32(0)
        if "properties" in wanted:
            self.names, self.values, self.pairs_ends = Texts(), Texts(), Growing()
            self.pairs_ends.put32(0)
        self.needs_pairs = bool({"tag", "keys", "properties", "message_id"} & set(wanted))

    cdef Py_ssize_t add(self, Record* record) except -1:
        """Append one row; return the size of the largest text column."""
        cdef const uint8_t* at = record.at
        cdef Py_ssize_t largest = 0
        if self.queue_id is not None:
            self.queue_id.put32(<int32_t>u32(at + 12))
        if self.queue_offset is not None:
            self.queue_offset.put64(record.queue_offset)
        if self.log_offset is not None:
            self.log_offset.put64(record.log_offset)
        if self.prepared_log_offset is not None:
            self.prepared_log_offset.put64(i64(at + record.tail + 4))
        if self.size_bytes is not None:
            self.size_bytes.put32(record.size)
        if self.flag is not None:
            self.flag.put32(<int32_t>u32(at + 16))
        if self.sys_flag is not None:
            self.sys_flag.put32(record.sys_flag)
        if self.reconsume_times is not None:
            self.reconsume_times.put32(<int32_t>u32(at + record.tail))
        if self.born_us is not None:
            self.born_us.put64(i64(at + 40) * 1000)
        if self.store_us is not None:
            self.store_us.put64(record.store_ms * 1000)
        if self.born_host is not None:
            put_host(self.born_host, at + 48, record.sys_flag & BORN_V6)
        if self.store_host is not None:
            put_host(self.store_host, at + record.store_at + 8, record.sys_flag & STORE_V6)
        if self.topic is not None:
            if is_text(record.topic, record.topic_size):
                self.topic.put(record.topic, record.topic_size)
            else:
                self.topic.put_bytes(
                    _columns_py.mended(PyBytes_FromStringAndSize(<const char*>record.topic, record.topic_size))
                )
            largest = self.topic.data.size
        if self.body is not None:
            self.add_body(record)
            largest = max(largest, self.body.data.size)
        if self.needs_pairs:
            self.add_pairs(record)
            if self.values is not None:
                largest = max(largest, self.values.data.size)
        return largest

    cdef int add_body(self, Record* record) except -1:
        cdef const uint8_t* body = record.at + record.tail + 16
        if record.sys_flag & COMPRESSED and self.inflate is not None:
            packed = PyBytes_FromStringAndSize(<const char*>body, record.body_size)
            return self.body.put_bytes(<bytes?>self.inflate(packed, record.sys_flag))
        return self.body.put(body, record.body_size)

    cdef int add_pairs(self, Record* record) except -1:
        cdef const uint8_t* at = record.properties
        cdef Py_ssize_t size = record.properties_size
        cdef int count = -1
        cdef bytes cleaned
        if is_text(at, size):
            count = split(at, size, self.pairs)
        if count < 0:
            cleaned = _columns_py.cleaned(PyBytes_FromStringAndSize(<const char*>at, size))
            at, size = <const uint8_t*>PyBytes_AS_STRING(cleaned), PyBytes_GET_SIZE(cleaned)
            count = split(at, size, self.pairs)
            if count < 0:
                return self.add_many(cleaned, record)
        return self.put_pairs(count, record)

    cdef int put_pairs(self, int count, Record* record) except -1:
        cdef int index
        cdef Pair* pair
        cdef Pair* tag = NULL
        cdef Pair* keys = NULL
        cdef Pair* unique = NULL
        for index in range(count):
            pair = &self.pairs[index]
            if pair.name_size == 4:
                if memcmp(pair.name, b"TAGS", 4) == 0:
                    tag = pair
                elif memcmp(pair.name, b"KEYS", 4) == 0:
                    keys = pair
            elif pair.name_size == 8 and memcmp(pair.name, b"UNIQ_KEY", 8) == 0:
                unique = pair
            if self.names is not None:
                self.names.put(pair.name, pair.name_size)
                self.values.put(pair.value, pair.value_size)
        if self.names is not None:
            self.pairs_ends.put32(self.names.count)
        if self.tag is not None:
            if tag == NULL:
                self.tag.put(b"", 0)
            else:
                self.tag.put(tag.value, tag.value_size)
        if self.keys is not None:
            if keys != NULL:
                self.put_words(keys.value, keys.value_size)
            self.keys_ends.put32(self.keys.count)
        if self.message_id is not None:
            if unique == NULL:
                self.put_offset_id(record)
            else:
                self.message_id.put(unique.value, unique.value_size)
        return 0

    cdef int put_offset_id(self, Record* record) except -1:
        cdef uint8_t text[56]
        return self.message_id.put(text, put_offset_id(text, record))

    cdef int put_words(self, const uint8_t* at, Py_ssize_t size) except -1:
        cdef const uint8_t* end = at + size
        cdef const uint8_t* stop
        while at < end:
            stop = <const uint8_t*>memchr(at, c" ", end - at)
            if stop == NULL:
                stop = end
            if stop > at:
                self.keys.put(at, stop - at)
            at = stop + 1
        return 0

    cdef int add_many(self, bytes cleaned, Record* record) except -1:
        """Append a row with more pairs than most ever have."""
        pairs = dict(pair.split(b"\x01", 1) for pair in cleaned.split(b"\x02") if pair)
        cdef bytes word
        if self.names is not None:
            for name, value in pairs.items():
                self.names.put_bytes(name)
                self.values.put_bytes(value)
            self.pairs_ends.put32(self.names.count)
        if self.tag is not None:
            self.tag.put_bytes(pairs.get(b"TAGS", b""))
        if self.keys is not None:
            for word in pairs.get(b"KEYS", b"").split(b" "):
                if word:
                    self.keys.put_bytes(word)
            self.keys_ends.put32(self.keys.count)
        if self.message_id is not None:
            if b"UNIQ_KEY" in pairs:
                self.message_id.put_bytes(pairs[b"UNIQ_KEY"])
            else:
                self.put_offset_id(record)
        return 0

    cdef dict buffers(self, wanted):
        numbers = {
            "queue_id": self.queue_id, "queue_offset": self.queue_offset, "born_us": self.born_us,
            "store_us": self.store_us, "reconsume_times": self.reconsume_times, "sys_flag": self.sys_flag,
            "flag": self.flag, "log_offset": self.log_offset,
            "prepared_log_offset": self.prepared_log_offset, "size_bytes": self.size_bytes,
        }
        texts = {
            "topic": self.topic, "body": self.body, "tag": self.tag, "message_id": self.message_id,
            "born_host": self.born_host, "store_host": self.store_host,
        }
        found = {}
        for name in wanted:
            if name in numbers:
                found[name] = (numbers[name],)
            elif name in texts:
                found[name] = (<Texts>texts[name]).buffers()
            elif name == "keys":
                found[name] = (self.keys_ends, *self.keys.buffers())
            else:
                found[name] = (self.pairs_ends, *self.names.buffers(), *self.values.buffers())
        return found


def read_columns(
    data, Py_ssize_t position, wanted, *, Py_ssize_t rows_max, Py_ssize_t stop_at=OFFSET_MAX, sieve=EVERY,
    int64_t log_offset=-1, bint check_crc=False, inflate=None,
):
    """Read up to `rows_max` rows from `data[position:]`, as `_columns_py.read_columns` does."""
    for name in wanted:
        KINDS[name]
    cdef Table table = Table(wanted, inflate)
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return walk(
            table, data, <const uint8_t*>view.buf, view.len, position, wanted, rows_max, stop_at, sieve,
            log_offset, check_crc,
        )
    finally:
        PyBuffer_Release(&view)


cdef walk(
    Table table, data, const uint8_t* start, Py_ssize_t length, Py_ssize_t position, wanted,
    Py_ssize_t rows_max, Py_ssize_t stop_at, sieve, int64_t log_offset, bint check_crc,
):
    cdef tuple topics = tuple(sieve.topics)
    cdef object queue_ids = frozenset(sieve.queue_ids) if sieve.queue_ids else None
    cdef int64_t offset_from = sieve.queue_offset_from, offset_to = sieve.queue_offset_to
    cdef int64_t ms_from = sieve.store_ms_from, ms_to = sieve.store_ms_to
    cdef Py_ssize_t rows = 0, largest = 0
    cdef int32_t size
    cdef uint32_t magic
    cdef bint has_topics = len(topics) > 0
    cdef Record record
    stop, fault = MORE, ""
    while rows < rows_max and position < stop_at and largest < COLUMN_BYTES_MAX:
        if length - position < 8:
            break
        size, magic = <int32_t>u32(start + position), u32(start + position + 4)
        if magic == MAGIC_BLANK:
            stop = FILE_END
            break
        if size == 0 and magic == 0:
            stop = ZEROS
            break
        if (magic == MAGIC_V1 or magic == MAGIC_V2) and size > length - position:
            break
        if (
            (magic != MAGIC_V1 and magic != MAGIC_V2)
            or size < RECORD_BYTES_MIN
            or not read_record(start + position, size, magic, &record)
            or (log_offset >= 0 and record.log_offset != log_offset + position)
            or (check_crc and not is_sound(&record))
        ):
            stop, fault = BROKEN, fault_of(data, position, size, log_offset, check_crc)
            break
        position += size
        if record.queue_offset < offset_from or record.queue_offset >= offset_to:
            continue
        if record.store_ms < ms_from or record.store_ms >= ms_to:
            continue
        if has_topics and not is_among(&record, topics):
            continue
        if queue_ids is not None and <int32_t>u32(record.at + 12) not in queue_ids:
            continue
        largest = table.add(&record)
        rows += 1
    return Columns(rows, position, stop, fault, table.buffers(wanted))


cdef uint32_t CRC[8][256]  # eight steps of the polynomial at once: a body is too short for a call


cdef void fill_crc() noexcept:
    cdef uint32_t value
    cdef int index, step
    for index in range(256):
        value = index
        for step in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        CRC[0][index] = value
    for index in range(256):
        for step in range(1, 8):
            CRC[step][index] = (CRC[step - 1][index] >> 8) ^ CRC[0][CRC[step - 1][index] & 0xFF]


fill_crc()


cdef uint32_t crc32(const uint8_t* at, Py_ssize_t size) noexcept:
    """Return the CRC-32 that zlib computes."""
    cdef uint32_t crc = 0xFFFFFFFF
    while size >= 8:
        crc ^= at[0] | (<uint32_t>at[1] << 8) | (<uint32_t>at[2] << 16) | (<uint32_t>at[3] << 24)
        crc = (
            CRC[7][crc & 0xFF] ^ CRC[6][(crc >> 8) & 0xFF] ^ CRC[5][(crc >> 16) & 0xFF] ^ CRC[4][crc >> 24]
            ^ CRC[3][at[4]] ^ CRC[2][at[5]] ^ CRC[1][at[6]] ^ CRC[0][at[7]]
        )
        at, size = at + 8, size - 8
    while size:
        crc = (crc >> 8) ^ CRC[0][(crc ^ at[0]) & 0xFF]
        at, size = at + 1, size - 1
    return ~crc


cdef bint is_sound(Record* record) noexcept:
    """True when the body matches its checksum."""
    if not record.body_size:
        return True
    return crc32(record.at + record.tail + 16, record.body_size) & 0x7FFFFFFF == u32(record.at + 8)


cdef bint is_among(Record* record, tuple topics) except -1:
    cdef bytes topic
    for topic in topics:
        if PyBytes_GET_SIZE(topic) == record.topic_size:
            if memcmp(PyBytes_AS_STRING(topic), record.topic, record.topic_size) == 0:
                return True
    return False


cdef fault_of(data, Py_ssize_t position, Py_ssize_t size, int64_t log_offset, bint check_crc):
    """Let the twin say what is wrong with the record at `position`."""
    piece = bytes(memoryview(data)[position : position + max(8, min(size, 1 << 26))])
    at = log_offset if log_offset < 0 else log_offset + position
    seen = _columns_py.read_columns(piece, 0, (), rows_max=1, log_offset=at, check_crc=check_crc)
    assert seen.stop is BROKEN, "the twins do not agree"
    return seen.fault
