"""The rules of the protocol: functions and machines of bytes and values, without loop, clock and logging."""
