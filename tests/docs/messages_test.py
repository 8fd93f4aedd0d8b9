#!/usr/bin/env python3
"""The messages that the tables of troubles quote (docs/rdma.md, docs/dpdk.md, docs/operating/messages.md) are ones that the
sources have: who looks for what he reads on his screen finds it.

A quoted message stands for what the program puts together: `...` is anything, as are a number and a name in quotes. What is
left has to stand in string literals of one folder of sources. A cut between two literals is where one of them ends and another
one begins, so words that stand there somewhere else are not taken for the message."""

import os
import re
import unittest

ROOT = os.environ.get("RAMCORE_SOURCE_DIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DOCUMENTS = ("rdma.md", "dpdk.md", "operating/messages.md")
# Said by others, behind words of ours.
FOREIGN = ("Cannot allocate memory",  # strerror
           "transport retry counter exceeded")  # ibv_wc_status_str
PLACEHOLDER = re.compile(r"(?:\b\w+://)?\.\.\.|'[^']*'|\b\d+\b|" + "|".join(FOREIGN))
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'')


def literals_of(source):
    """String literals as the compiler sees them: those that only space parts are one."""
    code = COMMENT_OR_LITERAL.sub(lambda found: found.group() if found.group().startswith('"') else " ", source)
    code = re.sub(r"^\s*#\s*include.*$", "", code, flags=re.M)
    code = re.sub(r'(?<!\\)"\s*\n\s*"', "", code)
    return {text.replace('\\"', '"') for text in LITERAL.findall(code) if text}


def is_said(fragment, literals):
    """Whether the fragment is part of one literal, or runs from the end of one through whole ones to the beginning of
    another."""
    if any(fragment in literal for literal in literals):
        return True
    reached = {cut for cut in range(1, len(fragment)) if any(literal.endswith(fragment[:cut]) for literal in literals)}
    for cut in range(1, len(fragment)):
        if cut not in reached:
            continue
        rest = fragment[cut:]
        if any(literal.startswith(rest) for literal in literals):
            return True
        reached |= {cut + len(literal) for literal in literals if rest.startswith(literal)}
    return False


def is_message(message, folders):
    fragments = [fragment.strip() for fragment in PLACEHOLDER.split(message)]
    fragments = [fragment for fragment in fragments if re.search(r"\w", fragment)]
    return bool(fragments) and any(all(is_said(fragment, literals) for fragment in fragments) for literals in folders)


def status_names():
    """The names of statuses, which name() takes from the enumerators."""
    body = re.search(r"enum class \[\[nodiscard\]\] Status[^{]*\{(.*?)\n\};", read("include", "ramcore", "status.h"), re.S).group(1)
    return set(re.findall(r"^\s*(\w+) = \d+,", body, re.M))


def source_folders():
    """The literals of each folder, and what every folder can say with name()."""
    folders = []
    names_of_statuses = status_names()
    for top in ("src", "tools"):
        for place, _, names in os.walk(os.path.join(ROOT, top)):
            literals = set(names_of_statuses)
            for name in names:
                if name.endswith((".cc", ".h")):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        literals |= literals_of(file.read())
            folders.append(literals)
    return folders


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def refusals_of_the_code():
    """What a side that is refused says, by the number of the reason. A number in a text is whatever it is."""
    body = re.search(r"enum class HandshakeRefusal[^{]*\{(.*?)\};", read("src", "wire", "handshake_messages.h"), re.S).group(1)
    numbers = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", body)}
    source = read("src", "transport", "session", "handshake.cc")
    version = "".join(LITERAL.findall(re.search(r"std::string versionText.*?\n\}", source, re.S).group()))
    switch = re.search(r"std::string refusalText.*?\n\}", source, re.S).group()
    said = {}
    for name, text in re.findall(r"case HandshakeRefusal::(\w+):\s*return (.*?);\n", switch, re.S):
        said[numbers[name]] = version if text.startswith("versionText(") else "".join(LITERAL.findall(text))
    return numbers, said


def refusals_in_the_document():
    table = re.search(r"^\| Reason \|.*\n\|[-|]*\|\n((?:\|.*\n)*)", read("docs", "transport.md"), re.M).group(1)
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    return {int(reason.split()[0]): text for reason, text in rows}


def quoted_messages(text):
    """What stands in the first column of the table with the heading `Message` or `What you see`."""
    messages = []
    for table in re.findall(r"^\| (?:Message|What you see) \|.*\n\|[-|]*\|\n((?:\|.*\n?)*)", text, re.M):
        for row in table.splitlines():
            messages += re.findall(r"`([^`]*)`", row.split("|")[1])
    return messages


class MessagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folders = source_folders()

    def test_names_of_statuses_are_found(self):
        self.assertTrue({"Ok", "DeadlineExceeded", "Internal"} <= status_names())
        self.assertNotIn("NoSuchStatus", status_names())

    def test_literals_are_found(self):
        source = ('// not "this"\n#include "x/y.h"\nf("one " + n + " two \\"q\\""\n  " three");  // "nor this"\n'
                  "if (c == '\"') g(\"four\");\n")
        self.assertEqual(literals_of(source), {"one ", ' two "q" three', "four"})

    def test_a_message_that_is_not_there_is_not_found(self):
        literals = [{"RDMA device ", " has no active port (it has ", "port ", " of ", " is not active; check"}]
        for right in ("RDMA device ... has no active port", "port 1 of RDMA device ... is not active",
                      "port 1 of ... is not active; check", "RDMA device 'x' has no active port"):
            self.assertTrue(is_message(right, literals), right)
        for wrong in ("RDMA device ... has an active port", "port of RDMA device", "port 1 of device is active", "...", "'x' 1",
                      "no active", "active port is not"):
            self.assertEqual(is_message(wrong, literals), wrong == "no active", wrong)
        # Each folder alone: none of them says all of it.
        self.assertFalse(is_message("RDMA device ... has no port", [{"RDMA device "}, {" has no port"}]))

    def test_invented_messages_are_not_found(self):
        for invented in ("this machine has no RDMA devices at all", "cannot open RDMA device of another process",
                         "port 1 of RDMA device ... is not alive", "DPDK does not begin: ...",
                         "no RDMA device has a passive port", "cannot listen ... without a secret of the cluster"):
            self.assertFalse(is_message(invented, self.folders), invented)
        for invented in ("copies of what is recovered give way to writes", "no coordinator answers at ...: it sleeps"):
            self.assertFalse(is_message(invented, [set().union(*self.folders)]), invented)

    def test_the_messages_in_the_documents_are_said(self):
        for name in DOCUMENTS:
            with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
                messages = quoted_messages(file.read())
            # What an operator reads is put together from the words of several folders: who does not answer, and why.
            folders = [set().union(*self.folders)] if name == "operating/messages.md" else self.folders
            self.assertGreater(len(messages), 5, name)
            for message in messages:
                with self.subTest(document=name, message=message):
                    self.assertTrue(is_message(message, folders), "nothing says that")

    def test_the_table_of_refusals_is_what_is_said(self):
        numbers, said = refusals_of_the_code()
        self.assertEqual(set(said), set(numbers.values()) - {0})
        documented = {reason: re.sub(r" \d+", " ", text) for reason, text in refusals_in_the_document().items()}
        self.assertEqual(documented, said)
        for reason, text in said.items():
            # The other end of a search for a server hears it, and searches elsewhere by itself.
            self.assertEqual(";" in text, reason != numbers["WrongServerId"], "a cause, and a remedy: " + text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
