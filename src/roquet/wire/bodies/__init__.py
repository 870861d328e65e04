"""Message bodies that are not opaque: JSON in the dialect that Java peers read and write."""
