#!/usr/bin/env python3
"""Plants each fault that tidy knows in a small tree and demands that it is found, and nothing where there is none."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidy")
RULES = ("split-class", "long-function", "long-source", "long-header", "large-class", "old-word", "comment-beginning",
         "uncalled-function")


def lines(count, text="// ...\n"):
    return text * count


def members(count):
    return "".join(f"  int value{number}_ = 0;\n" for number in range(count))


def functions(count):
    return "".join(f"  void run{number}();\n" for number in range(count))


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.write("src/base/clean.h", "#pragma once\nvoid clean();\n")
        self.write("src/base/clean.cc", "void clean() {}\nint main() { clean(); }\n")
        self.write("tests/tidy/words", "# old | new | where\nnewcomer | pending session |\n\\bpoke | wake | src/alarm/\n")
        self.write("tests/tidy/exceptions", "# none\n")
        self.limit()

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def limit(self, **limits):
        rows = "".join(f"{rule} | {limits.get(rule.replace('-', '_'), 0)} | 7\n" for rule in RULES)
        self.write("tests/tidy/limits", rows)

    def call_all(self, path):
        """A test that names every function of a header, so that none is uncalled."""
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            names = re.findall(r"(\w+)\(", file.read())
        self.write("tests/unit/calls_test.cc", "".join(f"auto x = &{name};\n" for name in names))

    def run_tidy(self, *arguments, environment=None):
        done = subprocess.run([sys.executable, "-B", TIDY, "--root", self.root, *arguments], capture_output=True, text=True,
                              timeout=60, check=False, env=environment)
        return done.returncode, done.stdout + done.stderr

    def assert_found(self, *expected):
        """Exactly these faults, as `path:line: rule: what it says, or its beginning`."""
        status, said = self.run_tidy("--list")
        found = re.findall(r"^\S+:\d+: \S+: .*", said, re.M)
        self.assertEqual(len(found), len(expected), said)
        for fault, beginning in zip(found, expected):
            self.assertEqual(fault[:len(beginning)], beginning)
        self.assertEqual(status, 1 if expected else 0, said)

    def assert_clean(self):
        self.assert_found()

    def test_a_clean_tree(self):
        self.assert_clean()

    # split-class

    def test_a_class_in_two_sources(self):
        self.write("src/log/log.h", "#pragma once\nnamespace ramcore::log {\nclass Log {\n  void append();\n"
                                    "  void close();\n};\n}\n")
        self.write("src/log/log.cc", "namespace ramcore::log {\nvoid Log::append() {}\n}\n")
        self.write("src/log/log_close.cc", "namespace ramcore::log {\nvoid Log::close() {}\n}\n")
        self.call_all("src/log/log.h")
        self.assert_found("src/log/log.h:3: split-class: log::Log is defined in src/log/log.cc, src/log/log_close.cc")

    def test_a_class_whose_destructor_alone_is_elsewhere(self):
        self.write("src/log/log.h", "#pragma once\nclass Log {\n  ~Log();\n  void close();\n};\n")
        self.write("src/log/log.cc", "void Log::close() {}\n")
        self.write("src/log/other.cc", "Log::~Log() = default;\n")
        self.call_all("src/log/log.h")
        self.assert_found("src/log/log.h:2: split-class: Log is defined in src/log/log.cc, src/log/other.cc")

    def test_a_class_with_an_inline_header(self):
        self.write("src/log/log.h", "#pragma once\nclass Log {\n  class Part;\n  template <typename T>\n  void append(T t);\n"
                                    "  void close();\n};\n")
        self.write("src/log/log_inline.h", "template <typename T>\nvoid Log::append(T t) {}\n")
        self.write("src/log/log.cc", "void Log::close() {}\n")
        self.write("src/log/part.cc", "class Log::Part {\n  Part();\n};\nLog::Part::Part() {}\n")
        self.call_all("src/log/log.h")
        self.assert_clean()

    def test_classes_of_the_same_name_in_two_programs(self):
        for tool in ("one", "two"):
            self.write(f"tools/{tool}/main.cc", "struct Flags {\n  void read();\n};\nvoid Flags::read() {}\n"
                                                "int main() { Flags().read(); }\n")
        self.assert_clean()

    # lengths

    def test_a_function_of_61_lines(self):
        body = lines(59, "  clean();\n")
        self.write("src/log/log.cc", "namespace ramcore {\nclass Log {\n  void run();\n};\n\n"
                                     f"void Log::run() {{\n{body}}}\n"
                                     "void use(Log& log) { log.run(); }\nint main() { use(x); }\n}\n")
        self.assert_found("src/log/log.cc:6: long-function: Log::run has 61 lines, over 60")

    def test_a_function_of_60_lines(self):
        body = lines(58, "  clean();\n")
        self.write("src/log/log.cc", f"int main() {{\n{body}}}\n")
        self.assert_clean()
        body = lines(29, "  // a { in a comment\n") + lines(29, '  say("} {");\n')
        self.write("src/log/log.cc", f"int main() {{\n{body}}}\n")
        self.assert_clean()

    def test_a_source_of_501_lines(self):
        self.write("src/log/log.cc", lines(501))
        self.write("src/log/other.cc", lines(500))
        self.write("tests/unit/log_test.cc", lines(501))
        self.assert_found("src/log/log.cc:1: long-source: 501 lines, over 500")

    def test_a_header_of_301_lines(self):
        self.write("include/ramcore/log.h", lines(301))
        self.write("src/log/log.h", lines(300))
        self.write("tests/unit/fixture.h", lines(301))
        self.assert_found("include/ramcore/log.h:1: long-header: 301 lines, over 300",
                          "tests/unit/fixture.h:1: long-header: 301 lines, over 300")

    # large-class

    def test_a_class_with_46_functions(self):
        self.write("src/log/log.h", "#pragma once\nclass Log : public Base {\n public:\n  Log();\n  ~Log() override;\n"
                                    f"  Log(const Log&) = delete;\n{functions(43)}}};\n")
        self.call_all("src/log/log.h")
        self.assert_found("src/log/log.h:2: large-class: Log has 46 member functions (at most 45) and 0 data members")

    def test_a_class_with_45_functions(self):
        nested = "  struct Part {\n    void divide();\n    void join();\n  };\n  Job job_{[](Job& job) { job.run1(); }};\n"
        self.write("src/log/log.h", f"#pragma once\nclass Log {{\n{nested}{functions(45)}}};\nvoid Log::run1() {{}}\n")
        self.call_all("src/log/log.h")
        self.assert_clean()

    def test_a_struct_with_36_data_members(self):
        others = ("  int guarded_ RC_GUARDED_BY(lock_) = 0;\n  alignas(64) std::atomic<uint64_t> aligned_{0};\n"
                  "  uint64_t bytes_ = uint64_t{1} << 30;\n  std::function<void(int)> call_;\n")
        self.write("src/base/macros.h", "#pragma once\n#define RC_GUARDED_BY(lock) RC_ATTRIBUTE(guarded_by(lock))\n")
        self.write("src/log/log.h", f"#pragma once\nstruct Log {{\n{others}{members(32)}}};\n")
        self.assert_found("src/log/log.h:2: large-class: Log has 0 member functions (at most 45) and 36 data members")

    def test_a_class_with_35_data_members(self):
        constants = ("  static constexpr int kOne = 1;\n  static constexpr std::array<int, 2>\n      kTwo = {1, 2};\n"
                     "  enum class State { Open, Closed };\n  struct Part {\n    int size = 0;\n  };\n")
        self.write("src/log/log.h", f"#pragma once\nclass Log {{\n{constants}{members(35)}}};\n")
        self.assert_clean()

    # old-word

    def test_an_old_word(self):
        self.write("src/log/log.cc", "// The newcomers come.\nint newcomer_count = 0;\n\nauto text = \"a newcomer\";\n")
        self.write("src/wire/control.proto", "// newcomer\n")
        self.write("tools/setup", "#!/bin/sh\necho newcomer\n")
        self.write("docs/guide.md", "# Guide\nnewcomer newcomer\n")
        self.write("README.md", "newcomer\n")
        self.write("src/session/newcomers.h", "#pragma once\n")
        self.assert_found(*(f"{place}: old-word: 'newcomer'; instead: pending session" for place in (
            "README.md:1", "docs/guide.md:2", "src/log/log.cc:1", "src/log/log.cc:2", "src/log/log.cc:4")),
            "src/session/newcomers.h:1: old-word: the file's name has 'newcomer'",
            "src/wire/control.proto:1: old-word", "tools/setup:2: old-word")

    def test_words_that_are_not_old(self):
        self.write("src/log/log.cc", "// It spoke. Newcomer\n")
        self.write("src/alarm/alarm.cc", "// It is right to poke here.\n")
        self.write("tests/unit/log_test.cc", "// newcomer\n")
        self.write("tools/moved", "newcomer\n")
        self.assert_clean()
        self.write("src/alarm2.cc", "// poke\n")
        self.assert_found("src/alarm2.cc:1: old-word: '\\bpoke'; instead: wake")

    # comment-beginning

    def test_a_comment_that_begins_with_of(self):
        self.write("src/log/log.h", "#pragma once\n// Of the log.\nint a;\n\n/// Of a segment.\nint b;  ///< Of b.\n"
                                    "int c;  // the first one\nint d;  // Of d.\n// Above.\n  // Of another column.\n")
        said = "comment-beginning: the comment begins with 'Of'"
        self.assert_found(*(f"src/log/log.h:{line}: {said}" for line in (2, 5, 6, 8, 10)))

    def test_of_elsewhere(self):
        self.write("src/log/log.h", "#pragma once\n// The end\n// Of the log.\nint a;  // the end\n        // Of the log.\n"
                                    "// Often.\nauto b = \"\\\"// Of the log.\";\n// of\n\n///\n/// Of a paragraph.\n")
        self.assert_clean()

    # uncalled-function

    def test_a_function_that_nothing_calls(self):
        self.write("src/log/log.h", "#pragma once\nnamespace ramcore::log {\nclass Log {\n  void append();\n"
                                    "  int size() const { return 1; }\n};\nvoid free();\n}\n")
        self.write("src/log/log.cc", "namespace ramcore::log {\n// append() says size.\n"
                                     "void Log::append() { say(\"append\"); }\nvoid free() {}\nnamespace {\n"
                                     "template <typename T>\nT localOne(T t) { return t; }\n}\n}\n")
        self.assert_found("src/log/log.cc:3: uncalled-function: nothing calls log::Log::append",
                          "src/log/log.cc:4: uncalled-function: nothing calls log::free",
                          "src/log/log.cc:7: uncalled-function: nothing calls log::localOne",
                          "src/log/log.h:5: uncalled-function: nothing calls log::Log::size")

    def test_two_functions_of_one_name_that_nothing_calls(self):
        self.write("src/log/log.cc", "struct One {\n  void close() {}\n};\nstruct Two {\n  void close() {}\n};\n")
        self.assert_found("src/log/log.cc:2: uncalled-function: nothing calls One::close",
                          "src/log/log.cc:5: uncalled-function: nothing calls Two::close")

    def test_functions_that_are_called(self):
        self.write("src/log/log.h", "#pragma once\nvoid byTest() {}\nvoid byExample() {}\nvoid byMacro() {}\n"
                                    "void inTable() {}\n#define RC_CALL() byMacro()\nint recursive() { return recursive(); }\n")
        self.write("src/log/table.cc", "auto table = {inTable};\n")
        self.write("tests/unit/log_test.cc", "TEST(Log, Calls) { byTest(); }\n")
        self.write("docs/examples/example.cc", "int main() { byExample(); }\n")
        self.assert_clean()

    def test_functions_that_are_called_without_their_name(self):
        self.write("src/log/log.cc", """
struct Base {
  virtual void run() = 0;
};
struct Log : Base, Foreign {
  Log() {}
  ~Log() {}
  void run() override {}
  void collect() final;
  bool operator==(const Log&) const { return true; }
  explicit operator bool() const { return true; }
};
void Log::collect() {}
struct promise_type {
  Task get_return_object() { return {}; }
  bool await_ready() { return true; }
};
""")
        self.assert_clean()

    def test_a_function_of_a_public_header(self):
        self.write("include/ramcore/client.h", "#pragma once\ninline void inDocument() {}\ninline void nowhere() {}\n")
        self.write("src/log/log.cc", "void inner() {}\n")
        self.write("docs/client.md", "`inDocument` is for applications, `inner` is not.\n")
        self.assert_found("include/ramcore/client.h:3: uncalled-function: nothing calls nowhere",
                          "src/log/log.cc:1: uncalled-function: nothing calls inner")

    # limits

    def test_a_count_at_its_limit(self):
        self.write("src/log/log.cc", "// Of this.\n\n// Of that.\n")
        self.limit(comment_beginning=2)
        status, said = self.run_tidy()
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"comment-beginning +2 +2 +7\n")
        self.assertNotIn("log.cc", said)

    def test_a_count_above_its_limit(self):
        self.write("src/log/log.cc", "// Of this.\n\n// Of that.\n")
        self.write("src/log/log.h", lines(301))
        self.limit(comment_beginning=1, long_header=1)
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("comment-beginning: 2 faults, at most 1", said)
        self.assertIn("src/log/log.cc:3: comment-beginning", said)
        self.assertNotIn("src/log/log.h:1: long-header", said)

    def test_a_limit_above_its_count(self):
        self.limit(old_word=3)
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("old-word: 0 faults, fewer than 3; lower the limit in tests/tidy/limits to 0", said)

    def test_the_list_of_one_rule(self):
        self.write("src/log/log.cc", "// Of this.\n")
        self.write("src/log/log.h", lines(301))
        self.limit(comment_beginning=1, long_header=1)
        status, said = self.run_tidy("--list", "long-header")
        self.assertEqual(status, 0, said)
        self.assertIn("src/log/log.h:1: long-header", said)
        self.assertNotIn("src/log/log.cc", said)

    # exceptions

    def test_an_exception(self):
        self.write("src/log/log.cc", "// Of this.\nint newcomer;\nvoid clear() {}\n")
        self.write("src/log/log.h", lines(301))
        self.write("tests/tidy/exceptions", "comment-beginning | src/log/log.cc | it is a title\n"
                                            "old-word | src/log/log.cc:newcomer | a name of the protocol\n"
                                            "uncalled-function | clear | for debuggers\n"
                                            "long-header | src/log/log.h | a table\n")
        self.assert_clean()

    def test_a_stale_exception(self):
        self.write("src/log/log.cc", "// Of this.\n")
        self.write("tests/tidy/exceptions", "# none\nlong-source | src/log/log.cc | a table\n"
                                            "comment-beginning | src/log/log.cc | it is a title\n")
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("tests/tidy/exceptions:2: stale: src/log/log.cc is no fault of long-source", said)
        self.assertNotIn("exceptions:3", said)

    def test_eleven_exceptions(self):
        for number in range(11):
            self.write(f"src/log/log{number}.cc", "// Of this.\n")
        rows = [f"comment-beginning | src/log/log{number}.cc | it is a title\n" for number in range(11)]
        self.write("tests/tidy/exceptions", "".join(rows))
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("11 exceptions, at most 10", said)
        self.limit(comment_beginning=1)
        self.write("tests/tidy/exceptions", "".join(rows[1:]))
        self.assertEqual(self.run_tidy()[0], 0)

    # what it cannot run with

    def assert_refused(self, words, environment=None):
        status, said = self.run_tidy(environment=environment)
        self.assertEqual(status, 2, said)
        self.assertIn(words, said)

    def test_tables_that_are_wrong(self):
        self.write("tests/tidy/exceptions", "long-source | src/log/log.cc |\n")
        self.assert_refused("tests/tidy/exceptions:1: an unknown rule, or no reason")
        self.write("tests/tidy/exceptions", "long | src/log/log.cc | a table\n")
        self.assert_refused("tests/tidy/exceptions:1: an unknown rule, or no reason")
        self.write("tests/tidy/exceptions", "")
        self.write("tests/tidy/words", "newcomer | pending session\n")
        self.assert_refused("tests/tidy/words:1: 2 columns instead of 3")
        self.write("tests/tidy/words", "(newcomer | pending session |\n")
        self.assert_refused("tests/tidy/words:1: ")
        self.write("tests/tidy/words", "")
        self.write("tests/tidy/limits", "long-source | 1 | 1\n")
        self.assert_refused("tests/tidy/limits has no row for split-class")

    def test_a_machine_without_ctags(self):
        self.assert_refused("Universal Ctags with JSON output is not installed: run tools/setup",
                            environment={**os.environ, "PATH": self.root})


if __name__ == "__main__":
    unittest.main(verbosity=2)
