"""What every test relies on."""

import signal

# A run that was started in the background inherits an ignored SIGINT, and so would the servers under test.
signal.signal(signal.SIGINT, signal.default_int_handler)
