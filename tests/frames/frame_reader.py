"""Reads what stands in a server's file of frames. Written from docs/formats.md alone, without a line of the product's code:
where the two understand that document differently, one of them is wrong.

    for replica in FrameFile(bytes).replicas(): ...

Bytes are not trusted: whatever is read was looked at first, and what is not as the document says is Damaged.
"""

import struct
from collections import namedtuple

from crc32c import crc32c
from xxhash import xxh3_64_intdigest, xxh3_128_digest

BLOCK = 4096
SLOTS_AT = (0, 512, 1024)
MARK_AT = 1536
HASHED_BYTES = 1576
HEADER_BYTES = 22
GROUP_MAX = 16
SAME_BOOT = object()  # the power epoch of a machine that has not lost its power since the file was written
OBJECT, TOMBSTONE, SEGMENT_HEADER, DIGEST, SAFE_VERSION, RESULT = range(1, 7)
MORE, NAMES, EXPIRES, CARRIES = 0x80, 0x40, 0x20, 0x10
FLAGS_OF = {OBJECT: MORE | NAMES | EXPIRES | CARRIES, TOMBSTONE: MORE | NAMES, SEGMENT_HEADER: MORE, DIGEST: MORE,
            SAFE_VERSION: MORE, RESULT: MORE}
OF_NO_TABLE = (SEGMENT_HEADER, DIGEST, SAFE_VERSION)

SUPERBLOCK = struct.Struct("<8s2I3Q2IQ2I")
CERTIFICATE = struct.Struct("<4sH2B4Q4I")
MARK = struct.Struct("<4sI3Q2I")
ENTRY = struct.Struct("<BBH")
SEGMENT_PAYLOAD = struct.Struct("<3Q2I")
RECORD_PAYLOAD = struct.Struct("<4Q2HI")

Certificate = namedtuple("Certificate", "cluster master segment epoch length closed headers_crc")
Mark = namedtuple("Mark", "master segment epoch")
# An object or a tombstone; `named` is the segment in which the entry lay that it replaces, 0: none; `value` as observe()d.
Entry = namedtuple("Entry", "table key version is_tombstone named value")
# The contents of a segment up to a length. `members` is None if there is no digest: then the segment is no head.
Contents = namedtuple("Contents", "cluster master segment entries results previous_head members safe_version")
Replica = namedtuple("Replica", "frame certificate contents maybe_short")


class Damaged(Exception):
    """Bytes that are not what docs/formats.md says."""


def need(condition, what):
    if not condition:
        raise Damaged(what)


def number(data):
    return int.from_bytes(data, "little")


def observe(value):
    """As histories note values: the number that 8 bytes are, or else a fingerprint, and which of the two it is."""
    return (number(value), True) if len(value) == 8 else (xxh3_64_intdigest(value, len(value)), False)


def certificate_at(block, at):
    """The certificate in a slot, or None: whether it is true of the frame's bytes it does not say."""
    raw = block[at:at + CERTIFICATE.size]
    magic, form, closed, zero, cluster, master, segment, epoch, length, headers_crc, zero2, crc = CERTIFICATE.unpack(raw)
    if magic != b"RcCf" or crc != crc32c(raw[:-4]) or form != 1 or closed > 1 or zero or zero2:
        return None
    return Certificate(cluster, master, segment, epoch, length, closed == 1, headers_crc)


def mark_at(block):
    raw = block[MARK_AT:MARK_AT + MARK.size]
    magic, zero, master, segment, epoch, zero2, crc = MARK.unpack(raw)
    return Mark(master, segment, epoch) if magic == b"RcSh" and crc == crc32c(raw[:-4]) and not zero and not zero2 else None


def is_carried(result):
    """Whether it is of a call: of a client, and of a sequence that is ahead of what that has acknowledged."""
    client, sequence, ahead = number(result[:8]), number(result[8:14]), number(result[14:18])
    return client != 0 and 0 < ahead <= sequence


class EntryWalk:
    """The entries of a stream up to a length, one after the other; each verified before anything is made of it."""

    def __init__(self, stream):
        self.stream = stream
        self.headers = []
        self.entries = []
        self.results = 0
        self.preamble = {}

    def walk(self):
        stream, at, group = self.stream, 0, 0
        while at < len(stream):
            end, more = self.entry(at)
            group = group + 1 if more else 0
            need(group < GROUP_MAX, f"a group of more than {GROUP_MAX} entries ends behind {at}")
            at = (end + 7) & ~7
            need(at <= len(stream), f"what is vouched for ends inside the zeros behind {end}")
            need(not any(stream[end:at]), f"bytes between entries at {end} that are not zero")
        need(at > 0 and group == 0, "it ends inside a group")

    def entry(self, at):
        stream = self.stream
        need(at + HEADER_BYTES <= len(stream), f"the entry at {at} is cut off")
        flags, state, key_bytes = ENTRY.unpack_from(stream, at)
        kind = flags & 15
        need(kind in FLAGS_OF and flags & ~(FLAGS_OF[kind] | 15) == 0, f"the entry at {at} has a type {flags:#x} that does not exist")
        need(state == 0, f"the entry at {at} has the state {state:#x}, which is none of a replica")
        payload_bytes = number(stream[at + 4:at + 7])
        front = at + HEADER_BYTES + (5 if flags & NAMES else 0) + (19 if flags & CARRIES else 0)
        value_at = front + key_bytes
        end = value_at + payload_bytes + (4 if flags & EXPIRES else 0)
        need(end <= len(stream), f"the entry at {at} ends behind what is vouched for")
        header = bytes(stream[at:at + 1]) + b"\0" + bytes(stream[at + 2:at + HEADER_BYTES])
        crc = crc32c(stream[at + 15:end], crc32c(header[2:11], crc32c(header[:1])))
        need(crc == number(header[11:15]), f"the entry at {at} is not what was written")
        self.headers.append(header)
        version = number(header[15:22])
        payload = stream[value_at:value_at + payload_bytes]
        need((number(header[7:11]) == 0) == (kind in OF_NO_TABLE), f"the entry at {at} of type {kind} is of a table, or of none")
        need(key_bytes == 0 or kind in (OBJECT, TOMBSTONE), f"the entry at {at} of type {kind} has a key")
        if flags & CARRIES:
            need(is_carried(stream[front - 19:front]), f"the entry at {at} carries a result of no call")
        if kind in (OBJECT, TOMBSTONE):
            named = number(stream[at + 22:at + 27]) if flags & NAMES else 0
            need(named or not flags & NAMES, f"the entry at {at} names segment 0")
            need(key_bytes > 0, f"the object or tombstone at {at} has no key")
            need(kind == OBJECT or (named and not payload_bytes), f"the tombstone at {at} names no segment, or has a payload")
            self.entries.append(Entry(number(header[7:11]), bytes(stream[front:value_at]), version, kind == TOMBSTONE, named, observe(payload)))
        elif kind == RESULT:
            need(payload_bytes >= RECORD_PAYLOAD.size, f"the result record at {at} is cut off")
            need(RECORD_PAYLOAD.unpack_from(payload)[-1] == 0, f"the result record at {at} has something where zeros have to be")
            self.results += 1
        else:
            need(len(self.headers) == kind - SEGMENT_HEADER + 1, f"the entry at {at} of type {kind} is not in its place")
            self.preamble[kind] = bytes(payload)
        need(self.headers[0][0] & 15 == SEGMENT_HEADER, "it does not begin with a segment header")
        return end, flags & MORE

    def contents(self):
        payload = self.preamble[SEGMENT_HEADER]
        need(len(payload) == SEGMENT_PAYLOAD.size, "the segment header has another size")
        cluster, master, segment, form, zero = SEGMENT_PAYLOAD.unpack(payload)
        need(form == 3 and zero == 0, f"the segment header is of format {form}")
        previous_head, members, safe_version = 0, None, 0
        if DIGEST in self.preamble:
            digest = self.preamble[DIGEST]
            need(len(digest) >= 16, "the digest is cut off")
            previous_head, count, zero = struct.unpack_from("<Q2I", digest)
            need(len(digest) == 16 + 8 * count and zero == 0, "the digest has another size than it says")
            members = struct.unpack_from(f"<{count}Q", digest, 16)
            need(list(members) == sorted(set(members)), "the digest's members do not ascend")
            need(len(self.preamble.get(SAFE_VERSION, b"")) == 16, "a head without a safe version")
            safe_version = number(self.preamble[SAFE_VERSION][:8])
        need(DIGEST in self.preamble or SAFE_VERSION not in self.preamble, "a safe version in what is no head")
        return Contents(cluster, master, segment, self.entries, self.results, previous_head, members, safe_version)


class FrameFile:
    """A whole file, as bytes, memoryview or mmap. `cache` keeps what was read of equal bytes: copies of one segment."""

    def __init__(self, data, power_epoch=0, cache=None):
        self.data = memoryview(data)
        self.power_epoch = power_epoch  # of the machine that opens it now
        self.cache = {} if cache is None else cache
        need(len(self.data) >= 2 * BLOCK, "the file of frames is shorter than its superblocks")
        slots = [self._superblock(slot) for slot in (0, 1)]
        whole = [slot for slot in slots if slot]
        if not slots[0] and not any(self.data[BLOCK:2 * BLOCK]):
            # It has never held anything: the first superblock was never written to the end.
            self.cluster = self.server = self.generation = self.frame_count = 0
            return
        need(whole, "neither superblock is whole")
        newest = max(whole)
        self.generation, self.cluster, self.server, self.segment_bytes, self.frame_count, _, self.clean = newest
        self.stride = BLOCK + -(-self.segment_bytes // BLOCK) * BLOCK
        need(2 * BLOCK + self.frame_count * self.stride <= len(self.data), "the file is shorter than its frames")
        self.may_have_lost = len(whole) < 2 or not self._was_left_in_order(newest)

    def _superblock(self, slot):
        raw = bytes(self.data[slot * BLOCK:slot * BLOCK + SUPERBLOCK.size])
        magic, form, frames, generation, cluster, server, segment, header, epoch, clean, crc = SUPERBLOCK.unpack(raw)
        if magic != b"RFraFile" or crc != crc32c(raw[:-4]) or form != 4 or header != BLOCK or (generation - 1) % 2 != slot:
            return None
        return generation, cluster, server, segment, frames, epoch, clean

    def _was_left_in_order(self, superblock):
        epoch, clean = superblock[5:]
        if self.power_epoch is SAME_BOOT or (epoch != 0 and epoch == self.power_epoch):
            return True
        if clean == 0:
            return False
        so_far = 0
        for frame in range(self.frame_count):
            so_far = xxh3_64_intdigest(self._header(frame)[:HASHED_BYTES], so_far)
        return clean == (so_far & 0xffffffff or 1)

    def _header(self, frame):
        return self.data[2 * BLOCK + frame * self.stride:][:BLOCK]

    def replicas(self, masters=None):
        """What the frames hold: of each frame what its newest certificate that verifies vouches for."""
        for frame in range(self.frame_count):
            block = bytes(self._header(frame)[:HASHED_BYTES])
            slots = [slot for slot in (certificate_at(block, at) for at in SLOTS_AT) if slot and slot.cluster == self.cluster]
            slots.sort(key=lambda slot: (slot.epoch, slot.length, slot.closed), reverse=True)
            # Slots of several segments are what a disk left that lied: the frame is of the newest one, whole or not.
            slots = [slot for slot in slots if (slot.master, slot.segment) == (slots[0].master, slots[0].segment)]
            if not slots or (masters is not None and slots[0].master not in masters):
                continue
            for slot in slots:
                try:
                    contents = self.read(frame, slot)
                except Damaged:
                    continue
                mark = mark_at(block)
                is_marked = mark is not None and mark[:2] == (slot.master, slot.segment) and slot.epoch <= mark.epoch
                maybe_short = not slot.closed and (self.may_have_lost or is_marked or slot is not slots[0])
                yield Replica(frame, slot, contents, maybe_short)
                break

    def read(self, frame, certificate):
        """The contents that a certificate vouches for; Damaged if anything it says is not so."""
        need(0 < certificate.length <= self.segment_bytes, "a certificate vouches for more than a frame holds")
        stream = self.data[2 * BLOCK + frame * self.stride + BLOCK:][:certificate.length]
        name = (certificate.length, xxh3_128_digest(stream))
        if name not in self.cache:
            walk = EntryWalk(stream)
            walk.walk()
            self.cache[name] = walk.contents(), crc32c(b"".join(walk.headers))
        contents, headers_crc = self.cache[name]
        need((contents.cluster, contents.master, contents.segment) == certificate[:3], "the segment is another than the certificate's")
        need(headers_crc == certificate.headers_crc, "the headers are not those that the certificate vouches for")
        return contents
