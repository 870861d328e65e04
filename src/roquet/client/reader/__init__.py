"""Reading by explicit positions, without a group."""
