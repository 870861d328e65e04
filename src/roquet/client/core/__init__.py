"""The pure part of the client: choices, views and layouts, without connections or clocks."""
