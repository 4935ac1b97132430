"""Common ground of all rooms: errors, wording of messages, environment variables, files, interrupts."""
