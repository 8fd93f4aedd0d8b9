#!/usr/bin/env python3
"""Bits that turn over in the memory of a running server, and in the copies on its backups: found, counted and made whole, and
nobody is given wrong bytes from then on, by a recovery neither."""

import base64
import json
import random
import re
import unittest

from bit_flips import FrameFile, ServerMemory
from cluster_harness import Cluster, wait_for
from metrics_endpoint import free_port, scrape

MEMORY_BYTES = 96 << 20
VALUE_BYTES = 20_000
# In more than three segments of 8 MB; the first keys are in the first three, which are closed.
KEYS = 1400
KEYS_CLOSED = 1150
PATTERN_AT = 1000
# Of an entry: its header, in which these fields begin; then the key, then the value.
ENTRY_HEADER_BYTES = 22
PAYLOAD_LENGTH_AT = 4
CHECKSUM_AT = 11


class IntegrityTest(unittest.TestCase):
    def start(self, extra):
        """Four servers that keep two copies, and a table on one of them, whose values are in self.written."""
        self.cluster = self.enterContext(Cluster(servers=0, replicas=2, storage="448MiB", memory=str(MEMORY_BYTES)))
        self.ports = {f"s{i}": free_port() for i in range(1, 5)}
        for name, port in self.ports.items():
            self.cluster.start_server(name, wait=False, extra=["--metrics", f"127.0.0.1:{port}", *extra])
        for server in self.cluster.servers.values():
            server.wait_ready()
        self.ids = {one["name"]: one["id"] for one in self.cluster.status()["servers"]}
        self.cluster.rc("create", "t", "--tablets", "1")
        self.master = self.cluster.tablets("t")[0]["server"]
        source = random.Random(1)
        self.written = {f"key{i:05}": base64.b64encode(source.randbytes(VALUE_BYTES * 3 // 4)).decode()
                        for i in range(KEYS)}
        lines = [json.dumps({"key": key, "value": value}) + "\n" for key, value in self.written.items()]
        self.cluster.rc("import", "t", "--quiet", stdin="".join(lines))
        self.patterns = {key: value[PATTERN_AT:PATTERN_AT + 60].encode() for key, value in self.written.items()}

    def metric(self, server, name):
        return scrape(self.ports[server])[0][name]

    def wait_metric(self, server, name, value):
        """A count that is higher than this is too high for ever."""
        seen = wait_for(lambda: self.metric(server, name), lambda now: now >= value)
        self.assertEqual(seen, value, name)

    def wait_whole(self):
        self.cluster.wait_status(lambda now: now["health"] == "ok" and now["replicas"]["least"] == 2)

    def assert_all_right(self):
        found = self.cluster.export("t")
        self.assertEqual(found.keys(), self.written.keys())
        wrong = [key for key, value in self.written.items() if found[key][0] != value]
        self.assertEqual(wrong, [])

    def assert_read_right(self, key):
        self.assertEqual(self.cluster.rc("get", "t", key, "--raw"), self.written[key], key)

    def backups(self):
        return sorted(self.ports.keys() - {self.master})

    def frames(self, server):
        return FrameFile(self.cluster.path(server))

    def holders(self, key):
        """Those that have a copy of the segment in which the key lies."""
        pattern = self.patterns[key]
        return {name for name in self.backups() if self.frames(name).find([pattern])}

    def kill_master_and_compare(self):
        """Of what was copied everything has to be there again; also new copies of it."""
        self.cluster.servers[self.master].kill()
        self.cluster.wait_status(lambda now: now["health"] == "ok" and len(now["servers"]) == 3)
        self.assertNotEqual(self.cluster.tablets("t")[0]["server"], self.master)
        self.assert_all_right()

    # ---- memory

    def open_memory(self):
        try:
            return ServerMemory(self.cluster.servers[self.master].process.pid, MEMORY_BYTES)
        except PermissionError:
            self.skipTest("this machine forbids to write to the memory of another process")

    def flip_in_memory(self, memory, places):
        """Turns over a bit at each place, {key: (address, bit)}, and waits until all are what they were."""
        around = {key: memory.read(address - 32, 64) for key, (address, _) in places.items()}
        before = int(self.metric(self.master, "ramcore_log_damaged_entries_total"))
        for address, bit in places.values():
            memory.flip(address, bit)
        count = before + len(places)
        self.wait_metric(self.master, "ramcore_log_damaged_entries_total", count)
        # Reads of damaged objects are put off, and get the right bytes in the end.
        for key in places:
            self.assert_read_right(key)
        self.wait_metric(self.master, "ramcore_log_restored_entries_total", count)
        wait_for(lambda: self.metric(self.master, "ramcore_log_damaged_now"), lambda now: now == 0)
        for key, (address, _) in places.items():
            self.assertEqual(memory.read(address - 32, 64), around[key], key)
        [state] = [one for one in self.cluster.status()["servers"] if one["name"] == self.master]
        self.assertEqual((state["damaged_entries"], state["damaged_now"]), (count, 0))

    def places_in_memory(self, memory):
        """A bit of each of some entries in different segments: of values, of a key, of a checksum and of a length."""
        keys = [f"key{i * KEYS_CLOSED // 8:05}" for i in range(8)]
        values = {key: memory.find(self.patterns[key]) - PATTERN_AT for key in keys}
        for key, value in values.items():
            self.assertEqual(memory.read(value - len(key), len(key)), key.encode())
        places = {key: (value + i * 2000, i) for i, (key, value) in enumerate(values.items())}
        header = -len(keys[0]) - ENTRY_HEADER_BYTES
        for key, field in zip(keys[5:], (ENTRY_HEADER_BYTES + 2, CHECKSUM_AT, PAYLOAD_LENGTH_AT)):
            places[key] = (values[key] + header + field, 6)
        return places

    def restored_from(self):
        """The servers from which entries came back, as the master says."""
        names = {str(number): name for name, number in self.ids.items()}
        log = self.cluster.servers[self.master].log()
        return [names[number] for number in re.findall(r"is restored from server (\d+)", log)]

    def test_memory(self):
        self.start(["--scrub-memory-every-s", "1", "--scrub-memory-bytes-per-s", "1GiB"])
        with self.open_memory() as memory:
            first = {"key00000": (memory.find(self.patterns["key00000"]), 3)}
            self.flip_in_memory(memory, first)
            [source] = self.restored_from()

            # Again, when the copy from which it came is rotten, too: it comes from another one, and that copy is made anew.
            [(_, place)] = self.frames(source).find([self.patterns["key00000"]]).values()
            self.frames(source).flip(place, 5)
            self.flip_in_memory(memory, first)
            [_, other] = self.restored_from()
            self.assertNotEqual(other, source)
            self.wait_metric(source, "ramcore_backup_corrupt_frames_total", 1)
            self.wait_metric(self.master, "ramcore_replicas_lost_total", 1)
            self.wait_whole()

            places = self.places_in_memory(memory)
            self.flip_in_memory(memory, places)
        self.assertEqual(len(self.restored_from()), 2 + len(places))

        # One copy of everything is damaged when the master dies.
        corrupt = self.corrupt_copies()
        self.damage_copies()
        self.kill_master_and_compare()
        self.assertGreater(self.corrupt_copies(), corrupt)

    # ---- copies

    def corrupt_copies(self):
        return sum(self.metric(name, "ramcore_backup_corrupt_frames_total") for name in self.backups())

    def damage_copies(self):
        """A bit of one copy of each closed segment, of the holder with the lowest number. A recovery begins with another
        holder for each segment, so that it comes to a damaged copy first in one of two segments that follow each other."""
        keys = [f"key{i:05}" for i in range(0, KEYS_CLOSED, 50)]
        copies = {key: {} for key in keys}  # {key: {server: (frame, place)}}
        for name in sorted(self.backups(), key=lambda name: int(self.ids[name])):
            found = self.frames(name).find([self.patterns[key] for key in keys])
            for key in keys:
                if self.patterns[key] in found:
                    copies[key][name] = found[self.patterns[key]]
        damaged = set()
        for holders in copies.values():
            name, (frame, place) = next(iter(holders.items()))
            if (name, frame) not in damaged:
                self.frames(name).flip(place, 0)
                damaged.add((name, frame))
        self.assertGreaterEqual(len(damaged), 3)

    def test_copies(self):
        self.start(["--scrub-every-s", "1", "--scrub-bytes-per-s", "1GiB"])
        key = "key00000"
        # Both of the copies that were made first are lost in turn: what is left at the end was made anew.
        for count, server in enumerate(sorted(self.holders(key)), 1):
            [(_, place)] = self.frames(server).find([self.patterns[key]]).values()
            self.frames(server).flip(place, 2)
            self.wait_metric(server, "ramcore_backup_corrupt_frames_total", 1)
            self.cluster.servers[server].wait_says("is not what it was (Corrupt); its server makes another one")
            self.wait_metric(self.master, "ramcore_replicas_lost_total", count)
            self.wait_whole()
            self.assert_all_right()
        self.kill_master_and_compare()


if __name__ == "__main__":
    unittest.main()
