"""Administration of consumer groups: create, change, list, delete, forbid.

Place in the flow: router ─▶ here ─▶ the table of groups, which saves each change before the answer goes
out. Knows nothing of who is connected. Codes 200, 225, 201, 352, 207, 353. Reference:
AdminBrokerProcessor and SubscriptionGroupManager of Apache 5.5.0.
"""

from __future__ import annotations

from typing import Final

import msgspec

from roquet.broker.core.groups import Groups
from roquet.broker.core.offsets import Offsets
from roquet.broker.core.stats import Stats
from roquet.broker.handlers.checks import check_group_name, check_topic_name, read_body
from roquet.broker.handlers.pages import page_of
from roquet.model.group import Group
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.groups import (
    DeleteGroup,
    GetAllGroups,
    GetGroup,
    GroupPage,
    UpdateForbidden,
    UpdateGroup,
    UpdateGroups,
)
from roquet.wire.row import Header

RETRY_QUEUES_MAX: Final = 1_024
"""Queues of a group's retry topic; one is what everybody uses."""


class GroupHandlers:
    """Answers what administrators ask about groups."""

    def __init__(self, groups: Groups, offsets: Offsets, stats: Stats) -> None:
        self._groups = groups
        self._offsets = offsets
        self._stats = stats

    def routes(self) -> dict[type[Header], Handler]:
        return {
            UpdateGroup: self.update_group,
            UpdateGroups: self.update_groups,
            GetAllGroups: self.get_all_groups,
            GetGroup: self.get_group,
            DeleteGroup: self.delete_group,
            UpdateForbidden: self.update_forbidden,
        }

    def update_group(self, request: UpdateGroup, call: Call) -> Outcome:
        self._groups.put(self._checked(read_body(call.frame.body, Group)))
        return OK

    def update_groups(self, request: UpdateGroups, call: Call) -> Outcome:
        """Create or change several groups: all of them or, when one is wrong, none."""
        listed = read_body(call.frame.body, admin.GroupList).group_config_list
        self._groups.put(*[self._checked(group) for group in listed])
        return OK

    def _checked(self, wanted: Group) -> Group:
        check_group_name(wanted.group_name)
        if not 0 <= wanted.retry_queue_nums <= RETRY_QUEUES_MAX:
            raise Refusal(
                Code.INVALID_PARAMETER,
                f"{wanted.retry_queue_nums} retry queues are not possible for group {wanted.group_name}: "
                f"use 0 to {RETRY_QUEUES_MAX}",
            )
        if wanted.attributes:
            key = next(iter(wanted.attributes)).lstrip("+-")
            raise Refusal(Code.SYSTEM_ERROR, f"unsupported key: {key[:80]}")
        known = self._groups.get(wanted.group_name)
        if known is not None:
            return msgspec.structs.replace(wanted, attributes=known.attributes)
        return wanted

    def get_all_groups(self, request: GetAllGroups, call: Call) -> Outcome:
        """Give all groups; a caller that knows pages gets one."""
        groups = self._groups
        page = page_of(
            groups.table, groups.version, request.data_version, request.group_seq, request.max_group_num
        )
        forbidden = {group: topics for group, topics in groups.forbidden.items() if group in page}
        body = admin.GroupTable(
            data_version=groups.version, forbidden_table=forbidden, subscription_group_table=page
        )
        return Reply(header=GroupPage(len(groups.table)), body=admin.encode(body))

    def get_group(self, request: GetGroup, call: Call) -> Outcome:
        """Give one group; like any other first use, this makes it where that is allowed."""
        group = self._groups.find(request.group)
        if group is None:
            raise Refusal(Code.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return Reply(body=admin.encode(group))

    def delete_group(self, request: DeleteGroup, call: Call) -> Outcome:
        """Forget a group; an unknown one is fine. Its offsets stay unless the caller wants them gone."""
        self._groups.delete(request.group_name)
        if request.clean_offset:
            self._offsets.forget_group(request.group_name)
        self._stats.forget_group(request.group_name)
        return OK

    def update_forbidden(self, request: UpdateForbidden, call: Call) -> Outcome:
        """Forbid or allow a group to read a topic, and say which of the two holds now."""
        if request.readable is not None:
            check_group_name(request.group)
            check_topic_name(request.topic)
            self._groups.set_may_read(request.group, request.topic, request.readable)
        readable = self._groups.may_read(request.group, request.topic)
        body = admin.Forbidden(group=request.group, readable=readable, topic=request.topic)
        return Reply(body=admin.encode(body))
