"""The nouns: messages, topics, groups, routes and their names, as values without bytes."""
