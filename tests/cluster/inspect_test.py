#!/usr/bin/env python3
"""What `ramcore inspect` tells of the storage of a server: refused while it runs, sound when it was killed, and damaged when
a bit was turned over. The file stays what it was."""

import hashlib
import json
import os
import unittest

from cluster_harness import Cluster, run, tool


def inspect(path, *flags):
    """(exit code, stdout, stderr); needs no cluster."""
    done = run([tool("ramcore"), "inspect", path, *flags], check=False)
    return done.returncode, done.stdout, done.stderr


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class InspectTest(unittest.TestCase):
    def test_a_storage_directory(self):
        with Cluster(servers=0, replicas=3, storage="64MiB") as cluster:
            cluster.leaves_everything = False  # its only copy is damaged
            server = cluster.start_server("s1", extra=["--local-replica"])
            cluster.rc("create", "t")
            cluster.rc("put", "t", "a key\twith a tab", "value")
            code, out, error = inspect(cluster.path("s1"))
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(error, r"^ramcore: .*belongs to a running server.*stop it first\n$")
            server.kill()

            frames = os.path.join(cluster.path("s1"), "frames")
            before = digest(frames)
            code, out, error = inspect(cluster.path("s1"))
            self.assertEqual((code, error), (0, ""), out)
            self.assertRegex(out, r"(?m)^ +\d+ +1 +1 +1 +head +open +\d+ +verified ")
            self.assertRegex(out, r"(?m)^1 of \d+ frames in use: 1 heads, 0 closed, 0 damaged; ")
            code, out, _ = inspect(frames, "--json")
            self.assertEqual(code, 0)
            found = json.loads(out)
            self.assertEqual((found["used"], found["server"], found["damage"]), (1, "1", []))
            frame = found["frames"][0]["frame"]

            code, out, _ = inspect(frames, "--frame", str(frame))
            self.assertEqual(code, 0)
            self.assertIn("digest: previous head 0, 1 segments: 1\n", out)
            self.assertRegex(out, r"(?m)^ +\d+ +object .* ok +a key\\x09with a tab")
            one = json.loads(inspect(frames, "--frame", str(frame), "--json")[1])
            self.assertEqual(one["digest"], {"previous_head": 0, "segments": [1]})
            target = next(entry for entry in one["entries"] if entry["type"] == "object")
            self.assertEqual((target["key"], target["payload_bytes"]), (r"a key\x09with a tab", 5))
            self.assertEqual(inspect(frames, "--frame", "1000000")[0], 2)
            self.assertEqual(digest(frames), before)

            # Behind the two superblocks, the frame's header, and the entry's own header.
            place = 2 * 4096 + frame * (4096 + found["segment_bytes"]) + 4096 + target["offset"] + 22
            with open(frames, "r+b") as file:
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ 16]))
            code, out, _ = inspect(cluster.path("s1"))
            self.assertEqual(code, 3)
            self.assertRegex(out, rf"(?m)^damaged: frame {frame} \(segment 1 of server 1\): certificate \d is unfulfilled: bad "
                                  rf"checksum in the entry at offset {target['offset']}$")
            self.assertRegex(inspect(frames, "--frame", str(frame))[1], r"(?m) object .* bad checksum ")
            os.truncate(frames, 2 * 4096 + 100)
            code, out, _ = inspect(frames)
            self.assertEqual(code, 3)
            self.assertRegex(out, r"(?m)^damaged: the file has 8292 of \d+ bytes")

    def test_what_is_no_frame_file(self):
        for path in ("/dev/null", "/nonexistent/frames", __file__, os.path.dirname(os.path.abspath(__file__))):
            code, out, error = inspect(path)
            self.assertEqual((code, out), (1, ""), path)
            self.assertRegex(error, r"^ramcore: .*(no file|No such file|no frame file)")


if __name__ == "__main__":
    unittest.main()
