#!/usr/bin/env python3
"""The register of guards (docs/guards.md) is what the sources have, and what is wrong with one is noticed: planted."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.environ.get("RAMCORE_SOURCE_DIR") or
                       os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "guards"))
import register  # noqa: E402

RUN = os.path.join(ROOT, "tests", "guards", "run")
TABLE = "| Guard | Kept in | Planted defect | Found by |\n|---|---|---|---|\n"
WAITS = "| it waits | `src/log/one.cc` | `do-not-wait` | `unit_log_test One.Waits` |\n"
ASKS = "| it asks | `src/log/one.cc` | `do-not-ask` | `simulator --crashes` |\n"
# As googletest says it. With a defect on, a test of that name fails, or the process aborts, or nothing happens.
FAKE_TEST = """#!/bin/sh
name=${1#--gtest_filter=}
for name in $(echo "$name" | tr : ' '); do
  echo "[ RUN      ] $name"
  case "$RAMCORE_MUTATION" in
    WHEN) HOW ;;
    *) echo "[       OK ] $name (0 ms)" ;;
  esac
done
"""
FAILS = 'echo "[  FAILED  ] $name (0 ms)"; exit 1'
FAKE_SIMULATOR = """#!/bin/sh
case "$*" in
  *--mutation*) echo "caught by seed 3: a write is lost" ;;
esac
"""


# The step `vm` plants one defect.
TOOLS = """# must_find do-not-ask
step_vm() {
  all_planted
}
all_planted() { must_find do-not-copy words program; }
steps=(
  "vm|long|tests/vm|build|step_vm"
)
"""


class Tree:
    """A small tree with a register of its own, and a build of it."""

    def __init__(self, folder):
        self.folder = folder
        self.write("src/log/one.cc", 'if (RC_MUTATION("do-not-wait")) return;\nif (!RC_MUTATION("do-not-ask")) ask();\n')
        self.write("tests/unit/log/one_test.cc", "TEST(One, Waits) {\n}\n")
        self.write("tests/sim/mutation_seeds", "do-not-ask 3 4\n")
        self.write("tools/test", TOOLS)
        self.document(WAITS + ASKS)
        self.test("do-not-wait", FAILS)
        self.write("build/simulator", FAKE_SIMULATOR, is_program=True)

    def write(self, path, text, is_program=False):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if is_program:
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def document(self, rows, last=register.RULES):
        others = "".join(f"\n## {rule}. A rule\n\nNo guard: none.\n" for rule in range(2, last + 1))
        self.write("docs/guards.md", f"# Guards\n\n## 1. A rule\n\n{TABLE}{rows}{others}")

    def test(self, when, how):
        self.write("build/unit_log_test", FAKE_TEST.replace("WHEN", when).replace("HOW", how), is_program=True)

    def problems(self):
        return register.load(self.folder).problems

    def run(self, *arguments):
        command = [sys.executable, RUN, os.path.join(self.folder, "build"), "--root", self.folder, "--seeds", "5", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr


class GuardsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)

    def assert_problem(self, words):
        problems = self.tree.problems()
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(words, problems[0])
        status, said = self.tree.run()
        self.assertEqual(status, 1, said)
        self.assertIn(words, said)

    def test_the_register_of_this_tree(self):
        self.assertEqual(register.load(ROOT).problems, [])
        self.assertGreater(len(register.load(ROOT).guards), 80)

    def test_all_is_found_where_it_is(self):
        self.assertEqual(self.tree.problems(), [])
        status, said = self.tree.run()
        self.assertEqual(status, 0, said)
        self.assertIn("all found", said)

    def test_a_defect_that_is_of_no_guard(self):
        self.tree.write("src/log/two.h", 'bool is = RC_STEP_MUTATION("do-not-look");\n')
        self.assert_problem("the planted defect do-not-look is of no guard")

    def test_a_guard_without_a_check(self):
        self.tree.document(WAITS.replace("`unit_log_test One.Waits`", "by eye") + ASKS)
        self.assert_problem("no check finds it")

    def test_a_check_that_does_not_exist(self):
        self.tree.document(WAITS.replace("One.Waits", "One.Asks") + ASKS)
        self.assert_problem("there is no test `unit_log_test One.Asks`")

    def test_seeds_that_are_not_listed(self):
        self.tree.write("tests/sim/mutation_seeds", "\n")
        self.assert_problem("has no seeds for it")

    def test_a_step_that_does_not_plant_it(self):
        self.tree.document(WAITS + ASKS.replace("simulator --crashes", "tools/test --only vm"))
        self.tree.write("tests/sim/mutation_seeds", "\n")
        self.assert_problem("`tools/test --only vm` does not plant it")

    def test_a_step_that_plants_it(self):
        self.tree.write("src/log/one.cc", 'if (RC_MUTATION("do-not-wait")) return;\nif (RC_MUTATION("do-not-copy")) return;\n')
        planted = ASKS.replace("simulator --crashes", "tools/test --only vm").replace("do-not-ask", "do-not-copy")
        self.tree.document(WAITS + planted)
        self.tree.write("tests/sim/mutation_seeds", "\n")
        self.assertEqual(self.tree.problems(), [])
        self.tree.document(WAITS + planted.replace("--only vm", "--only dpdk"))
        self.assert_problem("`tools/test --only dpdk` does not plant it")

    def test_two_modes_of_the_simulator(self):
        self.tree.document(WAITS + ASKS.replace("`simulator --crashes`", "`simulator` `simulator --crashes`"))
        self.assert_problem("the simulator is to find it in one mode")

    def test_a_guard_that_is_not_there(self):
        self.tree.document(WAITS + ASKS + ASKS.replace("do-not-ask", "do-not-see"))
        problems = self.tree.problems()
        self.assertTrue(any("do-not-see is not planted in src/log/one.cc" in one for one in problems), problems)
        self.assertEqual(self.tree.run()[0], 1)

    def test_a_place_that_is_not_named(self):
        self.tree.write("src/log/two.cc", 'if (RC_MUTATION("do-not-ask")) return;\n')
        self.assert_problem("do-not-ask is planted in src/log/two.cc as well")

    def test_two_guards_of_one_defect(self):
        self.tree.document(WAITS + ASKS + ASKS)
        self.assert_problem("more than one guard has this planted defect")

    def test_a_name_that_cannot_be_read(self):
        self.tree.write("src/log/two.cc", "if (RC_MUTATION(kName)) return;\n")
        self.assert_problem("a planted defect has a plain name in quotes")

    def test_a_defect_in_a_header(self):
        self.tree.write("src/log/two.h", 'bool is = RC_MUTATION("do-not-ask");\n')
        self.tree.document(WAITS + ASKS.replace("one.cc`", "one.cc`, `src/log/two.h`"))
        self.assert_problem("compiled twice")

    def test_a_rule_that_is_left_out(self):
        self.tree.document(WAITS + ASKS, last=register.RULES - 1)
        self.assert_problem("19 rules instead of 20")

    def test_a_defect_that_nothing_finds(self):
        self.tree.test("never", FAILS)
        status, said = self.tree.run()
        self.assertEqual(status, 1)
        self.assertRegex(said, r"do-not-wait +unit_log_test One.Waits: NOT FOUND")

    def test_an_abort_finds_it_and_another_end_does_not(self):
        self.tree.test("do-not-wait", "kill -ABRT $$")
        self.assertEqual(self.tree.run()[0], 0)
        self.tree.test("do-not-wait", "kill -SEGV $$")
        self.assertEqual(self.tree.run()[0], 1)

    def test_a_check_that_fails_without_the_defect(self):
        self.tree.test("*", FAILS)
        status, said = self.tree.run()
        self.assertEqual(status, 1)
        self.assertIn("WITHOUT a defect these do not pass", said)

    def test_a_check_that_runs_nothing(self):
        self.tree.write("build/unit_log_test", "#!/bin/sh\nexit 1\n", is_program=True)
        status, said = self.tree.run()
        self.assertEqual(status, 1)
        self.assertIn("NOT RUN", said)

    def test_seeds_that_do_not_find_it(self):
        self.tree.write("build/simulator", "#!/bin/sh\necho all is well\n", is_program=True)
        status, said = self.tree.run()
        self.assertEqual(status, 1)
        self.assertRegex(said, r"do-not-ask .*NOT FOUND by 5 seeds")

    def test_a_seed_that_did_too_little(self):
        said = FAKE_SIMULATOR.replace("a write is lost", "only 7 operations were completed")
        self.tree.write("build/simulator", said, is_program=True)
        status, said = self.tree.run()
        self.assertEqual(status, 1)
        self.assertRegex(said, r"do-not-ask .*NOT FOUND by 5 seeds .*only did too little")

    def test_a_seed_that_fails_without_the_defect(self):
        self.tree.write("build/simulator", FAKE_SIMULATOR + "case \"$*\" in *--mutation*) ;; *) exit 1 ;; esac\n", is_program=True)
        status, said = self.tree.run()
        self.assertEqual(status, 1)
        self.assertIn("seed 3 fails without it as well", said)


if __name__ == "__main__":
    unittest.main()
