"""THE table of configuration keys: Java's name, our field, what it allows, and whether it may change.

One row for each key of broker.conf and namesrv.conf that Roquet acts on; `apache_keys` lists those it
knows and does not act on. `hot` rows are the allow-list of UPDATE_BROKER_CONFIG: what can safely change
in a running broker. Paths, addresses, ports and who may administer are never hot, and neither is the
flush mode: what a broker promised at its start it keeps. Reference: Apache 5.5.0's configuration classes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from roquet.runtime.settings import Role
from roquet.runtime.values import (
    PORT_MAX,
    Address,
    Choice,
    DelayLevels,
    Endpoints,
    Flag,
    Hours,
    Kind,
    Name,
    Number,
    Path,
)
from roquet.store.settings import FlushMode

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
MIB = 1024 * 1024
FRAME_BYTES_MAX = 16 * MIB  # no longer message could reach a client


class Part(Enum):
    """Which settings a row belongs to."""

    BROKER = "broker"
    STORE = "store"
    NAMES = "names"


class Key(NamedTuple):
    """One row."""

    java: str
    part: Part
    field: str
    kind: Kind
    hot: bool
    help: str


FLAG = Flag()
PATH = Path()
ADDRESS = Address()
PORT = Number(1, PORT_MAX)
COUNT = Number(1, INT_MAX)
PERCENT = Number(1, 100, "%")
MILLIS = Number(1, INT_MAX, "ms")
BYTES = Number(1, INT_MAX, "bytes")

_COLD = False
_HOT = True


def _rows(part: Part, *rows: tuple[str, str, Kind, bool, str]) -> tuple[Key, ...]:
    return tuple(Key(java, part, field, kind, hot, text) for java, field, kind, hot, text in rows)


BROKER_ROWS = _rows(
    Part.BROKER,
    ("brokerClusterName", "cluster_name", Name(), _COLD, "name of the cluster"),
    ("brokerName", "broker_name", Name(), _COLD, "name that a master and its slaves share"),
    ("brokerId", "broker_id", Number(0, LONG_MAX), _COLD, "0 for a master"),
    ("brokerRole", "role", Choice(Role), _COLD, "what it is to its replicas"),
    ("regionId", "region_id", Name(), _COLD, "region that answers to sends carry"),
    ("namesrvAddr", "namesrv_addresses", Endpoints(), _COLD, "name servers to register with"),
    ("listenPort", "listen_port", Number(3, PORT_MAX - 1), _COLD, "main port; the fast port is two below"),
    ("bindAddress", "bind_address", ADDRESS, _COLD, "address to listen on; 0.0.0.0 for all"),
    ("brokerIP1", "broker_ip1", ADDRESS, _COLD, "address that clients are told to use"),
    ("brokerIP2", "broker_ip2", ADDRESS, _COLD, "address that slaves are told to use"),
    ("haListenPort", "ha_listen_port", Number(0, PORT_MAX, clamp=True), _COLD, "port for slaves"),
    ("brokerConfigPath", "config_path", PATH, _COLD, "file that changes are written to"),
    ("serverChannelMaxIdleTimeSeconds", "server_idle_s", Number(1, 86_400, "s"), _COLD, "idle limit"),
    ("maxConnections", "connections_max", COUNT, _COLD, "connections open at the same time"),
    ("maxRequestsInFlight", "requests_in_flight_max", COUNT, _COLD, "requests under work at the same time"),
    ("connectTimeoutMillis", "connect_timeout_ms", MILLIS, _COLD, "patience with a name server"),
    ("adminFromAnywhere", "admin_from_anywhere", FLAG, _COLD, "administration from other hosts"),
    ("startAcceptSendRequestTimeStamp", "start_accept_send_ms", Number(0, LONG_MAX, "ms"), _HOT, "start"),
    ("brokerPermission", "permission", Number(0, 7), _HOT, "4 read + 2 write"),
    ("defaultTopicQueueNums", "default_topic_queue_nums", Number(1, 65_536), _HOT, "queues of new topics"),
    ("autoCreateTopicEnable", "auto_create_topic", FLAG, _HOT, "a send may create its topic"),
    ("autoCreateSubscriptionGroup", "auto_create_group", FLAG, _HOT, "a consumer may create its group"),
    ("clusterTopicEnable", "cluster_topic", FLAG, _COLD, "have a topic named as the cluster"),
    ("brokerTopicEnable", "broker_topic", FLAG, _COLD, "have a topic named as the broker"),
    ("traceTopicEnable", "trace_topic", FLAG, _COLD, "have the topic of message traces"),
    ("msgTraceTopicName", "trace_topic_name", Name(), _COLD, "its name"),
    ("traceOn", "trace_on", FLAG, _COLD, "tell clients that traces are wanted"),
    ("rejectTransactionMessage", "reject_transaction", FLAG, _HOT, "refuse transactions"),
    ("transactionTimeOut", "transaction_timeout_ms", MILLIS, _HOT, "age of a half that is asked about"),
    ("transactionCheckInterval", "transaction_check_interval_ms", MILLIS, _HOT, "time between two rounds"),
    ("transactionCheckMax", "transaction_check_max", COUNT, _HOT, "questions about one half"),
    ("storeReplyMessageEnable", "store_reply", FLAG, _HOT, "keep replies in the log"),
    ("recallMessageEnable", "recall_message", FLAG, _HOT, "timed messages may be taken back"),
    ("allowRecallWhenBrokerNotWriteable", "recall_when_not_writable", FLAG, _HOT, "even so"),
    ("enableMixedMessageType", "mixed_message_type", FLAG, _HOT, "topics may take every type"),
    ("enableTopicMessageTypeCheck", "message_type_check", FLAG, _HOT, "refuse what a topic does not declare"),
    ("longPollingEnable", "long_polling", FLAG, _HOT, "hold pulls as long as the client says"),
    ("shortPollingTimeMills", "short_polling_ms", MILLIS, _HOT, "how long pulls are held otherwise"),
    ("litePullMessageEnable", "lite_pull", FLAG, _HOT, "answer lite pulls"),
    ("enablePropertyFilter", "property_filter", FLAG, _HOT, "allow SQL92 subscriptions"),
    ("filterSupportRetry", "filter_support_retry", FLAG, _HOT, "filter retried messages too"),
    ("filterDataCleanTimeSpan", "filter_data_keep_ms", Number(1, LONG_MAX, "ms"), _HOT, "of groups gone"),
    ("enableCalcFilterBitMap", "filter_bit_map", FLAG, _HOT, "note which selectors a message matches"),
    ("maxErrorRateOfBloomFilter", "bloom_error_percent", Number(1, 99, "%"), _COLD, "false hits"),
    ("expectConsumerNumUseFilter", "bloom_group_count", Number(1, 100_000), _COLD, "groups with selectors"),
    ("disableConsumeIfConsumerReadSlowly", "disable_slow_groups", FLAG, _HOT, "switch slow groups off"),
    ("consumerFallbehindThreshold", "slow_behind_bytes_max", Number(0, LONG_MAX, "bytes"), _HOT, "those"),
    ("notifyConsumerIdsChangedEnable", "notify_group_changes", FLAG, _HOT, "tell members of changes"),
    ("useServerSideResetOffset", "use_server_side_reset", FLAG, _HOT, "reset offsets on the broker"),
    ("channelExpiredTimeout", "channel_expired_ms", MILLIS, _HOT, "silence after which a client is gone"),
    ("clientScanInterval", "client_scan_interval_ms", MILLIS, _HOT, "how often such clients are sought"),
    ("rebalanceLockMaxLiveTime", "lock_live_ms", MILLIS, _COLD, "life of a queue lock"),
    ("flushConsumerOffsetInterval", "offsets_flush_interval_ms", MILLIS, _HOT, "saving of offsets"),
    ("consumerOffsetUpdateVersionStep", "offsets_version_step", COUNT, _COLD, "commits to a new version"),
    ("flushDelayOffsetInterval", "delay_offsets_flush_interval_ms", MILLIS, _COLD, "saving of delay offsets"),
    ("delayOffsetUpdateVersionStep", "delay_offsets_version_step", COUNT, _COLD, "steps to a new version"),
    ("registerNameServerPeriod", "register_period_ms", Number(10_000, 60_000, "ms", True), _HOT, "period"),
    ("enableSplitRegistration", "split_registration", FLAG, _HOT, "register topics in pieces"),
    ("splitRegistrationSize", "split_registration_size", COUNT, _HOT, "topics of a piece"),
    ("registerBrokerTimeoutMills", "register_timeout_ms", MILLIS, _HOT, "patience with a registration"),
)

STORE_ROWS = _rows(
    Part.STORE,
    ("storePathRootDir", "root_dir", PATH, _COLD, "folder of the store"),
    ("storePathCommitLog", "commitlog_dir", PATH, _COLD, "folder of the log"),
    ("mappedFileSizeCommitLog", "log_file_size_bytes", Number(4096, INT_MAX, "bytes"), _COLD, "log files"),
    ("mappedFileSizeConsumeQueue", "queue_file_size_bytes", BYTES, _COLD, "queue files"),
    ("enableConsumeQueueExt", "queue_ext_enable", FLAG, _COLD, "notes beside queue entries"),
    ("mappedFileSizeConsumeQueueExt", "queue_ext_file_size_bytes", BYTES, _COLD, "files of such notes"),
    ("maxHashSlotNum", "index_slot_count", COUNT, _COLD, "hash slots of an index file"),
    ("maxIndexNum", "index_entry_count", COUNT, _COLD, "entries of an index file"),
    ("messageIndexEnable", "message_index_enable", FLAG, _COLD, "file messages under their keys"),
    ("messageIndexSafe", "message_index_safe", FLAG, _COLD, "recover from where the index is safe too"),
    ("checkCRCOnRecover", "check_crc_on_recover", FLAG, _COLD, "verify bodies while recovering"),
    ("enabledAppendPropCRC", "append_property_crc", FLAG, _COLD, "a checksum of the record in it"),
    ("messageDelayLevel", "delay_levels_ms", DelayLevels(), _COLD, "delay of each level"),
    ("flushDiskType", "flush_mode", Choice(FlushMode), _COLD, "answer after the write or the sync"),
    ("flushIntervalCommitLog", "flush_interval_ms", MILLIS, _HOT, "time between two syncs"),
    ("flushCommitLogLeastPages", "flush_least_pages", Number(0, INT_MAX), _HOT, "pages worth a sync"),
    ("flushCommitLogThoroughInterval", "flush_thorough_interval_ms", MILLIS, _HOT, "sync even so"),
    ("syncFlushTimeout", "sync_flush_timeout_ms", MILLIS, _HOT, "patience of SYNC_FLUSH"),
    ("flushIntervalConsumeQueue", "queue_flush_interval_ms", MILLIS, _HOT, "writing of queues"),
    ("flushConsumeQueueThoroughInterval", "queue_flush_thorough_interval_ms", MILLIS, _HOT, "their sync"),
    ("maxMessageSize", "message_size_bytes_max", Number(1, FRAME_BYTES_MAX, "bytes"), _HOT, "longest body"),
    ("maxFilterMessageSize", "filter_message_size_bytes", BYTES, _HOT, "entries that a read scans"),
    ("maxTransferBytesOnMessageInMemory", "transfer_bytes_in_memory_max", BYTES, _HOT, "of recent ones"),
    ("maxTransferCountOnMessageInMemory", "transfer_count_in_memory_max", COUNT, _HOT, "of recent ones"),
    ("maxTransferBytesOnMessageInDisk", "transfer_bytes_on_disk_max", BYTES, _HOT, "of old ones"),
    ("maxTransferCountOnMessageInDisk", "transfer_count_on_disk_max", COUNT, _HOT, "of old ones"),
    ("maxTransferBytesOnBulkPull", "transfer_bytes_bulk_max", Number(1, 8 * MIB, "bytes"), _HOT, "for Spark"),
    ("accessMessageInMemoryMaxRatio", "memory_percent_max", PERCENT, _HOT, "memory for recent messages"),
    ("maxOpenQueueFiles", "open_queue_files_max", Number(16, 1_000_000), _COLD, "queue files kept open"),
    ("deleteWhen", "delete_when_hours", Hours(), _HOT, "hours in which expired files are deleted"),
    ("fileReservedTime", "file_reserved_hours", Number(1, 1_000_000, "hours"), _HOT, "age of expiry"),
    ("deleteFileBatchMax", "delete_file_batch_max", COUNT, _HOT, "files that one round deletes"),
    ("cleanResourceInterval", "clean_interval_ms", MILLIS, _HOT, "time between two rounds"),
    (
        "diskMaxUsedSpaceRatio",
        "disk_max_used_percent",
        PERCENT,
        _HOT,
        "above it, expired files go at any hour",
    ),
    ("diskSpaceCleanForciblyRatio", "disk_clean_forcibly_percent", PERCENT, _HOT, "above it, any file goes"),
    ("diskSpaceWarningLevelRatio", "disk_warning_percent", PERCENT, _HOT, "above it, writes are refused"),
    ("timerWheelEnable", "timer_wheel_enable", FLAG, _HOT, "accept messages for an arbitrary time"),
    ("timerPrecisionMs", "timer_precision_ms", Number(1, 60_000, "ms"), _COLD, "length of a slot"),
    ("timerMaxDelaySec", "timer_max_delay_s", Number(1, 10 * 365 * 86_400, "s"), _HOT, "how far ahead"),
    (
        "timerRollWindowSlot",
        "timer_roll_window_slots",
        Number(0, INT_MAX),
        _HOT,
        "slots ahead without a stop",
    ),
    ("mappedFileSizeTimerLog", "timer_log_file_size_bytes", Number(256, INT_MAX, "bytes"), _COLD, "files"),
    ("timerFlushIntervalMs", "timer_flush_interval_ms", MILLIS, _HOT, "time between two savings"),
    ("appendTopicForTimerDeleteKey", "timer_delete_key_with_topic", FLAG, _HOT, "markers with the topic"),
    ("cleanFileForciblyEnable", "clean_file_forcibly_enable", FLAG, _HOT, "allow deletion by force"),
)

NAMES_ROWS = _rows(
    Part.NAMES,
    ("listenPort", "listen_port", PORT, _COLD, "port"),
    ("bindAddress", "bind_address", ADDRESS, _COLD, "address to listen on; 0.0.0.0 for all"),
    ("adminFromAnywhere", "admin_from_anywhere", FLAG, _COLD, "administration from other hosts"),
    ("kvConfigPath", "kv_config_path", PATH, _COLD, "file of the KV table"),
    ("configStorePath", "config_path", PATH, _COLD, "file that changes are written to"),
    ("scanNotActiveBrokerInterval", "scan_interval_ms", MILLIS, _HOT, "search for silent brokers"),
    ("unRegisterBrokerQueueCapacity", "unregister_queue_max", COUNT, _COLD, "waiting unregistrations"),
    ("serverChannelMaxIdleTimeSeconds", "server_idle_s", Number(1, 86_400, "s"), _COLD, "idle limit"),
    ("maxConnections", "connections_max", COUNT, _COLD, "connections open at the same time"),
    ("productEnvName", "product_env_name", Name(), _COLD, "name of the environment"),
    ("clusterTest", "cluster_test", FLAG, _COLD, "answer for a test cluster"),
    ("orderMessageEnable", "order_message_enable", FLAG, _HOT, "routes carry order configuration"),
    ("returnOrderTopicConfigToBroker", "return_order_config_to_broker", FLAG, _HOT, "and registrations"),
    ("supportActingMaster", "support_acting_master", FLAG, _COLD, "show a slave as acting master"),
    ("notifyMinBrokerIdChanged", "notify_min_broker_id_changed", FLAG, _HOT, "tell replicas"),
    ("enableAllTopicList", "enable_all_topic_list", FLAG, _HOT, "answer with all topics"),
    ("enableTopicList", "enable_topic_list", FLAG, _HOT, "answer with topics of a cluster"),
    ("needWaitForService", "need_wait_for_service", FLAG, _COLD, "no routes right after the start"),
    ("waitSecondsForService", "wait_for_service_s", Number(0, 86_400, "s"), _COLD, "for how long"),
    ("deleteTopicWithBrokerRegistration", "delete_topic_with_registration", FLAG, _HOT, "forget topics"),
)
