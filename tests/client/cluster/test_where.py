"""What users write to say where their cluster is."""

from __future__ import annotations

import pytest

from roquet.client.cluster.where import Where, parse
from roquet.client.errors import Misuse


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("10.0.0.1:9876", Where(("10.0.0.1:9876",))),
        (" a:1;b:2 ;a:1; ", Where(("a:1", "b:2"))),
        ("a:1,b:2", Where(("a:1", "b:2"))),
        ("[::1]:9876", Where(("[::1]:9876",))),
        ("roquet://a:1,b:2", Where(("a:1", "b:2"))),
        (
            "roquet://a:1/?namespace=shop&unit=u&instance=i&timeout=1.5&encoding=binary",
            Where(("a:1",), "", "shop", "u", "i", 1.5, "binary"),
        ),
        ("http://config:8080/rocketmq/nsaddr", Where(list_url="http://config:8080/rocketmq/nsaddr")),
        ("http://MQ_INST_1_x.mq.example:80", Where(("MQ_INST_1_x.mq.example:80",), namespace="MQ_INST_1_x")),
        ("http://10.0.0.1:9876", Where(("10.0.0.1:9876",))),
    ],
)
def test_where_the_cluster_is(text: str, where: Where) -> None:
    assert parse(text) == where


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no name server is given"),
        ("localhost", "'localhost' is not an address of the form host:port"),
        ("a:1;b:port", "'b:port' is not an address"),
        (";", "names no name server"),
        ("kafka://a:1", "kafka:// is not known; use host:port"),
        ("roquet://a:1?colour=red", "no option 'colour'; there are namespace, unit"),
        ("roquet://a:1?timeout=soon", "timeout=soon is no number of seconds"),
        ("roquet://a:1?timeout=-1", "timeout=-1 is no number of seconds"),
        ("roquet://a:1?encoding=xml", "encoding=xml is not known"),
        ("roquet://", "names no name server"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str) -> None:
    with pytest.raises(Misuse, match=complaint.replace("?", r"\?")):
        parse(text)
