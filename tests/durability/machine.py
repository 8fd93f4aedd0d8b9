"""The machine that a cluster of tests/durability/run has: how slow its disk is, and what else its processors do."""

import os
import subprocess
import sys
import threading
import time

BUSY_PER_CORE = 4


class DiskProbe:
    """Writes and flushes again and again beside something else, and keeps what that took at most: a disk that writes back
    gigabytes of somebody else's takes seconds for it."""

    def __init__(self, path):
        self.longest_ms = 0.0
        self._file = open(path, "wb", buffering=0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flush_on)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, value, traceback):
        self._stop.set()
        self._thread.join()
        self._file.close()

    def _flush_on(self):
        while True:
            begun_ns = time.monotonic_ns()
            os.pwrite(self._file.fileno(), bytes(4096), 0)
            os.fdatasync(self._file.fileno())
            self.longest_ms = max(self.longest_ms, (time.monotonic_ns() - begun_ns) / 1e6)
            if self._stop.is_set():
                return


class BusyMachine:
    """Processes that only compute, several for each processor, as long as the block lasts."""

    def __enter__(self):
        self.count = BUSY_PER_CORE * len(os.sched_getaffinity(0))
        self.begin = time.monotonic()
        self.idle_before = self.idle_ticks()
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]
        return self

    @staticmethod
    def idle_ticks():
        """Of the processors that this program may use, proc(5)."""
        idle = 0
        with open("/proc/stat", encoding="ascii") as file:
            for name, *fields in map(str.split, file):
                if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in os.sched_getaffinity(0):
                    idle += int(fields[3]) + int(fields[4])
        return idle

    def idle_share(self):
        """How long the processors had nothing to do since the beginning."""
        seconds = (time.monotonic() - self.begin) * len(os.sched_getaffinity(0))
        return (self.idle_ticks() - self.idle_before) / os.sysconf("SC_CLK_TCK") / seconds

    def __exit__(self, kind, value, traceback):
        for process in self.processes:
            process.kill()
            process.wait()
        return False
