"""Administration of consumer groups."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, header, request


@header
class GroupPage(Header):
    total_group_num: Int32


@request(200, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", to="broker", touches=("group", "create"), admin=True)
class UpdateGroup(Header):
    """Create a group or change its settings; the body has them."""


@request(
    225, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", to="broker", touches=("group", "create"), admin=True
)
class UpdateGroups(Header):
    """Create or change several groups."""


@request(201, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", to="broker", reply=GroupPage, touches=("cluster", "get"))
class GetAllGroups(Header):
    """Give the settings of all groups, by pages when asked."""

    group_seq: Int32 | None = None
    max_group_num: Int32 | None = None
    data_version: str | None = None


@request(352, "GET_SUBSCRIPTIONGROUP_CONFIG", to="broker", touches=("group", "get"))
class GetGroup(Header):
    """Give the settings of one group."""

    group: str


@request(207, "DELETE_SUBSCRIPTIONGROUP", to="broker", touches=("group", "delete"), admin=True)
class DeleteGroup(Header):
    """Forget a group and, if asked, its offsets."""

    group_name: str
    clean_offset: bool = False


@request(343, "QUERY_TOPICS_BY_CONSUMER", to="broker", touches=("group", "get"))
class QueryTopicsOfGroup(Header):
    """Name the topics that a group has offsets for."""

    group: str


@request(345, "QUERY_SUBSCRIPTION_BY_CONSUMER", to="broker", touches=("group", "get"))
class QuerySubscription(Header):
    """Show what a live group subscribes of a topic."""

    group: str
    topic: str | None = None


@request(353, "UPDATE_AND_GET_GROUP_FORBIDDEN", to="broker", touches=("group", "update"), admin=True)
class UpdateForbidden(Header):
    """Forbid or allow a group to read one topic; without `readable` only show it."""

    group: str
    topic: str
    readable: bool | None = None
