"""What a recovery makes of the replicas of one log, and which version of each key that gives. Written from
docs/recovery.md ("Why an answer of some backups is enough") and docs/cleaning.md alone, like frame_reader.py."""

from collections import namedtuple

# What replicas on some machines prove of a log. `end` is None where they prove nothing. `members`: (segment, replicas that
# may be read for it), the end among them unless it is cut.
Survey = namedtuple("Survey", "end is_cut is_doubtful missing members safe_version")
# What replay ends with for a key.
Newest = namedtuple("Newest", "version is_tombstone value")


def survey(replicas, floor, nobody_is_away):
    """`replicas` of one master's log on the machines that answer; `floor` as stored for that master."""
    by_segment = {}
    for replica in replicas:
        by_segment.setdefault(replica.certificate.segment, []).append(replica)
    ends = [segment for segment, found in by_segment.items() if counting(found, floor)]
    if not ends:
        return Survey(None, False, False, [], [], 0)
    end = max(ends)
    heads, is_doubtful = read_open(by_segment[end], floor)
    digest = max(counting(by_segment[end], floor), key=lambda replica: replica.certificate.epoch).contents
    former, is_cut = digest.previous_head, False
    members, missing = [], []
    for segment in digest.members:
        if segment == end:
            continue
        found = by_segment.get(segment, [])
        closed = [replica for replica in found if replica.certificate.closed]
        if not closed and segment == former and counting(found, floor):
            # Then nothing in the end of the log was acknowledged, and only its digest and safe version count.
            closed, is_doubtful = read_open(found, floor)
            is_cut = True
        if closed:
            members.append((segment, closed))
        else:
            missing.append(segment)
    if not is_cut:
        members.append((end, heads))
    safe_version = max(replica.contents.safe_version for _, found in [*members, (end, heads)] for replica in found)
    return Survey(end, is_cut, is_doubtful and not nobody_is_away, missing, members, safe_version)


def counting(replicas, floor):
    """The open replicas of heads at or above the floor: those that may be the end of the log."""
    return [replica for replica in replicas if not replica.certificate.closed and replica.contents.members is not None and
            (replica.certificate.segment, replica.certificate.epoch) >= floor]


def read_open(replicas, floor):
    """Which replicas may be read of a head of which one that counts is open, and whether where it ends is in doubt."""
    closed = [replica for replica in replicas if replica.certificate.closed]
    whole = [replica for replica in counting(replicas, floor) if not replica.maybe_short]
    if closed or whole:
        return closed + whole, not whole
    return [max(counting(replicas, floor), key=lambda replica: replica.certificate.length)], True


def shortest(replicas):
    """Of replicas that a recovery may choose among, the one that has the least."""
    return min(replicas, key=lambda replica: replica.certificate.length)


def replay(members, tablets):
    """{(table, key): Newest} of (segment, contents), for tablets as (covers(table, key), first segment)."""
    newest = {}
    for segment, contents in members:
        for entry in contents.entries:
            name = entry.table, entry.key
            first = next((first for covers, first in tablets if covers(*name)), None)
            # Entries from before this ownership do not count, nor do tombstones that name a segment from before it.
            if first is None or segment < first or (entry.is_tombstone and entry.named < first):
                continue
            known = newest.get(name)
            if known is None or (entry.version, entry.is_tombstone) > known[:2]:
                newest[name] = Newest(entry.version, entry.is_tombstone, entry.value)
    return newest
