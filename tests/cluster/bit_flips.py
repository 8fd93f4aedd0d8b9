"""Turns over single bits where a server keeps objects: in its memory while it runs, and in its file of copies."""

import mmap
import os
import re

from cluster_harness import Failed

FRAMES_BEGIN = 2 * 4096  # behind the superblocks
FRAME_BYTES = 4096 + (8 << 20)  # its header, and a segment
WINDOW_BYTES = 4 << 20


class ServerMemory:
    """The log's memory of a server that runs. PermissionError: this machine forbids it."""

    def __init__(self, pid, memory_bytes):
        # Its mapping is as long as the memory and a little more; not what the sanitizers or shared memory map.
        mapping = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *$", re.MULTILINE)
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            ranges = [(int(begin, 16), int(end, 16)) for begin, end in mapping.findall(maps.read())]
        self._ranges = [(begin, end) for begin, end in ranges if memory_bytes <= end - begin <= 2 * memory_bytes]
        self._file = open(f"/proc/{pid}/mem", "r+b", buffering=0)  # pylint: disable=consider-using-with

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def find(self, pattern):
        """Where it lies; it has to lie in one place."""
        found = set()
        for begin, end in self._ranges:
            for at in range(begin, end, WINDOW_BYTES):
                window = self.read(at, min(WINDOW_BYTES + len(pattern) - 1, end - at))
                place = window.find(pattern)
                while place >= 0:
                    found.add(at + place)
                    place = window.find(pattern, place + 1)
        if len(found) != 1:
            raise Failed(f"{pattern!r} lies in {len(found)} places of {self._ranges}")
        return found.pop()

    def read(self, address, length):
        return os.pread(self._file.fileno(), length, address)

    def flip(self, address, bit):
        byte = self.read(address, 1)[0]
        if os.pwrite(self._file.fileno(), bytes([byte ^ 1 << bit]), address) != 1:
            raise Failed(f"cannot write to address {address:#x}")


class FrameFile:
    """The copies in the storage of a server, which may run."""

    def __init__(self, directory):
        self._path = os.path.join(directory, "frames")

    def find(self, patterns):
        """{pattern: (frame, offset in the file)} of those that lie there."""
        with open(self._path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            places = {pattern: content.find(pattern) for pattern in patterns}
        return {pattern: ((place - FRAMES_BEGIN) // FRAME_BYTES, place)
                for pattern, place in places.items() if place >= 0}

    def flip(self, offset, bit):
        with open(self._path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1 << bit]))
            file.flush()
            os.fsync(file.fileno())
