"""What a name server answers: one method for each row of `wire.requests.names` (settings apart).

Place in the flow: `transport.router` decodes and calls, the method looks at the tables or changes them, the
reply goes back. Answers, codes and remarks are those of Apache 5.5.0 where a client or a tool can tell.
Nothing here waits. Knows links only as keys (a broker is gone when its link is).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from roquet.model.names import topic_fault
from roquet.model.route import QueueData, Route
from roquet.names.entrance import fault
from roquet.names.expiry import TIMEOUT_MS, Place
from roquet.names.kv import ORDER_NAMESPACE, KeyValues, TableFull
from roquet.names.routes import MASTER_ID
from roquet.names.table import Joining, Leaving, MinIdChange, Rules, Table, Verdict
from roquet.ports import Clock
from roquet.runtime.settings import NamesSettings
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import registration, route
from roquet.wire.bodies.registration import BodyError
from roquet.wire.codes import VERSION_STANDARD_JSON, Code
from roquet.wire.reply import OK, Refusal, Reply
from roquet.wire.requests import names as rows
from roquet.wire.row import Header

log = logging.getLogger("roquet.names")

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
TIMEOUT_MS_MAX = 3_600_000


class Handlers:
    """The answers of one name server."""

    def __init__(
        self,
        table: Table,
        values: KeyValues,
        settings: NamesSettings,
        clock: Clock,
        notify: Callable[[Iterable[MinIdChange]], None],
    ) -> None:
        self._table = table
        self._values = values
        self.settings = settings  # replaced when an administrator changes them
        self._clock = clock
        self._notify = notify
        self._started_ms = self._now_ms()
        self._clusters_body = b""
        self._clusters_version = -1  # of the cached body; the table counts from 0

    def routes(self) -> dict[type[Header], Handler]:
        """Return the methods by the class of the request that they answer."""
        return {
            rows.RegisterBroker: self.register,
            rows.UnregisterBroker: self.unregister,
            rows.QueryDataVersion: self.compare_version,
            rows.BrokerHeartbeat: self.heartbeat,
            rows.GetRoute: self.route,
            rows.GetClusters: self.clusters,
            rows.GetMembers: self.members,
            rows.RegisterTopic: self.register_topic,
            rows.DeleteRoute: self.delete_route,
            rows.WipeWrite: self.wipe_write,
            rows.AddWrite: self.add_write,
            rows.ListTopics: self.topics,
            rows.ListTopicsOfCluster: self.topics_of_cluster,
            rows.ListSystemTopics: self.system_topics,
            rows.ListUnitTopics: self.unit_topics,
            rows.ListUnitSubTopics: self.unit_sub_topics,
            rows.ListUnitSubOnlyTopics: self.unit_sub_only_topics,
            rows.PutValue: self.put_value,
            rows.GetValue: self.get_value,
            rows.DeleteValue: self.delete_value,
            rows.GetValues: self.get_values,
        }

    # --- brokers

    def register(self, request: rows.RegisterBroker, call: Call) -> Reply:
        body = call.frame.body
        if request.body_crc32 and registration.crc32(body) != request.body_crc32:
            raise _refused(request, call, "crc32 not match")
        try:
            brought = registration.decode(body, compressed=request.compressed, version=call.frame.version)
        except BodyError as error:
            raise _refused(request, call, f"Failed to decode RegisterBrokerBody: {error}") from None
        wrong = fault(request, brought, self._table.routes)
        if wrong:
            raise _refused(request, call, wrong)
        is_new = self._table.version_of(Place(request.cluster_name, request.broker_addr)) is None
        done = self._table.register(_joining(request, call), brought, self._now_ms())
        self._notify(done.notices)
        if done.verdict in (Verdict.TOO_EARLY, Verdict.TOO_MANY):
            raise _refused(request, call, f"register broker failed: {done.verdict.value}")
        if done.verdict is Verdict.OUTRANKED:
            log.warning("ignored %s at %s: %s", request.broker_name, request.broker_addr, done.verdict.value)
        elif is_new:
            log.info(
                "registered %s id %d of %s at %s with %d topics",
                request.broker_name,
                request.broker_id,
                request.cluster_name,
                request.broker_addr,
                len(brought.topics),
            )
        order_topics = self._values.namespace(ORDER_NAMESPACE)
        wanted = order_topics is not None and self.settings.return_order_config_to_broker
        return Reply(
            header=rows.Registered(done.ha_address, done.master_address),
            body=registration.encode_values(order_topics or {}) if wanted else b"",
        )

    def unregister(self, request: rows.UnregisterBroker, call: Call) -> Reply:
        leaving = Leaving(request.cluster_name, request.broker_name, request.broker_addr)
        self._notify(self._table.unregister(leaving))
        log.info("%s id %d at %s left", request.broker_name, request.broker_id, request.broker_addr)
        return OK

    def compare_version(self, request: rows.QueryDataVersion, call: Call) -> Reply:
        place = Place(request.cluster_name, request.broker_addr)
        known = self._table.version_of(place)
        self._table.refresh(place, self._now_ms())
        try:
            is_changed = known is None or known != registration.decode_version(call.frame.body)
        except BodyError as error:
            raise Refusal(Code.SYSTEM_ERROR, f"the body is not a data version: {error}") from None
        body = b"" if known is None else registration.encode_version(known)
        return Reply(header=rows.VersionCompared(is_changed), body=body)

    def heartbeat(self, request: rows.BrokerHeartbeat, call: Call) -> Reply:
        self._table.refresh(Place(request.cluster_name, request.broker_addr), self._now_ms())
        return OK

    def members(self, request: rows.GetMembers, call: Call) -> Reply:
        broker = self._table.routes.brokers.get(request.broker_name)
        addresses = {} if broker is None else broker.broker_addrs
        return Reply(body=route.encode_members(request.cluster_name, request.broker_name, addresses))

    def clusters(self, request: rows.GetClusters, call: Call) -> Reply:
        """Every broker asks this every five seconds, so the answer is kept until something changes."""
        routes = self._table.routes
        if self._clusters_version != routes.members_version:
            listed = {cluster: list(names) for cluster, names in routes.clusters.items()}
            self._clusters_body = route.encode_clusters(route.Clusters(dict(routes.brokers), listed))
            self._clusters_version = routes.members_version
        return Reply(body=self._clusters_body)

    def wipe_write(self, request: rows.WipeWrite, call: Call) -> Reply:
        count = self._table.wipe_write(request.broker_name)
        log.info(
            "%s may not be written any more (%d topics), says %s", request.broker_name, count, _who(call)
        )
        return Reply(header=rows.Wiped(count))

    def add_write(self, request: rows.AddWrite, call: Call) -> Reply:
        count = self._table.add_write(request.broker_name)
        log.info("%s may be written again (%d topics), says %s", request.broker_name, count, _who(call))
        return Reply(header=rows.Added(count))

    # --- routes and topics

    def route(self, request: rows.GetRoute, call: Call) -> Reply:
        settings = self.settings
        young_ms = self._started_ms + settings.wait_for_service_s * 1000
        if settings.need_wait_for_service and self._now_ms() < young_ms:
            raise Refusal(Code.SYSTEM_ERROR, "name server not ready")
        found = self._table.route(request.topic)
        if found is None:
            remark = f"No topic route info in name server for the topic: {request.topic}{FAQ}"
            raise Refusal(Code.TOPIC_NOT_EXIST, remark)
        if settings.order_message_enable:
            found = found._replace(order_conf=self._values.get(ORDER_NAMESPACE, request.topic))
        if request.zone_mode and request.zone_name and request.zone_name.strip():
            # Apache filters after encoding and encodes anew, loosely for everybody.
            return Reply(body=route.encode_loose(_in_zone(found, request.zone_name)))
        if request.accept_standard_json_only or call.frame.version >= VERSION_STANDARD_JSON:
            return Reply(body=route.encode_standard(found))
        return Reply(body=route.encode_loose(found))

    def register_topic(self, request: rows.RegisterTopic, call: Call) -> Reply:
        wrong = topic_fault(request.topic)
        if wrong:
            raise Refusal(Code.SYSTEM_ERROR, wrong)
        try:
            queues = route.decode(call.frame.body).queues if call.frame.body else ()
        except BodyError as error:
            raise Refusal(Code.SYSTEM_ERROR, f"the body is not a route: {error}") from None
        if not self._table.register_topic(request.topic, queues):
            log.warning("ignored the topic %s of %s: a broker of it is unknown", request.topic, _who(call))
        return OK

    def delete_route(self, request: rows.DeleteRoute, call: Call) -> Reply:
        if request.cluster_name:
            self._table.delete_topic_of_cluster(request.topic, request.cluster_name)
        else:
            self._table.delete_topic(request.topic)
        return OK

    def topics(self, request: rows.ListTopics, call: Call) -> Reply:
        if not self.settings.enable_all_topic_list:
            raise Refusal(Code.SYSTEM_ERROR, "disable")
        return Reply(body=route.encode_topics(self._table.routes.topics()))

    def topics_of_cluster(self, request: rows.ListTopicsOfCluster, call: Call) -> Reply:
        return self._listed(lambda: self._table.routes.topics_of_cluster(request.cluster))

    def unit_topics(self, request: rows.ListUnitTopics, call: Call) -> Reply:
        return self._listed(self._table.routes.unit_topics)

    def unit_sub_topics(self, request: rows.ListUnitSubTopics, call: Call) -> Reply:
        return self._listed(self._table.routes.unit_sub_topics)

    def unit_sub_only_topics(self, request: rows.ListUnitSubOnlyTopics, call: Call) -> Reply:
        return self._listed(self._table.routes.unit_sub_only_topics)

    def system_topics(self, request: rows.ListSystemTopics, call: Call) -> Reply:
        routes = self._table.routes
        names = [name for cluster, brokers in routes.clusters.items() for name in (cluster, *brokers)]
        return Reply(body=route.encode_topics(dict.fromkeys(names), routes.some_address()))

    def _listed(self, topics: Callable[[], Iterable[str]]) -> Reply:
        if not self.settings.enable_topic_list:
            raise Refusal(Code.SYSTEM_ERROR, "disable")
        return Reply(body=route.encode_topics(topics()))

    # --- values

    def put_value(self, request: rows.PutValue, call: Call) -> Reply:
        try:
            self._values.put(request.namespace, request.key, request.value)
        except (OSError, TableFull) as error:
            raise Refusal(Code.SYSTEM_ERROR, f"the value is not stored: {error}") from None
        return OK

    def get_value(self, request: rows.GetValue, call: Call) -> Reply:
        value = self._values.get(request.namespace, request.key)
        if value is None:
            remark = f"No config item, Namespace: {request.namespace} Key: {request.key}"
            raise Refusal(Code.QUERY_NOT_FOUND, remark)
        return Reply(header=rows.ValueFound(value))

    def delete_value(self, request: rows.DeleteValue, call: Call) -> Reply:
        try:
            self._values.delete(request.namespace, request.key)
        except OSError as error:
            raise Refusal(Code.SYSTEM_ERROR, f"the value is still stored: {error}") from None
        return OK

    def get_values(self, request: rows.GetValues, call: Call) -> Reply:
        found = self._values.namespace(request.namespace)
        if found is None:
            raise Refusal(Code.QUERY_NOT_FOUND, f"No config item, Namespace: {request.namespace}")
        return Reply(body=registration.encode_values(found))

    def _now_ms(self) -> int:
        """Return a time that never goes back: a wall clock that is set must not expire anybody."""
        return int(self._clock.monotonic() * 1000)


def rules_of(settings: NamesSettings) -> Rules:
    """Return the part of the settings that the tables go by."""
    return Rules(
        settings.support_acting_master,
        settings.notify_min_broker_id_changed,
        settings.delete_topic_with_registration,
    )


def _joining(request: rows.RegisterBroker, call: Call) -> Joining:
    timeout_ms = request.heartbeat_timeout_millis or 0
    return Joining(
        request.cluster_name,
        request.broker_name,
        request.broker_id,
        request.broker_addr,
        request.ha_server_addr,
        call.link,
        bool(request.enable_acting_master),
        request.enable_acting_master is None,
        request.zone_name,
        min(timeout_ms, TIMEOUT_MS_MAX) if timeout_ms > 0 else TIMEOUT_MS,
    )


def _in_zone(found: Route, zone: str) -> Route:
    """Keep the brokers of a zone, and those without a master: better far away than not at all."""
    wanted = zone.lower()
    brokers = tuple(
        broker
        for broker in found.brokers
        if MASTER_ID not in broker.broker_addrs or (broker.zone_name or "").lower() == wanted
    )
    names = {broker.broker_name for broker in brokers}
    addresses = {address for broker in brokers for address in broker.broker_addrs.values()}
    queues: tuple[QueueData, ...] = tuple(each for each in found.queues if each.broker_name in names)
    filters = {address: each for address, each in found.filter_servers.items() if address in addresses}
    return found._replace(brokers=brokers, queues=queues, filter_servers=filters)


def _refused(request: rows.RegisterBroker, call: Call, why: str) -> Refusal:
    log.warning("refused a registration of %s from %s: %s", request.broker_name[:80], _who(call), why)
    return Refusal(Code.SYSTEM_ERROR, why)


def _who(call: Call) -> str:
    return f"{call.link.peer[0]}:{call.link.peer[1]}"
