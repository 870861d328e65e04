"""Settings, statistics and the running state of a broker."""

from __future__ import annotations

from roquet.wire.row import Header, header, request


@header
class SettingsVersion(Header):
    """The version of the settings as JSON text."""

    version: str


@request(25, "UPDATE_BROKER_CONFIG", to="broker", touches=("cluster", "update"), admin=True)
class UpdateSettings(Header):
    """Change settings while running; the body is properties text."""


@request(26, "GET_BROKER_CONFIG", to="broker", reply=SettingsVersion, touches=("cluster", "get"))
class GetSettings(Header):
    """Show all settings as properties text."""


@request(28, "GET_BROKER_RUNTIME_INFO", to="broker", touches=("cluster", "get"))
class GetRuntimeInfo(Header):
    """Show the running state as a table of texts."""


@request(315, "VIEW_BROKER_STATS_DATA", to="broker", touches=("cluster", "get"))
class ViewStats(Header):
    """Show one counter over the last minute, hour and day."""

    stats_name: str
    stats_key: str


@request(907, "GET_BROKER_HA_STATUS", to="broker", touches=("cluster", "get"))
class GetReplicationStatus(Header):
    """Show the replicas of this broker."""
