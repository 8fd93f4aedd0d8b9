#!/usr/bin/python3
"""What killed servers have left is judged by tests/frames/judge_directory; and damage that is planted there is refused, also
where every checksum is right. (By the distribution's Python, which has what the second reader of disks needs.)"""

import json
import os
import subprocess
import sys
import unittest

from cluster_harness import JUDGE, Cluster, run

sys.path.insert(0, os.path.dirname(JUDGE))

import frame_reader  # noqa: E402
from frame_writer import sealed  # noqa: E402

KEYS = 200
LAST = "the last key"


class Disk:
    """A file of frames that is changed in place."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.data = bytearray(file.read())

    def save(self):
        with open(self.path, "wb") as file:
            file.write(self.data)

    def frames(self):
        """(place of the frame, its newest certificate) of each frame in use."""
        file = frame_reader.FrameFile(bytes(self.data), frame_reader.SAME_BOOT)
        return [(2 * frame_reader.BLOCK + replica.frame * file.stride, replica.certificate) for replica in file.replicas()]

    def entries(self, place, certificate):
        """[(begin, end)] in the file, of a replica."""
        begin = place + frame_reader.BLOCK
        stream = memoryview(bytes(self.data[begin:begin + certificate.length]))
        walk, at, found = frame_reader.EntryWalk(stream), 0, []
        while at < len(stream):
            end, _ = walk.entry(at)
            found.append((begin + at, begin + end))
            at = (end + 7) & ~7
        return found

    def certify(self, place, certificate, length):
        """One certificate in place of all, true of so many bytes."""
        headers = b""
        for begin, _ in self.entries(place, certificate._replace(length=length)):
            headers += bytes(self.data[begin:begin + 1]) + b"\0" + bytes(self.data[begin + 2:begin + frame_reader.HEADER_BYTES])
        slot = frame_reader.CERTIFICATE.pack(b"RcCf", 1, certificate.closed, 0, certificate.cluster, certificate.master,
                                             certificate.segment, certificate.epoch, length, frame_reader.crc32c(headers), 0, 0)
        for at in frame_reader.SLOTS_AT:
            self.data[place + at:place + at + len(slot)] = bytes(len(slot))
        self.data[place:place + len(slot)] = sealed(slot[:-4])

    def find(self, key):
        """(place, certificate, begin, end) of the entry of that key, wherever the file has it."""
        for place, certificate in self.frames():
            for begin, end in self.entries(place, certificate):
                if key.encode() in self.data[begin:end]:
                    yield place, certificate, begin, end


class JudgedDirectoriesTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(servers=3, replicas=2, memory="64MiB", storage="64MiB"))
        self.cluster.leaves_everything = False  # damage is planted there
        self.cluster.rc("create", "t", "--tablets", "1")
        lines = [json.dumps({"key": f"key{i}", "value": f"value {i}"}) for i in range(KEYS)]
        self.cluster.rc("import", "t", "--quiet", stdin="\n".join(lines) + "\n")
        self.cluster.rc("delete", "t", "key7")
        self.cluster.rc("put", "t", "key8", "another value")
        self.cluster.rc("put", "t", LAST, "the last value")
        self.assertEqual(len(self.cluster.export("t")), KEYS)
        for daemon in [*self.cluster.servers.values(), self.cluster.coordinator]:
            daemon.kill()

    def judge(self):
        return run([JUDGE, self.cluster.directory, f"--export=t={self.cluster.exported['t']}"], check=False)

    def disks(self):
        return [Disk(self.cluster.path(f"{name}/frames")) for name in self.cluster.servers]

    def refused(self, reason, change):
        """With the change made on every disk; undone afterwards."""
        disks = self.disks()
        before = [bytes(disk.data) for disk in disks]
        changed = sum(change(disk) for disk in disks)
        self.assertEqual(changed, 2, "there are two copies")
        for disk in disks:
            disk.save()
        done = self.judge()
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(reason, done.stdout)
        for disk, data in zip(disks, before):
            disk.data = bytearray(data)
            disk.save()

    def test_what_is_there_passes_and_what_is_planted_does_not(self):
        done = self.judge()
        self.assertEqual(done.returncode, 0, done)
        counts = json.loads(done.stdout)
        self.assertEqual((counts["disks"], counts["keys"] >= KEYS), (3, True), counts)
        self.assertGreaterEqual(counts["open ends"], 2, counts)

        def lose_the_last(disk):
            found = list(disk.find(LAST))
            for place, certificate, begin, _ in found:
                disk.certify(place, certificate, begin - place - frame_reader.BLOCK)
            return len(found)

        def flip(disk):
            found = list(disk.find("key11"))
            for _, _, _, end in found[:1]:
                disk.data[end - 1] ^= 1
            return len(found[:1])

        def change_the_value(disk):
            found = list(disk.find(LAST))
            for place, certificate, begin, end in found:
                value = self.place_of(disk, begin, end, b"the last value")
                disk.data[value:value + 4] = b"some"
                front = bytes(disk.data[begin:begin + 1]) + bytes(disk.data[begin + 2:begin + 11])
                crc = frame_reader.crc32c(front + bytes(disk.data[begin + 15:end]))
                disk.data[begin + 11:begin + 15] = crc.to_bytes(4, "little")
                disk.certify(place, certificate, certificate.length)
            return len(found)

        def empty(disk):
            found = list(disk.find(LAST))
            for place, *_ in found:
                disk.data[place:place + frame_reader.BLOCK] = bytes(frame_reader.BLOCK)
            return len(found)

        self.refused("was shown, and is not there", lose_the_last)
        self.refused("was shown, and is not there", flip)  # what an older certificate vouches for is whole
        self.refused("has a value that nobody wrote", change_the_value)
        self.refused("is not whole: it has no end", empty)
        self.assertEqual(self.judge().returncode, 0)

    @staticmethod
    def place_of(disk, begin, end, text):
        return begin + bytes(disk.data[begin:end]).index(text)

    def test_how_it_is_called(self):
        for arguments, code, says in (([], 2, "DIRECTORY"), ([self.cluster.directory, "--export=other=x"], 1, "no table 'other'"),
                                      (["/nonexistent"], 2, "/nonexistent"), ([self.cluster.path("s1")], 3, "no coordinator")):
            done = subprocess.run([JUDGE, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, says in done.stderr), (code, True), done)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
