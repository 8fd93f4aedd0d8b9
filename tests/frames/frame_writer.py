"""Writes files of frames as docs/formats.md says, for tests: with whatever is wrong that a test wants to see refused."""

import struct

from crc32c import crc32c
from xxhash import xxh3_64_intdigest

import frame_reader as reader

SEGMENT_BYTES = 8192
CLUSTER = 77


def sealed(fields):
    """Bytes with the checksum of all before it behind them."""
    return fields + crc32c(fields).to_bytes(4, "little")


def entry(kind, table=0, key=b"", version=0, payload=b"", named=0, carries=b"", expiry=None, more=False, state=0):
    flags = kind | (reader.NAMES if named else 0) | (reader.CARRIES if carries else 0) | (reader.MORE if more else 0)
    flags |= reader.EXPIRES if expiry is not None else 0
    front = bytes([flags]) + len(key).to_bytes(2, "little") + len(payload).to_bytes(3, "little") + table.to_bytes(4, "little")
    rest = version.to_bytes(7, "little") + (named.to_bytes(5, "little") if named else b"") + carries + key + payload
    rest += expiry.to_bytes(4, "little") if expiry is not None else b""
    crc = crc32c(front + rest)
    return front[:1] + bytes([state]) + front[1:] + crc.to_bytes(4, "little") + rest


def put(key, version, value, **more):
    return entry(reader.OBJECT, more.pop("table", 1), key, version, value, **more)


def carried(client=3, sequence=8, ahead=1, opcode=1):
    return client.to_bytes(8, "little") + sequence.to_bytes(6, "little") + ahead.to_bytes(4, "little") + bytes([opcode])


def record(payload=None, zero=0, **more):
    payload = struct.pack("<4Q2HI", 3, 8, 7, 0, 1, 0, zero) + bytes(8) if payload is None else payload
    return entry(reader.RESULT, more.pop("table", 1), payload=payload, **more)


def removal(key, version, named, **more):
    return entry(reader.TOMBSTONE, more.pop("table", 1), key, version, named=named, **more)


def segment(master, number, entries, members=None, previous=0, safe_version=1, cluster=CLUSTER):
    """[entries] of a segment; with `members` it is a head."""
    all_entries = [entry(reader.SEGMENT_HEADER, payload=struct.pack("<3Q2I", cluster, master, number, 3, 0))]
    if members is not None:
        digest = struct.pack("<Q2I", previous, len(members), 0) + b"".join(member.to_bytes(8, "little") for member in members)
        all_entries += [entry(reader.DIGEST, payload=digest), entry(reader.SAFE_VERSION, payload=struct.pack("<2Q", safe_version, 0))]
    return all_entries + list(entries)


def stream(entries):
    return b"".join(one + bytes(-len(one) % 8) for one in entries)


def certificate(master, number, entries, closed=False, epoch=1, cluster=CLUSTER, length=None):
    headers = b"".join(one[:1] + b"\0" + one[2:22] for one in entries)
    return sealed(struct.pack("<4sH2B4Q4I", b"RcCf", 1, closed, 0, cluster, master, number, epoch,
                              len(stream(entries)) if length is None else length, crc32c(headers), 0, 0)[:52])


def mark(master, number, epoch):
    return sealed(struct.pack("<4sI3QI", b"RcSh", 0, master, number, epoch, 0))


def frame(data, *certificates, mark_bytes=b""):
    """A frame: its header, and `data` as the replica's bytes."""
    header = bytearray(reader.BLOCK)
    for at, slot in zip(reader.SLOTS_AT, certificates):
        header[at:at + len(slot)] = slot
    header[reader.MARK_AT:reader.MARK_AT + len(mark_bytes)] = mark_bytes
    return bytes(header) + data + bytes(SEGMENT_BYTES - len(data))


def replica(master, number, entries, closed=False, epoch=1):
    return frame(stream(entries), certificate(master, number, entries, closed, epoch))


def superblock(generation, frames, power_epoch, clean):
    block = sealed(struct.pack("<8s2I3Q2IQI", b"RFraFile", 4, frames, generation, CLUSTER, 1, SEGMENT_BYTES, reader.BLOCK,
                               power_epoch, clean))
    return block + bytes(reader.BLOCK - len(block))


def file_of(frames, power_epoch=5, clean=False, generation=2, spare=1):
    """A whole file. `clean`: left in order."""
    frames = list(frames) + [frame(b"")] * spare
    so_far = 0
    for one in frames:
        so_far = xxh3_64_intdigest(one[:reader.HASHED_BYTES], so_far)
    word = (so_far & 0xffffffff or 1) if clean else 0
    slots = {(number - 1) % 2: superblock(number, len(frames), power_epoch, word if number == generation else 0)
             for number in (generation - 1, generation)}
    return slots[0] + slots[1] + b"".join(frames)
