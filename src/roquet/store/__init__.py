"""The log, its queues and its index: logic over the Disk and Clock ports."""
