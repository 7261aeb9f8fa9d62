"""The program as one process that serves many commands (tests/support/resident.cpp)."""

import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path


class Resident:
    """The program in a process that serves commands. Each command runs in a child process, so its changes do not
    last."""

    def __init__(self, program):
        self.program = program
        self.process = None

    def start(self):
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [self.program, "--serve", str(other.fileno())],
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
        )
        other.close()

    def run(self, arguments, timeout, cwd=None):
        """Runs a command like subprocess.run(capture_output=True, text=True) of the program."""
        if self.process is None:
            self.start()
        request = {
            "arguments": ["rtfx", *arguments],
            "folder": str(Path(cwd or ".").absolute()),
            "environment": dict(os.environ),
        }
        with (
            open(os.devnull) as nothing,
            tempfile.TemporaryFile("w+") as output,
            tempfile.TemporaryFile("w+") as errors,
        ):
            self.socket.settimeout(timeout)
            files = [file.fileno() for file in (nothing, output, errors)]
            try:
                socket.send_fds(self.socket, [json.dumps(request).encode()], files)
                answer = self.socket.recv(64)
            except TimeoutError:
                self.close()
                raise subprocess.TimeoutExpired(arguments, timeout) from None
            status = os.waitstatus_to_exitcode(int(answer))
            for file in (output, errors):
                file.seek(0)
            return subprocess.CompletedProcess(arguments, status, output.read(), errors.read())

    def close(self):
        """Ends the process, and with it a command that still runs."""
        if self.process is not None:
            self.socket.close()
            self.process.kill()
            self.process.wait()
            self.process = None
