#!/usr/bin/env python3
"""When copies are lost for good: nothing is given up by itself, the operator is told what is missing and where it was, and
`ramcore recover --accept-loss` brings back the rest after it has said what it gives up."""

import json
import os
import pty
import shutil
import subprocess
import unittest

from cluster_harness import Cluster, wait_for


class DataLossTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(servers=0, replicas=1, death_after_ms=2000, together_ms=2000))
        for name in ("s1", "s2"):
            self.cluster.start_server(name, wait=False)
        for server in self.cluster.servers.values():
            server.wait_ready()

    def recoveries(self):
        return json.loads(self.cluster.rc("recover", "--json"))

    def recover(self, *arguments):
        return self.cluster.run("ramcore", "recover", *arguments, check=False)

    def recover_at_terminal(self, answer, *arguments):
        """With standard input from a terminal, at which somebody types the answer."""
        terminal, stdin = pty.openpty()
        try:
            os.write(terminal, answer.encode() + b"\n")
            return subprocess.run(self.cluster.arguments("ramcore", "recover", *arguments), stdin=stdin,
                                  capture_output=True, text=True, timeout=120, check=False)
        finally:
            os.close(terminal)
            os.close(stdin)

    def fill(self):
        """Values in many segments, of two generations. Gives what was ever written."""
        written = {}
        for generation in range(2):
            lines = []
            for i in range(60):
                value = f"{generation}.{i}." + "x" * 200_000
                written.setdefault(f"key{i}", set()).add(value)
                lines.append(json.dumps({"key": f"key{i}", "value": value}))
            self.cluster.rc("import", "t", "--quiet", stdin="\n".join(lines) + "\n")
        return written

    def move_to_third(self):
        """One of the two tablets that one server has goes to a third one. What the two wrote before, they wrote to each
        other's storage only: without that, neither log is complete."""
        self.cluster.start_server("s3")
        by_owner = {}
        for tablet in self.cluster.tablets("t"):
            by_owner.setdefault(tablet["server"], []).append(tablet["tablet"])
        most = max(by_owner.values(), key=len)
        self.assertEqual(len(most), 2, by_owner)
        self.cluster.run("rcmigrate", "move", most[0], "--to", "s3", "--quiet")

    def test_what_is_missing_is_named_and_given_up_only_when_that_is_accepted(self):
        self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.cluster.rc("create", "t", "--tablets", "3")
        written = self.fill()
        self.move_to_third()
        self.assertEqual(len(self.cluster.export("t")), 60)

        # Two die at once, and the storage of one is gone.
        self.cluster.servers["s1"].kill()
        self.cluster.servers["s2"].kill()
        shutil.rmtree(self.cluster.path("s1"))
        # One is left, and could not take their place: they are waited for until another one is there. It is as empty as the
        # storage that is gone.
        self.cluster.wait_status(lambda now: [one["waits_for"] for one in now["silent"]] == ["replacers"] * 2)
        self.assertEqual(self.recoveries(), [])
        self.cluster.start_server("s4")

        found = wait_for(self.recoveries, lambda now: any(one["can_be_accepted"] for one in now))
        lost = next(one for one in found if one["can_be_accepted"])
        owner = lost["name"]
        self.assertIn(owner, ("s1", "s2"))
        self.assertFalse(lost["log_complete"])
        self.assertEqual([table["name"] for table in lost["tables"]], ["t"])
        self.assertEqual(lost["tablets_left"], 1)
        self.assertTrue(lost["missing_count"] > 0 or lost["end"] != "known", lost)
        # A server keeps no copies of its own log.
        other = "s2" if owner == "s1" else "s1"
        away = next(one for one in lost["servers_away"] if one["name"] == other)
        self.assertTrue(away["locators"][0].startswith("tcp://127.0.0.1:"), away)
        self.assertGreater(away["silent_s"], 1.9)
        text = self.cluster.rc("recover")
        self.assertIn("table 't': tablet", text)
        self.assertIn(f"away: server {away['id']} ({other}) tcp://", text)
        self.assertIn("ramcore recover --accept-loss " + lost["server"], text)
        self.assertIn("--storage", text)
        status = self.cluster.status()
        self.assertEqual(status["health"], "unavailable")
        self.assertIn(owner, [one["name"] for one in status["recoveries"]])

        # No call is answered from incomplete data; the error says where to look.
        self.reads_are_refused(lost)

        refused = self.recover("--accept-loss", lost["server"])
        self.assertEqual(refused.returncode, 2, refused)
        self.assertIn("--yes", refused.stderr)
        self.assertIn("what is given up", refused.stdout)
        self.assertIn("what is brought back", refused.stdout)
        self.assertIn("table 't', 1 tablet of 3", refused.stdout)
        self.assertEqual(self.recover("--accept-loss", "s3", "--yes").returncode, 1, "it lives")
        self.assertEqual(self.recover("--yes").returncode, 2, "nothing is named")
        declined = self.recover_at_terminal("yes", "--accept-loss", lost["server"])
        self.assertEqual(declined.returncode, 1, declined)
        self.assertIn(f"Type the number of the server ({lost['server']})", declined.stderr)
        self.assertIn("nothing is done", declined.stderr)
        self.assertIn(owner, [one["name"] for one in self.recoveries()])

        found = wait_for(self.recoveries,
                         lambda now: len(now) == 2 and all(one["can_be_accepted"] for one in now))
        self.assertEqual({one["name"] for one in found}, {"s1", "s2"})
        for name in [one["name"] for one in found]:
            if name == owner:
                done = self.recover_at_terminal(lost["server"], "--accept-loss", name)
            else:
                done = self.recover("--accept-loss", name, "--yes")
            self.assertEqual(done.returncode, 0, done)
            self.assertLess(done.stdout.index("what is given up"), done.stdout.index("accepted;"), done)
            self.assertIn("are back", done.stdout)
        self.assertEqual(self.recoveries(), [])
        self.cluster.wait_status(lambda now: now["health"] == "ok")

        objects = self.cluster.export("t")
        for key, (value, _) in objects.items():
            self.assertIn(value, written[key], f"{key} was never that")
        self.assertTrue(objects, "the third server's tablet was never away")
        # New versions are above all that there were.
        before = max(version for _, version in objects.values())
        for i in range(60):
            self.cluster.rc("put", "t", f"key{i}", "new")
        after = self.cluster.export("t")
        self.assertEqual(len(after), 60)
        self.assertTrue(all(value == "new" for value, _ in after.values()))
        self.assertGreater(max(version for _, version in after.values()), before)

    def reads_are_refused(self, lost):
        unavailable = 0
        for i in range(60):
            if unavailable == 4:
                break
            got = self.cluster.run("ramcore", "--timeout-ms", "300", "get", "t", f"key{i}", check=False)
            if got.returncode == 0:
                continue
            unavailable += 1
            self.assertIn("ramcore recover", got.stderr)
            self.assertEqual(got.stderr.count("\n"), 1, got.stderr)
        self.assertGreater(unavailable, 0, lost)


if __name__ == "__main__":
    unittest.main()
