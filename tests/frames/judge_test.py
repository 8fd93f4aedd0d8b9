#!/usr/bin/python3
"""The judge of frames is judged: disks that are right pass, and each damage that is planted is refused, for its reason."""

import io
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import frame_reader as reader  # noqa: E402
import frame_writer as writer  # noqa: E402
from disk_judge import DiskJudge  # noqa: E402
from frame_reader import observe  # noqa: E402
from frame_writer import carried, file_of, frame, put, record, removal, replica, segment, stream  # noqa: E402
from moment_disks import MomentDisks  # noqa: E402

MASTER = 9
BOOT = 5


def told(key, shown, value=None, removed=0, **more):
    return {"table": 1, "key": key, "shown": shown, "removed": removed, "value": list(observe(value)) if value else None,
            "may_write": [], "may_increment": False, "may_remove": False, **more}


def owner(floor=(0, 0), first_segment=1, all_sync=False):
    return {"server": MASTER, "floor": list(floor), "all_sync": all_sync,
            "tablets": [{"table": 1, "first_hash": 0, "last_hash": 2**64 - 1, "first_segment": first_segment}]}


def judge(disks, keys, floor=(0, 0), first_segment=1, boot=BOOT, parts=(), **more):
    """Lines of what is wrong. `disks`: files, or None for a machine without power."""
    moment = {"machines": [{"machine": i + 1, "data": disk, "power_epoch": boot} for i, disk in enumerate(disks)],
              "owners": [owner(floor, first_segment, more.pop("all_sync", False))], "keys": keys, "parts": list(parts),
              "deceived": False, "power_failure": False, **more}
    judged = DiskJudge()
    failures = judged.judge(moment)
    judge.counts = judged.counts
    return failures


# A log of three segments: 1 was a head, 2 is a survivor of the cleaner, 3 is the head.
OLD = segment(MASTER, 1, [put(b"a", 1, b"first of a"), put(b"b", 2, b"first of b"), put(b"gone", 3, b"of gone")], members=[1])
SURVIVOR = segment(MASTER, 2, [put(b"kept", 4, b"of kept")])
HEAD = segment(MASTER, 3, [put(b"a", 5, b"second of a", named=1), removal(b"gone", 3, 1), put(b"last", 6, b"of last")],
               members=[1, 2, 3], previous=1, safe_version=5)
KEYS = [told(b"a", 5, b"second of a"), told(b"b", 2, b"first of b"), told(b"gone", 3, removed=3), told(b"kept", 4, b"of kept"),
        told(b"last", 6, b"of last")]


def disk(old=OLD, survivor=SURVIVOR, head=HEAD, closed_old=True, epoch=1, **file):
    return file_of([replica(MASTER, 1, old, closed_old), replica(MASTER, 2, survivor, True), replica(MASTER, 3, head, epoch=epoch)],
                   **file)


class RightDisks(unittest.TestCase):
    def test_what_was_told_is_there(self):
        self.assertEqual(judge([disk(), disk()], KEYS, parts=[[1], [2]]), [])
        self.assertEqual({name: judge.counts[name] for name in ("disks", "logs", "partial logs", "open ends", "keys", "absent keys")},
                         {"disks": 2, "logs": 3, "partial logs": 2, "open ends": 3, "keys": 5, "absent keys": 1})

    def test_calls_without_an_answer_may_have_happened_or_not(self):
        written = told(b"last", 0, may_write=[list(observe(b"of last"))])
        self.assertEqual(judge([disk()], [*KEYS[:4], written]), [])
        removed = told(b"new", 7, b"was here", may_remove=True)
        self.assertEqual(judge([disk(head=[*HEAD, removal(b"new", 8, 3)])], [*KEYS, removed]), [])

    def test_a_result_and_an_expiry_are_no_part_of_the_value(self):
        head = [*HEAD, put(b"x", 8, b"the value", carries=carried(), expiry=99), put(b"y", 9, b"of y", carries=carried(ahead=8)),
                record()]
        self.assertEqual(judge([disk(head=head)], [*KEYS, told(b"x", 8, b"the value"), told(b"y", 9, b"of y")]), [])

    def test_a_file_that_never_held_anything_is_empty(self):
        self.assertEqual(list(reader.FrameFile(bytes(100_000)).replicas()), [])


class Planted(unittest.TestCase):
    """One thing wrong in each, on all disks."""

    def refused(self, reason, disks, keys=KEYS, **more):
        failures = judge(disks, keys, **more)
        self.assertTrue(any(reason in failure for failure in failures), f"not '{reason}' but {failures}")

    def test_the_last_entry_is_lost(self):
        self.refused("b'last' of server 9: version 6 was shown, and is not there", [disk(head=HEAD[:-1])] * 2)

    def test_the_last_entry_is_lost_on_one_of_two_machines(self):
        self.refused("b'last' of server 9: version 6 was shown", [disk(), disk(head=HEAD[:-1])])

    def test_a_wrong_byte_makes_the_replica_none(self):
        for at in (0, 4, 30, len(stream(OLD)) - 8):
            data = bytearray(stream(OLD))
            data[at] ^= 0x40
            spoilt = frame(bytes(data), writer.certificate(MASTER, 1, OLD, True))
            rest = [replica(MASTER, 2, SURVIVOR, True), replica(MASTER, 3, HEAD)]
            self.refused("segments [1] are missing", [file_of([spoilt, *rest])])
            self.assertEqual(judge([file_of([spoilt, *rest]), disk()], KEYS), [])  # another machine has it

    def test_a_byte_between_entries(self):
        data = bytearray(stream(OLD))
        self.assertEqual(data[-1], 0)
        data[-1] = 1
        spoilt = frame(bytes(data), writer.certificate(MASTER, 1, OLD, True))
        self.refused("segments [1] are missing", [file_of([spoilt, replica(MASTER, 2, SURVIVOR, True), replica(MASTER, 3, HEAD)])])

    def test_two_entries_changed_places(self):
        swapped = [*OLD[:3], OLD[4], OLD[3], OLD[5]]
        moved = frame(stream(swapped), writer.certificate(MASTER, 1, OLD, True))
        self.refused("segments [1] are missing", [file_of([moved, replica(MASTER, 2, SURVIVOR, True), replica(MASTER, 3, HEAD)])])

    def test_versions_are_swapped(self):
        old = [*OLD[:3], put(b"a", 2, b"first of a"), put(b"b", 1, b"first of b"), *OLD[5:]]
        self.refused("b'b' of server 9: version 1 is there, and 2 was shown", [disk(old=old)])

    def test_values_are_swapped(self):
        head = [*HEAD[:3], put(b"a", 5, b"of last", named=1), *HEAD[4:]]
        self.refused("b'a' of server 9: version 5 has a value that nobody wrote", [disk(head=head)])

    def test_an_object_from_nowhere(self):
        self.refused("b'stray' of server 9: version 8 has a value that nobody wrote", [disk(head=[*HEAD, put(b"stray", 8, b"x")])])

    def test_a_removal_is_lost(self):
        self.refused("b'gone' of server 9: version 3 was removed, and is there", [disk(head=[*HEAD[:4], HEAD[5]])])

    def test_a_version_may_be_given_out_again(self):
        old = [*OLD[:5]]
        head = segment(MASTER, 3, [HEAD[3], HEAD[5]], members=[1, 2, 3], previous=1, safe_version=3)
        self.refused("b'gone' of server 9: version 3 was shown, and a later write may get it again", [disk(old=old, head=head)])
        head[2] = segment(MASTER, 3, [], members=[], safe_version=4)[2]
        self.assertEqual(judge([disk(old=old, head=head)], KEYS), [])

    def test_a_replica_is_missing(self):
        for left_out in (1, 2):
            frames = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True), replica(MASTER, 3, HEAD)]
            del frames[left_out - 1]
            self.refused(f"segments [{left_out}] are missing", [file_of(frames)])
        self.refused("it has no end", [file_of(frames[:1])])

    def test_a_group_is_torn(self):
        head = [*HEAD, put(b"c", 8, b"one", more=True), put(b"d", 9, b"two")]
        whole = frame(stream(head), writer.certificate(MASTER, 3, head))
        torn = frame(stream(head), writer.certificate(MASTER, 3, head[:-1]))
        rest = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True)]
        self.assertEqual(judge([file_of([*rest, whole])], [*KEYS, told(b"c", 8, b"one"), told(b"d", 9, b"two")]), [])
        self.refused("it has no end", [file_of([*rest, torn])])

    def refused_head(self, *entries, head=HEAD):
        rest = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True)]
        self.refused("it has no end", [file_of([*rest, replica(MASTER, 3, [*head, *entries])])])

    def test_a_certificate_that_ends_before_the_zeros_behind_an_entry(self):
        self.assertNotEqual(len(HEAD[-1]) % 8, 0)
        rest = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True)]
        before = len(stream(HEAD[:-1])) + len(HEAD[-1])
        self.refused("it has no end", [file_of([*rest, frame(stream(HEAD), writer.certificate(MASTER, 3, HEAD, length=before))])])

    def test_a_state_in_a_replica(self):
        for state in (0x33, 0x66, 0x5a, 0x3c, 1):
            self.refused_head(put(b"y", 9, b"of y", state=state))

    def test_a_result_of_no_call(self):
        for wrong in (carried(ahead=0), carried(ahead=9), carried(client=0), carried(sequence=0)):
            self.refused_head(put(b"x", 8, b"the value", carries=wrong))

    def test_a_result_record_that_is_none(self):
        for wrong in (record(payload=bytes(39)), record(zero=1), record(key=b"k"), record(table=0)):
            self.refused_head(wrong)

    def test_entries_of_a_table_and_of_none(self):
        self.refused_head(put(b"x", 8, b"of none", table=0))
        for place, kind in ((0, reader.SEGMENT_HEADER), (1, reader.DIGEST), (2, reader.SAFE_VERSION)):
            payload = HEAD[place][reader.HEADER_BYTES:]
            for more in ({"table": 1}, {"key": b"k"}):
                self.refused_head(head=[*HEAD[:place], writer.entry(kind, payload=payload, **more), *HEAD[place + 1:]])

    def test_a_safe_version_in_what_is_no_head(self):
        survivor = [*SURVIVOR, HEAD[2]]
        self.refused("segments [2] are missing", [disk(survivor=survivor)])

    def test_of_another_segment_or_cluster(self):
        rest = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True)]
        for wrong in (writer.certificate(MASTER, 4, HEAD), writer.certificate(MASTER, 3, HEAD, cluster=78)):
            self.refused("it has no end", [file_of([*rest, frame(stream(HEAD), wrong)])])

    def test_an_open_survivor_is_no_member(self):
        frames = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR), replica(MASTER, 3, HEAD)]
        self.refused("segments [2] are missing", [file_of(frames)])

    def test_lengths_that_lead_outside(self):
        for wrong in (writer.certificate(MASTER, 3, HEAD, length=0), writer.certificate(MASTER, 3, HEAD, length=1 << 30)):
            rest = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True)]
            self.refused("it has no end", [file_of([*rest, frame(stream(HEAD), wrong)])])
        for size in (0, 100, 8192, 20_000):
            self.refused("machine 1: ", [disk()[:size] or b"\1"])


class WhoHasWhat(unittest.TestCase):
    """With demand_whole: what was told has a place."""

    MIDDLE = 1 << 63

    def judge(self, owners, keys=KEYS, **more):
        moment = {"machines": [{"machine": 1, "data": disk(), "power_epoch": BOOT}], "owners": owners, "keys": keys, "parts": [],
                  "deceived": False, "power_failure": False, "demand_whole": True, "tables": {1}, **more}
        return DiskJudge().judge(moment)

    def ranged(self, first, last, **more):
        return {**owner(), "tablets": [{"table": 1, "first_hash": first, "last_hash": last, "first_segment": 1}], **more}

    def test_keys_in_a_hole_between_tablets(self):
        split = self.ranged(0, self.MIDDLE)
        split["tablets"] += self.ranged(self.MIDDLE + 1, 2**64 - 1)["tablets"]
        self.assertEqual(self.judge([split]), [])
        uncovered = [key for key in KEYS if reader.xxh3_64_intdigest(key["key"], 1) > self.MIDDLE and key["shown"] > key["removed"]]
        self.assertIn(len(uncovered), (1, 2, 3))
        self.assertEqual(self.judge([self.ranged(0, self.MIDDLE)]), [
            f"key {key['key']!r} of table 1: version {key['shown']} was shown, and no log with copies has its tablet"
            for key in uncovered])
        # Of the simulator's moments that is not known: there may be keys of tablets that are being made.
        self.assertEqual(self.judge([self.ranged(0, self.MIDDLE)], demand_whole=False), [])

    def test_keys_of_another_table_or_of_none(self):
        other = {**told(b"x", 1, b"y"), "table": 2}
        says = "key b'x' of table 2: version 1 was shown, and no log with copies has its tablet"
        self.assertEqual(self.judge([owner()], [*KEYS, other]), [says])
        self.assertEqual(self.judge([], [other]), [says])
        self.assertEqual(self.judge([owner()], [*KEYS, {**other, "removed": 1}, {**other, "key": b"z", "shown": 0}]), [])

    def test_keys_of_an_owner_without_copies_and_of_one_that_is_given_up(self):
        self.assertEqual(len(self.judge([{**owner(), "keeps": False}])), 4)
        self.assertEqual(self.judge([{**owner(), "given_up": True}]), [])

    def test_an_owner_without_a_record(self):
        self.assertEqual(self.judge([{**owner(), "keeps": False, "is_stored": False}], []),
                         ["server 9 owns tablets, and there is no record of it"])


class WhichCount(unittest.TestCase):
    def test_an_open_head_below_the_floor_is_none(self):
        self.assertIn("it has no end", judge([disk()], KEYS, floor=(3, 2))[0])
        self.assertEqual(judge([disk(epoch=2)], KEYS, floor=(3, 2)), [])
        # The beginning that a machine had when it was left out.
        self.assertEqual(judge([disk(head=HEAD[:-1]), disk(epoch=2)], KEYS, floor=(3, 2)), [])
        self.assertEqual(judge.counts["open ends"], 1)

    def test_an_end_that_is_closed_somewhere_may_be_read_from_an_open_replica_as_well(self):
        def with_end(head, closed, **file):
            return file_of([replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True), replica(MASTER, 3, head, closed)], **file)
        lost = ["key b'last' of server 9: version 6 was shown, and is not there"]
        self.assertEqual(judge([with_end(HEAD, True), with_end(HEAD, False)], KEYS), [])
        self.assertEqual(judge([with_end(HEAD, True), with_end(HEAD[:-1], False)], KEYS), lost)
        # A replica that may be short is not read, and neither is one below the floor.
        self.assertEqual(judge([with_end(HEAD, True), with_end(HEAD[:-1], False, power_epoch=4)], KEYS), [])
        self.assertEqual(judge.counts["logs"], 1)
        below = [with_end(HEAD, True), with_end(HEAD[:-1], False), disk(epoch=2)]
        self.assertEqual(judge(below, KEYS, floor=(3, 2)), [])
        self.assertEqual(judge(below, KEYS), lost)

    def test_a_part_that_has_the_same_entries_and_a_lower_safe_version_is_judged(self):
        # 2 was a head and is open somewhere: the end behind it is cut. Of the first machine alone it is the end.
        former = segment(MASTER, 2, [put(b"b", 2, b"first of b")], members=[1, 2], previous=1, safe_version=3)
        ahead = segment(MASTER, 3, [], members=[1, 2, 3], previous=2, safe_version=4)
        old = segment(MASTER, 1, [put(b"a", 1, b"first of a")], members=[1])
        both = [replica(MASTER, 1, old, True), replica(MASTER, 2, former)]
        disks = [file_of(both), file_of([*both, replica(MASTER, 3, ahead)])]
        keys = [told(b"a", 1, b"first of a"), told(b"b", 2, b"first of b"), told(b"gone", 3, removed=3)]
        self.assertEqual(judge(disks, keys), [])
        self.assertEqual(judge(disks, keys, parts=[[1], [2]]),
                         ["key b'gone' of server 9, of the machines [1]: version 3 was shown, and a later write may get it again"])

    def test_an_end_behind_an_open_head_is_cut(self):
        old = [*OLD, put(b"here", 7, b"of here")]
        ahead = segment(MASTER, 3, [put(b"a", 8, b"not acknowledged")], members=[1, 2, 3], previous=1, safe_version=8)
        keys = [told(b"a", 1, b"first of a"), told(b"b", 2, b"first of b"), told(b"gone", 3, b"of gone"), KEYS[3],
                told(b"here", 7, b"of here")]
        self.assertEqual(judge([disk(old, head=ahead, closed_old=False)], keys), [])
        self.assertEqual((judge.counts["cut ends"], judge.counts["open ends"]), (1, 0))
        self.assertIn("'a' of server 9: version 8 has a value that nobody wrote", judge([disk(old, head=ahead)], keys)[0])

    def test_a_removal_of_an_earlier_ownership_says_nothing(self):
        head = segment(MASTER, 3, [put(b"x", 2, b"came back"), removal(b"x", 3, 1)], members=[1, 2, 3], previous=1, safe_version=9)
        self.assertEqual(judge([disk(head=head)], [told(b"x", 2, b"came back"), KEYS[3]], first_segment=2), [])
        keys = [told(b"x", 2, b"came back"), told(b"a", 1, b"first of a"), *KEYS[1:2], told(b"gone", 3, b"of gone"), KEYS[3]]
        self.assertEqual(judge([disk(head=head)], keys), ["key b'x' of server 9: version 2 was shown, and is not there"])

    def test_what_may_be_short_waits_for_all(self):
        self.assertEqual(judge([disk(power_epoch=4)], KEYS), [])
        self.assertEqual(judge.counts["short replicas"], 1)
        self.assertEqual(judge([disk(power_epoch=4), disk(head=HEAD[:-1], power_epoch=4)], KEYS, parts=[[1], [2]]), [])
        self.assertEqual((judge.counts["logs"], judge.counts["partial logs"]), (1, 0))  # of the two the longer one is read
        self.assertEqual(judge([disk(power_epoch=4), None], KEYS), [])
        self.assertEqual(judge.counts["logs"], 0)

    def test_of_heads_that_may_be_short_those_below_the_floor_are_not_read(self):
        # The longer one was left out before the floor was raised: a recovery does not ask for it.
        disks = [disk(power_epoch=4), disk(head=HEAD[:-1], epoch=2, power_epoch=4)]
        self.assertEqual(judge(disks, KEYS), [])
        self.assertEqual(judge(disks, KEYS, floor=(3, 2)), ["key b'last' of server 9: version 6 was shown, and is not there"])
        # The same of a predecessor behind which the end is cut.
        ahead = segment(MASTER, 3, [], members=[1, 2, 3], previous=1, safe_version=8)
        keys = [told(b"a", 1, b"first of a"), told(b"b", 2, b"first of b"), told(b"gone", 3, b"of gone"), KEYS[3]]
        frames = [[replica(MASTER, 1, OLD), replica(MASTER, 2, SURVIVOR, True), replica(MASTER, 3, ahead, epoch=2)],
                  [replica(MASTER, 1, OLD[:-1], epoch=2), replica(MASTER, 2, SURVIVOR, True), replica(MASTER, 3, ahead, epoch=2)]]
        disks = [file_of(of_one, power_epoch=4) for of_one in frames]
        self.assertEqual(judge(disks, keys), [])
        self.assertEqual(judge(disks, keys, floor=(1, 2)), ["key b'gone' of server 9: version 3 was shown, and is not there"])
        self.assertEqual(judge.counts["cut ends"], 1)

    def test_a_file_that_was_left_in_order_has_lost_nothing(self):
        self.assertEqual(judge([disk(power_epoch=4, clean=True)], KEYS), [])
        self.assertEqual(judge.counts["short replicas"], 0)
        changed = bytearray(disk(power_epoch=4, clean=True))
        changed[2 * reader.BLOCK + 2 * (reader.BLOCK + writer.SEGMENT_BYTES) + 600] = 1  # in the head's header
        judge([bytes(changed)], KEYS)
        self.assertEqual(judge.counts["short replicas"], 1)
        torn = bytearray(disk())
        torn[20] ^= 1  # the older superblock
        judge([bytes(torn)], KEYS)
        self.assertEqual(judge.counts["short replicas"], 1)

    def test_a_mark_stays(self):
        rest = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True)]
        for epoch, short in ((1, 1), (2, 1), (0, 0)):
            marked = frame(stream(HEAD), writer.certificate(MASTER, 3, HEAD), mark_bytes=writer.mark(MASTER, 3, epoch))
            judge([file_of([*rest, marked])], KEYS)
            self.assertEqual(judge.counts["short replicas"], short)

    def test_the_newest_certificate_that_verifies(self):
        rest = [replica(MASTER, 1, OLD, True), replica(MASTER, 2, SURVIVOR, True)]
        slots = [writer.certificate(MASTER, 3, HEAD[:-1]), writer.certificate(MASTER, 3, HEAD)]
        for certificates in (slots, slots[::-1]):
            self.assertEqual(judge([file_of([*rest, frame(stream(HEAD), *certificates)])], KEYS), [])
            self.assertEqual(judge.counts["short replicas"], 0)
        spoilt = bytearray(stream(HEAD))
        spoilt[-9] ^= 1  # in the last entry: the certificate before it is true, and the replica may be short
        failures = judge([file_of([*rest, frame(bytes(spoilt), *slots)])], KEYS)
        self.assertEqual(judge.counts["short replicas"], 1)
        self.assertIn("'last' of server 9: version 6 was shown", failures[0])


class MomentDisksTest(unittest.TestCase):
    def read(self, disks, size, runs, stream):
        moment = {"machines": [{"machine": 1, "bytes": size, "runs": runs}], "keys": [{"key": "6b"}]}
        disks.read(moment, io.BytesIO(stream))
        self.assertEqual(moment["keys"], [{"key": b"k"}])
        data = moment["machines"][0]["data"]
        return data if data is None else bytes(data)

    def test_nothing_of_the_moment_before_is_left(self):
        disks = MomentDisks()
        self.assertEqual(self.read(disks, 8, [[1, 3], [6, 2]], b"abcde"), b"\0abc\0\0de")
        self.assertEqual(self.read(disks, 8, [[2, 1]], b"x"), b"\0\0x\0\0\0\0\0")
        self.assertEqual(self.read(disks, 8, [], b""), bytes(8))
        self.assertEqual(self.read(disks, 4, [[0, 4]], b"1234"), b"1234")
        self.assertEqual(self.read(disks, 8, [[7, 1]], b"z"), bytes(7) + b"z")
        self.assertIsNone(self.read(disks, None, [], b""))  # without power
        self.assertEqual(self.read(disks, 8, [], b""), bytes(8))

    def test_large_runs(self):
        disks, large = MomentDisks(), bytes(range(256)) * 12289  # of more than one piece of zeros
        self.assertEqual(self.read(disks, len(large) + 5, [[5, len(large)]], large), bytes(5) + large)
        self.assertEqual(self.read(disks, len(large) + 5, [], b""), bytes(len(large) + 5))

    def test_a_stream_that_is_cut_off(self):
        with self.assertRaisesRegex(EOFError, "the disk of machine 1 is cut off"):
            self.read(MomentDisks(), 8, [[0, 8]], b"1234567")


if __name__ == "__main__":
    unittest.main()
