"""The file of a broadcasting consumer, byte for byte as Apache's clients write it."""

from __future__ import annotations

import pytest

from roquet.client.core import offsets_file
from roquet.model.route import QueueName

APACHE_FILE = (
    b'{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"t"\n'
    b"\t\t}:12\n\t}\n}"
)


def test_the_offsets_file_is_apaches() -> None:
    queue = QueueName("broker-a", 0, "t")
    assert offsets_file.encode({queue: 12}) == APACHE_FILE
    assert offsets_file.decode(APACHE_FILE) == {queue: 12}
    one_line = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:12}}'
    assert offsets_file.decode(one_line) == {queue: 12}
    quoted = b'{"offsetTable":{"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":0,\\"topic\\":\\"t\\"}":"12"}}'
    assert offsets_file.decode(quoted) == {queue: 12}
    listed = b'{"offsetTable":[{"brokerName":"broker-a","offset":12,"queueId":0,"topic":"t"}]}'
    assert offsets_file.decode(listed) == {queue: 12}


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"offsetTable":5}', b'{"offsetTable":{5:6}}', b'{"offsetTable":[5]}',
     b'{"offsetTable":{{"queueId":0,"topic":"t"}:12}}',
     b'{"offsetTable":{{"brokerName":"b","queueId":true,"topic":"t"}:12}}'],
)  # fmt: skip
def test_a_damaged_offsets_file_is_told_apart(text: bytes) -> None:
    with pytest.raises(ValueError):
        offsets_file.decode(text)
