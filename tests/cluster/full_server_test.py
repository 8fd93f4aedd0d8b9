#!/usr/bin/env python3
"""Memory that is full, and storage that is full: writes are refused as documented, reads and removals go on, and when enough
was removed writes are taken again, time after time, also when a server dies in between. What was acknowledged is there, and
what was removed stays away."""

import hashlib
import json
import unittest
from concurrent.futures import ThreadPoolExecutor

from cluster_harness import Cluster, Failed, wait_for

REFUSAL_MS = 1500  # for so long a write is repeated that is refused, on a machine that answers within that
REFUSAL_MAX_MS = 24000
# Of an attempt that was sent, also if later ones were refused: it may happen until the end.
NO_ANSWERS = ("(DeadlineExceeded)", "may happen yet")
ROOM_MS = 40000  # until others have what a dead one had, or what was removed is room again


def has_no_answer(text):
    return any(said in text for said in NO_ANSWERS)


class Model:
    """What a table has to hold. An import that ended with an error may have written any of its objects; one that ended without
    an answer may do so until the end."""

    def __init__(self, cluster, value_bytes):
        self.cluster = cluster
        self.value_bytes = value_bytes
        self.held = {}  # {key: values, of which it has one; None among them: it may be absent}
        self.unsettled = set()  # keys of imports without an answer: they are neither written again nor removed
        self.writes = 0

    def value(self):
        """Each differs from all others."""
        self.writes += 1
        return hashlib.shake_128(str(self.writes).encode()).hexdigest(self.value_bytes // 2)

    def write(self, keys, timeout_ms):
        """None if it was acknowledged, and otherwise what the tool says."""
        values = {key: self.value() for key in keys}
        lines = "".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in values.items())
        done = self.cluster.run("ramcore", "--timeout-ms", timeout_ms, "import", "t", "--quiet", stdin=lines, check=False)
        if done.returncode == 0:
            self.held.update({key: {value} for key, value in values.items()})
            return None
        if done.returncode != 3:
            raise Failed(f"the import ended with {done.returncode}: {done.stderr}")
        for key, value in values.items():
            self.held[key] = self.held.get(key, {None}) | {value}
        if has_no_answer(done.stderr):
            self.unsettled.update(keys)
        return done.stderr

    def remove(self, keys):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda key: self.cluster.rc("--timeout-ms", "20000", "delete", "t", key), keys))
        for key in keys:
            self.held.pop(key)

    def wrong(self):
        """Keys of which something else is there than what has to be."""
        found = {key: value for key, (value, _) in self.cluster.export("t").items()}
        missing = [key for key, values in self.held.items() if found.get(key) not in values]
        return missing + [key for key in found if key not in self.held]


class FullServerTest(unittest.TestCase):
    def fill(self, prefix, expected):
        """Writes new keys until that is refused with what is expected, in two sizes of imports. Gives how many were taken. A
        machine too busy for an answer in time is given more of it, with other keys."""
        count, tried, timeout_ms = 0, 0, REFUSAL_MS
        for chunk in (24, 3):
            refused = None
            while refused is None:
                keys = [f"{prefix}.{chunk}.{tried + i}" for i in range(chunk)]
                tried += chunk
                refused = self.model.write(keys, timeout_ms)
                if refused is None:
                    count += chunk
                elif expected not in refused and has_no_answer(refused) and timeout_ms < REFUSAL_MAX_MS:
                    timeout_ms *= 2
                    refused = None
            self.assertIn(expected, refused)
        return count

    def write(self, prefix, count):
        """As many have to be taken, as soon as there is room for them again."""
        self.assertIsNone(self.model.write([f"{prefix}.{i}" for i in range(count)], ROOM_MS))

    def keep(self, share):
        """Removes all but one in so many."""
        settled = [key for key in self.model.held if key not in self.model.unsettled]
        self.model.remove([key for i, key in enumerate(settled) if i % share != 0])

    def expect_reason(self, reason):
        """Whoever asks for the status of the cluster is told why writes are refused."""
        self.cluster.wait_status(lambda now: any(reason in one for one in now["reasons"]))

    def appended(self, name):
        return next(one["appended_bytes"] for one in self.cluster.status()["servers"] if one["name"] == name)

    def write_and_kill(self, prefix, count, name, replace):
        """Kills a server while it takes writes. They have to be acknowledged in spite of that."""
        before = self.appended(name)
        with ThreadPoolExecutor(1) as thread:
            writing = thread.submit(self.model.write, [f"{prefix}.{i}" for i in range(count)], ROOM_MS)
            wait_for(lambda: self.appended(name), lambda now: now > before)
            self.cluster.servers[name].kill()
            replace()
            self.assertIsNone(writing.result())
        # These storages are small on purpose.
        self.cluster.wait_status(
            lambda now: all(reason.startswith("the storages of all servers") for reason in now["reasons"]))

    def compare(self):
        self.assertEqual(self.model.wrong(), [])

    def test_memory(self):
        full = "the servers' memory is full"
        with Cluster(servers=3, replicas=2, memory="76MiB", storage="640MiB") as self.cluster:
            self.model = Model(self.cluster, 400_000)
            self.cluster.rc("create", "t", "--tablets", "6")
            first = self.fill("a", full)
            self.assertGreater(first, 100)
            self.expect_reason("takes hardly any writes: its memory is full")
            self.compare()
            self.keep(2)
            self.compare()
            self.write("b", first // 4)
            self.fill("b", full)
            # The others need room for what s2 had, and the new s2 has to keep replicas of theirs again.
            self.keep(3)
            self.write_and_kill("c", 48, "s2", lambda: self.cluster.start_server("s2"))
            self.compare()
            self.keep(2)
            self.write("d", first // 8)
            self.fill("d", full)
            self.compare()

    def test_storage(self):
        full = "(TooFewReplicas)"
        # One server writes, and the other one has 33 places for its segments: 32 are certain to let it remove and clean
        # when no write finds a place. Its memory is not full with that.
        with Cluster(servers=2, replicas=1, memory="384MiB", storage="270MiB") as self.cluster:
            self.model = Model(self.cluster, 1_000_000)
            self.cluster.rc("create", "t", "--tablets", "1")
            writer = self.cluster.tablets("t")[0]["server"]
            first = self.fill("a", full)
            self.assertGreater(first, 100)
            self.expect_reason("takes no writes: the storage of the others is full")
            self.keep(2)
            self.compare()
            self.write("b", first // 4)
            self.fill("b", full)
            self.keep(3)
            # Its machine is gone, and another one takes its place with an empty storage.
            self.write_and_kill("c", 24, writer, lambda: self.cluster.start_server("s3"))
            self.compare()
            self.write("d", first // 8)
            self.fill("d", full)
            self.compare()


if __name__ == "__main__":
    unittest.main()
