"""Runs a command on a pseudo-terminal."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_terminal(command, columns, **settings):
    """Returns what the command prints to a terminal of so many columns. The command must succeed."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(list(map(str, command)), stdout=its, **settings) as process:
        os.close(its)
        text = b""
        with contextlib.suppress(OSError):  # fails once the other end is closed
            while part := os.read(ours, 65536):
                text += part
    os.close(ours)
    assert process.returncode == 0
    return text.decode().replace("\r\n", "\n")
