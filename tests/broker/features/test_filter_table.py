"""consumerFilter.json: births, deaths and what a restart keeps."""

from __future__ import annotations

import msgspec

from roquet.broker.features.filter.bloom import bloom_for
from roquet.broker.features.filter.table import FilterTable
from roquet.wire.bodies import loose_json

BLOOM = bloom_for(20, 32)
DAY_MS = 24 * 3_600_000
APACHE = b"""{
	"filterDataByTopic":{
		"T-late-1040-8":{
			"groupFilterData":{
				"G-late-1040-8":{
					"bloomFilterData":{
						"bitNum":112,
						"bitPos":[79,25,18]
					},
					"bornTime":1794737683245,
					"clientVersion":1794737683257,
					"consumerGroup":"G-late-1040-8",
					"dead":true,
					"deadTime":1794737683785,
					"expression":"n > 2 OR last = '1'",
					"expressionType":"SQL92",
					"topic":"T-late-1040-8"
				}
			},
			"topic":"T-late-1040-8"
		}
	}
}"""
"""The file of an Apache 5.5.0 whose consumer has just gone."""

TOPIC, GROUP = "T-late-1040-8", "G-late-1040-8"


def text_of(table: FilterTable, topic: str = "t") -> str:
    found = table.find("g", topic)
    return "" if found is None else found[0].expression


def is_dead(table: FilterTable) -> bool:
    found = table.find("g", "t")
    assert found is not None
    return found[0].is_dead


def test_newer_versions_replace_older_ones() -> None:
    table = FilterTable(BLOOM)
    table.register("g", "t", "SQL92", "a > 1", 10, 1_000)
    table.register("g", "t", "SQL92", "a > 2", 10, 1_001)
    table.register("g", "t", "SQL92", "a > 3", 9, 1_002)
    assert text_of(table) == "a > 1"
    table.register("g", "t", "SQL92", "a > 4", 11, 1_003)
    assert text_of(table) == "a > 4"
    table.register("g", "t", "SQL92", "a > ", 12, 1_004)
    assert text_of(table) == "", "a wrong expression must not leave the old one in force"


def test_entries_die_with_the_group_or_the_topic_and_live_again() -> None:
    table = FilterTable(BLOOM)
    table.register("g", "t", "SQL92", "a > 1", 10, 1_000)
    table.end_others("g", ["t"], 2_000)
    assert not is_dead(table)
    table.end_others("g", [], 2_000)
    assert is_dead(table)
    table.register("g", "t", "SQL92", "a > 1", 10, 3_000)
    assert not is_dead(table)
    table.end_others("g", [], 4_000)
    assert table.dump(4_000 + DAY_MS - 1, DAY_MS)["filterDataByTopic"]
    assert table.dump(4_000 + DAY_MS, DAY_MS) == {"filterDataByTopic": {}}
    assert table.find("g", "t") is None


def test_a_file_is_read_as_apache_wrote_it_and_written_in_its_shape() -> None:
    now_ms = 1_794_737_700_000
    table = FilterTable(BLOOM)
    table.load(loose_json.loads(APACHE), now_ms)
    found = table.find(GROUP, TOPIC)
    assert found is not None and found[1].matches({"n": "3"})
    assert table.dump(now_ms, DAY_MS) == msgspec.json.decode(APACHE)
    again = FilterTable(BLOOM)
    again.register(GROUP, TOPIC, "SQL92", "n > 2 OR last = '1'", 1_794_737_683_257, 1_794_737_683_245)
    again.end_others(GROUP, [], 1_794_737_683_785)
    assert again.dump(now_ms, DAY_MS) == msgspec.json.decode(APACHE)


def test_what_lived_when_a_file_was_written_counts_as_dead_when_it_is_loaded() -> None:
    table = FilterTable(BLOOM)
    now_ms = 1_794_737_700_000
    table.load(loose_json.loads(APACHE.replace(b"1794737683785", b"0")), now_ms)
    found = table.find(GROUP, TOPIC)
    assert found is not None and found[0].dead_time == 1_794_737_683_245
    later = FilterTable(BLOOM)
    later.load(loose_json.loads(APACHE.replace(b"1794737683785", b"0")), now_ms + 60_000)
    found = later.find(GROUP, TOPIC)
    assert found is not None and found[0].dead_time == now_ms + 30_000


def test_a_file_of_another_bloom_filter_or_of_nonsense_is_not_taken() -> None:
    other = FilterTable(bloom_for(10, 128))
    other.load(loose_json.loads(APACHE), 0)
    assert other.find(GROUP, TOPIC) is None
    nonsense: list[object] = [[], {"filterDataByTopic": 5}]
    nonsense.append({"filterDataByTopic": {"t": {"groupFilterData": {"g": 1}}}})
    nonsense.append(loose_json.loads(APACHE.replace(b"n > 2", b"n > > 2")))
    for stored in nonsense:
        table = FilterTable(BLOOM)
        table.load(stored, 0)
        assert table.find(GROUP, TOPIC) is None
